"""Check quickly whether a contract file is valid; any doubt is left to the strict rules, which say why.

The shapes are described once more as structs, which are decoded and checked without building a message. The mirror
asks this for each history line, so no schema is loaded here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final, Literal, TypeVar

import msgspec

from holdfast.core.decode import decodable
from holdfast.core.times import parse_time
from holdfast.formats.contract.fields import HISTORY, PLAN, REGISTRY, STATE, is_feature_id, is_task_name
from holdfast.formats.timestamps import is_utc

Model = Literal["gemini", "opus", "sonnet"]
_T = TypeVar("_T")
Name = Annotated[str, msgspec.Meta(min_length=1)]


class _Now(msgspec.Struct, gc=False):
    active_task: Name | None
    model_in_use: Model
    started_at: str
    last_updated: str


class _State(msgspec.Struct, gc=False):
    version: Literal["1.0"]
    feature_id: str
    current_state: _Now
    implementation_plan: Name = "-"
    history_log: Name = "-"


class _Task(msgspec.Struct, gc=False):
    task_id: str
    description: str
    agent: str | None
    status: Literal["pending", "in_progress", "completed", "blocked"]
    started_at: str | None
    completed_at: str | None
    artifacts: list[Name]


class _Phase(msgspec.Struct, gc=False):
    phase_id: Name
    name: str
    tasks: list[_Task]


class _Feature(msgspec.Struct, gc=False):
    id: str
    name: str
    description: str
    created_at: str


class _Plan(msgspec.Struct, gc=False):
    feature: _Feature
    phases: list[_Phase]


class _Entry(msgspec.Struct, gc=False):
    feature_id: str
    started_at: str
    last_active: str
    status: Literal["active", "paused", "completed"]


class _Registry(msgspec.Struct, gc=False):
    active_features: list[_Entry]


class _Line(msgspec.Struct, gc=False):
    timestamp: str
    command: str
    arguments: str
    model: Model
    agent: str
    task_id: Name | None
    status: Literal["success", "failure"]
    # msgspec would accept 5.0 as an int.
    duration_ms: int | float
    error: str | msgspec.UnsetType = msgspec.UNSET


def _in_order(first: str, then: str) -> bool:
    """Two times in UTC, the second not before the first."""
    return is_utc(first) and is_utc(then) and parse_time(first) <= parse_time(then)


def _state(state: _State) -> bool:
    now = state.current_state
    return (
        is_feature_id(state.feature_id)
        and (now.active_task is None or is_task_name(now.active_task))
        and _in_order(now.started_at, now.last_updated)
        and _has_text(state.implementation_plan)
        and _has_text(state.history_log)
    )


def _plan(plan: _Plan) -> bool:
    feature = plan.feature
    if not (is_feature_id(feature.id) and _has_text(feature.name) and is_utc(feature.created_at)):
        return False
    tasks = [task for phase in plan.phases for task in phase.tasks]
    return (
        len({phase.phase_id for phase in plan.phases}) == len(plan.phases)
        and len({task.task_id for task in tasks}) == len(tasks)
        and all(_has_text(phase.name) for phase in plan.phases)
        and all(map(_task, tasks))
    )


def _task(task: _Task) -> bool:
    if not (is_task_name(task.task_id) and _has_text(task.description)):
        return False
    started, completed = task.started_at, task.completed_at
    if completed is None:
        return task.status != "completed" and (started is None or is_utc(started))
    return is_utc(completed) if started is None else _in_order(started, completed)


def _registry(registry: _Registry) -> bool:
    entries = registry.active_features
    return len({entry.feature_id for entry in entries}) == len(entries) and all(
        is_feature_id(entry.feature_id) and _in_order(entry.started_at, entry.last_active) for entry in entries
    )


def _line(line: _Line) -> bool:
    error = line.error
    return (
        is_utc(line.timestamp)
        and _has_text(line.command)
        and _has_text(line.agent)
        and type(line.duration_ms) is int
        and 0 <= line.duration_ms <= 2**53 - 1
        and ((error is msgspec.UNSET) if line.status == "success" else isinstance(error, str) and _has_text(error))
    )


def _has_text(text: str) -> bool:
    return text != "" and not text.isspace()


def _checker(shape: type[_T], rule: Callable[[_T], bool]) -> Callable[[bytes], bool]:
    decoder = msgspec.json.Decoder(decodable(shape))
    return lambda raw: rule(decoder.decode(raw))


_CHECKERS: Final[dict[str, Callable[[bytes], bool]]] = {
    STATE: _checker(_State, _state),
    PLAN: _checker(_Plan, _plan),
    REGISTRY: _checker(_Registry, _registry),
    HISTORY: _checker(_Line, _line),
}


def is_sound(raw: bytes, kind: str) -> bool:
    """True only if the strict rules would find nothing. Anything but JSON is left to them."""
    try:
        return _CHECKERS[kind](raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
