"""The pauses of a timer's file, put into the order and shape that the rules want.

They are the truth of the file: times are kept, what follows from them is counted anew. Only where two claim the
same minutes is one of them cut, since nobody is away twice.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid
from holdfast.core.text import shorten
from holdfast.formats import places
from holdfast.formats.interface import Document, Place
from holdfast.formats.timer.names import TIMEOUT
from holdfast.formats.timer.values import Values

_OTHER_NAMES: Final = {
    "startTime": ("start_time", "started_at", "startedAt", "paused_at", "pausedAt", "start", "from"),
    "endTime": ("end_time", "ended_at", "endedAt", "resumed_at", "resumedAt", "end", "until", "to"),
    "durationMs": ("duration_ms",),
}
_TYPES: Final = {
    "manual": "MANUAL", "user": "MANUAL", "idle": "AUTO_IDLE", "auto_idle": "AUTO_IDLE", "task": "AUTO_TASK",
    "auto_task": "AUTO_TASK", "agent": "AUTO_TASK", "timeout": "AUTO_TASK",
}  # fmt: skip
_REASONS: Final = {"MANUAL": "Paused", "AUTO_IDLE": "User idle", "AUTO_TASK": "Task agent"}


class _Entry(NamedTuple):
    place: Place
    made: Document
    since: int
    until: int | None


class Pauses:
    """Puts the pauses right; afterwards `last`, `paused` and `lasts` hold what they add up to."""

    def __init__(self, values: Values, start: int, message: int, edited: int | None) -> None:
        """`edited`: when somebody changed the mirrored file that the pauses are in."""
        self._values = values
        self._edited = edited
        self._start = start
        self._message = message
        self.last = message
        self.paused = 0
        self.lasts = False

    def tidied(self, found: Json, *, is_running: bool | None) -> list[Json]:
        if found is None:
            self._values.note(("pauses",), "are missing: taken as none")
            return []
        if not isinstance(found, list):
            raise Invalid("$.pauses is not a list", hint="It holds one object for every pause.")
        entries = self._in_order([self._entry(one, position) for position, one in enumerate(found)])
        entries = self._apart(self._closed(entries, is_running=is_running))
        self.last = max([self.last, *(one.since if one.until is None else one.until for one in entries)])
        self.lasts = bool(entries) and entries[-1].until is None
        return [self._counted(one) for one in entries]

    def _entry(self, found: Json, position: int) -> _Entry:
        place: Place = ("pauses", position)
        if not isinstance(found, dict):
            raise Invalid(f"{places.written(place)} is not an object", hint="A pause has at least a startTime.")
        values = self._values
        made = values.renamed(found, _OTHER_NAMES, place)
        self._words(made, place)
        since = values.moment(made, "startTime", place)
        until = values.moment(made, "endTime", place)
        length = values.count(made.get("durationMs"))
        if since is None and until is not None and length is not None:
            since = until - length
            made["startTime"] = values.spelled(since)
            values.note((*place, "startTime"), "is missing: reckoned from endTime and durationMs")
        if since is None:
            raise Invalid(f"{places.written(place)} does not say when it began", hint="Give it a startTime.")
        if until is not None and until < since:
            if not length:
                raise Invalid(f"{places.written(place)} ends before it begins", hint="Put its times right.")
            until = self._end(made, place, since + length, "is before startTime: reckoned from durationMs")
        return _Entry(place, made, since, until)

    def _words(self, made: Document, place: Place) -> None:
        values = self._values
        reason = values.text(made.get("reason"), (*place, "reason"))
        given = made.get("type")
        if not isinstance(given, str) or given not in _REASONS:
            plain = given.strip().lower().replace("-", "_") if isinstance(given, str) else ""
            meant = _TYPES.get(plain) or _guessed(reason)
            said = "is missing" if given is None else f"{shorten(str(given), 40)!a} is not one of the three"
            values.note((*place, "type"), f"{said}: taken as {meant}")
            made["type"] = meant
            if plain == "timeout":
                reason = TIMEOUT
        if reason is None:
            reason = _REASONS[str(made["type"])]
            values.note((*place, "reason"), f"is missing: taken as {reason}")
        made["reason"] = reason

    def _end(self, made: Document, place: Place, until: int, why: str) -> int:
        made["endTime"] = self._values.spelled(until)
        self._values.note((*place, "endTime"), why)
        return until

    def _in_order(self, entries: list[_Entry]) -> list[_Entry]:
        ordered = sorted(entries, key=lambda one: one.since)
        if ordered != entries:
            self._values.note(("pauses",), "are put in order of time")
        return ordered

    def _closed(self, entries: list[_Entry], *, is_running: bool | None) -> list[_Entry]:
        """Only the last may be open, and not when the clock runs and something happened since."""
        made: list[_Entry] = []
        for position, one in enumerate(entries):
            until = one.until
            if until is None:
                length = self._values.count(one.made.get("durationMs"))
                if position < len(entries) - 1:
                    following = entries[position + 1].since
                    until = following if not length else min(one.since + length, following)
                    until = self._end(one.made, one.place, until, "is open, but another follows: ended before that")
                elif is_running and (ended := self._ended(one.since, length or 0)) is not None:
                    until = self._end(one.made, one.place, ended, "is open, but the session goes on: taken as ended")
            made.append(one._replace(until=until))
        return made

    def _ended(self, since: int, length: int) -> int | None:
        """When an open pause ended if the clock runs. None if nothing says so."""
        if self._edited is not None:
            # Its length is what we counted so far: a message ended it, or whoever set the status back.
            return self._message if self._message > since + length else max(self._edited, since + length)
        if length:
            return since + length
        return self._message if self._message > since else None

    def _apart(self, entries: list[_Entry]) -> list[_Entry]:
        reached = self._start
        made: list[_Entry] = []
        for one in entries:
            since, until = one.since, one.until
            if since < reached:
                since = reached
                one.made["startTime"] = self._values.spelled(since)
                before = "the end of the pause before it" if made else "the session began"
                self._values.note((*one.place, "startTime"), f"is before {before}: the pause is cut")
            if until is not None and until < since:
                until = since
                one.made["endTime"] = self._values.spelled(until)
            reached = since if until is None else until
            made.append(one._replace(since=since, until=until))
        return made

    def _counted(self, one: _Entry) -> Json:
        length = (self.last if one.until is None else one.until) - one.since
        self.paused += length
        given = one.made.get("durationMs")
        if isinstance(given, bool) or not isinstance(given, int) or given != length:
            said = "is missing" if given is None else f"says {shorten(str(given), 40)}"
            self._values.note((*one.place, "durationMs"), f"{said}: {length:,} by its times")
        one.made["durationMs"] = length
        return one.made


def _guessed(reason: str | None) -> str:
    plain = (reason or "").lower()
    if plain == TIMEOUT.lower() or plain.startswith("task agent"):
        return "AUTO_TASK"
    return "AUTO_IDLE" if "idle" in plain else "MANUAL"
