"""Timer documents as any program may write them, and what such a program does to one next.

`documents` draws valid ones: sums exact, pauses of every kind, open ones, fields nobody knows, keys in any order,
times in any spelling the specification allows. `edits` draws pairs: a document, and the same one later.
"""

from __future__ import annotations

import json
import string
from datetime import UTC, datetime, timedelta, timezone
from typing import NamedTuple

from hypothesis import strategies as st

from holdfast.core.canonical import Json
from holdfast.formats.base import Document
from holdfast.formats.timer.fields import TIMEOUT
from tests.support import spec_examples

MINUTE = 60_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SLUG = st.text(string.ascii_lowercase + string.digits, min_size=1, max_size=8)
# No NUL: the store refuses that, and says so.
_LETTERS = st.characters(codec="utf-8", exclude_characters="\0")
_WORDS = st.text(_LETTERS, max_size=30) | st.lists(_SLUG, min_size=2, max_size=4).map(" ".join)
# Around the thresholds of five and ten minutes, where mistakes live.
_SPANS = st.sampled_from(
    [0, 1, 1000, MINUTE, 5 * MINUTE, 5 * MINUTE + 1, 10 * MINUTE, 10 * MINUTE + 1, 45 * MINUTE]
) | st.integers(0, 3 * 60 * MINUTE)
_LENGTHS = _SPANS.filter(bool) | st.just(0)
_UNKNOWN = st.sampled_from(["", "note", "x-own", "id", "paused_at", "Type", "sessionid", "é", "a b"])
_VALUES: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(_LETTERS, max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(_LETTERS, max_size=3), inner, max_size=2),
    max_leaves=4,
)  # fmt: skip


class Stop(NamedTuple):
    type: str
    reason: str
    since: int
    until: int | None


class Story(NamedTuple):
    """What a document tells, before it is written down."""

    name: str
    words: tuple[str, str, str]
    start: int
    message: int
    stops: tuple[Stop, ...]
    is_paused: bool
    reminders: tuple[bool, bool, bool]

    @property
    def last(self) -> int:
        return max(
            self.start, self.message, *(stop.since if stop.until is None else stop.until for stop in self.stops)
        )

    def working(self) -> int:
        return self.last - self.start - self.paused()

    def paused(self) -> int:
        return sum((self.last if stop.until is None else stop.until) - stop.since for stop in self.stops)


def plain(ms: int) -> str:
    moment = _EPOCH + timedelta(milliseconds=ms)
    return moment.isoformat(timespec="milliseconds" if ms % 1000 else "seconds").replace("+00:00", "Z")


class Spelling(NamedTuple):
    """How a program writes: drawn once, so that a later version spells alike what it spelled before."""

    zone: int | None
    digits: bool
    durations: bool
    nulls: bool
    unknown: dict[str, Json]
    in_pauses: dict[str, Json]
    in_reminders: dict[str, Json]
    order: int

    def time(self, ms: int) -> str:
        if self.zone is None:
            short = plain(ms)
            return short if not self.digits or "." in short else short.replace("Z", ".000Z")
        moment = (_EPOCH + timedelta(milliseconds=ms)).astimezone(timezone(timedelta(minutes=self.zone)))
        return moment.isoformat(timespec="milliseconds" if self.digits or ms % 1000 else "seconds")

    def pause(self, one: Stop, last: int) -> Json:
        made: dict[str, Json] = {"type": one.type, "reason": one.reason, "startTime": self.time(one.since)}
        if one.until is not None:
            made["endTime"] = self.time(one.until)
        elif self.nulls:
            made["endTime"] = None
        if self.durations:
            made["durationMs"] = (last if one.until is None else one.until) - one.since
        return self.ordered(made | {key: value for key, value in self.in_pauses.items() if key not in made})

    def ordered(self, made: dict[str, Json]) -> dict[str, Json]:
        """The usual order, or one as arbitrary as a hash."""
        if not self.order:
            return made
        return dict(sorted(made.items(), key=lambda pair: hash_of(f"{self.order}{pair[0]}")))

    def written(self, story: Story) -> Document:
        scope, task, summary = story.words
        flags: dict[str, Json] = dict(
            zip(("break40min", "warning60min", "timeout90min"), story.reminders, strict=True)
        )
        made: dict[str, Json] = {
            "sessionId": story.name, "scope": scope, "task": task, "branchName": f"session/{story.name}",
            "status": "PAUSED" if story.is_paused else "IN_PROGRESS", "startTime": self.time(story.start),
            "lastMessageTime": self.time(story.message), "actualWorkingMs": story.working(),
            "totalPausedMs": story.paused(), "pauses": [self.pause(stop, story.last) for stop in story.stops],
            "reminders": self.ordered(flags | self.in_reminders), "summary": summary,
        }  # fmt: skip
        return self.ordered(made | self.unknown)


def hash_of(text: str) -> int:
    from zlib import crc32

    return crc32(text.encode())


_UNKNOWNS = st.dictionaries(_UNKNOWN, _VALUES, max_size=2)
spellings = st.builds(
    Spelling, st.none() | st.sampled_from([0, 60, -360, 345]), st.booleans(), st.booleans(), st.booleans(),
    _UNKNOWNS, _UNKNOWNS, _UNKNOWNS, st.integers(0, 5),
)  # fmt: skip
_PLAIN = Spelling(None, False, True, True, {}, {}, {}, 0)

_reasons = {
    "MANUAL": st.sampled_from(["lunch", "meeting", ""]) | st.text(_LETTERS, max_size=10),
    "AUTO_IDLE": st.just("User idle") | st.text(_LETTERS, max_size=10),
    "AUTO_TASK": st.sampled_from(["Task agent: explore", TIMEOUT, "Task agent", "Agent at work: x", ""])
    | st.text(_LETTERS, max_size=10),
}
_types = st.sampled_from(sorted(_reasons))


@st.composite
def stories(draw: st.DrawFn, *, is_open: bool | None = None) -> Story:
    start = draw(st.integers(1_577_836_800_000, 1_780_000_000_000))
    if draw(st.booleans()):
        start -= start % 1000
    reached, stops = start, []
    for _ in range(draw(st.integers(0, 4))):
        kind = draw(_types)
        since = reached + draw(_SPANS)
        reached = since + draw(_LENGTHS)
        stops.append(Stop(kind, draw(_reasons[kind]), since, reached))
    message = draw(st.sampled_from([reached, start])) + draw(_SPANS)
    lasts = draw(st.booleans()) if is_open is None else is_open
    if lasts:
        kind = draw(_types)
        since = max(reached, message) + draw(_SPANS) if draw(st.booleans()) else reached
        stops.append(Stop(kind, draw(_reasons[kind]), since, None))
    day = draw(st.dates()).strftime("%Y%m%d").rjust(8, "0")
    name = f"{day}-{draw(_SLUG)}-{draw(_SLUG)}" if draw(st.booleans()) else f"{day}-{draw(_SLUG)} {draw(_SLUG)}"
    return Story(
        name, (draw(_WORDS), draw(_WORDS), draw(_WORDS)), start, message, tuple(stops),
        lasts or (draw(st.integers(0, 5)) == 0), draw(st.tuples(st.booleans(), st.booleans(), st.booleans())),
    )  # fmt: skip


def documents() -> st.SearchStrategy[Document]:
    """Arbitrary valid documents."""
    return st.builds(Spelling.written, spellings, stories())


def usual_documents() -> st.SearchStrategy[Document]:
    """Valid documents whose times are spelled as Holdfast spells them, without pauses of no length."""
    return st.builds(
        lambda spelling, story: spelling._replace(zone=None, digits=False).written(story),
        spellings,
        stories().map(
            lambda story: story._replace(stops=tuple(stop for stop in story.stops if stop.since != stop.until))
        ),
    )


def plain_documents() -> st.SearchStrategy[Document]:
    """Valid documents as Holdfast itself would spell them."""
    return stories().map(_PLAIN.written)


@st.composite
def edits(draw: st.DrawFn) -> tuple[Document, Document]:
    """A document, and the same one after another program went on with it: one step or several."""
    spelling, story = draw(spellings), draw(stories())
    later = story
    for _ in range(draw(st.integers(1, 4))):
        later = draw(step(later))
    return spelling.written(story), spelling.written(later)


@st.composite
def step(draw: st.DrawFn, story: Story) -> Story:
    then = story.last + draw(_SPANS)
    lasting = story.stops[-1] if story.stops and story.stops[-1].until is None else None
    ways = ["message", "words", "remind", "pause over"] + (["resume"] if lasting else ["pause", "flip"])
    match draw(st.sampled_from(ways)):
        case "message":
            return story._replace(message=then)
        case "words":
            words = [draw(_WORDS) if draw(st.booleans()) else word for word in story.words]
            return story._replace(words=(words[0], words[1], words[2]))
        case "remind":
            flags = [flag or draw(st.booleans()) for flag in story.reminders]
            return story._replace(reminders=(flags[0], flags[1], flags[2]))
        case "resume":
            assert lasting is not None
            ended = (*story.stops[:-1], lasting._replace(until=then))
            message = draw(st.sampled_from([story.message, then]))
            return story._replace(stops=ended, is_paused=False, message=message)
        case "flip":
            return story._replace(is_paused=not story.is_paused)
        case "pause":
            kind = draw(_types)
            begun = Stop(kind, draw(_reasons[kind]), then, None)
            return story._replace(stops=(*story.stops, begun), is_paused=True)
    if lasting is not None:
        return story
    kind = draw(_types)
    over = Stop(kind, draw(_reasons[kind]), then, then + draw(_LENGTHS))
    return story._replace(stops=(*story.stops, over), message=over.until or then)


def as_text(document: Json) -> bytes:
    return json.dumps(document).encode()


TYPICAL: Document = json.loads(spec_examples.TIMER_ONE_PAUSE)
COMPLEX: Document = json.loads(spec_examples.TIMER_SEVERAL_PAUSES)
TIMED_OUT: Document = json.loads(spec_examples.TIMER_TIMED_OUT)
INITIAL: Document = json.loads(spec_examples.TIMER_JUST_STARTED)
