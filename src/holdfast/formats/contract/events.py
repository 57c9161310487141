"""What the contract's documents tell, as events: everything of one that is new, or what differs between two.

The plan's tasks bring their times with them. What has no time of its own happened when the document was last brought
up to date; a change noticed in a file that says no later time than ours happened now. A task that state.yaml calls
active is in progress, even where the plan was not kept up.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from holdfast.core import tasks as tasks_of
from holdfast.core import view
from holdfast.core.canonical import Json, digest
from holdfast.core.errors import Refused
from holdfast.core.lifecycle import SESSION, TASK, allows, refusal
from holdfast.core.state import State
from holdfast.core.vocabulary import (
    TYPE_OF,
    CommandRan,
    Data,
    PhaseAdded,
    SessionCompleted,
    SessionEdited,
    SessionPaused,
    SessionResumed,
    SessionSaved,
    SessionStarted,
    TaskAdded,
    TaskEdited,
    TaskStarted,
)
from holdfast.formats.contract import documents as words
from holdfast.formats.contract import rendering
from holdfast.formats.contract.documents import OWN_MODEL, lst, obj, text
from holdfast.formats.contract.tasks import artifacts_of, corrected, id_of, moves, ms, target
from holdfast.formats.entries import named
from holdfast.formats.interface import Document, Ground, Heard, Place

_SAID: Final[dict[str, type[Data]]] = {
    "active": SessionResumed,
    "paused": SessionPaused,
    "completed": SessionCompleted,
}
_IDENTITIES: Final[Mapping[Place, tuple[str, ...]]] = {("history",): ()}


# ── from nothing ─────────────────────────────────────────────────────────────────────────────────────────


def imported(document: Document, ground: Ground) -> list[Heard]:
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

    heard = [Heard(begin, _start(document, ground)), *_about(document, plan)]
    heard += _phases_and_tasks(document, plan, last)
    heard += _active(document, begin)
    heard += ran
    status = entry.get("status")
    if status == "paused":
        heard.append(Heard(ms(entry.get("last_active")) or last, SessionPaused()))
    story = sorted((Heard(min(max(at, begin), end), data) for at, data in heard), key=lambda one: one.at)
    if status == "completed":
        story.append(Heard(end, SessionCompleted()))
    elif story[-1].at < end:
        story.append(Heard(end, SessionSaved()))
    return story


def _start(document: Document, ground: Ground) -> SessionStarted:
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


def _about(document: Document, at: int) -> list[Heard]:
    feature = words.feature(document)
    about = text(feature.get("description")) or ""
    return [Heard(at, SessionEdited(summary=about))] if about.strip() and about != feature.get("name") else []


def _phases_and_tasks(document: Document, plan: int, last: int) -> list[Heard]:
    heard = [Heard(plan, PhaseAdded(id=id_, name=name)) for id_, name in _new_phases(document)]
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


def _added(phase: dict[str, Json], task: dict[str, Json], at: int) -> list[Heard]:
    made = TaskAdded(
        id=id_of(task),
        text=text(task.get("description")) or id_of(task),
        phase=None if _is_loose(phase) else text(phase.get("phase_id")),
        agent=text(task.get("agent")),
    )
    files = artifacts_of(task) if target(task) == "pending" else ()  # later ones tell of them with their status
    return [Heard(at, made), *([Heard(at, TaskEdited(id=made.id, artifacts=files))] if files else ())]


def _active(document: Document, at: int) -> list[Heard]:
    """A task at hand that no plan knows."""
    active = text(words.current(document).get("active_task"))
    if active is None or any(task.get("task_id") == active for _, task in words.planned(document)):
        return []
    return [Heard(at, TaskAdded(id=active, text=active)), Heard(at, TaskStarted(id=active))]


# ── from one to another ──────────────────────────────────────────────────────────────────────────────────


def changed(before: Document, after: Document, state: State, ground: Ground) -> list[Heard]:
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
    story = sorted((Heard(min(max(time, low), high), data) for time, data in heard), key=lambda one: one.at)
    final = max([at, *(one.at for one in story)])
    return [*story, *(Heard(min(max(final, low), high), data) for data in _status(before, after, state))]


def _same_feature(before: Document, after: Document) -> None:
    old, new = (obj(one.get("state")).get("feature_id") for one in (before, after))
    if old != new:
        raise Refused(
            "the feature id names the session and cannot be changed",
            hint=f"Put it back to {old}, or start a feature of its own: holdfast start GOAL --feature SLUG",
        )


def _told_at(before: Document, after: Document, ground: Ground) -> int:
    old, new = (ms(words.current(one).get("last_updated")) for one in (before, after))
    return new if new is not None and (old is None or new > old) else ground.now


def _newly_used(old: dict[str, Json], new: dict[str, Json], models: Mapping[str, str]) -> str | None:
    """The model that a document names anew: by its real name, where the contract has none for it."""
    model, real, was = text(new.get("model_in_use")), text(new.get(OWN_MODEL)), text(old.get(OWN_MODEL))
    # Where we have changed the model too, ours stands in the document, and theirs is a conflict.
    if real not in (None, was) and (was is not None or words.model_name(real, models) == model):
        return real
    return model if model != old.get("model_in_use") else None


def _facts(before: Document, after: Document, state: State, at: int, models: Mapping[str, str]) -> list[Heard]:
    edits: list[Data] = []
    model = _newly_used(words.current(before), words.current(after), models)
    if model is not None and model != view.word(state, "model"):
        edits.append(SessionEdited(model=model))
    was, now = words.feature(before), words.feature(after)
    goal = text(now.get("name"))
    if goal is not None and goal != was.get("name") and goal != rendering.goal(state):
        edits.append(SessionEdited(goal=goal))
    about = text(now.get("description")) or ""
    told = about != was.get("description") and about != now.get("name")
    if about.strip() and told and about != view.word(state, "summary"):
        edits.append(SessionEdited(summary=about))
    return [Heard(at, edit) for edit in edits]


def _plan_changes(before: Document, after: Document, state: State, at: int) -> list[Heard]:
    heard: list[Heard] = [
        Heard(at, PhaseAdded(id=id_, name=name)) for id_, name in _new_phases(after) if id_ not in state.phases
    ]
    shown = rendering.shown_tasks(state)
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
            steps: list[Heard] = []
            if was is None or target(was[1]) != target(task):
                steps = moves(task, status, target(task), known.created_at, at, known)
                statuses[name] = target(task)
            heard += [*corrected(phase, task, was, known, at, told=bool(steps)), *steps]
    # After whatever the plan says of it.
    final = max([at, *(one.at for one in heard)])
    return [*heard, *_newly_active(before, after, state, statuses, final)]


def _moved(old: Mapping[str, tuple[dict[str, Json], dict[str, Json]]], after: Document) -> dict[str, Json]:
    """Tasks that were put into another phase, and into which."""
    found: dict[str, Json] = {}
    for phase, task in words.planned(after):
        was = old.get(id_of(task))
        if was is not None and was[0].get("phase_id") != phase.get("phase_id"):
            found[id_of(task)] = phase.get("phase_id")
    return found


def _newly_active(before: Document, after: Document, state: State, statuses: dict[str, str], at: int) -> list[Heard]:
    active = text(words.current(after).get("active_task"))
    if active is None or active == words.current(before).get("active_task"):
        return []
    known = rendering.shown_tasks(state).get(active)
    if known is None and active not in statuses:
        return _active(after, at)
    status = statuses.get(active) or ("pending" if known is None else tasks_of.status_of(known))
    if not allows(TASK, status, "task.started"):
        return []
    return [
        Heard(at, TaskStarted(id=active if known is None else known.id, ref=None if known is None else known.ref))
    ]


def _status(before: Document, after: Document, state: State) -> list[Data]:
    """What the registry says became of the session."""
    wanted = obj(after.get("entry")).get("status")
    was = obj(before.get("entry")).get("status") or rendering.registry_status(state)
    if wanted is None or wanted in (was, rendering.registry_status(state)):
        return []
    status = view.status_of(state)
    steps: list[Data] = [_SAID[str(wanted)]()]
    if status == "created" and wanted != "active":
        steps, status = [SessionResumed(), *steps], "in_progress"
    event = TYPE_OF[type(steps[-1])].name
    if not allows(SESSION, status, event):
        raise refusal("the session", status, event, state.session)
    return steps


# ── what is used above ───────────────────────────────────────────────────────────────────────────────────


def commands(document: Document) -> Iterator[tuple[str, Heard]]:
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


def _command(line: Json) -> Heard | None:
    """A line of history that somebody else wrote."""
    if not isinstance(line, dict) or not words.is_foreign(line):
        return None
    at = ms(line.get("timestamp"))
    if at is None:
        return None
    spent = line.get("duration_ms")
    return Heard(
        at,
        CommandRan(
            command=f"{line.get('command')} {text(line.get('arguments')) or ''}".strip(),
            code=0 if line.get("status") == "success" else 1,
            agent=text(line.get("agent")),
            duration_ms=spent if isinstance(spent, int) else None,
        ),
    )
