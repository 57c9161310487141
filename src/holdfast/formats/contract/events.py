"""A plan's tasks as events: what brings one from a status to another, and which facts about it were corrected."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from holdfast.core import tasks as tasks_of
from holdfast.core import view
from holdfast.core.canonical import Json, digest
from holdfast.core.errors import Refused
from holdfast.core.events import (
    TYPE_OF,
    CommandRan,
    EventData,
    PhaseAdded,
    SessionCompleted,
    SessionEdited,
    SessionPaused,
    SessionResumed,
    SessionSaved,
    SessionStarted,
    TaskAdded,
    TaskBlocked,
    TaskCompleted,
    TaskDropped,
    TaskEdited,
    TaskReopened,
    TaskStarted,
)
from holdfast.core.lifecycle import FINAL, SESSION, TASK, allows, refusal
from holdfast.core.state import State, TaskState
from holdfast.core.times import parse_time
from holdfast.formats.base import Document, ImportContext, Place, TimedEvent
from holdfast.formats.contract import fields as words
from holdfast.formats.contract import render
from holdfast.formats.contract.fields import OWN_MODEL, is_dropped, lst, obj, text
from holdfast.formats.entries import named


def target(task: dict[str, Json]) -> str:
    return "dropped" if is_dropped(task) else text(task.get("status")) or "pending"


_WAYS: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("pending", "in_progress"): ("start",),
    ("pending", "completed"): ("maybe start", "complete"),
    ("pending", "blocked"): ("maybe start", "block"),
    ("pending", "dropped"): ("maybe start", "drop"),
    ("in_progress", "completed"): ("complete",),
    ("in_progress", "blocked"): ("block",),
    ("in_progress", "dropped"): ("drop",),
    ("blocked", "in_progress"): ("start",),
    ("blocked", "pending"): ("reopen",),
    ("blocked", "completed"): ("start", "complete"),
    ("blocked", "dropped"): ("drop",),
}


def moves(
    task: dict[str, Json], status: str, target: str, first: int, last: int, known: TaskState | None = None
) -> list[TimedEvent]:
    """What brings a task from one status to another, each at the time the document says, never before the one before.

    `first` is when it was there at the earliest; `last` when it is known to have had the status it is told with.
    """
    if status == target:
        return []
    id_, ref = (id_of(task), None) if known is None else (known.id, known.ref)
    ways = _WAYS.get((status, target))
    if ways is None:
        raise Refused(
            f"the task {id_} is {status.replace('_', ' ')} and cannot become {target.replace('_', ' ')}",
            hint=f"Only reopening leads back: holdfast task reopen {id_}" if status in FINAL["task"] else None,
        )
    artifacts = artifacts_of(task)
    started, completed = ms(task.get("started_at")), ms(task.get("completed_at"))
    heard: list[TimedEvent] = []
    now = first
    for way in ways:
        match way:
            case "maybe start" if started is None:
                continue
            case "start" | "maybe start":
                now = max(now, started) if started is not None else _unsaid(now, last, completed, target)
                files = artifacts if target == "in_progress" else ()
                heard.append(TimedEvent(now, TaskStarted(id=id_, ref=ref, artifacts=files)))
            case "complete":
                now = max(now, last if completed is None else completed)
                heard.append(TimedEvent(now, TaskCompleted(id=id_, ref=ref, artifacts=artifacts)))
            case "block":
                now = max(now, last)
                heard.append(TimedEvent(now, TaskBlocked(id=id_, ref=ref, artifacts=artifacts)))
            case "drop":
                now = max(now, last)
                heard.append(TimedEvent(now, TaskDropped(id=id_, ref=ref, artifacts=artifacts)))
            case _:
                now = max(now, last)
                heard.append(TimedEvent(now, TaskReopened(id=id_, ref=ref)))
    return heard


def _unsaid(now: int, last: int, completed: int | None, target: str) -> int:
    """When a task was begun that does not say so: not after it was done."""
    return max(now, min(last, completed) if target == "completed" and completed is not None else last)


def corrected(
    phase: dict[str, Json],
    task: dict[str, Json],
    was: tuple[dict[str, Json], dict[str, Json]] | None,
    known: TaskState,
    at: int,
    *,
    told: bool,
) -> list[TimedEvent]:
    """Other facts about a task: its words, its phase, who does it, and files that no change of status tells of."""
    before = {} if was is None else was[1]
    about, agent = text(task.get("description")), text(task.get("agent"))
    there = text(phase.get("phase_id"))
    stood = known.phase or words.LOOSE
    stale = {*known.artifacts, *artifacts_of(before)}
    files = () if told else tuple(path for path in artifacts_of(task) if path not in stale)
    edit = TaskEdited(
        id=known.id,
        ref=known.ref,
        text=about if (about or "").strip() and about not in (before.get("description"), known.text) else None,
        phase=there if was is not None and there not in (None, was[0].get("phase_id"), stood) else None,
        agent=agent if agent and agent not in (before.get("agent"), known.agent) else None,
        artifacts=files,
    )
    return [] if edit == TaskEdited(id=known.id, ref=known.ref) else [TimedEvent(at, edit)]


def artifacts_of(task: dict[str, Json]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(path for path in lst(task.get("artifacts")) if isinstance(path, str) and path))


def id_of(task: dict[str, Json]) -> str:
    return text(task.get("task_id")) or ""


def ms(value: Json) -> int | None:
    return parse_time(value) if isinstance(value, str) else None


_SAID: Final[dict[str, type[EventData]]] = {
    "active": SessionResumed,
    "paused": SessionPaused,
    "completed": SessionCompleted,
}
_IDENTITIES: Final[Mapping[Place, tuple[str, ...]]] = {("history",): ()}


# ── from nothing ─────────────────────────────────────────────────────────────────────────────────────────


def imported(document: Document, ground: ImportContext) -> list[TimedEvent]:
    """Everything a document tells."""
    current, feature, entry = words.current(document), words.feature(document), obj(document.get("entry"))
    tasks = [task for _, task in words.planned(document)]
    told = [time for task in tasks for time in (ms(task.get("started_at")), ms(task.get("completed_at")))]
    ran = [one for line in words.lines(document) if (one := _command(line)) is not None]
    ends = [ms(current.get("last_updated")), ms(entry.get("last_active"))]
    marks = [ms(current.get("started_at")), ms(feature.get("created_at")), ms(entry.get("started_at"))]
    known = [time for time in (*told, *ends, *marks, *(at for at, _ in ran)) if time is not None]
    begin = min([*known, ground.now])
    end = min(max([*known, begin]), ground.now)
    # The plan was there before anything in it was begun, whatever it says of itself.
    plan = min([time for time in (*told, ms(feature.get("created_at"))) if time is not None], default=begin)
    last = max((time for time in ends if time is not None), default=end)

    heard = [TimedEvent(begin, _start(document, ground)), *_about(document, plan)]
    heard += _phases_and_tasks(document, plan, last)
    heard += _active(document, begin)
    heard += ran
    status = entry.get("status")
    if status == "paused":
        heard.append(TimedEvent(ms(entry.get("last_active")) or last, SessionPaused()))
    story = sorted((TimedEvent(min(max(at, begin), end), data) for at, data in heard), key=lambda one: one.at)
    if status == "completed":
        story.append(TimedEvent(end, SessionCompleted()))
    elif story[-1].at < end:
        story.append(TimedEvent(end, SessionSaved()))
    return story


def _start(document: Document, ground: ImportContext) -> SessionStarted:
    name = text(obj(document.get("state")).get("feature_id")) or ""
    slug = (words.feature_parts(name) or (name, ""))[0]
    current = words.current(document)
    return SessionStarted(
        goal=text(words.feature(document).get("name")) or slug.replace("-", " "),
        project=ground.project,
        device=ground.device,
        timer=ground.timer,
        model=text(current.get(OWN_MODEL)) or text(current.get("model_in_use")),
        feature=slug,
        aliases={"contract": name},
    )


def _about(document: Document, at: int) -> list[TimedEvent]:
    feature = words.feature(document)
    about = text(feature.get("description")) or ""
    return [TimedEvent(at, SessionEdited(summary=about))] if about.strip() and about != feature.get("name") else []


def _phases_and_tasks(document: Document, plan: int, last: int) -> list[TimedEvent]:
    heard = [TimedEvent(plan, PhaseAdded(id=id_, name=name)) for id_, name in _new_phases(document)]
    active = words.current(document).get("active_task")
    for phase, task in words.planned(document):
        heard += _added(phase, task, plan)
        at_hand = task.get("status") == "pending" and task.get("task_id") == active
        heard += moves(task, "pending", "in_progress" if at_hand else target(task), plan, last)
    return heard


def _new_phases(document: Document) -> Iterable[tuple[str, str]]:
    for phase in words.phases(document):
        id_, name = text(phase.get("phase_id")) or "", text(phase.get("name")) or ""
        if not _is_loose(phase) or not lst(phase.get("tasks")):
            yield id_, name


def _is_loose(phase: dict[str, Json]) -> bool:
    """The phase that tasks without one are shown in."""
    return phase.get("phase_id") == words.LOOSE and phase.get("name") == words.LOOSE_NAME


def _added(phase: dict[str, Json], task: dict[str, Json], at: int) -> list[TimedEvent]:
    made = TaskAdded(
        id=id_of(task),
        text=text(task.get("description")) or id_of(task),
        phase=None if _is_loose(phase) else text(phase.get("phase_id")),
        agent=text(task.get("agent")),
    )
    files = artifacts_of(task) if target(task) == "pending" else ()  # later ones tell of them with their status
    return [TimedEvent(at, made), *([TimedEvent(at, TaskEdited(id=made.id, artifacts=files))] if files else ())]


def _active(document: Document, at: int) -> list[TimedEvent]:
    """A task at hand that no plan knows."""
    active = text(words.current(document).get("active_task"))
    if active is None or any(task.get("task_id") == active for _, task in words.planned(document)):
        return []
    return [TimedEvent(at, TaskAdded(id=active, text=active)), TimedEvent(at, TaskStarted(id=active))]


# ── from one to another ──────────────────────────────────────────────────────────────────────────────────


def changed(before: Document, after: Document, state: State, ground: ImportContext) -> list[TimedEvent]:
    """What leads from one version to another, that the state does not know yet."""
    _same_feature(before, after)
    began = state.created_at if state.created_at is not None else state.updated_at
    at = _told_at(before, after, ground)
    heard = [*_facts(before, after, state, at, ground.models), *_plan_changes(before, after, state, at)]
    old = {name for name, _ in named(words.lines(before), ("history",), _IDENTITIES)}
    for name, line in named(words.lines(after), ("history",), _IDENTITIES):
        ran = _command(line)
        if name not in old and ran is not None:
            heard.append(ran)
    low, high = min(began, ground.now), ground.now
    story = sorted((TimedEvent(min(max(time, low), high), data) for time, data in heard), key=lambda one: one.at)
    final = max([at, *(event.at for event in story)])
    return [*story, *(TimedEvent(min(max(final, low), high), data) for data in _status(before, after, state))]


def _same_feature(before: Document, after: Document) -> None:
    old, new = (obj(entry.get("state")).get("feature_id") for entry in (before, after))
    if old != new:
        raise Refused(
            "the feature id names the session and cannot be changed",
            hint=f"Put it back to {old}, or start a feature of its own: holdfast start GOAL --feature SLUG",
        )


def _told_at(before: Document, after: Document, ground: ImportContext) -> int:
    old, new = (ms(words.current(entry).get("last_updated")) for entry in (before, after))
    return new if new is not None and (old is None or new > old) else ground.now


def _newly_used(old: dict[str, Json], new: dict[str, Json], models: Mapping[str, str]) -> str | None:
    """The model that a document names anew: by its real name, where the contract has none for it."""
    model, real, was = text(new.get("model_in_use")), text(new.get(OWN_MODEL)), text(old.get(OWN_MODEL))
    # Where we have changed the model too, ours stands in the document, and theirs is a conflict.
    if real not in (None, was) and (was is not None or words.model_name(real, models) == model):
        return real
    return model if model != old.get("model_in_use") else None


def _facts(before: Document, after: Document, state: State, at: int, models: Mapping[str, str]) -> list[TimedEvent]:
    edits: list[EventData] = []
    model = _newly_used(words.current(before), words.current(after), models)
    if model is not None and model != view.text_value(state, "model"):
        edits.append(SessionEdited(model=model))
    was, now = words.feature(before), words.feature(after)
    goal = text(now.get("name"))
    if goal is not None and goal != was.get("name") and goal != render.goal(state):
        edits.append(SessionEdited(goal=goal))
    about = text(now.get("description")) or ""
    told = about != was.get("description") and about != now.get("name")
    if about.strip() and told and about != view.text_value(state, "summary"):
        edits.append(SessionEdited(summary=about))
    return [TimedEvent(at, edit) for edit in edits]


def _plan_changes(before: Document, after: Document, state: State, at: int) -> list[TimedEvent]:
    heard: list[TimedEvent] = [
        TimedEvent(at, PhaseAdded(id=id_, name=name)) for id_, name in _new_phases(after) if id_ not in state.phases
    ]
    shown = render.shown_tasks(state)
    old = {id_of(task): (phase, task) for phase, task in words.planned(before)}
    moved = _moved(old, after)
    statuses: dict[str, str] = {}
    for phase, task in words.planned(after):
        name = id_of(task)
        known = shown.get(name)
        if name in moved and phase.get("phase_id") != moved[name]:
            continue  # where it stood before: omission never removes, but nothing stands in two phases
        if known is None and name not in statuses:
            begun = [time for time in (ms(task.get("started_at")), ms(task.get("completed_at"))) if time is not None]
            first = min([at, *begun])
            heard += [*_added(phase, task, first), *moves(task, "pending", target(task), first, at)]
            statuses[name] = target(task)
        elif known is not None:
            status = statuses.setdefault(name, tasks_of.status_of(known))
            was = old.get(name)
            steps: list[TimedEvent] = []
            if was is None or target(was[1]) != target(task):
                steps = moves(task, status, target(task), known.created_at, at, known)
                statuses[name] = target(task)
            heard += [*corrected(phase, task, was, known, at, told=bool(steps)), *steps]
    # After whatever the plan says of it.
    final = max([at, *(event.at for event in heard)])
    return [*heard, *_newly_active(before, after, state, statuses, final)]


def _moved(old: Mapping[str, tuple[dict[str, Json], dict[str, Json]]], after: Document) -> dict[str, Json]:
    """Tasks that were put into another phase, and into which."""
    found: dict[str, Json] = {}
    for phase, task in words.planned(after):
        was = old.get(id_of(task))
        if was is not None and was[0].get("phase_id") != phase.get("phase_id"):
            found[id_of(task)] = phase.get("phase_id")
    return found


def _newly_active(
    before: Document, after: Document, state: State, statuses: dict[str, str], at: int
) -> list[TimedEvent]:
    active = text(words.current(after).get("active_task"))
    if active is None or active == words.current(before).get("active_task"):
        return []
    known = render.shown_tasks(state).get(active)
    if known is None and active not in statuses:
        return _active(after, at)
    status = statuses.get(active) or ("pending" if known is None else tasks_of.status_of(known))
    if not allows(TASK, status, "task.started"):
        return []
    return [
        TimedEvent(
            at, TaskStarted(id=active if known is None else known.id, ref=None if known is None else known.ref)
        )
    ]


def _status(before: Document, after: Document, state: State) -> list[EventData]:
    """What the registry says became of the session."""
    wanted = obj(after.get("entry")).get("status")
    was = obj(before.get("entry")).get("status") or render.registry_status(state)
    if wanted is None or wanted in (was, render.registry_status(state)):
        return []
    status = view.status_of(state)
    steps: list[EventData] = [_SAID[str(wanted)]()]
    if status == "created" and wanted != "active":
        steps, status = [SessionResumed(), *steps], "in_progress"
    event = TYPE_OF[type(steps[-1])].name
    if not allows(SESSION, status, event):
        raise refusal("the session", status, event, state.session)
    return steps


# ── what is used above ───────────────────────────────────────────────────────────────────────────────────


def commands(document: Document) -> Iterator[tuple[str, TimedEvent]]:
    """What each line of history tells that somebody else wrote, with a name that follows from what it says.

    The model is no part of the name: one that the contract does not know may be written in several ways.
    """
    seen: Counter[str] = Counter()
    for line in words.lines(document):
        ran = _command(line)
        if ran is None or not isinstance(line, dict):
            continue
        told = {key: value for key, value in line.items() if key != "model"}
        name = digest(json.dumps(told, sort_keys=True).encode(errors="surrogatepass"))[:32]
        seen[name] += 1
        yield (name if seen[name] == 1 else f"{name}:{seen[name]}"), ran


def _command(line: Json) -> TimedEvent | None:
    """A line of history that somebody else wrote."""
    if not isinstance(line, dict) or not words.is_foreign(line):
        return None
    at = ms(line.get("timestamp"))
    if at is None:
        return None
    spent = line.get("duration_ms")
    return TimedEvent(
        at,
        CommandRan(
            command=f"{line.get('command')} {text(line.get('arguments')) or ''}".strip(),
            code=0 if line.get("status") == "success" else 1,
            agent=text(line.get("agent")),
            duration_ms=spent if isinstance(spent, int) else None,
        ),
    )
