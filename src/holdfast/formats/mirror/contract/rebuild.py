"""Rebuild a feature's files: from its history first, then from what its other files still have."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import msgspec

from holdfast.core import limits, view
from holdfast.core.canonical import Json
from holdfast.core.errors import HoldfastError, Invalid
from holdfast.core.text import shorten
from holdfast.core.times import parse_time
from holdfast.formats.contract import FORMAT, fields
from holdfast.formats.contract.fields import PLAN, REGISTRY, STATE, as_list, as_object
from holdfast.formats.contract.history import event_of, restore_session
from holdfast.formats.mirror.contract import history, layout, registry, yaml_files
from holdfast.formats.mirror.contract.history import HistoryIndex
from holdfast.formats.mirror.contract.layout import Feature, count
from holdfast.formats.mirror.contract.yaml_files import Mapping
from holdfast.formats.timestamps import in_seconds

_DAY: Final = len("2026-11-15")


class FromHistory(NamedTuple):
    """The rebuilt files of a feature, and their source in words."""

    state: Mapping
    plan: Mapping
    entry: Mapping
    source: str
    by_events: bool = False


class _Dated(NamedTuple):
    at: int
    line: Mapping


Lines = Callable[[], Iterator[Mapping]]


def rebuild_from_history(feature_id: str, lines: Lines, hints: Mapping) -> FromHistory:
    """Rebuild the files of a feature. `lines` reads its history, from its start each time.

    `hints` are further facts: `started_at`, `last_active`.
    """
    by_events = _from_events(feature_id, lines)
    if by_events is not None:
        return by_events
    dated = _sort_lines(lines())
    if dated:
        source = (
            f"from {count(len(dated), 'line')} of its history, without events of Holdfast: "
            "start, last activity, model and tasks are known, the rest is not"
        )
        return _inferred(feature_id, dated, dated[0].at, dated[-1].at, source)
    started = _time_of(hints.get("started_at")) or parse_time(f"{feature_id[-_DAY:]}T00:00:00Z")
    last = max(started, _time_of(hints.get("last_active")) or started)
    source = "without its history, which is empty: only the start is known"
    return _inferred(feature_id, [], started, last, source)


def _from_events(feature_id: str, lines: Lines) -> FromHistory | None:
    from holdfast.formats.contract import configured
    from holdfast.formats.remainder import render_with_remainder

    session = restore_session(lines())
    if session is None:
        return None
    # The model's name at that time, which a setting may have chosen.
    named: Json = None
    for line in lines():
        named = line.get("model") if event_of(line) is not None else named
    document = render_with_remainder(session, configured({fields.ANY_MODEL: str(named)}))
    state, plan, entry = (document[name] for name in ("state", "plan", "entry"))
    assert isinstance(state, dict)
    assert isinstance(plan, dict)
    assert isinstance(entry, dict)
    about = plan.get("feature")
    # The directory's name is the feature's id, whatever the session is called elsewhere.
    return FromHistory(
        {**state, "feature_id": feature_id},
        {**plan, "feature": {**about, "id": feature_id}} if isinstance(about, dict) else plan,
        {**entry, "feature_id": feature_id},
        "from the events in its history",
        by_events=True,
    )


def name_of(feature_id: str) -> str:
    """A name for a feature without one: the words in its id."""
    return feature_id[: -_DAY - 1].replace("-", " ").capitalize()


def _inferred(feature_id: str, dated: list[_Dated], started: int, last: int, source: str) -> FromHistory:
    begin, end = in_seconds(started), in_seconds(last)
    latest = dated[-1].line if dated else {}
    task = latest.get("task_id")
    model = latest.get("model")
    state: Mapping = {
        "version": fields.VERSION,
        "feature_id": feature_id,
        "current_state": {
            "active_task": task if isinstance(task, str) else None,
            "model_in_use": model if model in fields.MODELS else fields.USUAL_MODEL,
            "started_at": begin,
            "last_updated": end,
        },
    }
    name = name_of(feature_id)
    tasks = _tasks(dated)
    phases: list[Json] = (
        [{"phase_id": fields.LOOSE_PHASE, "name": fields.LOOSE_PHASE_NAME, "tasks": tasks}] if tasks else []
    )
    plan: Mapping = {
        "feature": {"id": feature_id, "name": name, "description": name, "created_at": begin},
        "phases": phases,
    }
    entry: Mapping = {"feature_id": feature_id, "started_at": begin, "last_active": end, "status": "active"}
    return FromHistory(state, plan, entry, source)


def _tasks(dated: list[_Dated]) -> list[Json]:
    """Tasks that lines name. A line proves only that a task was worked on."""
    tasks: dict[str, Mapping] = {}
    for at, line in dated:
        task = line.get("task_id")
        if not isinstance(task, str) or not task:
            continue
        call = " ".join(str(line.get(key) or "") for key in ("command", "arguments"))
        agent = line.get("agent")
        tasks.setdefault(
            task,
            {
                "task_id": task,
                "description": shorten(call, 200) or task,
                "agent": agent if isinstance(agent, str) and agent else None,
                "status": "in_progress",
                "started_at": in_seconds(at),
                "completed_at": None,
                "artifacts": [],
            },
        )
    return [*tasks.values()]


def _sort_lines(lines: Iterator[Mapping]) -> list[_Dated]:
    """Lines by time, each once: a merge of branches may have mixed and doubled them. At most a document's size."""
    dated: dict[bytes, _Dated] = {}
    room = limits.MAX_DOCUMENT_SIZE
    for line in lines:
        written = msgspec.json.encode(line, order="sorted")
        room -= len(written)
        if room < 0:
            break
        at = _time_of(line.get("timestamp"))
        if at is not None:
            dated.setdefault(written, _Dated(at, line))
    return sorted(dated.values(), key=lambda entry: entry.at)


def _time_of(written: Json) -> int | None:
    try:
        return parse_time(written) if isinstance(written, str) else None
    except Invalid:
        return None


_STARTED: Final = "started_at"
_NEW_TASK: Final[Mapping] = {
    "agent": None, "status": "pending", "started_at": None, "completed_at": None, "artifacts": [],
}  # fmt: skip


def rebuild_feature(root: str, feature: Feature) -> FromHistory:
    """The feature's files, rebuilt."""
    index = history.read_index(feature.history)
    state, plan, entry = _read(feature.state), _read(feature.plan), _listed(root, feature.id)
    starts = (entry.get(_STARTED), as_object(plan.get("feature")).get("created_at"), _current(state).get(_STARTED))
    known = {time: start for start in reversed(starts) if (time := _time_of(start)) is not None}
    hints: Mapping = {
        _STARTED: known[min(known)] if known else None,
        "last_active": registry.later_time(_current(state).get("last_updated"), entry.get("last_active")),
    }
    files = rebuild_from_history(feature.id, lambda: _lines(feature), hints)
    if files.by_events:
        files = files._replace(source=files.source + _reason_uncertain(index))
        if index.lacking is None and not index.changed.number:
            return files
        files = _with_earliest_start(_with_name(files, feature.id, _has_goal(feature)), hints)
    made_plan = _plan(files, plan)
    return files._replace(
        plan=made_plan, state=_state(files, state, made_plan), entry=overlay_entry(files.entry, entry)
    )


def tasks_in_events(feature: Feature) -> str | None:
    """How many tasks the events in a history know, in words; None if none."""
    try:
        session = restore_session(_lines(feature))
    except HoldfastError:  # its fault is reported
        return None
    return count(len(session.tasks), "task") if session is not None and session.tasks else None


def overlay_entry(base: Mapping, entry: Mapping) -> Mapping:
    """An entry of the registry with everything from another one that the contract allows."""
    values = {key: value for key, value in entry.items() if key != "feature_id"}
    return _overlay(base, values, lambda entry_: _is_allowed({registry.LIST: [entry_]}, REGISTRY))


def _lines(feature: Feature) -> Iterator[Mapping]:
    """The lines of a history, one at a time: all of them at once may be too many."""
    for _, line in history.read(feature.history) if os.path.lexists(feature.history) else ():
        if isinstance(line, dict):
            yield line


# ── what the files still have ─────────────────────────────────────────────────────────────────────────────


def _read(path: str) -> Mapping:
    try:
        file = yaml_files.load(path)
    except HoldfastError:
        return {}
    return {} if file is None else file.value


def _listed(root: str, feature_id: str) -> Mapping:
    """The feature's entry; empty if it is listed twice, because then neither is known to be right."""
    entries = [as_object(item) for item in as_list(_read(layout.registry(root)).get(registry.LIST))]
    named = [entry for entry in entries if entry.get("feature_id") == feature_id]
    return named[0] if len(named) == 1 else {}


def _current(state: Mapping) -> Mapping:
    return as_object(state.get("current_state"))


def _overlay(base: Mapping, values: Mapping, is_allowed: Callable[[Mapping], bool]) -> Mapping:
    """`base` with every one of `values` that is allowed there."""
    result = base
    for _ in range(2):  # a value may be allowed only together with a later one
        for key, value in values.items():
            if result.get(key, ...) != value and is_allowed({**result, key: value}):
                result = {**result, key: value}
    return result


def _is_allowed(value: Json, kind: str) -> bool:
    return not any(problem.severity == "error" for problem in FORMAT.problems(value, kind))


def _state(files: FromHistory, state: Mapping, plan: Mapping) -> Mapping:
    tasks = {task.get("task_id") for _, task in fields.tasks_with_phases({"plan": plan})}

    def allowed(now: Mapping) -> bool:
        return now.get("active_task") in {None, *tasks} and _is_allowed({**files.state, "current_state": now}, STATE)

    now = _current(files.state)
    if now.get("active_task") not in tasks:
        now = {**now, "active_task": None}
    now = _overlay(now, _current(state), allowed)
    others = {key: value for key, value in state.items() if key not in ("current_state", "feature_id", "version")}
    return _overlay({**files.state, "current_state": now}, others, lambda value: _is_allowed(value, STATE))


def _plan(files: FromHistory, plan: Mapping) -> Mapping:
    """The tasks of the file as far as they can be read, and those only events know."""
    about = {key: value for key, value in as_object(plan.get("feature")).items() if key != "id"}
    feature = _overlay(
        as_object(files.plan.get("feature")), about, lambda value: _is_allowed({"feature": value, "phases": []}, PLAN)
    )
    known = {str(task["task_id"]): (phase, task) for phase, task in fields.tasks_with_phases({"plan": files.plan})}
    phases: dict[str, Mapping] = {}
    done: set[str] = set()
    for phase, task in fields.tasks_with_phases({"plan": plan}):
        name = task.get("task_id")
        if isinstance(name, str) and name and name not in done:
            base = known[name][1] if name in known else {"task_id": name, "description": name, **_NEW_TASK}
            _put(phases, phase, _overlay(base, task, _is_task))
            done.add(name)
    if files.by_events or not done:
        for name, (phase, task) in known.items():
            if name not in done:
                _put(phases, phase, task)
    return {**files.plan, "feature": feature, "phases": [*phases.values()]}


def _put(phases: dict[str, Mapping], phase: Mapping, task: Mapping) -> None:
    phase_id, name = phase.get("phase_id"), phase.get("name")
    key = phase_id if isinstance(phase_id, str) and phase_id else fields.LOOSE_PHASE
    usual = fields.LOOSE_PHASE_NAME if key == fields.LOOSE_PHASE else key
    base: Mapping = {"phase_id": key, "name": usual, "tasks": []}
    if isinstance(name, str):
        base = _overlay(base, {"name": name}, _is_phase)
    present = phases.setdefault(key, base)
    phases[key] = {**present, "tasks": [*as_list(present.get("tasks")), task]}


def _is_task(task: Mapping) -> bool:
    return _is_phase({"phase_id": fields.LOOSE_PHASE, "name": fields.LOOSE_PHASE_NAME, "tasks": [task]})


def _is_phase(phase: Mapping) -> bool:
    problems = FORMAT.problems({"phases": [phase]}, PLAN)
    return not any(problem.severity == "error" and problem.place[:1] == ("phases",) for problem in problems)


# ── a history with gaps ──────────────────────────────────────────────────────────────────────────────────


def _has_goal(feature: Feature) -> bool:
    session = restore_session(_lines(feature))
    return session is not None and bool(view.text_value(session, "goal"))


def _with_name(files: FromHistory, feature_id: str, has_goal: bool) -> FromHistory:
    """A session without its beginning has no goal, so the feature's name is used."""
    if has_goal:
        return files
    name = name_of(feature_id)
    about: Mapping = {**as_object(files.plan.get("feature")), "name": name, "description": name}
    return files._replace(plan={**files.plan, "feature": about})


def _with_earliest_start(files: FromHistory, hints: Mapping) -> FromHistory:
    """With the earliest start that any file gives."""
    started = hints.get(_STARTED)
    now = _current(files.state)
    earliest, present = _time_of(started), _time_of(now.get(_STARTED))
    if earliest is None or (present is not None and earliest >= present):
        return files
    return files._replace(
        state={**files.state, "current_state": {**now, _STARTED: started}},
        plan={**files.plan, "feature": {**as_object(files.plan.get("feature")), "created_at": started}},
        entry={**files.entry, _STARTED: started},
    )


def _reason_uncertain(index: HistoryIndex) -> str:
    """Why a history is incomplete, and what that means."""
    flaws: list[str] = []
    if index.lacking is not None:
        flaws.append(f"lacks {count(index.lacking.number, 'event')}")
    if index.changed.number:
        flaws.append(f"has {count(index.changed.number, 'line')} that somebody changed")
    lost = bool(flaws)
    if index.unreadable.number:
        flaws.append(f"has {count(index.unreadable.number, 'line')} that cannot be read")
    consequence = ": what it recorded there is uncertain, so the content of the files is kept" if lost else ""
    return f", which {' and '.join(flaws)}{consequence}" if flaws else ""
