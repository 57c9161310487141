"""Timer files as they are met in the wild, put right: the pauses are taken as the truth, the totals follow from them.

Every assumption is said in a note. A document without errors passes through untouched; what cannot be put right is
refused with its place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid
from holdfast.core.text import shorten, slug
from holdfast.core.times import MINUTE, text
from holdfast.formats.interface import Document, Ground, Note, Place, Problem, Tidied
from holdfast.formats.timer.names import REMINDERS, is_id
from holdfast.formats.timer.pauses import Pauses
from holdfast.formats.timer.values import Values

_OTHER_NAMES: Final = {
    "sessionId": ("session_id", "id"),
    "branchName": ("branch_name",),
    "startTime": ("start_time", "started_at", "startedAt", "startedTime", "created_at"),
    "lastMessageTime": ("last_message_time", "lastMessageAt", "last_message_at", "updated_at", "updatedAt"),
    "actualWorkingMs": ("actual_working_ms", "workingMs", "working_ms"),
    "totalPausedMs": ("total_paused_ms", "pausedMs", "paused_ms"),
}
_RUNNING: Final = frozenset({"in_progress", "inprogress", "active", "running", "started", "created", "working"})


def tidied(value: Json, ground: Ground, problems: Callable[[Json], list[Problem]]) -> Tidied:
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
    def __init__(self, found: Document, ground: Ground) -> None:
        self.notes: list[Note] = []
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
        self.notes.append(Note(place, message))

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
        day = text(start)[:10].replace("-", "")
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
