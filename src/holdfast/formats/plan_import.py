"""Import plans with phases and tasks from the contract's YAML, the same as JSON, or a Markdown checklist.

An import adds what a session lacks and moves tasks forward, never back: importing twice changes nothing. A task of a
checklist without an id is identified by phase and text, so lines may be added and moved.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

import msgspec

from holdfast.core import tasks
from holdfast.core.errors import Invalid
from holdfast.core.events import (
    EventData,
    PhaseAdded,
    ProjectFacts,
    TaskAdded,
    TaskBlocked,
    TaskCompleted,
    TaskEdited,
    TaskEvent,
    TaskStarted,
)
from holdfast.core.secrets.patterns import redact
from holdfast.core.state import State, TaskState
from holdfast.core.text import MAX_NAME_LENGTH, check_identifier, check_relative_path, check_text, shorten, slug
from holdfast.formats import timestamps
from holdfast.formats.base import ImportContext
from holdfast.formats.text.nodes import YamlNode, from_json, from_yaml, unreadable_error
from holdfast.machine.files import read_limited
from holdfast.machine.wall import local_offset

_T = TypeVar("_T")

LIMIT: Final = 4 << 20  # bytes
MAX_TASKS: Final = 10_000

# The context for times without a zone.
_HERE: Final = ImportContext(ProjectFacts(id="", name=""), "", 0, local_offset)
# Status words used in plans.
_STATUSES: Final = {
    "": "pending", "pending": "pending", "todo": "pending", "in_progress": "in_progress", "completed": "completed",
    "complete": "completed", "done": "completed", "blocked": "blocked",
}  # fmt: skip

# Events from a task's status to the one in the file; without any, the task stays as it is.
_TRANSITIONS: Final[dict[tuple[str, str], tuple[type[TaskEvent], ...]]] = {
    ("pending", "in_progress"): (TaskStarted,),
    ("pending", "blocked"): (TaskBlocked,),
    ("pending", "completed"): (TaskCompleted,),
    ("in_progress", "completed"): (TaskCompleted,),
    ("blocked", "completed"): (TaskStarted, TaskCompleted),
}

_HEADING = re.compile(r" {0,3}(#{1,6})\s+(.*?)\s*#*\s*\Z")
_ITEM = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])\s+\[([ xX])\]\s+(\S.*?)\s*\Z")
_FENCE = re.compile(r"\s*(```+|~~~+)")
_ID_AFTER = re.compile(r"\s*\(id:\s*([^()\s]+)\s*\)\Z")
_ID_BEFORE = re.compile(r"\*\*([A-Za-z0-9_][A-Za-z0-9._-]{0,99})(?::\*\*|\*\*:)\s+")


class PlannedTask(NamedTuple):
    id: str
    text: str
    phase: str | None = None
    agent: str | None = None
    status: str = "pending"
    outcome: str | None = None
    artifacts: tuple[str, ...] = ()
    started_at: int | None = None
    completed_at: int | None = None
    # Did the file name the id? Else we chose it.
    named: bool = True


class ImportedPlan:
    """Phases (id and name) and tasks, in the order of the file."""

    def __init__(self, phases: list[tuple[str, str]], tasks: list[PlannedTask]) -> None:
        self.phases = phases
        self.tasks = tasks

    def missing_from(self, state: State) -> list[EventData]:
        """The events that bring a session up to this plan; none if it is up to date."""
        events: list[EventData] = [
            PhaseAdded(id=id_, name=name) for id_, name in self.phases if id_ not in state.phases
        ]
        tasks_known = _Known(state)
        for task in self.tasks:
            known = tasks_known.match(task)
            if known is None:
                id_, ref, status = tasks_known.free(task), None, "pending"
                events.append(TaskAdded(id=id_, text=task.text, phase=task.phase, agent=task.agent))
            else:
                id_, ref, status = known.id, known.ref, tasks.status_of(known)
            moves = _TRANSITIONS.get((status, task.status), ())
            new = _new_facts(task, known)
            events += [_move(kind, id_, ref, task, new) for kind in moves]
            if not moves and (new.artifacts or new.started_at is not None):
                events.append(msgspec.structs.replace(new, id=id_, ref=ref))
        return events


def _new_facts(task: PlannedTask, known: TaskState | None) -> TaskEdited:
    """Facts about a task other than its status that the session lacks."""
    files_known, started = ((), None) if known is None else (known.artifacts, known.started_at)
    files = tuple(path for path in dict.fromkeys(task.artifacts) if path not in files_known)
    return TaskEdited(id=task.id, artifacts=files, started_at=task.started_at if started is None else None)


def _move(kind: type[TaskEvent], id_: str, ref: str | None, task: PlannedTask, new: TaskEdited) -> EventData:
    if kind is TaskStarted:
        return TaskStarted(id=id_, ref=ref, artifacts=new.artifacts, started_at=new.started_at)
    if kind is TaskBlocked:
        return TaskBlocked(id=id_, ref=ref, outcome=task.outcome, artifacts=new.artifacts, started_at=new.started_at)
    return TaskCompleted(
        id=id_, ref=ref, outcome=task.outcome, artifacts=new.artifacts, started_at=new.started_at,
        completed_at=task.completed_at,
    )  # fmt: skip


class _Known:
    """Matches the tasks of a file with those of a session."""

    def __init__(self, state: State) -> None:
        self._by_id = {task.id: task for task in state.tasks.values()}
        self._by_text: dict[tuple[str | None, str], list[TaskState]] = {}
        for task in state.tasks.values():
            self._by_text.setdefault((task.phase, task.text), []).append(task)
        self._taken = set(self._by_id)

    def match(self, task: PlannedTask) -> TaskState | None:
        if task.named:
            return self._by_id.get(task.id)
        # As it is stored: without secrets.
        same_text = self._by_text.get((task.phase, redact(task.text).text), [])
        return same_text.pop(0) if same_text else None

    def free(self, task: PlannedTask) -> str:
        """The id for a new task: its own, or the next free number if we chose it."""
        id_ = task.id
        stem, _, number = id_.rpartition("-")
        while id_ in self._taken and not task.named:
            number = str(int(number) + 1)
            id_ = f"{stem}-{number}"
        self._taken.add(id_)
        return id_


def read(path: str) -> ImportedPlan:
    """The plan in a file (`-`: standard input). Its kind follows from the name, or else from the text."""
    return parse(read_limited(path, LIMIT, subject="the plan"), path)


def parse(data: bytes, path: str) -> ImportedPlan:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise unreadable_error(path, "it is not valid UTF-8", data[: error.start].count(b"\n") + 1) from None
    kind = _kind(text, path)
    if kind == "markdown":
        return _Checklist(path).plan(text)
    node = from_json(text, path) if kind == "json" else from_yaml(text, path)
    return _Contract(path).plan(node)


def _kind(text: str, path: str) -> str:
    ending = path.lower().rpartition(".")[2]
    named = {"md": "markdown", "markdown": "markdown", "json": "json", "yaml": "yaml", "yml": "yaml"}.get(ending)
    if named is not None:
        return named
    if text.lstrip().startswith("{"):
        return "json"
    return "markdown" if any(_ITEM.match(line) for line in text.splitlines()) else "yaml"


# ── the contract's plan ──────────────────────────────────────────────────────────────────────────────────


class _Contract:
    def __init__(self, path: str) -> None:
        self._path = path
        self._ids: set[str] = set()
        self._tasks: list[PlannedTask] = []

    def plan(self, root: YamlNode) -> ImportedPlan:
        fields = self._map(root, "the plan")
        if "phases" not in fields and "tasks" not in fields:
            raise unreadable_error(
                self._path, "it has neither phases nor tasks", root.line, "A plan is a mapping with a list of phases."
            )
        phases: dict[str, str] = {}
        for node in self._list(fields.get("phases"), "phases"):
            phase = self._map(node, "a phase")
            id_ = self._id(phase, ("phase_id", "id"), node, "a phase's id")
            if id_ in phases:
                raise unreadable_error(self._path, f"phase {id_} is not unique", node.line)
            phases[id_] = self._checked(
                self._text(phase.get("name"), "name") or id_, "the phase", node, MAX_NAME_LENGTH
            )
            for task in self._list(phase.get("tasks"), "tasks"):
                self._task(task, id_)
        for task in self._list(fields.get("tasks"), "tasks"):
            self._task(task, None)
        return ImportedPlan(list(phases.items()), self._tasks)

    def _task(self, node: YamlNode, phase: str | None) -> None:
        fields = self._map(node, "a task")
        id_ = self._id(fields, ("task_id", "id"), node, "a task's id")
        if id_ in self._ids:
            raise unreadable_error(self._path, f"task {id_} is not unique", node.line)
        if len(self._tasks) >= MAX_TASKS:
            raise unreadable_error(self._path, f"it has more than {MAX_TASKS:,} tasks", node.line)
        self._ids.add(id_)
        words = self._text(fields.get("description"), "description") or self._text(fields.get("text"), "text")
        status = self._text(fields.get("status"), "status") or ""
        if status not in _STATUSES:
            raise unreadable_error(
                self._path, f"{shorten(status, 40)!a} is not the status of a task", fields["status"].line,
                "It is pending, in_progress, completed or blocked.",
            )  # fmt: skip
        agent = self._text(fields.get("agent"), "agent")
        outcome = self._text(fields.get("outcome"), "outcome")
        self._tasks.append(
            PlannedTask(
                id=id_, text=self._checked(words or "", "the task's description", node), phase=phase,
                agent=self._named(agent, "an agent's id", fields["agent"]) if agent else None,
                status=_STATUSES[status],
                outcome=self._checked(outcome, "the outcome", fields["outcome"]) if outcome else None,
                artifacts=tuple(
                    self._artifact(node) for node in self._list(fields.get("artifacts"), "artifacts")
                ),
                started_at=self._time(fields.get("started_at"), "started_at"),
                completed_at=self._time(fields.get("completed_at"), "completed_at"),
            )
        )  # fmt: skip

    def _artifact(self, node: YamlNode) -> str:
        return self._located(node, lambda: check_relative_path(self._text(node, "artifacts") or ""))

    def _time(self, node: YamlNode | None, label: str) -> int | None:
        written = self._text(node, label)
        if node is None or not written:
            return None
        return self._located(node, lambda: timestamps.read_time(written, _HERE).ms)

    def _id(self, fields: dict[str, YamlNode], names: tuple[str, ...], node: YamlNode, label: str) -> str:
        for name in names:
            value = self._text(fields.get(name), name)
            if value:
                return self._named(value, label, fields[name])
        raise unreadable_error(self._path, f"{names[0]} is missing", node.line)

    def _named(self, value: str, label: str, node: YamlNode) -> str:
        return self._located(node, lambda: check_identifier(value, label))

    def _checked(self, value: str, label: str, node: YamlNode, longest: int = 1 << 20) -> str:
        return self._located(node, lambda: check_text(value, label, max_length=longest))

    def _located(self, node: YamlNode, check: Callable[[], _T]) -> _T:
        """Run a check and add path and line to its error."""
        try:
            return check()
        except Invalid as error:
            raise unreadable_error(self._path, error.message, node.line, error.hint) from None

    def _map(self, node: YamlNode, label: str) -> dict[str, YamlNode]:
        if not isinstance(node.value, dict):
            raise unreadable_error(self._path, f"{label} must be a mapping", node.line)
        return node.value

    def _list(self, node: YamlNode | None, label: str) -> list[YamlNode]:
        if node is None or node.value is None:
            return []
        if not isinstance(node.value, list):
            raise unreadable_error(self._path, f"{label} must be a list", node.line)
        return node.value

    def _text(self, node: YamlNode | None, label: str) -> str | None:
        if node is None or node.value is None:
            return None
        if not isinstance(node.value, str):
            raise unreadable_error(self._path, f"{label} must be text", node.line)
        return node.value


# ── a checklist ──────────────────────────────────────────────────────────────────────────────────────────


class _Checklist:
    """`## Phase` headings, `- [ ] open` and `- [x] done`; `(id: x)` at the end or `**x**:` before names the task.

    Nested items count like the others. Everything else is ignored: code blocks, headings of the first level (the
    title), headings without items.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._phases: dict[str, str] = {}
        self._ids: set[str] = set()
        self._places: dict[str | None, int] = {}
        self._tasks: list[PlannedTask] = []

    def plan(self, text: str) -> ImportedPlan:
        heading = fence = ""
        for number, line in enumerate(text.split("\n"), start=1):
            mark = _FENCE.match(line)
            if mark is not None and (not fence or mark[1].startswith(fence)):
                fence = "" if fence else mark[1]
            if fence:
                continue
            title, item = _HEADING.match(line), _ITEM.match(line)
            if title is not None:
                heading = "" if len(title[1]) == 1 else title[2]
            if item is not None:
                try:
                    self._item(heading, item[2], "pending" if item[1] == " " else "completed")
                except Invalid as error:
                    raise unreadable_error(self._path, error.message, number, error.hint) from None
        if not self._tasks:
            raise unreadable_error(
                self._path, "it has no tasks", None, "Tasks are lines such as: - [ ] Write the parser"
            )
        return ImportedPlan(list(self._phases.items()), self._tasks)

    def _item(self, heading: str, words: str, status: str) -> None:
        if len(self._tasks) >= MAX_TASKS:
            raise Invalid(f"it has more than {MAX_TASKS:,} tasks")
        phase = self._phase(check_text(heading, "the heading", max_length=MAX_NAME_LENGTH)) if heading else None
        after, ahead = _ID_AFTER.search(words), _ID_BEFORE.match(words)
        place = self._places[phase] = self._places.get(phase, 0) + 1
        text, id_ = words, f"{phase or 'plan'}-{place}"
        if after is not None:
            text, id_ = words[: after.start()], check_identifier(after[1], "a task's id")
        elif ahead is not None:
            text, id_ = words[ahead.end() :], check_identifier(ahead[1], "a task's id")
        named = after is not None or ahead is not None
        while id_ in self._ids:
            if named:
                raise Invalid(f"task {id_} is not unique")
            place += 1
            id_ = f"{phase or 'plan'}-{place}"
        self._ids.add(id_)
        self._tasks.append(PlannedTask(id_, check_text(text, "the task"), phase, status=status, named=named))

    def _phase(self, name: str) -> str:
        """The id of the phase with this name; creates it if needed."""
        for id_, known in self._phases.items():
            if known == name:
                return id_
        has_latin = any(char.isascii() and char.isalnum() for char in name)
        stem = slug(name, 6) if has_latin else f"phase-{len(self._phases) + 1}"
        id_, number = stem, 1
        while id_ in self._phases:
            number += 1
            id_ = f"{stem}-{number}"
        self._phases[id_] = name
        return id_
