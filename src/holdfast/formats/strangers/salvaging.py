"""Hand-made session files: what can be recognised in them becomes a session, and all of it is kept.

They are none of the four formats and follow no rules, so nothing here fails on them: what is understood is taken
and told (the notes are the mapping), the rest stays in the document, which is kept whole under `extra`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from holdfast.core.canonical import Json, canonical
from holdfast.core.errors import Invalid
from holdfast.core.text import LONGEST_NAME, shorten
from holdfast.core.vocabulary import (
    Data,
    DecisionMade,
    ErrorNoted,
    ExtraKept,
    FileChanged,
    NoteAdded,
    SessionAborted,
    SessionCompleted,
    SessionEdited,
    SessionFailed,
    SessionPaused,
    SessionSaved,
    SessionStarted,
    TaskAdded,
    TaskBlocked,
    TaskCompleted,
    TaskDropped,
    TaskStarted,
)
from holdfast.formats.interface import Ground, Heard, Note, Place
from holdfast.formats.strangers.hand_made import (
    GOALS,
    MEANINGS,
    Item,
    fraction,
    items,
    moment,
    path_of,
    plain_key,
    status_word,
    words,
)
from holdfast.formats.text.jsontext import written

EXTRA: Final = "salvaged"
_MOST: Final = 2000  # entries
_DEEPEST: Final = 4
_FAILED: Final = frozenset({"error", "failed", "failure", "crashed"})
_PAUSED: Final = frozenset({"paused", "on_hold", "stopped", "suspended", "interrupted"})


class Salvaged(NamedTuple):
    """The events, the id the file gives itself, and the mapping: each place with what it was taken as."""

    heard: list[Heard]
    alias: str | None
    notes: list[Note]


class _Found(NamedTuple):
    place: Place
    key: str
    value: Json


def salvaged(value: Json, ground: Ground) -> Salvaged:
    """What a hand-made document tells. Raises `Invalid` when nothing in it can be recognised."""
    return _Salvage(value, ground).told()


class _Salvage:
    def __init__(self, value: Json, ground: Ground) -> None:
        self._value = value
        self._ground = ground
        self._found: dict[str, list[_Found]] = {}
        self._notes: list[Note] = []
        self._tasks = 0
        self._seen: set[str] = set()
        if isinstance(value, list):
            self._collect({"todos": value}, (), 0)
        elif isinstance(value, dict):
            self._collect(value, (), 0)
        else:
            raise Invalid("it is a single value, and no session could be made of it")

    def _collect(self, holder: dict[str, Json], place: Place, depth: int) -> None:
        """What each key means; objects that only hold others are looked into."""
        for key, value in holder.items():
            here = place if isinstance(self._value, list) else (*place, key)
            meaning = MEANINGS.get(plain_key(key))
            if value is None or value in ("", [], {}):
                continue
            holds = isinstance(value, dict) and any(MEANINGS.get(plain_key(inner)) for inner in value)
            # `progress` and `status` may hold everything else; a list of tasks by status holds lists.
            if isinstance(value, dict) and holds and depth < _DEEPEST and self._only_holds(meaning, value):
                self._collect(value, here, depth + 1)
            elif meaning is not None:
                self._found.setdefault(meaning, []).append(_Found(here, plain_key(key), value))

    @staticmethod
    def _only_holds(meaning: str | None, value: dict[str, Json]) -> bool:
        if meaning in ("decision", "error", "note"):
            return False
        if meaning in ("doing", "goal"):  # one task as an object, unless it holds lists
            return any(isinstance(inner, (list, dict)) for inner in value.values())
        return True

    # ── the story ────────────────────────────────────────────────────────────────────────────────────────

    def told(self) -> Salvaged:
        goal = self._goal()
        began, updated = self._times()
        started = self._started(goal)
        body = [
            *self._facts(), *self._tasks_of("done"), *self._tasks_of("doing"), *self._tasks_of("pending"),
            *self._tasks_of("blocked"), *self._files(), *self._errors(), *self._remarks(),
        ]  # fmt: skip
        decisions = list(self._decisions(began, updated))
        ending = self._ending()
        if goal is None and not (body or decisions):
            raise Invalid(
                "nothing in it is recognised as a goal, a task, a decision or a note",
                hint="Start a session by hand: holdfast start GOAL",
            )
        heard = [
            Heard(began, started), *sorted(decisions, key=lambda one: one.at),
            *(Heard(updated, data) for data in body), Heard(updated, self._kept()), Heard(updated, ending),
        ]  # fmt: skip
        ids = self._found.get("id", [])
        return Salvaged(heard, words(ids[0].value) if ids else None, self._notes)

    def _started(self, goal: str | None) -> SessionStarted:
        project = self._ground.project
        branch = self._one("branch", "the git branch")
        if branch is not None:
            project = msgspec.structs.replace(project, git_branch=branch)
        listed = (one for found in self._found.get("tags", []) for one in items(found.value, found.place))
        tags = tuple(dict.fromkeys(one.text[:LONGEST_NAME] for one in listed))
        if goal is None:
            goal = "Work found in a hand-made file"
            self._say((), "no goal is recognised in it")
        return SessionStarted(
            goal=goal, project=project, device=self._ground.device, model=self._one("model", "the model"),
            scope=self._one("scope", "the scope"), tags=tags[:50], timer=self._ground.timer,
        )  # fmt: skip

    def _goal(self) -> str | None:
        """The first that reads as one; what else could have been is a task at work or a note."""
        found = sorted(self._found.get("goal", []), key=lambda one: GOALS.index(one.key))
        candidates = [*found, *self._found.get("doing", []), *self._found.get("summary", [])]
        for one in candidates:
            text = words(one.value) or next((item.text for item in items(one.value, one.place)), None)
            if text is None:
                continue
            self._say(one.place, "taken as the goal")
            self._seen.add(text.casefold())
            others = [other for other in found if other is not one]
            self._found.setdefault("note", []).extend(others)
            return text
        return None

    def _times(self) -> tuple[int, int]:
        now = self._ground.now
        began = [at for at in (self._time(found, "the beginning") for found in self._found.get("began", [])) if at]
        updated = [
            at for at in (self._time(found, "the last change") for found in self._found.get("updated", [])) if at
        ]
        last = min(max(updated, default=max(began, default=now)), now)
        return min(*began, last) if began else last, last

    def _time(self, found: _Found, what: str) -> int | None:
        at = moment(found.value, self._ground)
        if at is not None:
            self._say(found.place, f"taken as the time of {what}")
        return at

    # ── facts ────────────────────────────────────────────────────────────────────────────────────────────

    def _one(self, meaning: str, what: str) -> str | None:
        for found in self._found.get(meaning, []):
            text = words(found.value)
            if text is not None:
                self._say(found.place, f"taken as {what}")
                return shorten(text, LONGEST_NAME)
        return None

    def _facts(self) -> Iterator[Data]:
        for found in self._found.get("summary", []):
            text = words(found.value)
            if text is not None and text.casefold() not in self._seen:
                self._say(found.place, "taken as the summary")
                yield SessionEdited(summary=text)
                break
        for found in self._found.get("progress", []):
            share = fraction(found.value)
            if share is not None:
                self._say(found.place, f"taken as progress of {share:.0%}")
                yield SessionEdited(progress=share)
                break
            if isinstance(found.value, (str, list)):
                self._found.setdefault("note", []).append(found)

    def _tasks_of(self, meaning: str) -> Iterator[Data]:
        for found in self._found.get(meaning, []):
            for item in items(found.value, found.place):
                status = item.status or meaning
                if item.text.casefold() in self._seen or self._tasks >= _MOST:
                    continue
                self._seen.add(item.text.casefold())
                yield from self._task(item, status)

    def _task(self, item: Item, status: str) -> Iterator[Data]:
        self._tasks += 1
        name = f"t{self._tasks}"
        outcome = next(
            (text for key in ("outcome", "result", "reason", "details") if (text := words(item.more.get(key)))), None
        )
        files = tuple(
            path for key in ("files", "artifacts") for one in items(item.more.get(key), item.place)
            if (path := path_of(one.text, self._ground)) is not None
        )  # fmt: skip
        said = {"done": "done", "doing": "task at work", "blocked": "blocked task", "dropped": "dropped task"}
        self._say(
            item.place, f"taken as {said.get(status, 'pending')}{' task' if status in ('done', 'pending') else ''}"
        )
        yield TaskAdded(id=name, text=item.text)
        match status:
            case "done":
                yield TaskCompleted(id=name, outcome=outcome, artifacts=files)
            case "doing":
                yield TaskStarted(id=name, outcome=outcome, artifacts=files)
            case "blocked":
                yield TaskBlocked(id=name, outcome=outcome, artifacts=files)
            case "dropped":
                yield TaskDropped(id=name, outcome=outcome, artifacts=files)

    def _decisions(self, began: int, updated: int) -> Iterator[Heard]:
        for found in self._found.get("decision", []):
            for item in items(found.value, found.place):
                self._say(item.place, "taken as a decision")
                times = (moment(item.more.get(key), self._ground) for key in ("timestamp", "at", "date", "time"))
                at = next((at for at in times if at is not None), updated)
                yield Heard(min(max(at, began), updated), _decision(item))

    def _files(self) -> Iterator[Data]:
        for meaning, action in (("files", "modified"), ("created files", "created"), ("deleted files", "deleted")):
            for found in self._found.get(meaning, []):
                for item in items(found.value, found.place):
                    named = words(item.more.get("path")) or words(item.more.get("file")) or item.text
                    path = path_of(named, self._ground)
                    if path is not None:
                        self._say(item.place, f"taken as a {action} file")
                        yield FileChanged(path=path, action=action)

    def _errors(self) -> Iterator[Data]:
        for found in self._found.get("error", []):
            for item in items(found.value, found.place):
                self._say(item.place, "taken as an error")
                yield ErrorNoted(message=item.text)

    def _remarks(self) -> Iterator[Data]:
        for found in self._found.get("note", []):
            if isinstance(found.value, str) and (text := words(found.value)) is not None:
                self._say(found.place, "taken as a note")
                yield NoteAdded(text=text)
                continue
            for item in items(found.value, found.place):
                self._say(item.place, "taken as a note")
                yield NoteAdded(text=item.text)

    def _ending(self) -> Data:
        """What the file says of the session as a whole; without a word, it is in progress."""
        for found in self._found.get("status", []):
            text = words(found.value)
            if text is None:
                continue
            plain = plain_key(text)
            if plain in _FAILED:
                self._say(found.place, "taken as: stopped by an error")
                return SessionFailed(message=text)
            if plain in _PAUSED:
                self._say(found.place, "taken as: paused")
                return SessionPaused()
            meaning = status_word(text)
            if meaning == "done":
                self._say(found.place, "taken as: completed")
                return SessionCompleted()
            if meaning == "dropped":
                self._say(found.place, "taken as: given up")
                return SessionAborted()
        return SessionSaved()

    def _kept(self) -> ExtraKept:
        try:
            canonical({"value": self._value})
        except Invalid:  # a number or a text that the log has no spelling for
            text = written(self._value).decode("utf-8", "replace").replace("\0", "\ufffd")
            return ExtraKept(name=EXTRA, value=text)
        return ExtraKept(name=EXTRA, value=self._value)

    def _say(self, place: Place, message: str) -> None:
        if len(self._notes) < _MOST:
            self._notes.append(Note(place, message))


def _decision(item: Item) -> DecisionMade:
    def told(*keys: str) -> str | None:
        return next((text for key in keys if (text := words(item.more.get(key))) is not None), None)

    options = (one.text for key in ("options", "alternatives") for one in items(item.more.get(key), item.place))
    return DecisionMade(
        chosen=item.text, context=told("context", "question", "topic"), options=tuple(options),
        why=told("why", "rationale", "reason", "reasoning"),
    )  # fmt: skip
