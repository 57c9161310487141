"""What a hand-made document says about a session, read from the keys that mean something."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Final, Literal, NamedTuple, TypeAlias

from holdfast.core.canonical import Json
from holdfast.core.events import CommitRecorded, DecisionMade, ErrorNoted, FileChanged, NoteAdded
from holdfast.core.text import MAX_NAME_LENGTH, shorten
from holdfast.core.times import MINUTE
from holdfast.formats.base import FormatNote, ImportContext, Place, TimedEvent
from holdfast.formats.unknown import values
from holdfast.formats.unknown.keys import KnownKey, meanings
from holdfast.formats.unknown.table import GROUPS, Meaning, words_of

_MOST: Final = 2000  # entries
# Meanings of lists of work, in the order in which they are believed.
_LISTED: Final[tuple[Meaning, ...]] = ("done", "doing", "blocked", "to do", "tasks")
End: TypeAlias = Literal["failed", "paused", "completed", "aborted"]
_FAILED: Final = frozenset({"error", "failed", "failure", "crashed"})
_PAUSED: Final = frozenset({"paused", "on hold", "stopped", "suspended", "interrupted"})
_NOUNS: Final = frozenset(f"{GROUPS['task']}|{GROUPS['unit']}".split("|"))


class FoundTask(NamedTuple):
    text: str
    status: str
    outcome: str | None
    files: tuple[str, ...]


class Recognised(NamedTuple):
    """What was recognised in a document. `notes` is the mapping: each place, and what it was taken as."""

    goal: str | None
    began: int
    updated: int
    # Whether both times are exact: a day alone says nothing about hours.
    exact: bool
    # How long the work took, where the file says so, in milliseconds.
    worked: int | None
    branch: str | None
    commit: str | None
    model: str | None
    scope: str | None
    tags: tuple[str, ...]
    # The id the file gives itself.
    alias: str | None
    summary: str | None
    progress: float | None
    status: str | None
    tasks: list[FoundTask]
    decisions: list[TimedEvent]
    commits: list[TimedEvent]
    files: list[FileChanged]
    errors: list[ErrorNoted]
    remarks: list[NoteAdded]
    notes: list[FormatNote]


def reading(value: Json, ground: ImportContext) -> Recognised:
    """What a document says, as far as the table knows."""
    return _Reader(value, ground).reading()


class _Reader:
    def __init__(self, value: Json, ground: ImportContext) -> None:
        self._ground = ground
        self._found = meanings(value)
        self._notes: list[FormatNote] = []

    # ── what is said ─────────────────────────────────────────────────────────────────────────────────────

    def reading(self) -> Recognised:
        goal = self._goal()
        began, updated, exact = self._times()
        listed = [item.text for found in self._found.get("tags", []) for item in self._items(found)]
        alias = next((found for found in self._found.get("id", []) if isinstance(found.value, str)), None)
        if alias is not None:
            self._say(alias.place, "taken as an alias")
        tasks = list(self._tasks(goal))
        return Recognised(
            goal=goal, began=began, updated=updated, exact=exact, worked=self._worked(),
            branch=self._one("branch", "the git branch"), commit=self._one("commit", "the commit"),
            model=self._one("model", "the model"), scope=self._one("scope", "the scope"),
            tags=tuple(dict.fromkeys(text[:MAX_NAME_LENGTH] for text in listed))[:50],
            alias=None if alias is None else str(alias.value).strip(),
            summary=self._summary(goal), progress=self._progress(),
            status=self._status(tasks), tasks=tasks,
            decisions=list(self._decisions(began, updated)), commits=list(self._commits(began, updated)),
            files=list(self._files()), errors=list(self._errors()),
            remarks=list(self._remarks(goal)), notes=self._notes,
        )  # fmt: skip

    def _items(self, found: KnownKey) -> Iterator[values.ListItem]:
        noun = next((word for word in words_of(found.key) if word in _NOUNS), "task")
        return values.items(found.value, found.place, noun)

    def _goal(self) -> str | None:
        """The best that reads as one, sentences before codes; what else could have been is a note."""
        stated = self._found.get("goal", [])
        doing = self._found.get("doing", [])
        single = [
            found
            for found in doing
            if found.row.rank and isinstance(found.value, (str, dict)) and not _is_over(found)
        ]
        candidates = sorted(
            ((found, text) for found in (*stated, *single) if (text := values.goal_of(found.value)) is not None),
            key=lambda candidate: (candidate[0].row.rank, not values.is_prose(candidate[1]), len(candidate[0].place)),
        )
        if not candidates:
            candidates = self._goals_of_entries()
        if not candidates:
            project = self._one("project", "the project's name, for want of a goal")
            return self._next_step() if project is None else f"Work on {project}"
        best, goal = candidates[0]
        meant = self._entry_called(goal)
        if meant is not None:
            best, goal = meant
        self._say(best.place, "taken as the goal")
        self._found.setdefault("note", []).extend(
            found for found, text in candidates[1:]
            if found.row.meaning == "goal" and text != goal and values.is_prose(text)
        )  # fmt: skip
        return goal

    def _next_step(self) -> str | None:
        """For want of anything else, the one thing that is to be done next."""
        for found in self._found.get("to do", []):
            text = values.goal_of(found.value) if isinstance(found.value, str) else None
            if text is not None and len(text) <= MAX_NAME_LENGTH and values.is_prose(text):
                self._say(found.place, "taken as the goal, for want of one")
                return text
        return None

    def _entry_called(self, name: str) -> tuple[KnownKey, str] | None:
        """The entry of a list that has this id: whoever names it as the one at hand means what it says."""
        return None if values.is_prose(name) else self._by_id.get(name)

    @cached_property
    def _by_id(self) -> dict[str, tuple[KnownKey, str]]:
        named: dict[str, tuple[KnownKey, str]] = {}
        for found in [found for meaning in _LISTED for found in self._found.get(meaning, [])]:
            for item in self._items(found):
                ids = [item.more.get(key) for key in ("id", "task_id", "key", "number")]
                for name in (*ids, *item.place[-1:]):
                    if isinstance(name, str) or (isinstance(name, int) and name in ids):
                        named.setdefault(str(name), (found._replace(place=item.place), item.text))
        return named

    def _goals_of_entries(self) -> list[tuple[KnownKey, str]]:
        """Where no goal is stated: what is being worked on, else what was done last."""
        lists = [found for meaning in ("doing", "tasks", "to do") for found in self._found.get(meaning, [])]
        entries = [
            (found._replace(place=item.place), item.text)
            for found in lists
            for item in self._items(found)
            if (item.status or found.row.meaning) == "doing"
        ]
        done = self._found.get("done", [])
        latest = (found for found in done if words_of(found.key)[:1] in (("last",), ("latest",)))
        texts = ((found, values.goal_of(found.value)) for found in latest if isinstance(found.value, str))
        fitting = ((found, text) for found, text in texts if text and len(text) <= MAX_NAME_LENGTH)
        return entries[:1] + [(found, text) for found, text in fitting if values.is_prose(text)]

    def _times(self) -> tuple[int, int, bool]:
        """When it began and was saved last, and whether both are exact."""
        began = self._moments("began", "the beginning")
        updated = self._moments("updated", "the last change")
        now = self._ground.now
        last = max(updated or began, default=None, key=lambda moment: moment[0])
        first = min(began, default=None, key=lambda moment: moment[0])
        until = now if last is None else min(last[0], now)
        since = until if first is None else min(first[0], until)
        exact = all(moment is not None and ":" in values.dated(str(moment[1].value)) for moment in (first, last))
        return since, until, exact

    def _worked(self) -> int | None:
        for found in sorted(self._found.get("worked", []), key=lambda found: len(found.place)):
            worked = values.duration(found.value, words_of(found.key))
            if worked is not None:
                self._say(found.place, f"taken as working time of {worked / MINUTE:g} minutes")
                return worked
        return None

    def _moments(self, meaning: Meaning, what: str) -> list[tuple[int, KnownKey]]:
        moments = []
        for found in self._found.get(meaning, []):
            at = values.moment(found.value, self._ground)
            if at is not None:
                self._say(found.place, f"taken as the time of {what}{self._assumed(found.value)}")
                moments.append((at, found))
        return moments

    def _assumed(self, value: Json) -> str:
        """What had to be assumed to read a time, to be added to what is said of it."""
        assumed = values.assumed(value, self._ground)
        return "" if assumed is None else f"; {assumed}"

    # ── facts ────────────────────────────────────────────────────────────────────────────────────────────

    def _one(self, meaning: Meaning, what: str) -> str | None:
        """The one nearest to the top."""
        read = _READ.get(meaning, values.text_of)
        for found in sorted(self._found.get(meaning, []), key=lambda found: len(found.place)):
            text = read(found.value)
            if text is not None:
                self._say(found.place, f"taken as {what}")
                return shorten(text, MAX_NAME_LENGTH)
        return None

    def _summary(self, goal: str | None) -> str | None:
        for found in sorted(self._found.get("summary", []), key=lambda found: len(found.place)):
            text = values.text_of(found.value)
            if text is not None and text != goal:
                self._say(found.place, "taken as the summary")
                return text
        return None

    def _progress(self) -> float | None:
        found = min(self._found.get("progress", []), default=None, key=lambda found: len(found.place))
        part = None if found is None else values.share(found.value)
        if found is not None and part is not None:
            self._say(found.place, f"taken as progress of {part:.0%}")
        return part

    def _status(self, tasks: list[FoundTask]) -> str | None:
        """A word is the status, a sentence is a note. Said is only what the session takes over."""
        for found in sorted(self._found.get("status", []), key=lambda found: len(found.place)):
            text = str(values.text_of(found.value))
            if len(words_of(text)) < 4:
                if (end := end_of(text, tasks)) is not None:
                    self._say(found.place, f"taken as the status: {end}")
                elif values.status_word(text, whole=True) == "done":
                    self._say(found.place, "not taken as the status: something is left to do")
                return text
            self._found.setdefault("note", []).append(found)
        return None

    # ── entries ──────────────────────────────────────────────────────────────────────────────────────────

    def _tasks(self, goal: str | None) -> Iterator[FoundTask]:
        """Each text once, by the first list that has it: what is done stays done."""
        seen: set[str] = set()
        for meaning in _LISTED:
            for found in self._found.get(meaning, []):
                for item in self._items(found):
                    status = item.status or ("to do" if meaning == "tasks" else meaning)
                    # What is named as the one thing at hand; an entry of a list is a task, whatever the goal is.
                    named = status == "doing" and bool(found.row.rank)
                    is_goal = named and (item.text == goal or self._entry_called(item.text) is not None)
                    if item.text.casefold() in seen or is_goal or len(seen) > _MOST:
                        continue
                    seen.add(item.text.casefold())
                    yield self._task(item, status)

    def _task(self, item: values.ListItem, status: str) -> FoundTask:
        outcome = _said(item.more, "outcome", "result", "solution", "resolution", "reason", "details")
        held_up = next((value.text for key in ("blockers", "blocker", "blocked_by", "blocked_on")
                        for value in values.items(item.more.get(key), item.place)), None)  # fmt: skip
        if held_up is not None and status in ("doing", "to do"):
            status, outcome = "blocked", held_up
        files = tuple(
            path for key in ("files", "artifacts") for entry in _listed(item.more.get(key))
            if (named := values.path_in(entry)) and (path := values.path_of(named, self._ground)) is not None
        )  # fmt: skip
        self._say(item.place, _TAKEN[status])
        return FoundTask(item.text, status, outcome, files)

    def _decisions(self, began: int, updated: int) -> Iterator[TimedEvent]:
        for found in self._found.get("decision", []):
            for item in self._items(found):
                at, assumed = self._time_in(item.more, began, updated)
                self._say(item.place, f"taken as a decision{assumed}")
                yield TimedEvent(at, _decision(item))

    def _time_in(self, entry: Mapping[str, Json], began: int, updated: int) -> tuple[int, str]:
        """When an entry says it was, within the session, and what had to be assumed to read that; else at its end."""
        for key in ("timestamp", "at", "date", "time"):
            at = values.moment(entry.get(key), self._ground)
            if at is not None:
                return min(max(at, began), updated), self._assumed(entry[key])
        return updated, ""

    def _commits(self, began: int, updated: int) -> Iterator[TimedEvent]:
        """The commits that are listed, and those that entries of work name."""
        for found in self._found.get("commits", []):
            for position, entry in enumerate(_listed(found.value)):
                yield self._commit(entry, (*found.place, position), began, updated)
        for meaning in _LISTED:
            for found in self._found.get(meaning, []):
                for item in self._items(found):
                    if values.commit_of({"commit": item.more.get("commit")}) is not None:
                        yield self._commit({"commit": item.more["commit"]}, item.place, began, updated)

    def _commit(self, entry: Json, place: Place, began: int, updated: int) -> TimedEvent:
        sha = values.commit_of(entry)
        assert sha is not None
        said: Mapping[str, Json] = entry if isinstance(entry, dict) else {"message": str(entry).strip()[len(sha) :]}
        message = _said(said, "message", "subject", "title", "msg") or ""
        at, assumed = self._time_in(said, began, updated)
        self._say(place, f"taken as a commit{assumed}")
        return TimedEvent(
            at, CommitRecorded(sha=sha, message=message.splitlines()[0].strip(" :-–—") if message else "")
        )

    def _files(self) -> Iterator[FileChanged]:
        for meaning, action in _FILES:
            for found in self._found.get(meaning, []):
                for position, entry in enumerate(_listed(found.value)):
                    named = values.path_in(entry)
                    path = None if named is None else values.path_of(named, self._ground)
                    if path is not None and position < _MOST:
                        self._say((*found.place, position), f"taken as a {action} file")
                        yield FileChanged(path=path, action=action)

    def _errors(self) -> Iterator[ErrorNoted]:
        for found in self._found.get("error", []):
            for item in self._items(found):
                self._say(item.place, "taken as an error")
                message = _said(item.more, "message", "msg", "error", "details", "reason")
                yield ErrorNoted(message=message or item.text)

    def _remarks(self, goal: str | None) -> Iterator[NoteAdded]:
        for found in self._found.get("note", []):
            whole = values.text_of(found.value)
            items = [item for item in self._items(found) if item.text != item.more.get("id")]
            texts = [(whole, found.place)] if whole else [(item.text, item.place) for item in items]
            for text, place in texts[:_MOST]:
                if text != goal and values.says_something(text):
                    self._say(place, "taken as a note")
                    yield NoteAdded(text=text)

    def _say(self, place: Place, message: str) -> None:
        if len(self._notes) < _MOST:
            self._notes.append(FormatNote(place, message))


def end_of(status: str | None, tasks: list[FoundTask]) -> End | None:
    """What the file says of the session as a whole. It is not over while there is something left to do."""
    said = " ".join(words_of(status or ""))
    if said in _FAILED:
        return "failed"
    if said in _PAUSED:
        return "paused"
    match values.status_word(status, whole=True):
        case "done" if all(task.status in ("done", "dropped") for task in tasks):
            return "completed"
        case "dropped":
            return "aborted"
    return None


def _is_over(found: KnownKey) -> bool:
    """A task that is done is no goal any more; one of its steps may be."""
    return isinstance(found.value, dict) and values.status_in(found.value) == "done"


_READ: Final = {"branch": values.branch_of, "commit": values.commit_of, "project": values.goal_of}
_TAKEN: Final = {
    "done": "taken as done task", "doing": "taken as task at work", "to do": "taken as pending task",
    "blocked": "taken as blocked task", "dropped": "taken as dropped task",
}  # fmt: skip
_FILES: Final[tuple[tuple[Meaning, str], ...]] = (
    ("modified files", "modified"), ("created files", "created"), ("deleted files", "deleted"),
)  # fmt: skip


def _listed(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _said(entry: Mapping[str, Json], *keys: str) -> str | None:
    """The text under the first of these keys that has one."""
    return next((text for key in keys if (text := values.text_of(entry.get(key))) is not None), None)


def _decision(item: values.ListItem) -> DecisionMade:
    options = (
        value.text for key in ("options", "alternatives") for value in values.items(item.more.get(key), item.place)
    )
    chosen = _said(item.more, "decision", "chosen", "choice") or item.text
    return DecisionMade(
        chosen=chosen, options=tuple(options),
        context=_said(item.more, "context", "question", "topic", "component", "area"),
        why=_said(item.more, "why", "rationale", "reason", "reasoning", "because"),
    )  # fmt: skip
