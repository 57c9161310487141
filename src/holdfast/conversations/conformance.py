"""The suite every adapter passes: derive from `AgentConformance`, name the agent, add its payloads; pytest does
the rest.

    class TestMine(AgentConformance):
        agent = mine.AGENT
        samples = samples_in("tests/capture/payloads/mine")

A sample is a file `{"event": …, "payload": …, "origin": "recorded" | "documented"}`; its `signals`, if it has any,
are what must be heard, each by its `kind` and some of its fields. `"conversation": null` says that it is of none.
"""

from __future__ import annotations

import copy
import json
import os
import shlex
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, ClassVar, NamedTuple

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.conversations.adapters.base import Adapter, HookAnswer, HookEvent, Payload, Reply
from holdfast.conversations.adapters.fields import is_private
from holdfast.conversations.adapters.index import NAMES
from holdfast.core.canonical import Json
from holdfast.core.decode import decodable
from holdfast.core.failures import CATEGORIES

LONGEST = 10_000  # characters; beyond it agents cut answers or put them elsewhere
UNKNOWN = "fieldOfTheYear2040"
HOSTILE: Sequence[Json] = (
    None, True, 0, -1, 10**30, 1e308, "", " ", "../..", "a\0b", "\ud800", "\x1b[2J", "x" * 1_000_000, [], {},
    [[[[]]]], [None], {"": {}}, {"a": [{"b": None}]}, "--version", "$(reboot)", "C:\\", "/etc/passwd", "\n",
)  # fmt: skip

# Fields that carry somebody's words, by the names that agents have given them so far.
SPOKEN: Sequence[str] = (
    "prompt", "initial_prompt", "transformedPrompt", "message", "messages", "finalMessage", "last_assistant_message",
    "text", "outputText", "content", "contents", "newContent", "response", "prompt_response", "tool_response",
    "llm_request", "llm_response", "reply", "answers", "questions", "tool_input", "toolArgs", "command_args", "args",
    "parameters", "command", "tool_output", "tool_result", "toolResult", "textResultForLlm", "llmContent", "result",
    "returnDisplay", "result_json", "output", "stdout", "stderr", "transcript", "thinking", "custom_instructions",
    "compact_summary", "summary", "attachments", "diff", "fileDiff", "patch", "patchText", "old_string", "newString",
    "originalFile", "updated_file", "new_source", "delta", "error", "error_details", "task", "user_email",
)  # fmt: skip
CANARY = "words of nobody else"
FORMS: Sequence[Json] = (CANARY, [CANARY], {"a": [{"b": CANARY}]})


class Sample(NamedTuple):
    """A payload as an agent hands it over, and what is to be heard in it."""

    name: str
    event: str
    payload: dict[str, Json]
    signals: tuple[dict[str, Json], ...] | None = None
    conversation: str | None = None
    of_none: bool = False


def samples_in(directory: str) -> list[Sample]:
    """The samples of an agent, by the name of their files."""
    found = []
    for name in sorted(os.listdir(directory)):
        if not name.endswith(".json"):
            continue
        with open(os.path.join(directory, name), encoding="utf-8") as file:
            read = json.load(file)
        assert read["origin"] in ("recorded", "documented"), name
        signals = tuple(read["signals"]) if "signals" in read else None
        none = "conversation" in read and read["conversation"] is None
        found.append(Sample(name[:-5], read["event"], read["payload"], signals, read.get("conversation"), none))
    return found


# Every character, lone surrogates and controls among them.
_TEXT = st.text(st.characters(), max_size=30)
_PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | _TEXT
_VALUES: st.SearchStrategy[Json] = st.recursive(
    _PLAIN, lambda some: st.lists(some, max_size=3) | st.dictionaries(_TEXT, some, max_size=3), max_leaves=8
)


class AgentConformance:
    """What an agent's package must do, whatever its dialect."""

    agent: ClassVar[Adapter]
    samples: ClassVar[Sequence[Sample]]

    # ── what is heard ────────────────────────────────────────────────────────────────────────────────────

    def test_it_has_samples_of_everything_it_answers(self) -> None:
        """There is a sample of each event that is answered, and one beside them."""
        assert self.agent.asking <= {sample.event for sample in self.samples}
        assert len({sample.event for sample in self.samples}) > len(self.agent.asking)

    def test_every_sample_is_heard(self) -> None:
        """A sample is of one conversation, under the program's own name of the event, and says what it should."""
        for sample in self.samples:
            heard = self.agent.parse(copy.deepcopy(sample.payload))
            if sample.of_none:
                assert heard is None, sample.name
                continue
            assert heard is not None, sample.name
            self._is_sound(heard)
            assert heard.event == sample.event, sample.name
            if sample.conversation is not None:
                assert heard.conversation == sample.conversation, sample.name
            assert heard.conversation in _texts(sample.payload), sample.name
            if sample.signals is not None:
                assert _missing(heard, sample.signals) == [], sample.name

    def test_samples_hold_nothing_unknown(self) -> None:
        """Every field of a known event is known: kept as a signal, or left out on purpose."""
        for sample in self.samples:
            heard = self.agent.parse(sample.payload)
            if heard is not None and heard.signals:
                assert heard.rest == {}, sample.name

    def test_hearing_changes_nothing(self) -> None:
        """A payload is as it was after it was heard, and heard the same again."""
        for sample in self.samples:
            payload = copy.deepcopy(sample.payload)
            first = self.agent.parse(payload)
            assert payload == sample.payload
            assert self.agent.parse(payload) == first, sample.name

    def test_what_answers_are_given_to_is_an_occasion(self) -> None:
        """Only events that may be answered are occasions."""
        for heard in self._heard():
            assert heard.occasion is None or heard.event in self.agent.asking

    # ── hostile input ────────────────────────────────────────────────────────────────────────────────────

    def test_a_field_may_be_missing(self) -> None:
        """Without any one of its fields, at any depth, a payload is still heard or refused, never an error."""
        for sample in self.samples:
            for changed in _without(sample.payload):
                self._survives(changed)

    @pytest.mark.parametrize("value", HOSTILE, ids=lambda value: repr(value)[:20])
    def test_a_field_may_hold_anything(self, value: Json) -> None:
        """With something hostile in any one of its fields, at any depth, nothing is raised."""
        for sample in self.samples:
            for changed in _with(sample.payload, value):
                self._survives(changed)

    @settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.differing_executors], deadline=None)
    @given(st.data())
    def test_any_json_in_any_field(self, data: st.DataObject) -> None:
        """A payload with several of its fields exchanged for any JSON is heard or refused."""
        sample = data.draw(st.sampled_from(list(self.samples)))
        payload = dict(sample.payload)
        for name in data.draw(st.lists(st.sampled_from(sorted(payload)), max_size=4)):
            payload[name] = data.draw(_VALUES)
        self._survives(payload)

    @settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.differing_executors], deadline=None)
    @given(st.data())
    def test_any_json_at_all(self, data: st.DataObject) -> None:
        """Any object is heard or refused."""
        self._survives(data.draw(st.dictionaries(st.text(max_size=20), _VALUES, max_size=6)))
        self._survives({})

    # ── nothing is lost ──────────────────────────────────────────────────────────────────────────────────

    def test_an_unknown_event_is_kept(self) -> None:
        """All fields of an event nobody knows are kept but for anybody's words, and nothing is made of it."""
        for sample in self.samples:
            payload = _renamed(sample.payload, sample.event, "EventOfTheYear2040")
            if payload is None or sample.of_none:
                continue
            heard = self.agent.parse({**payload, UNKNOWN: [1]})
            assert heard is not None, sample.name
            assert heard.signals == ()
            assert heard.occasion is None
            assert heard.rest[UNKNOWN] == [1]
            lost = set(payload) - set(heard.rest)
            assert all(_is_address(name) or is_private(name) for name in lost), (sample.name, lost)

    def test_an_unknown_field_is_kept(self) -> None:
        """A field that a known event did not have before is kept beside what is understood."""
        for sample in self.samples:
            before = self.agent.parse(sample.payload)
            heard = self.agent.parse({**sample.payload, UNKNOWN: {"a": 1}})
            if before is not None:
                assert heard is not None
                assert heard.rest == {**before.rest, UNKNOWN: {"a": 1}}, sample.name
                assert heard.signals == before.signals

    def test_words_are_never_kept_as_unknown_fields(self) -> None:
        """What somebody said, wrote or printed is never among the unknown fields, in whatever event and form."""
        for sample in self.samples:
            other = _renamed(sample.payload, sample.event, "EventOfTheYear2040") or {}
            for payload, words in product((sample.payload, other), FORMS):
                for spoken in _speaking(payload, words):
                    heard = self.agent.parse(spoken)
                    assert heard is None or CANARY not in _texts(heard.rest), (sample.name, heard.event)

    def test_equal_payloads_have_equal_marks(self) -> None:
        """The same event through two configurations has one mark; two events that have one are told apart by it."""
        marks: dict[tuple[str, str], Payload] = {}
        for sample in self.samples:
            heard = self.agent.parse(sample.payload)
            again = self.agent.parse(copy.deepcopy(sample.payload))
            if heard is None or again is None or not heard.mark:
                continue
            assert heard.mark == again.mark
            assert len(heard.mark) <= 1_000
            other = marks.setdefault((heard.conversation, heard.mark), sample.payload)
            assert other == sample.payload, f"{sample.name}: {heard.mark}"

    # ── answers ──────────────────────────────────────────────────────────────────────────────────────────

    def test_no_answer_is_no_output(self) -> None:
        """Where there is nothing to say, nothing is printed and the code is 0, for whatever event."""
        for event in [*self.agent.asking, *(sample.event for sample in self.samples), "EventOfTheYear2040", ""]:
            reply = self.agent.reply(HookAnswer(), event)
            assert (reply.stderr, reply.code) == ("", 0)
            assert reply.stdout.strip() in ("", "{}")

    def test_other_events_are_not_answered(self) -> None:
        """What cannot be answered gets no answer."""
        for sample in self.samples:
            if sample.event not in self.agent.asking:
                reply = self.agent.reply(HookAnswer(context="facts", say="a word", notify=True), sample.event)
                assert reply.stdout.strip() in ("", "{}"), sample.event

    def test_facts_reach_the_agent(self) -> None:
        """Where a conversation opens, the facts are in what is printed."""
        starts = {heard.event for heard in self._heard() if heard.occasion == "start"}
        for event in starts:
            assert "forty-two carts" in self._checked(self.agent.reply(HookAnswer(context="forty-two carts"), event))

    def test_long_answers_are_cut(self) -> None:
        """However much there is to say, and in whatever characters, it fits and can be read."""
        for event in self.agent.asking:
            for letter in ("word\n", '"\\', "🙂", "{"):
                long = letter * 100_000
                for answer in (HookAnswer(context=long), HookAnswer(context=long, say=long, notify=True, block=long)):
                    self._checked(self.agent.reply(answer, event))

    @settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.differing_executors], deadline=None)
    @given(st.text(st.characters(), max_size=200), st.text(st.characters(), max_size=80), st.booleans())
    def test_terminals_are_safe(self, context: str, say: str, notify: bool) -> None:
        """Control characters of recorded text never reach a terminal."""
        hidden = f"\x1b]0;x\x07{context}\x9b2J"
        for event in self.agent.asking:
            self._checked(self.agent.reply(HookAnswer(context=hidden, say=say + hidden, notify=notify), event))
            self._checked(self.agent.reply(HookAnswer(block=hidden, say=hidden, notify=notify), event))

    # ── means ────────────────────────────────────────────────────────────────────────────────────────────

    def _heard(self) -> Iterator[HookEvent]:
        for sample in self.samples:
            heard = self.agent.parse(sample.payload)
            if heard is not None:
                yield heard

    def _survives(self, payload: Payload) -> None:
        heard = self.agent.parse(payload)
        if heard is not None:
            self._is_sound(heard)

    def _is_sound(self, heard: HookEvent) -> None:
        assert heard.agent in NAMES
        assert 0 < len(heard.conversation) <= 200
        assert heard.conversation.isprintable()
        assert type(heard.event) is str
        assert heard.cwd is None or type(heard.cwd) is str
        assert type(heard.rest) is dict
        if heard.resume is not None:
            words = shlex.split(heard.resume)
            assert any(word == heard.conversation or word.endswith(f"={heard.conversation}") for word in words)
            assert not heard.conversation.startswith("-") or heard.conversation not in words
            assert "\n" not in heard.resume
        for signal in heard.signals:
            # Holds what its type says: decoding what it was encoded to checks every field.
            try:
                encoded = msgspec.json.encode(signal)
            except (UnicodeEncodeError, ValueError):
                continue  # a lone surrogate; whoever records it takes care of that
            msgspec.json.decode(encoded, type=decodable(type(signal)))
            assert getattr(signal, "category", "logical") in CATEGORIES

    def _checked(self, reply: Reply) -> str:
        """The reply's output, once it is known to be harmless."""
        assert len(reply.stdout) < LONGEST
        reply.stdout.encode()
        reply.stderr.encode()
        texts: Iterator[str] = iter([reply.stdout])
        if reply.stdout.lstrip().startswith("{"):
            texts = _texts(json.loads(reply.stdout), apart="terminalSequence")
            sequence = json.loads(reply.stdout).get("terminalSequence")
            if sequence is not None:
                assert sequence.startswith("\x1b]")
                assert _harmless(sequence[2:].rstrip("\x07"))
        for text in [*texts, reply.stderr]:
            assert _harmless(text), repr(text[:80])
        return reply.stdout


def _harmless(text: str) -> bool:
    return not any(unicodedata.category(name) == "Cc" and name not in "\n\t" for name in text)


def _texts(value: Json, apart: str | None = None) -> Iterator[str]:
    """Every text in it, names of fields included."""
    if type(value) is str:
        yield value
    elif type(value) is list:
        for item in value:
            yield from _texts(item, apart)
    elif type(value) is dict:
        for name, item in value.items():
            yield name
            if name != apart:
                yield from _texts(item, apart)


def _missing(heard: HookEvent, wanted: Sequence[dict[str, Json]]) -> list[Json]:
    """Those of the wanted signals that were not heard."""
    said = [{"kind": type(signal).__name__, **msgspec.to_builtins(signal)} for signal in heard.signals]
    return [entry for entry in wanted if not any(_covers(there, entry) for there in said)]


def _covers(there: Json, wanted: Json) -> bool:
    if type(wanted) is dict:
        return type(there) is dict and all(
            name in there and _covers(there[name], item) for name, item in wanted.items()
        )
    if type(wanted) is list:
        some = there if type(there) in (list, tuple) else None
        return isinstance(some, (list, tuple)) and len(some) == len(wanted) and all(map(_covers, some, wanted))
    return there == wanted


def _places(value: Json, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Ways to everything in it, down to the fourth level: beyond, payloads hold what people wrote."""
    steps: list[tuple[str | int, Json]] = []
    if type(value) is dict:
        steps = list(value.items())
    elif type(value) is list:
        steps = list(enumerate(value))
    for step, item in steps:
        yield (*path, step)
        if len(path) < 3:
            yield from _places(item, (*path, step))


def _copies(payload: dict[str, Json]) -> Iterator[tuple[dict[str, Json], Any, str | int]]:
    """A copy for each place, what holds the place, and its name there. As hearing changes nothing, most is shared."""
    for path in _places(payload):
        copied = dict(payload)
        holder: Any = copied
        for step in path[:-1]:
            holder[step] = copy.copy(holder[step])
            holder = holder[step]
        yield copied, holder, path[-1]


def _without(payload: dict[str, Json]) -> Iterator[dict[str, Json]]:
    for changed, holder, last in _copies(payload):
        del holder[last]
        yield changed


def _with(payload: dict[str, Json], value: Json, *, private: bool = False) -> Iterator[dict[str, Json]]:
    for changed, holder, last in _copies(payload):
        if not private or (type(last) is str and is_private(last)):
            holder[last] = value
            yield changed


def _speaking(payload: dict[str, Json], words: Json) -> Iterator[dict[str, Json]]:
    """The payload with words in each field that may carry some: its own, those of all dialects, and below others."""
    yield from _with(payload, words, private=True)
    dialects: dict[str, Json] = dict.fromkeys(SPOKEN, words)
    below: dict[str, Json] = {UNKNOWN: [{"a": dialects}]}
    yield from ({**dialects, **payload}, {**payload, **dialects}, {**payload, **below})


def _renamed(payload: dict[str, Json], event: str, name: str) -> dict[str, Json] | None:
    """The payload as one of another event, where a field of it names the event."""
    fields = [field for field, value in payload.items() if value == event]
    return {**payload, **dict.fromkeys(fields, name)} if fields else None


def _is_address(name: str) -> bool:
    """Fields that every payload has and that are kept elsewhere: which conversation, and where it is."""
    plain = name.lower().replace("_", "")
    return plain in (
        "sessionid", "conversationid", "taskid", "cwd", "workingdir", "workingdirectory", "transcriptpath",
        "workspaceroots", "directory",
    )  # fmt: skip
