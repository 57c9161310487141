"""The test suite that every adapter passes: derive from `AgentConformance`, name the agent, add its payloads.

    class TestMine(AgentConformance):
        agent = mine.AGENT
        samples = samples_in("tests/conversations/payloads/mine")

A sample is a file `{"event": …, "payload": …, "origin": "recorded" | "documented"}`. Its `signals`, if it has any,
are expected, each by its `kind` and some of its fields. `"conversation": null` says that it belongs to none.
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
from holdfast.core.agent_programs import AGENT_PROGRAMS
from holdfast.core.canonical import Json
from holdfast.core.decode import decodable
from holdfast.core.failures import CATEGORIES

MAX_REPLY_LENGTH = 10_000  # characters; agents cut longer answers or put them elsewhere
UNKNOWN = "fieldOfTheYear2040"
HOSTILE: Sequence[Json] = (
    None, True, 0, -1, 10**30, 1e308, "", " ", "../..", "a\0b", "\ud800", "\x1b[2J", "x" * 1_000_000, [], {},
    [[[[]]]], [None], {"": {}}, {"a": [{"b": None}]}, "--version", "$(reboot)", "C:\\", "/etc/passwd", "\n",
)  # fmt: skip

# Names of fields that carry somebody's words, in any agent so far.
PRIVATE_FIELDS: Sequence[str] = (
    "prompt", "initial_prompt", "transformedPrompt", "message", "messages", "finalMessage", "last_assistant_message",
    "text", "outputText", "content", "contents", "newContent", "response", "prompt_response", "tool_response",
    "llm_request", "llm_response", "reply", "answers", "questions", "tool_input", "toolArgs", "command_args", "args",
    "parameters", "command", "tool_output", "tool_result", "toolResult", "textResultForLlm", "llmContent", "result",
    "returnDisplay", "result_json", "output", "stdout", "stderr", "transcript", "thinking", "custom_instructions",
    "compact_summary", "summary", "attachments", "diff", "fileDiff", "patch", "patchText", "old_string", "newString",
    "originalFile", "updated_file", "new_source", "delta", "error", "error_details", "task", "user_email",
)  # fmt: skip
CANARY = "text that only this test writes"
FORMS: Sequence[Json] = (CANARY, [CANARY], {"a": [{"b": CANARY}]})


class Sample(NamedTuple):
    """A payload as an agent passes it, and the signals expected from it."""

    name: str
    event: str
    payload: dict[str, Json]
    signals: tuple[dict[str, Json], ...] | None = None
    conversation: str | None = None
    has_no_conversation: bool = False


def samples_in(directory: str) -> list[Sample]:
    """The samples of an agent, sorted by file name."""
    samples = []
    for name in sorted(os.listdir(directory)):
        if not name.endswith(".json"):
            continue
        with open(os.path.join(directory, name), encoding="utf-8") as file:
            fields = json.load(file)
        assert fields["origin"] in ("recorded", "documented"), name
        signals = tuple(fields["signals"]) if "signals" in fields else None
        none = "conversation" in fields and fields["conversation"] is None
        samples.append(
            Sample(name[:-5], fields["event"], fields["payload"], signals, fields.get("conversation"), none)
        )
    return samples


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

    @property
    def asking(self) -> frozenset[str]:
        """The events that may be answered."""
        return frozenset(AGENT_PROGRAMS[self.agent.name].occasions)

    # ── samples ──────────────────────────────────────────────────────────────────────────────────────────

    def test_samples_cover_answered_events(self) -> None:
        """There is a sample of each event that is answered, and of at least one that is not."""
        assert self.asking <= {sample.event for sample in self.samples}
        assert len({sample.event for sample in self.samples}) > len(self.asking)

    def test_samples_give_expected_signals(self) -> None:
        """A sample belongs to one conversation, has the program's own name of the event, and gives its signals."""
        for sample in self.samples:
            event = self.agent.parse(copy.deepcopy(sample.payload))
            if sample.has_no_conversation:
                assert event is None, sample.name
                continue
            assert event is not None, sample.name
            self._check_event(event)
            assert event.event == sample.event, sample.name
            if sample.conversation is not None:
                assert event.conversation == sample.conversation, sample.name
            assert event.conversation in _texts(sample.payload), sample.name
            if sample.signals is not None:
                assert _missing_signals(event, sample.signals) == [], sample.name

    def test_samples_have_no_unknown_fields(self) -> None:
        """Every field of a known event is known: kept as a signal, or left out on purpose."""
        for sample in self.samples:
            event = self.agent.parse(sample.payload)
            if event is not None and event.signals:
                assert event.rest == {}, sample.name

    def test_parsing_changes_no_payload(self) -> None:
        """A payload is unchanged after it was parsed, and gives the same event again."""
        for sample in self.samples:
            payload = copy.deepcopy(sample.payload)
            first = self.agent.parse(payload)
            assert payload == sample.payload
            assert self.agent.parse(payload) == first, sample.name

    def test_occasions_are_answered_events(self) -> None:
        """Only events that may be answered are occasions."""
        for event in self._events():
            assert event.occasion is None or event.event in self.asking

    # ── hostile input ────────────────────────────────────────────────────────────────────────────────────

    def test_missing_field_raises_nothing(self) -> None:
        """Without any one of its fields, at any depth, a payload gives an event or None, never an error."""
        for sample in self.samples:
            for changed in _without(sample.payload):
                self._check_parse(changed)

    @pytest.mark.parametrize("value", HOSTILE, ids=lambda value: repr(value)[:20])
    def test_hostile_field_raises_nothing(self, value: Json) -> None:
        """With something hostile in any one of its fields, at any depth, nothing is raised."""
        for sample in self.samples:
            for changed in _with(sample.payload, value):
                self._check_parse(changed)

    @settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.differing_executors], deadline=None)
    @given(st.data())
    def test_any_json_in_any_field_raises_nothing(self, data: st.DataObject) -> None:
        """A payload with several of its fields replaced by any JSON gives an event or None."""
        sample = data.draw(st.sampled_from(list(self.samples)))
        payload = dict(sample.payload)
        for name in data.draw(st.lists(st.sampled_from(sorted(payload)), max_size=4)):
            payload[name] = data.draw(_VALUES)
        self._check_parse(payload)

    @settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.differing_executors], deadline=None)
    @given(st.data())
    def test_any_json_raises_nothing(self, data: st.DataObject) -> None:
        """Any object gives an event or None."""
        self._check_parse(data.draw(st.dictionaries(st.text(max_size=20), _VALUES, max_size=6)))
        self._check_parse({})

    # ── nothing is lost ──────────────────────────────────────────────────────────────────────────────────

    def test_unknown_event_is_kept(self) -> None:
        """All fields of an unknown event are kept, except private ones, and it gives no signals."""
        for sample in self.samples:
            payload = _renamed(sample.payload, sample.event, "EventOfTheYear2040")
            if payload is None or sample.has_no_conversation:
                continue
            event = self.agent.parse({**payload, UNKNOWN: [1]})
            assert event is not None, sample.name
            assert event.signals == ()
            assert event.occasion is None
            assert event.rest[UNKNOWN] == [1]
            lost = set(payload) - set(event.rest)
            assert all(_is_address(name) or is_private(name) for name in lost), (sample.name, lost)

    def test_unknown_field_is_kept(self) -> None:
        """A new field of a known event is kept in addition to its signals."""
        for sample in self.samples:
            before = self.agent.parse(sample.payload)
            event = self.agent.parse({**sample.payload, UNKNOWN: {"a": 1}})
            if before is not None:
                assert event is not None
                assert event.rest == {**before.rest, UNKNOWN: {"a": 1}}, sample.name
                assert event.signals == before.signals

    def test_private_words_are_never_kept(self) -> None:
        """What somebody wrote or a tool printed is never among the unknown fields, in any event and form."""
        for sample in self.samples:
            other = _renamed(sample.payload, sample.event, "EventOfTheYear2040") or {}
            for payload, words in product((sample.payload, other), FORMS):
                for spoken in _with_words(payload, words):
                    event = self.agent.parse(spoken)
                    assert event is None or CANARY not in _texts(event.rest), (sample.name, event.event)

    def test_equal_payloads_have_equal_marks(self) -> None:
        """The same event through two configurations has one mark; two events with marks have different ones."""
        marks: dict[tuple[str, str], Payload] = {}
        for sample in self.samples:
            event = self.agent.parse(sample.payload)
            copied = self.agent.parse(copy.deepcopy(sample.payload))
            if event is None or copied is None or not event.mark:
                continue
            assert event.mark == copied.mark
            assert len(event.mark) <= 1_000
            other = marks.setdefault((event.conversation, event.mark), sample.payload)
            assert other == sample.payload, f"{sample.name}: {event.mark}"

    # ── answers ──────────────────────────────────────────────────────────────────────────────────────────

    def test_empty_answer_prints_nothing(self) -> None:
        """An empty answer prints nothing and exits with 0, for any event."""
        for event in [*self.asking, *(sample.event for sample in self.samples), "EventOfTheYear2040", ""]:
            reply = self.agent.reply(HookAnswer(), event)
            assert (reply.stderr, reply.code) == ("", 0)
            assert reply.stdout.strip() in ("", "{}")

    def test_other_events_are_not_answered(self) -> None:
        """Events that cannot be answered get no answer."""
        for sample in self.samples:
            if sample.event not in self.asking:
                reply = self.agent.reply(HookAnswer(context="facts", say="a word", notify=True), sample.event)
                assert reply.stdout.strip() in ("", "{}"), sample.event

    def test_context_reaches_the_agent(self) -> None:
        """Where a conversation opens, the context is printed."""
        starts = {event.event for event in self._events() if event.occasion == "start"}
        for event in starts:
            assert "forty-two carts" in self._check_reply(
                self.agent.reply(HookAnswer(context="forty-two carts"), event)
            )

    def test_long_answers_are_cut(self) -> None:
        """However long the answer is, and whatever characters it has, it fits and can be read."""
        for event in self.asking:
            for letter in ("word\n", '"\\', "🙂", "{"):
                long = letter * 100_000
                for answer in (HookAnswer(context=long), HookAnswer(context=long, say=long, notify=True, block=long)):
                    self._check_reply(self.agent.reply(answer, event))

    @settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.differing_executors], deadline=None)
    @given(st.text(st.characters(), max_size=200), st.text(st.characters(), max_size=80), st.booleans())
    def test_terminals_are_safe(self, context: str, say: str, notify: bool) -> None:
        """Control characters of recorded text never reach a terminal."""
        hidden = f"\x1b]0;x\x07{context}\x9b2J"
        for event in self.asking:
            self._check_reply(self.agent.reply(HookAnswer(context=hidden, say=say + hidden, notify=notify), event))
            self._check_reply(self.agent.reply(HookAnswer(block=hidden, say=hidden, notify=notify), event))

    # ── helpers ───────────────────────────────────────────────────────────────────────────────────────────

    def _events(self) -> Iterator[HookEvent]:
        for sample in self.samples:
            event = self.agent.parse(sample.payload)
            if event is not None:
                yield event

    def _check_parse(self, payload: Payload) -> None:
        event = self.agent.parse(payload)
        if event is not None:
            self._check_event(event)

    def _check_event(self, event: HookEvent) -> None:
        assert event.agent in AGENT_PROGRAMS
        assert 0 < len(event.conversation) <= 200
        assert event.conversation.isprintable()
        assert type(event.event) is str
        assert event.cwd is None or type(event.cwd) is str
        assert type(event.rest) is dict
        if event.resume is not None:
            words = shlex.split(event.resume)
            assert any(word == event.conversation or word.endswith(f"={event.conversation}") for word in words)
            assert not event.conversation.startswith("-") or event.conversation not in words
            assert "\n" not in event.resume
        for signal in event.signals:
            # Decoding the encoded signal checks the type of every field.
            try:
                encoded = msgspec.json.encode(signal)
            except (UnicodeEncodeError, ValueError):
                continue  # a lone surrogate; recording replaces it
            msgspec.json.decode(encoded, type=decodable(type(signal)))
            assert getattr(signal, "category", "logical") in CATEGORIES

    def _check_reply(self, reply: Reply) -> str:
        """The reply's output, after checking that it is harmless."""
        assert len(reply.stdout) < MAX_REPLY_LENGTH
        reply.stdout.encode()
        reply.stderr.encode()
        texts: Iterator[str] = iter([reply.stdout])
        if reply.stdout.lstrip().startswith("{"):
            texts = _texts(json.loads(reply.stdout), excluded="terminalSequence")
            sequence = json.loads(reply.stdout).get("terminalSequence")
            if sequence is not None:
                assert sequence.startswith("\x1b]")
                assert _is_harmless(sequence[2:].rstrip("\x07"))
        for text in [*texts, reply.stderr]:
            assert _is_harmless(text), repr(text[:80])
        return reply.stdout


def _is_harmless(text: str) -> bool:
    return not any(unicodedata.category(name) == "Cc" and name not in "\n\t" for name in text)


def _texts(value: Json, excluded: str | None = None) -> Iterator[str]:
    """Every text in it, names of fields included."""
    if type(value) is str:
        yield value
    elif type(value) is list:
        for item in value:
            yield from _texts(item, excluded)
    elif type(value) is dict:
        for name, item in value.items():
            yield name
            if name != excluded:
                yield from _texts(item, excluded)


def _missing_signals(event: HookEvent, expected: Sequence[dict[str, Json]]) -> list[Json]:
    """The expected signals that the event does not have."""
    signals = [{"kind": type(signal).__name__, **msgspec.to_builtins(signal)} for signal in event.signals]
    return [entry for entry in expected if not any(_covers(signal, entry) for signal in signals)]


def _covers(value: Json, expected: Json) -> bool:
    if type(expected) is dict:
        return type(value) is dict and all(
            name in value and _covers(value[name], item) for name, item in expected.items()
        )
    if type(expected) is list:
        some = value if type(value) in (list, tuple) else None
        return isinstance(some, (list, tuple)) and len(some) == len(expected) and all(map(_covers, some, expected))
    return value == expected


def _paths(value: Json, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Paths to everything in it, down to the fourth level: below that, payloads hold what people wrote."""
    steps: list[tuple[str | int, Json]] = []
    if type(value) is dict:
        steps = list(value.items())
    elif type(value) is list:
        steps = list(enumerate(value))
    for step, item in steps:
        yield (*path, step)
        if len(path) < 3:
            yield from _paths(item, (*path, step))


def _copies(payload: dict[str, Json]) -> Iterator[tuple[dict[str, Json], Any, str | int]]:
    """A copy for each path, the container at its end, and the name in it. Parsing changes nothing: most is shared."""
    for path in _paths(payload):
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


def _with_words(payload: dict[str, Json], words: Json) -> Iterator[dict[str, Json]]:
    """The payload with words in each private field: its own, those of all dialects, and nested ones."""
    yield from _with(payload, words, private=True)
    dialects: dict[str, Json] = dict.fromkeys(PRIVATE_FIELDS, words)
    below: dict[str, Json] = {UNKNOWN: [{"a": dialects}]}
    yield from ({**dialects, **payload}, {**payload, **dialects}, {**payload, **below})


def _renamed(payload: dict[str, Json], event: str, name: str) -> dict[str, Json] | None:
    """The payload under another event's name, if a field names its event."""
    fields = [field for field, value in payload.items() if value == event]
    return {**payload, **dict.fromkeys(fields, name)} if fields else None


def _is_address(name: str) -> bool:
    """Whether a field, which every payload has, is kept elsewhere: the conversation and its directory."""
    plain = name.lower().replace("_", "")
    return plain in (
        "sessionid", "conversationid", "taskid", "cwd", "workingdir", "workingdirectory", "transcriptpath",
        "workspaceroots", "directory",
    )  # fmt: skip
