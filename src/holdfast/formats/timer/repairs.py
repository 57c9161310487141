"""Repair timer files as other programs and people actually write them.

Every assumption is noted; what cannot be read is refused with its place. Pauses are authoritative: their times are
kept, and all totals are recomputed from them. Only where two pauses overlap is one of them cut.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid
from holdfast.core.text import shorten, slug
from holdfast.core.times import EARLIEST, LATEST, MINUTE, SECOND, format_time
from holdfast.formats import document_paths, timestamps
from holdfast.formats.base import Document, FormatNote, ImportContext, Place, Problem, RepairedDocument
from holdfast.formats.timer.fields import REMINDERS, TIMEOUT, is_id

# Keys that hold the text of an object used in place of one.
_TEXT_KEYS: Final = ("text", "name", "title", "description", "reason", "task", "summary")
_WHOLE_NUMBER: Final = re.compile(r"\d{1,15}(?:\.0+)?\Z", re.ASCII)
# Numbers from here on are milliseconds since 1970 (from 1973), smaller ones seconds (until 5138).
_MILLIS_FROM: Final = 10**11


class _ValueRepair:
    def __init__(self, context: ImportContext, notes: list[FormatNote]) -> None:
        self._context = context
        self._notes = notes

    def note(self, place: Place, message: str) -> None:
        self._notes.append(FormatNote(place, message))

    def spelled(self, ms: int) -> str:
        return timestamps.in_shortest_form(ms)

    def renamed(self, document: Document, names: Mapping[str, tuple[str, ...]], place: Place) -> Document:
        """The document with alternative keys renamed, in the same order."""
        new_names: dict[str, str] = {}
        for name, others in names.items():
            other = next((other for other in others if document.get(other) is not None), None)
            if document.get(name) is None and other is not None:
                new_names[other] = name
                self.note((*place, name), f"is called {other} here")
        taken = set(new_names.values())
        return {new_names.get(key, key): value for key, value in document.items() if key not in taken}

    def moment(self, document: Document, name: str, place: Place) -> int | None:
        """A time in milliseconds; respelled in the document unless it was right."""
        written = document.get(name)
        if written is None:
            return None
        field_place = (*place, name)
        if isinstance(written, (int, float)) and not isinstance(written, bool) and abs(written) < LATEST:
            ms = int(written) if abs(written) >= _MILLIS_FROM else int(written * SECOND)
            assumed: str | None = "a number is taken as the time since 1970"
        elif isinstance(written, str):
            try:
                ms, assumed = timestamps.read_time(written, self._context)
            except Invalid as error:
                raise Invalid(
                    f"{document_paths.format_place(field_place)}: {error.message}", hint=error.hint
                ) from None
            if assumed is None and not _is_proper(written):
                assumed = f"{shorten(written, 40)!a} is respelled"
        else:
            raise Invalid(
                f"{document_paths.format_place(field_place)} is not a time", hint="Write it as 2026-11-15T09:30:00Z."
            )
        if assumed is not None:
            document[name] = self.spelled(min(max(ms, EARLIEST), LATEST))
            self.note(field_place, assumed)
        return ms

    def count(self, value: Json) -> int | None:
        """Milliseconds, also as text or as 5.0; None when it is not a count."""
        if isinstance(value, bool):
            return None
        if isinstance(value, (int, float)) and 0 <= value < LATEST and value == int(value):
            return int(value)
        if isinstance(value, str) and _WHOLE_NUMBER.match(value.strip()):
            return int(float(value))
        return None

    def text(self, value: Json, place: Place) -> str | None:
        """A text; None when there is none."""
        match value:
            case None:
                return None
            case str():
                return value
            case bool():
                pass
            case int() | float():
                self.note(place, "a number is taken as text")
                return str(value)
            case dict():
                text_inside = next((inner for key in _TEXT_KEYS if isinstance(inner := value.get(key), str)), None)
                if text_inside is not None:
                    self.note(place, "an object is taken as the text in it")
                    return text_inside
        raise Invalid(f"{document_paths.format_place(place)} is not text")

    def flag(self, value: Json) -> bool | None:
        """A boolean in the usual spellings; None when it is not one."""
        if isinstance(value, str):
            return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}.get(
                value.strip().lower()
            )
        if isinstance(value, (bool, int, float)):
            return bool(value)
        return None


def _is_proper(written: str) -> bool:
    """Spelled as the schema requires: with seconds, a T and a zone with a colon."""
    return (
        re.match(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)\Z", written, re.ASCII)
        is not None
    )


# ── pauses ───────────────────────────────────────────────────────────────────────────────────────────────

_OTHER_PAUSE_NAMES: Final = {
    "startTime": ("start_time", "started_at", "startedAt", "paused_at", "pausedAt", "start", "from"),
    "endTime": ("end_time", "ended_at", "endedAt", "resumed_at", "resumedAt", "end", "until", "to"),
    "durationMs": ("duration_ms",),
}
_TYPES: Final = {
    "manual": "MANUAL", "user": "MANUAL", "idle": "AUTO_IDLE", "auto_idle": "AUTO_IDLE", "task": "AUTO_TASK",
    "auto_task": "AUTO_TASK", "agent": "AUTO_TASK", "timeout": "AUTO_TASK",
}  # fmt: skip
_REASONS: Final = {"MANUAL": "Paused", "AUTO_IDLE": "User idle", "AUTO_TASK": "Task agent"}


class _PauseEntry(NamedTuple):
    place: Place
    repaired: Document
    since: int
    until: int | None


class _PauseRepair:
    """Repairs the pauses; afterwards `last`, `paused` and `lasts` hold their totals."""

    def __init__(self, values: _ValueRepair, start: int, message: int, edited: int | None) -> None:
        """`edited`: when somebody changed the mirrored file that the pauses are in."""
        self._values = values
        self._edited = edited
        self._start = start
        self._message = message
        self.last = message
        self.paused = 0
        self.lasts = False

    def repair(self, pauses: Json, *, is_running: bool | None) -> list[Json]:
        if pauses is None:
            self._values.note(("pauses",), "are missing: taken as none")
            return []
        if not isinstance(pauses, list):
            raise Invalid("$.pauses is not a list", hint="It holds one object for every pause.")
        entries = self._sort([self._entry(pause, position) for position, pause in enumerate(pauses)])
        entries = self._cut_overlaps(self._close_pauses(entries, is_running=is_running))
        self.last = max([self.last, *(entry.since if entry.until is None else entry.until for entry in entries)])
        self.lasts = bool(entries) and entries[-1].until is None
        return [self._set_length(entry) for entry in entries]

    def _entry(self, pause: Json, position: int) -> _PauseEntry:
        place: Place = ("pauses", position)
        if not isinstance(pause, dict):
            raise Invalid(
                f"{document_paths.format_place(place)} is not an object", hint="A pause has at least a startTime."
            )
        values = self._values
        repaired = values.renamed(pause, _OTHER_PAUSE_NAMES, place)
        self._set_type_and_reason(repaired, place)
        since = values.moment(repaired, "startTime", place)
        until = values.moment(repaired, "endTime", place)
        length = values.count(repaired.get("durationMs"))
        if since is None and until is not None and length is not None:
            since = until - length
            repaired["startTime"] = values.spelled(since)
            values.note((*place, "startTime"), "is missing: computed from endTime and durationMs")
        if since is None:
            raise Invalid(
                f"{document_paths.format_place(place)} does not say when it began", hint="Give it a startTime."
            )
        if until is not None and until < since:
            if not length:
                raise Invalid(
                    f"{document_paths.format_place(place)} ends before it begins", hint="Correct its times."
                )
            until = self._set_end(repaired, place, since + length, "is before startTime: computed from durationMs")
        return _PauseEntry(place, repaired, since, until)

    def _set_type_and_reason(self, repaired: Document, place: Place) -> None:
        values = self._values
        reason = values.text(repaired.get("reason"), (*place, "reason"))
        written = repaired.get("type")
        if not isinstance(written, str) or written not in _REASONS:
            plain = written.strip().lower().replace("-", "_") if isinstance(written, str) else ""
            pause_type = _TYPES.get(plain) or _guess_type(reason)
            why = "is missing" if written is None else f"{shorten(str(written), 40)!a} is not one of the three"
            values.note((*place, "type"), f"{why}: taken as {pause_type}")
            repaired["type"] = pause_type
            if plain == "timeout":
                reason = TIMEOUT
        if reason is None:
            reason = _REASONS[str(repaired["type"])]
            values.note((*place, "reason"), f"is missing: taken as {reason}")
        repaired["reason"] = reason

    def _set_end(self, repaired: Document, place: Place, until: int, why: str) -> int:
        repaired["endTime"] = self._values.spelled(until)
        self._values.note((*place, "endTime"), why)
        return until

    def _sort(self, entries: list[_PauseEntry]) -> list[_PauseEntry]:
        ordered = sorted(entries, key=lambda entry: entry.since)
        if ordered != entries:
            self._values.note(("pauses",), "are put in order of time")
        return ordered

    def _close_pauses(self, entries: list[_PauseEntry], *, is_running: bool | None) -> list[_PauseEntry]:
        """Close pauses: only the last may be open, and not if the clock runs and something happened since."""
        repaired: list[_PauseEntry] = []
        for position, entry in enumerate(entries):
            until = entry.until
            if until is None:
                length = self._values.count(entry.repaired.get("durationMs"))
                if position < len(entries) - 1:
                    following = entries[position + 1].since
                    until = following if not length else min(entry.since + length, following)
                    until = self._set_end(
                        entry.repaired, entry.place, until, "is open, but another follows: ended before that"
                    )
                elif is_running and (ended := self._end_of_open_pause(entry.since, length or 0)) is not None:
                    until = self._set_end(
                        entry.repaired, entry.place, ended, "is open, but the session goes on: taken as ended"
                    )
            repaired.append(entry._replace(until=until))
        return repaired

    def _end_of_open_pause(self, since: int, length: int) -> int | None:
        """When an open pause ended, if the clock runs; None if nothing shows it."""
        if self._edited is not None:
            # Its length is what we counted so far: a message ended it, or the change of status.
            return self._message if self._message > since + length else max(self._edited, since + length)
        if length:
            return since + length
        return self._message if self._message > since else None

    def _cut_overlaps(self, entries: list[_PauseEntry]) -> list[_PauseEntry]:
        reached = self._start
        repaired: list[_PauseEntry] = []
        for entry in entries:
            since, until = entry.since, entry.until
            if since < reached:
                since = reached
                entry.repaired["startTime"] = self._values.spelled(since)
                before = "the end of the pause before it" if repaired else "the session began"
                self._values.note((*entry.place, "startTime"), f"is before {before}: the pause is cut")
            if until is not None and until < since:
                until = since
                entry.repaired["endTime"] = self._values.spelled(until)
            reached = since if until is None else until
            repaired.append(entry._replace(since=since, until=until))
        return repaired

    def _set_length(self, entry: _PauseEntry) -> Json:
        length = (self.last if entry.until is None else entry.until) - entry.since
        self.paused += length
        written = entry.repaired.get("durationMs")
        if isinstance(written, bool) or not isinstance(written, int) or written != length:
            problem = "is missing" if written is None else f"says {shorten(str(written), 40)}"
            self._values.note((*entry.place, "durationMs"), f"{problem}: {length:,} by its times")
        entry.repaired["durationMs"] = length
        return entry.repaired


def _guess_type(reason: str | None) -> str:
    normalized = (reason or "").lower()
    if normalized == TIMEOUT.lower() or normalized.startswith("task agent"):
        return "AUTO_TASK"
    return "AUTO_IDLE" if "idle" in normalized else "MANUAL"


# ── the document ─────────────────────────────────────────────────────────────────────────────────────────

_OTHER_NAMES: Final = {
    "sessionId": ("session_id", "id"),
    "branchName": ("branch_name",),
    "startTime": ("start_time", "started_at", "startedAt", "startedTime", "created_at"),
    "lastMessageTime": ("last_message_time", "lastMessageAt", "last_message_at", "updated_at", "updatedAt"),
    "actualWorkingMs": ("actual_working_ms", "workingMs", "working_ms"),
    "totalPausedMs": ("total_paused_ms", "pausedMs", "paused_ms"),
}
_RUNNING: Final = frozenset({"in_progress", "inprogress", "active", "running", "started", "created", "working"})


def repair_document(
    value: Json, context: ImportContext, problems: Callable[[Json], list[Problem]]
) -> RepairedDocument:
    if not isinstance(value, dict):
        raise Invalid("a timer document must be an object", hint="It begins with { and names a sessionId.")
    if not _errors(problems(value)):
        return RepairedDocument(value, [])
    repair = _DocumentRepair(value, context)
    document = repair.document()
    for place, message, _ in _errors(problems(document)):
        where = ".".join(map(str, place))
        raise Invalid(f"{where} {message}", hint="`holdfast validate` lists everything that is wrong with it.")
    return RepairedDocument(document, repair.notes)


def _errors(problems: list[Problem]) -> list[Problem]:
    return [problem for problem in problems if problem.severity == "error"]


class _DocumentRepair:
    def __init__(self, document: Document, context: ImportContext) -> None:
        self.notes: list[FormatNote] = []
        self._context = context
        self._values = _ValueRepair(context, self.notes)
        self._repaired = self._values.renamed(document, _OTHER_NAMES, ())

    def document(self) -> Document:
        repaired = self._repaired
        start, last = self._times()
        self._names(start)
        pauses = _PauseRepair(self._values, start, last, self._context.edited)
        repaired["pauses"] = pauses.repair(repaired.get("pauses"), is_running=self._is_running())
        self._status(is_paused=pauses.lasts)
        last = pauses.last
        self._number("totalPausedMs", pauses.paused)
        self._number("actualWorkingMs", last - start - pauses.paused)
        self._reminders(last - start - pauses.paused)
        return repaired

    def _note(self, place: Place, message: str) -> None:
        self.notes.append(FormatNote(place, message))

    # ── times ────────────────────────────────────────────────────────────────────────────────────────────

    def _times(self) -> tuple[int, int]:
        """Start and last message; one is derived from the other if missing."""
        start = self._values.moment(self._repaired, "startTime", ())
        last = self._values.moment(self._repaired, "lastMessageTime", ())
        stated = sum(
            self._values.count(self._repaired.get(name)) or 0 for name in ("actualWorkingMs", "totalPausedMs")
        )
        if start is None and last is None:
            raise Invalid("startTime is missing", hint="Without it, working time cannot be counted.")
        if start is None:
            assert last is not None
            start = last - stated
            self._put_time("startTime", start, "is missing: computed from the totals")
        if last is None:
            last = start + stated
            self._put_time("lastMessageTime", last, "is missing: computed from the totals")
        if last < start:
            last = start
            self._put_time("lastMessageTime", last, "is before startTime: taken as the same moment")
        return start, last

    def _put_time(self, name: str, ms: int, why: str) -> None:
        self._repaired[name] = self._values.spelled(ms)
        self._note((name,), why)

    # ── names ────────────────────────────────────────────────────────────────────────────────────────────

    def _names(self, start: int) -> None:
        repaired = self._repaired
        words = {name: self._values.text(repaired.get(name), (name,)) for name in ("scope", "task", "summary")}
        written = self._values.text(repaired.get("sessionId"), ("sessionId",))
        branch = self._values.text(repaired.get("branchName"), ("branchName",))
        if not any((written, branch, words["task"], words["summary"])):
            raise Invalid("the document names neither a session nor a task", hint="Give it a sessionId or a task.")
        name = self._session(written, (branch or "").removeprefix("session/"), words, start)
        if repaired.get("sessionId") != name:
            repaired["sessionId"] = name
            problem = "is missing" if written is None else f"{shorten(written, 40)!a} is not a day, a dash and a name"
            self._note(("sessionId",), f"{problem}: taken as {name}")
        if branch != f"session/{name}":
            repaired["branchName"] = f"session/{name}"
            problem = "is missing" if branch is None else f"{shorten(branch, 40)!a} is not session/ and the id"
            self._note(("branchName",), f"{problem}: taken as session/{name}")
        scope, task = words["scope"], words["task"]
        self._word("scope", scope, self._context.project.name or "project", "the project's name")
        summary = task if task is not None else words["summary"] or name[9:].replace("-", " ")
        self._word("task", task, " ".join(summary.split()[:4]), "summary or id")
        self._word("summary", words["summary"], summary, "the task")

    def _session(self, written: str | None, branch: str, words: dict[str, str | None], start: int) -> str:
        if written is not None and is_id(written):
            return written
        if written is not None and is_id(written.removeprefix("session/")):
            return written.removeprefix("session/")
        if is_id(branch):
            return branch
        day = format_time(start)[:10].replace("-", "")
        if written is not None:
            return f"{day}-{slug(written, words=12)}"
        scope = words["scope"] or self._context.project.name or "project"
        return f"{day}-{slug(scope)}-{slug(words['task'] or words['summary'] or branch)}"

    def _word(self, name: str, written: str | None, otherwise: str, source: str) -> None:
        if written is None:
            self._note((name,), f"is missing: taken from {source}")
        self._repaired[name] = otherwise if written is None else written

    # ── status and numbers ───────────────────────────────────────────────────────────────────────────────

    def _is_running(self) -> bool | None:
        """Does the status mean a running clock? None when there is no status."""
        status = self._repaired.get("status")
        if not isinstance(status, str):
            return None
        plain = status.strip().lower().replace("-", "_").replace(" ", "_")
        return plain in _RUNNING

    def _status(self, *, is_paused: bool) -> None:
        written = self._repaired.get("status")
        running = self._is_running()
        status = "PAUSED" if is_paused or running is False else "IN_PROGRESS"
        if written != status:
            problem = "is missing" if written is None else f"{shorten(str(written), 40)!a} does not fit"
            self._note(("status",), f"{problem}: taken as {status}")
        self._repaired["status"] = status

    def _number(self, name: str, expected: int) -> None:
        written = self._repaired.get(name)
        if isinstance(written, bool) or not isinstance(written, int) or written != expected:
            problem = "is missing" if written is None else f"says {_shown(written)}"
            self._note((name,), f"{problem}: {expected:,} by the pauses")
        self._repaired[name] = expected

    def _reminders(self, working: int) -> None:
        value = self._repaired.get("reminders")
        if value is None:
            self._note(("reminders",), "are missing: taken from the time worked")
            value = {}
        if not isinstance(value, dict):
            raise Invalid("reminders must be an object", hint="It has break40min, warning60min and timeout90min.")
        flags: dict[str, Json] = dict(value)
        for name, _, minutes in REMINDERS:
            flag = self._values.flag(flags.get(name))
            if flag is None:
                flag = working >= minutes * MINUTE
                if "reminders" in self._repaired:
                    self._note(("reminders", name), "is missing: taken from the time worked")
            elif flag is not flags[name]:
                self._note(("reminders", name), f"{_shown(flags[name])} is taken as {str(flag).lower()}")
            flags[name] = flag
        self._repaired["reminders"] = flags


def _shown(value: Json) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else shorten(str(value), 40)
