"""Read what a hand-made document says about a session, from the keys whose meaning is known."""

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

_MAX_ENTRIES: Final = 2000  # entries
# Meanings of lists of work, most reliable first.
_LISTED: Final[tuple[Meaning, ...]] = ("done", "doing", "blocked", "to do", "tasks")
End: TypeAlias = Literal["failed", "paused", "completed", "aborted"]
_FAILED: Final = frozenset({"error", "failed", "failure", "crashed"})
_PAUSED: Final = frozenset({"paused", "on hold", "stopped", "suspended", "interrupted"})
_NOUNS: Final = frozenset(f"{GROUPS['task']}|{GROUPS['unit']}".split("|"))


class SalvagedTask(NamedTuple):
    text: str
    status: str
    outcome: str | None
    files: tuple[str, ...]


class Recognised(NamedTuple):
    """What was recognised in a document. `notes` say what each place was taken as."""

    goal: str | None
    began: int
    updated: int
    # Are both times exact, rather than dates?
    exact: bool
    # The duration the file states, in milliseconds.
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
    tasks: list[SalvagedTask]
    decisions: list[TimedEvent]
    commits: list[TimedEvent]
    files: list[FileChanged]
    errors: list[ErrorNoted]
    remarks: list[NoteAdded]
    notes: list[FormatNote]


def read_document(value: Json, context: ImportContext) -> Recognised:
    """What a document says, as far as the table knows its keys."""
    return _Reader(value, context).read()


class _Reader:
    def __init__(self, value: Json, context: ImportContext) -> None:
        self._context = context
        self._keys = meanings(value)
        self._notes: list[FormatNote] = []

    # ── goal and times ───────────────────────────────────────────────────────────────────────────────────

    def read(self) -> Recognised:
        goal = self._goal()
        began, updated, exact = self._times()
        listed = [item.text for known in self._keys.get("tags", []) for item in self._items(known)]
        alias = next((known for known in self._keys.get("id", []) if isinstance(known.value, str)), None)
        if alias is not None:
            self._note(alias.place, "taken as an alias")
        tasks = list(self._tasks(goal))
        return Recognised(
            goal=goal, began=began, updated=updated, exact=exact, worked=self._find_duration(),
            branch=self._single_value("branch", "the git branch"), commit=self._single_value("commit", "the commit"),
            model=self._single_value("model", "the model"), scope=self._single_value("scope", "the scope"),
            tags=tuple(dict.fromkeys(text[:MAX_NAME_LENGTH] for text in listed))[:50],
            alias=None if alias is None else str(alias.value).strip(),
            summary=self._summary(goal), progress=self._progress(),
            status=self._status(tasks), tasks=tasks,
            decisions=list(self._decisions(began, updated)), commits=list(self._commits(began, updated)),
            files=list(self._files()), errors=list(self._errors()),
            remarks=list(self._collect_remarks(goal)), notes=self._notes,
        )  # fmt: skip

    def _items(self, known: KnownKey) -> Iterator[values.ListItem]:
        noun = next((word for word in words_of(known.key) if word in _NOUNS), "task")
        return values.items(known.value, known.place, noun)

    def _goal(self) -> str | None:
        """The best candidate, sentences before codes; the others become notes."""
        stated = self._keys.get("goal", [])
        doing = self._keys.get("doing", [])
        single = [
            known
            for known in doing
            if known.row.rank and isinstance(known.value, (str, dict)) and not _is_over(known)
        ]
        candidates = sorted(
            ((known, text) for known in (*stated, *single) if (text := values.goal_of(known.value)) is not None),
            key=lambda candidate: (candidate[0].row.rank, not values.is_prose(candidate[1]), len(candidate[0].place)),
        )
        if not candidates:
            candidates = self._goals_of_entries()
        if not candidates:
            project = self._single_value("project", "the project's name, since there is no goal")
            return self._next_step() if project is None else f"Work on {project}"
        best, goal = candidates[0]
        entry = self._entry_called(goal)
        if entry is not None:
            best, goal = entry
        self._note(best.place, "taken as the goal")
        self._keys.setdefault("note", []).extend(
            known for known, text in candidates[1:]
            if known.row.meaning == "goal" and text != goal and values.is_prose(text)
        )  # fmt: skip
        return goal

    def _next_step(self) -> str | None:
        """The next step, if there is nothing better."""
        for known in self._keys.get("to do", []):
            text = values.goal_of(known.value) if isinstance(known.value, str) else None
            if text is not None and len(text) <= MAX_NAME_LENGTH and values.is_prose(text):
                self._note(known.place, "taken as the goal, since there is none")
                return text
        return None

    def _entry_called(self, name: str) -> tuple[KnownKey, str] | None:
        """The list entry with this id, if the current task names one."""
        return None if values.is_prose(name) else self._by_id.get(name)

    @cached_property
    def _by_id(self) -> dict[str, tuple[KnownKey, str]]:
        named: dict[str, tuple[KnownKey, str]] = {}
        for known in [known for meaning in _LISTED for known in self._keys.get(meaning, [])]:
            for item in self._items(known):
                ids = [item.more.get(key) for key in ("id", "task_id", "key", "number")]
                for name in (*ids, *item.place[-1:]):
                    if isinstance(name, str) or (isinstance(name, int) and name in ids):
                        named.setdefault(str(name), (known._replace(place=item.place), item.text))
        return named

    def _goals_of_entries(self) -> list[tuple[KnownKey, str]]:
        """Without a stated goal: what is being worked on, else what was done last."""
        lists = [known for meaning in ("doing", "tasks", "to do") for known in self._keys.get(meaning, [])]
        entries = [
            (known._replace(place=item.place), item.text)
            for known in lists
            for item in self._items(known)
            if (item.status or known.row.meaning) == "doing"
        ]
        done = self._keys.get("done", [])
        latest = (known for known in done if words_of(known.key)[:1] in (("last",), ("latest",)))
        texts = ((known, values.goal_of(known.value)) for known in latest if isinstance(known.value, str))
        fitting = ((known, text) for known, text in texts if text and len(text) <= MAX_NAME_LENGTH)
        return entries[:1] + [(known, text) for known, text in fitting if values.is_prose(text)]

    def _times(self) -> tuple[int, int, bool]:
        """Start, last save, and whether both are exact."""
        began = self._moments("began", "the beginning")
        updated = self._moments("updated", "the last change")
        now = self._context.now
        last = max(updated or began, default=None, key=lambda moment: moment[0])
        first = min(began, default=None, key=lambda moment: moment[0])
        until = now if last is None else min(last[0], now)
        since = until if first is None else min(first[0], until)
        exact = all(
            moment is not None and ":" in values.with_numeric_date(str(moment[1].value)) for moment in (first, last)
        )
        return since, until, exact

    def _find_duration(self) -> int | None:
        for known in sorted(self._keys.get("worked", []), key=lambda known: len(known.place)):
            worked = values.duration(known.value, words_of(known.key))
            if worked is not None:
                self._note(known.place, f"taken as working time of {worked / MINUTE:g} minutes")
                return worked
        return None

    def _moments(self, meaning: Meaning, label: str) -> list[tuple[int, KnownKey]]:
        moments = []
        for known in self._keys.get(meaning, []):
            at = values.time_of(known.value, self._context)
            if at is not None:
                self._note(known.place, f"taken as the time of {label}{self._assumed(known.value)}")
                moments.append((at, known))
        return moments

    def _assumed(self, value: Json) -> str:
        """What had to be assumed to read a time, as an addition to its note."""
        assumed = values.assumption_of(value, self._context)
        return "" if assumed is None else f"; {assumed}"

    # ── facts ────────────────────────────────────────────────────────────────────────────────────────────

    def _single_value(self, meaning: Meaning, label: str) -> str | None:
        """The value nearest to the top."""
        read = _READ.get(meaning, values.text_of)
        for known in sorted(self._keys.get(meaning, []), key=lambda known: len(known.place)):
            text = read(known.value)
            if text is not None:
                self._note(known.place, f"taken as {label}")
                return shorten(text, MAX_NAME_LENGTH)
        return None

    def _summary(self, goal: str | None) -> str | None:
        for known in sorted(self._keys.get("summary", []), key=lambda known: len(known.place)):
            text = values.text_of(known.value)
            if text is not None and text != goal:
                self._note(known.place, "taken as the summary")
                return text
        return None

    def _progress(self) -> float | None:
        known = min(self._keys.get("progress", []), default=None, key=lambda known: len(known.place))
        part = None if known is None else values.fraction(known.value)
        if known is not None and part is not None:
            self._note(known.place, f"taken as progress of {part:.0%}")
        return part

    def _status(self, tasks: list[SalvagedTask]) -> str | None:
        """A word is the status, a sentence becomes a note. Only a status the session adopts is noted."""
        for known in sorted(self._keys.get("status", []), key=lambda known: len(known.place)):
            text = str(values.text_of(known.value))
            if len(words_of(text)) < 4:
                if (end := end_of(text, tasks)) is not None:
                    self._note(known.place, f"taken as the status: {end}")
                elif values.status_word(text, whole=True) == "done":
                    self._note(known.place, "not taken as the status: something is left to do")
                return text
            self._keys.setdefault("note", []).append(known)
        return None

    # ── entries ──────────────────────────────────────────────────────────────────────────────────────────

    def _tasks(self, goal: str | None) -> Iterator[SalvagedTask]:
        """Each text once, from the first list that has it, so that done tasks stay done."""
        known_texts: set[str] = set()
        for meaning in _LISTED:
            for known in self._keys.get(meaning, []):
                for item in self._items(known):
                    status = item.status or ("to do" if meaning == "tasks" else meaning)
                    # The current task by itself is the goal; an entry of a list is a task in any case.
                    named = status == "doing" and bool(known.row.rank)
                    is_goal = named and (item.text == goal or self._entry_called(item.text) is not None)
                    if item.text.casefold() in known_texts or is_goal or len(known_texts) > _MAX_ENTRIES:
                        continue
                    known_texts.add(item.text.casefold())
                    yield self._task(item, status)

    def _task(self, item: values.ListItem, status: str) -> SalvagedTask:
        outcome = _text_at(item.more, "outcome", "result", "solution", "resolution", "reason", "details")
        blocker = next((value.text for key in ("blockers", "blocker", "blocked_by", "blocked_on")
                        for value in values.items(item.more.get(key), item.place)), None)  # fmt: skip
        if blocker is not None and status in ("doing", "to do"):
            status, outcome = "blocked", blocker
        files = tuple(
            path for key in ("files", "artifacts") for entry in _as_list(item.more.get(key))
            if (named := values.path_in(entry)) and (path := values.path_of(named, self._context)) is not None
        )  # fmt: skip
        self._note(item.place, _TAKEN[status])
        return SalvagedTask(item.text, status, outcome, files)

    def _decisions(self, began: int, updated: int) -> Iterator[TimedEvent]:
        for known in self._keys.get("decision", []):
            for item in self._items(known):
                at, assumed = self._time_in(item.more, began, updated)
                self._note(item.place, f"taken as a decision{assumed}")
                yield TimedEvent(at, _decision(item))

    def _time_in(self, entry: Mapping[str, Json], began: int, updated: int) -> tuple[int, str]:
        """An entry's time within the session (else the session's end), and what was assumed to read it."""
        for key in ("timestamp", "at", "date", "time"):
            at = values.time_of(entry.get(key), self._context)
            if at is not None:
                return min(max(at, began), updated), self._assumed(entry[key])
        return updated, ""

    def _commits(self, began: int, updated: int) -> Iterator[TimedEvent]:
        """Listed commits, and those named by entries of work."""
        for known in self._keys.get("commits", []):
            for position, entry in enumerate(_as_list(known.value)):
                yield self._commit(entry, (*known.place, position), began, updated)
        for meaning in _LISTED:
            for known in self._keys.get(meaning, []):
                for item in self._items(known):
                    if values.commit_of({"commit": item.more.get("commit")}) is not None:
                        yield self._commit({"commit": item.more["commit"]}, item.place, began, updated)

    def _commit(self, entry: Json, place: Place, began: int, updated: int) -> TimedEvent:
        sha = values.commit_of(entry)
        assert sha is not None
        fields: Mapping[str, Json] = entry if isinstance(entry, dict) else {"message": str(entry).strip()[len(sha) :]}
        message = _text_at(fields, "message", "subject", "title", "msg") or ""
        at, assumed = self._time_in(fields, began, updated)
        self._note(place, f"taken as a commit{assumed}")
        return TimedEvent(
            at, CommitRecorded(sha=sha, message=message.splitlines()[0].strip(" :-–—") if message else "")
        )

    def _files(self) -> Iterator[FileChanged]:
        for meaning, action in _FILES:
            for known in self._keys.get(meaning, []):
                for position, entry in enumerate(_as_list(known.value)):
                    named = values.path_in(entry)
                    path = None if named is None else values.path_of(named, self._context)
                    if path is not None and position < _MAX_ENTRIES:
                        self._note((*known.place, position), f"taken as a {action} file")
                        yield FileChanged(path=path, action=action)

    def _errors(self) -> Iterator[ErrorNoted]:
        for known in self._keys.get("error", []):
            for item in self._items(known):
                self._note(item.place, "taken as an error")
                message = _text_at(item.more, "message", "msg", "error", "details", "reason")
                yield ErrorNoted(message=message or item.text)

    def _collect_remarks(self, goal: str | None) -> Iterator[NoteAdded]:
        for known in self._keys.get("note", []):
            whole_text = values.text_of(known.value)
            items = [item for item in self._items(known) if item.text != item.more.get("id")]
            texts = [(whole_text, known.place)] if whole_text else [(item.text, item.place) for item in items]
            for text, place in texts[:_MAX_ENTRIES]:
                if text != goal and values.has_content(text):
                    self._note(place, "taken as a note")
                    yield NoteAdded(text=text)

    def _note(self, place: Place, message: str) -> None:
        if len(self._notes) < _MAX_ENTRIES:
            self._notes.append(FormatNote(place, message))


def end_of(status: str | None, tasks: list[SalvagedTask]) -> End | None:
    """How the session ended according to the file. It has not ended while something is left to do."""
    normalized = " ".join(words_of(status or ""))
    if normalized in _FAILED:
        return "failed"
    if normalized in _PAUSED:
        return "paused"
    match values.status_word(status, whole=True):
        case "done" if all(task.status in ("done", "dropped") for task in tasks):
            return "completed"
        case "dropped":
            return "aborted"
    return None


def _is_over(known: KnownKey) -> bool:
    """Is this a completed task? It is not the goal any more; one of its steps may be."""
    return isinstance(known.value, dict) and values.status_in(known.value) == "done"


_READ: Final = {"branch": values.branch_of, "commit": values.commit_of, "project": values.goal_of}
_TAKEN: Final = {
    "done": "taken as a done task", "doing": "taken as a task in progress", "to do": "taken as a pending task",
    "blocked": "taken as a blocked task", "dropped": "taken as a dropped task",
}  # fmt: skip
_FILES: Final[tuple[tuple[Meaning, str], ...]] = (
    ("modified files", "modified"), ("created files", "created"), ("deleted files", "deleted"),
)  # fmt: skip


def _as_list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _text_at(entry: Mapping[str, Json], *keys: str) -> str | None:
    """The text under the first of these keys that has one."""
    return next((text for key in keys if (text := values.text_of(entry.get(key))) is not None), None)


def _decision(item: values.ListItem) -> DecisionMade:
    options = (
        value.text for key in ("options", "alternatives") for value in values.items(item.more.get(key), item.place)
    )
    chosen = _text_at(item.more, "decision", "chosen", "choice") or item.text
    return DecisionMade(
        chosen=chosen, options=tuple(options),
        context=_text_at(item.more, "context", "question", "topic", "component", "area"),
        why=_text_at(item.more, "why", "rationale", "reason", "reasoning", "because"),
    )  # fmt: skip
