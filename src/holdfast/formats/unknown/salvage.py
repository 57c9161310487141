"""Hand-made session files: what can be recognised in them becomes a session, and all of it is kept.

They are none of the four formats and follow no rules, so nothing here fails on them: what the table knows is taken
and listed (the notes are the mapping), the rest stays in the document, which is kept whole under `extra`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from holdfast.core import tasks, view
from holdfast.core.canonical import Json, canonical_json
from holdfast.core.errors import Invalid
from holdfast.core.events import (
    TYPE_OF,
    AwayRecorded,
    EventData,
    ExtraKept,
    GitPositionNoted,
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
    WorkRecorded,
)
from holdfast.core.lifecycle import TASK, allows, session_allows
from holdfast.core.state import State
from holdfast.core.times import HOUR
from holdfast.formats.base import ImportContext, TimedEvent
from holdfast.formats.text.json import written
from holdfast.formats.unknown.read import FoundTask, Recognised, end_of, reading

EXTRA: Final = "salvaged"
NO_GOAL: Final = "Work found in a hand-made file"
_SITTING: Final = 12 * HOUR  # a longer time between two saves is not one sitting
_STEPS: Final[dict[str, type[TaskStarted | TaskCompleted | TaskBlocked | TaskDropped]]] = {
    "doing": TaskStarted, "done": TaskCompleted, "blocked": TaskBlocked, "dropped": TaskDropped,
}  # fmt: skip
_STANDS: Final = {"doing": "in_progress", "done": "completed", "blocked": "blocked", "dropped": "dropped"}


def beginning(
    found: Recognised, value: Json, ground: ImportContext, continues: str | None = None
) -> list[TimedEvent]:
    """A new session of what was read, with the whole document."""
    project = msgspec.structs.replace(
        ground.project,
        git_branch=found.branch or ground.project.git_branch,
        # Of another branch, or of no known one, ours is not the commit.
        git_commit=found.commit or (None if found.branch else ground.project.git_commit),
    )
    started = SessionStarted(
        goal=found.goal or NO_GOAL, project=project, device=ground.device, model=found.model, scope=found.scope,
        tags=found.tags, timer=ground.timer, continues=continues,
    )  # fmt: skip
    body: list[EventData] = [
        *_span(found, found.began, found.updated, ground), *_edits(None, found), *_plan(found.tasks),
        *found.files, *found.errors, *found.remarks,
    ]  # fmt: skip
    return [
        TimedEvent(found.began, started), *sorted([*found.decisions, *found.commits], key=lambda one: one.at),
        *(TimedEvent(found.updated, data) for data in body), TimedEvent(found.updated, _kept(value)),
        TimedEvent(found.updated, _ending(found) or _standing_still(found, ground)),
    ]  # fmt: skip


def additions(value: Json, state: State, ground: ImportContext) -> list[TimedEvent]:
    """What a later version of the document says beyond the one that is kept. What it leaves out is not taken back."""
    kept = _kept(value)
    earlier = state.extra.get(EXTRA)
    if kept.value == earlier:
        return []
    # Of several goals alike the first counts, and the log does not keep the order of keys.
    before, found = reading(_in_order(earlier), ground), reading(_in_order(value), ground)
    new: list[EventData] = [*_edits(before, found), *_plan(found.tasks, before.tasks, state)]
    if (found.branch, found.commit) != (before.branch, before.commit):
        known = state.project.git_branch if state.project is not None else None
        new.append(GitPositionNoted(branch=found.branch or known, commit=found.commit))
    for then, now in ((before.decisions, found.decisions), (before.commits, found.commits)):
        new += _more((event.data for event in now), (event.data for event in then))
    new += [*_more(found.files, before.files), *_more(found.errors, before.errors)]
    new += [*_more(found.remarks, before.remarks), kept]
    status = view.status_of(state)
    ending = _ending(found) if found.status != before.status else None
    if ending is not None and session_allows(status, TYPE_OF[type(ending)].name):
        new.append(ending)
    at = max(found.updated, state.updated_at)
    more = None if found.worked is None else max(found.worked - (before.worked or 0), 0)
    span = _span(found._replace(worked=more), state.updated_at, at, ground)
    watched = span if status == "in_progress" else ()
    return [TimedEvent(at, data) for data in (*watched, *new)]


def _in_order(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _in_order(value[key]) for key in sorted(value)}
    return [_in_order(entry) for entry in value] if isinstance(value, list) else value


def _more(found: Iterable[EventData], known: Iterable[EventData]) -> list[EventData]:
    before = set(map(repr, known))
    return [data for data in found if repr(data) not in before]


def _span(found: Recognised, since: int, until: int, ground: ImportContext) -> Iterator[EventData]:
    """A file says when the work began and was saved, not when there was a pause: no idle time follows from the gap.

    How long the work took counts if the file says so. If not, one sitting is working time; over a longer span nobody
    knows, and it counts as no work.
    """
    worked = until - since if until - since <= _SITTING else 0
    if found.worked is not None:
        worked = min(found.worked, until - since)
    if not found.exact:
        worked = 0
        if until - since <= ground.timer.idle:
            return  # too short for a pause
    if worked > 0:
        yield WorkRecorded(since=since, until=since + worked)
    if since + worked < until:
        reason = "the file does not say when work was done"
        yield AwayRecorded(since=since + worked, until=until, reason=reason)


def _edits(before: Recognised | None, found: Recognised) -> Iterator[EventData]:
    was = before or found._replace(summary=None, progress=None)
    for name in ("goal", "summary", "progress", "model", "scope"):
        value = getattr(found, name)
        if value is not None and value != getattr(was, name):
            yield SessionEdited(**{name: value})
    if set(found.tags) - set(was.tags):
        yield SessionEdited(tags=found.tags)


def _plan(found: list[FoundTask], known: Iterable[FoundTask] = (), state: State | None = None) -> Iterator[EventData]:
    """Tasks that are new, and what became of the others since. A task is known by its text."""
    there = {} if state is None else {task.text.casefold(): task for task in state.tasks.values()}
    used = {task.id for task in there.values()}
    before = {task.text.casefold(): task.status for task in known}
    number = 0
    for task in found:
        name = task.text.casefold()
        if before.get(name) == task.status:
            continue
        old = there.get(name)
        if old is not None:
            yield from _moves(task, old.id, old.ref, tasks.status_of(old))
            continue
        while (number := number + 1) and f"t{number}" in used:
            pass
        yield TaskAdded(id=f"t{number}", text=task.text)
        yield from _moves(task, f"t{number}", None, "pending")


def _moves(task: FoundTask, name: str, ref: str | None, stands: str) -> Iterator[EventData]:
    step = _STEPS.get(task.status)
    if step is None or stands == _STANDS[task.status]:
        return
    if stands == "blocked" and step is TaskCompleted:
        yield TaskStarted(id=name, ref=ref)
        stands = "in_progress"
    if allows(TASK, stands, TYPE_OF[step].name):
        yield step(id=name, ref=ref, outcome=task.outcome, artifacts=task.files)


def _ending(found: Recognised) -> EventData | None:
    match end_of(found.status, found.tasks):
        case "failed":
            return SessionFailed(message=found.status or "failed")
        case "paused":
            return SessionPaused()
        case "completed":
            return SessionCompleted()
        case "aborted":
            return SessionAborted()
    return None


def _standing_still(found: Recognised, ground: ImportContext) -> EventData:
    """Nobody is known to have worked on it since the file was saved: that is a pause, not idle time."""
    if ground.now - found.updated <= ground.timer.idle:
        return SessionSaved()
    return SessionPaused(reason="read from a file")


def _kept(value: Json) -> ExtraKept:
    try:
        canonical_json({"value": value})
    except Invalid:  # a number or a text that the log has no spelling for
        text = written(value).decode("utf-8", "replace").replace("\0", "\ufffd")
        return ExtraKept(name=EXTRA, value=text)
    return ExtraKept(name=EXTRA, value=value)
