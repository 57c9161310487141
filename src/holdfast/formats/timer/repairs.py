"""The pauses of a timer's file, put into the order and shape that the rules want.

They are the truth of the file: times are kept, what follows from them is counted anew. Only where two claim the
same minutes is one of them cut, since nobody is away twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid
from holdfast.core.text import shorten, slug
from holdfast.core.times import MINUTE, format_time
from holdfast.formats import document_paths
from holdfast.formats.base import Document, FormatNote, ImportContext, Place, Problem, Tidied
from holdfast.formats.timer.names import REMINDERS, TIMEOUT, is_id
from holdfast.formats.timer.repair_values import Values

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
        entries = self._in_order([self._entry(match, position) for position, match in enumerate(found)])
        entries = self._apart(self._closed(entries, is_running=is_running))
        self.last = max([self.last, *(entry.since if entry.until is None else entry.until for entry in entries)])
        self.lasts = bool(entries) and entries[-1].until is None
        return [self._counted(entry) for entry in entries]

    def _entry(self, found: Json, position: int) -> _Entry:
        place: Place = ("pauses", position)
        if not isinstance(found, dict):
            raise Invalid(
                f"{document_paths.written(place)} is not an object", hint="A pause has at least a startTime."
            )
        values = self._values
        made = values.renamed(found, _OTHER_PAUSE_NAMES, place)
        self._words(made, place)
        since = values.moment(made, "startTime", place)
        until = values.moment(made, "endTime", place)
        length = values.count(made.get("durationMs"))
        if since is None and until is not None and length is not None:
            since = until - length
            made["startTime"] = values.spelled(since)
            values.note((*place, "startTime"), "is missing: reckoned from endTime and durationMs")
        if since is None:
            raise Invalid(f"{document_paths.written(place)} does not say when it began", hint="Give it a startTime.")
        if until is not None and until < since:
            if not length:
                raise Invalid(f"{document_paths.written(place)} ends before it begins", hint="Put its times right.")
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
        for position, entry in enumerate(entries):
            until = entry.until
            if until is None:
                length = self._values.count(entry.made.get("durationMs"))
                if position < len(entries) - 1:
                    following = entries[position + 1].since
                    until = following if not length else min(entry.since + length, following)
                    until = self._end(
                        entry.made, entry.place, until, "is open, but another follows: ended before that"
                    )
                elif is_running and (ended := self._ended(entry.since, length or 0)) is not None:
                    until = self._end(
                        entry.made, entry.place, ended, "is open, but the session goes on: taken as ended"
                    )
            made.append(entry._replace(until=until))
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
        for entry in entries:
            since, until = entry.since, entry.until
            if since < reached:
                since = reached
                entry.made["startTime"] = self._values.spelled(since)
                before = "the end of the pause before it" if made else "the session began"
                self._values.note((*entry.place, "startTime"), f"is before {before}: the pause is cut")
            if until is not None and until < since:
                until = since
                entry.made["endTime"] = self._values.spelled(until)
            reached = since if until is None else until
            made.append(entry._replace(since=since, until=until))
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


_OTHER_NAMES: Final = {
    "sessionId": ("session_id", "id"),
    "branchName": ("branch_name",),
    "startTime": ("start_time", "started_at", "startedAt", "startedTime", "created_at"),
    "lastMessageTime": ("last_message_time", "lastMessageAt", "last_message_at", "updated_at", "updatedAt"),
    "actualWorkingMs": ("actual_working_ms", "workingMs", "working_ms"),
    "totalPausedMs": ("total_paused_ms", "pausedMs", "paused_ms"),
}
_RUNNING: Final = frozenset({"in_progress", "inprogress", "active", "running", "started", "created", "working"})


def tidied(value: Json, ground: ImportContext, problems: Callable[[Json], list[Problem]]) -> Tidied:
    if not isinstance(value, dict):
        raise Invalid("a timer document is an object", hint="It begins with { and names a sessionId.")
    if not _errors(problems(value)):
        return Tidied(value, [])
    tidying = _Tidying(value, ground)
    document = tidying.document()
    for place, message, _ in _errors(problems(document)):
        where = ".".join(map(str, place))
        raise Invalid(f"{where} {message}", hint="`holdfast validate` lists everything that is wrong with it.")
    return Tidied(document, tidying.notes)


def _errors(problems: list[Problem]) -> list[Problem]:
    return [problem for problem in problems if problem.severity == "error"]


class _Tidying:
    def __init__(self, found: Document, ground: ImportContext) -> None:
        self.notes: list[FormatNote] = []
        self._ground = ground
        self._values = Values(ground, self.notes)
        self._made = self._values.renamed(found, _OTHER_NAMES, ())

    def document(self) -> Document:
        made = self._made
        start, last = self._times()
        self._names(start)
        pauses = Pauses(self._values, start, last, self._ground.edited)
        made["pauses"] = pauses.tidied(made.get("pauses"), is_running=self._is_running())
        self._status(is_paused=pauses.lasts)
        last = pauses.last
        self._number("totalPausedMs", pauses.paused)
        self._number("actualWorkingMs", last - start - pauses.paused)
        self._reminders(last - start - pauses.paused)
        return made

    def _note(self, place: Place, message: str) -> None:
        self.notes.append(FormatNote(place, message))

    # ── times ────────────────────────────────────────────────────────────────────────────────────────────

    def _times(self) -> tuple[int, int]:
        """When the session began and when a message was last exchanged: at worst, one is taken for the other."""
        start = self._values.moment(self._made, "startTime", ())
        last = self._values.moment(self._made, "lastMessageTime", ())
        stated = sum(self._values.count(self._made.get(name)) or 0 for name in ("actualWorkingMs", "totalPausedMs"))
        if start is None and last is None:
            raise Invalid("startTime is missing", hint="Without it, nothing can be said about time.")
        if start is None:
            assert last is not None
            start = last - stated
            self._put_time("startTime", start, "is missing: reckoned from the totals")
        if last is None:
            last = start + stated
            self._put_time("lastMessageTime", last, "is missing: reckoned from the totals")
        if last < start:
            last = start
            self._put_time("lastMessageTime", last, "is before startTime: taken as the same moment")
        return start, last

    def _put_time(self, name: str, ms: int, why: str) -> None:
        self._made[name] = self._values.spelled(ms)
        self._note((name,), why)

    # ── names ────────────────────────────────────────────────────────────────────────────────────────────

    def _names(self, start: int) -> None:
        made = self._made
        words = {name: self._values.text(made.get(name), (name,)) for name in ("scope", "task", "summary")}
        given = self._values.text(made.get("sessionId"), ("sessionId",))
        branch = self._values.text(made.get("branchName"), ("branchName",))
        if not any((given, branch, words["task"], words["summary"])):
            raise Invalid("the document names neither a session nor a task", hint="Give it a sessionId or a task.")
        name = self._session(given, (branch or "").removeprefix("session/"), words, start)
        if made.get("sessionId") != name:
            made["sessionId"] = name
            said = "is missing" if given is None else f"{shorten(given, 40)!a} is not a day, a dash and a name"
            self._note(("sessionId",), f"{said}: taken as {name}")
        if branch != f"session/{name}":
            made["branchName"] = f"session/{name}"
            said = "is missing" if branch is None else f"{shorten(branch, 40)!a} is not session/ and the id"
            self._note(("branchName",), f"{said}: taken as session/{name}")
        scope, task = words["scope"], words["task"]
        self._word("scope", scope, self._ground.project.name or "project", "the project's name")
        meant = task if task is not None else words["summary"] or name[9:].replace("-", " ")
        self._word("task", task, " ".join(meant.split()[:4]), "summary or id")
        self._word("summary", words["summary"], meant, "the task")

    def _session(self, given: str | None, branch: str, words: dict[str, str | None], start: int) -> str:
        if given is not None and is_id(given):
            return given
        if given is not None and is_id(given.removeprefix("session/")):
            return given.removeprefix("session/")
        if is_id(branch):
            return branch
        day = format_time(start)[:10].replace("-", "")
        if given is not None:
            return f"{day}-{slug(given, words=12)}"
        scope = words["scope"] or self._ground.project.name or "project"
        return f"{day}-{slug(scope)}-{slug(words['task'] or words['summary'] or branch)}"

    def _word(self, name: str, given: str | None, otherwise: str, source: str) -> None:
        if given is None:
            self._note((name,), f"is missing: taken from {source}")
        self._made[name] = otherwise if given is None else given

    # ── status and numbers ───────────────────────────────────────────────────────────────────────────────

    def _is_running(self) -> bool | None:
        """What the status says; None when it says nothing."""
        status = self._made.get("status")
        if not isinstance(status, str):
            return None
        plain = status.strip().lower().replace("-", "_").replace(" ", "_")
        return plain in _RUNNING

    def _status(self, *, is_paused: bool) -> None:
        given = self._made.get("status")
        running = self._is_running()
        meant = "PAUSED" if is_paused or running is False else "IN_PROGRESS"
        if given != meant:
            said = "is missing" if given is None else f"{shorten(str(given), 40)!a} does not fit"
            self._note(("status",), f"{said}: taken as {meant}")
        self._made["status"] = meant

    def _number(self, name: str, counted: int) -> None:
        given = self._made.get(name)
        if isinstance(given, bool) or not isinstance(given, int) or given != counted:
            said = "is missing" if given is None else f"says {_shown(given)}"
            self._note((name,), f"{said}: {counted:,} by the pauses")
        self._made[name] = counted

    def _reminders(self, working: int) -> None:
        given = self._made.get("reminders")
        if given is None:
            self._note(("reminders",), "are missing: taken from the time worked")
            given = {}
        if not isinstance(given, dict):
            raise Invalid("reminders must be an object", hint="It has break40min, warning60min and timeout90min.")
        flags: dict[str, Json] = dict(given)
        for name, _, minutes in REMINDERS:
            flag = self._values.flag(flags.get(name))
            if flag is None:
                flag = working >= minutes * MINUTE
                if "reminders" in self._made:
                    self._note(("reminders", name), "is missing: taken from the time worked")
            elif flag is not flags[name]:
                self._note(("reminders", name), f"{_shown(flags[name])} is taken as {str(flag).lower()}")
            flags[name] = flag
        self._made["reminders"] = flags


def _shown(value: Json) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else shorten(str(value), 40)
