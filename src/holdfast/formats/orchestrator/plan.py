"""The work of a document: what is done and what is left, found again among the session's tasks by its words."""

from __future__ import annotations

from holdfast.core import tasks as tasks_of
from holdfast.core.canonical import Json
from holdfast.core.state import State, TaskState
from holdfast.core.vocabulary import TaskAdded, TaskCompleted, TaskEdited, TaskStarted
from holdfast.formats.interface import Document
from holdfast.formats.orchestrator.reading import names, objects, words
from holdfast.formats.orchestrator.rendering import done, shown_text, to_do
from holdfast.formats.orchestrator.story import Story


class Plan:
    def __init__(self, story: Story, state: State | None) -> None:
        self._story = story
        self._taken = {task.id for task in state.tasks.values()} if state is not None else set[str]()
        self._open = to_do(state) if state is not None else []
        self._done = done(state) if state is not None else []

    def tell(self, before: Document | None, after: Document, added_at: int, moment: int) -> None:
        """New work, and what was finished. `added_at` is for tasks nobody dated."""
        known = objects(before, "completed_work")
        tasks = self._tasks_of(known)
        for name, entry in objects(after, "completed_work").items():
            if name not in known:
                self._finished(entry, added_at, moment)
            else:
                self._told_again(known[name], entry, tasks.get(name), moment)
        listed = names(before, "pending_tasks")
        for name, text in names(after, "pending_tasks").items():
            if name not in listed and isinstance(text, str):
                self._story.tell(added_at, TaskAdded(id=self._next_id(), text=text))

    def _finished(self, entry: dict[str, Json], added_at: int, moment: int) -> None:
        text = words(entry, "task") or ""
        task = self._take(text)
        if task is None:
            name, ref = self._next_id(), None
            self._story.tell(added_at, TaskAdded(id=name, text=text))
        else:
            name, ref = task.id, task.ref
            if tasks_of.status_of(task) == "blocked":
                self._story.tell(moment, TaskStarted(id=name, ref=ref))
        self._story.tell(
            moment, TaskCompleted(id=name, ref=ref, outcome=words(entry, "outcome"), artifacts=_files(entry))
        )

    def _tasks_of(self, entries: dict[str, dict[str, Json]]) -> dict[str, TaskState]:
        """Which completed task each entry shows; of several of the same words, each one its own."""
        left = list(self._done)
        found: dict[str, TaskState] = {}
        for name, entry in entries.items():
            task = next((one for one in left if shown_text(one) == words(entry, "task")), None)
            if task is not None:
                left.remove(task)
                found[name] = task
        return found

    def _told_again(
        self, before: dict[str, Json], after: dict[str, Json], task: TaskState | None, moment: int
    ) -> None:
        """Another outcome or more files of work that was done: a correction, it was done when it was done."""
        outcome, files = words(after, "outcome"), _files(after)
        if outcome in (None, words(before, "outcome")) and set(files) <= set(_files(before)):
            return
        if task is not None:
            new = tuple(path for path in files if path not in task.artifacts)
            said = outcome if outcome not in (None, words(before, "outcome")) else None
            self._story.tell(moment, TaskEdited(id=task.id, ref=task.ref, outcome=said, artifacts=new))

    def _take(self, text: str) -> TaskState | None:
        """The open task of these words; nobody copies them without changing a capital or a space."""
        alike = [one for one in self._open if _plain(shown_text(one)) == _plain(text)]
        found = next((one for one in alike if shown_text(one) == text), alike[0] if alike else None)
        if found is not None:
            self._open.remove(found)
        return found

    def _next_id(self) -> str:
        number = len(self._taken) + 1
        while f"t{number}" in self._taken:
            number += 1
        self._taken.add(f"t{number}")
        return f"t{number}"


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def _files(entry: dict[str, Json]) -> tuple[str, ...]:
    files = entry.get("files")
    return tuple(one for one in files if isinstance(one, str)) if isinstance(files, list) else ()
