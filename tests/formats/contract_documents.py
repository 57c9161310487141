"""Documents of the contract for property tests: arbitrary valid ones, and what other programs make of them."""

from __future__ import annotations

import copy
from datetime import date, timedelta

from hypothesis import strategies as st

from holdfast.core.canonical import Json
from holdfast.core.times import format_time, parse_time
from holdfast.formats.base import Document

_FROM = parse_time("2024-02-28T00:00:00Z") // 1000
_TO = parse_time("2026-10-01T00:00:00Z") // 1000
_KNOWN = {
    "version", "feature_id", "implementation_plan", "history_log", "current_state", "active_task", "model_in_use",
    "started_at", "last_updated", "feature", "phases", "id", "name", "description", "created_at", "phase_id", "tasks",
    "task_id", "agent", "status", "completed_at", "artifacts", "timestamp", "command", "arguments", "model",
    "duration_ms", "error", "last_active", "x-holdfast", "x-holdfast-status", "x-holdfast-model",
}  # fmt: skip

words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12).filter(
    lambda said: any(c.isascii() and not c.isspace() for c in said) and not said.isspace()
)
task_names = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,6}", fullmatch=True)
models = st.sampled_from(["gemini", "opus", "sonnet"])
scalars = (
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e9, 1e9) | st.text("ab\n#: é", max_size=6)
)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=2),
)
extras = st.dictionaries(
    st.text("abxyz_-", min_size=1, max_size=8).filter(lambda key: key not in _KNOWN), anything, max_size=2
)


@st.composite
def times(draw: st.DrawFn) -> int:
    return draw(st.integers(_FROM, _TO)) * 1000 + draw(st.sampled_from([0, 0, 0, 250]))


@st.composite
def spelled(draw: st.DrawFn, ms: int) -> str:
    """A time as programs spell it: with and without a fraction."""
    plain = format_time(ms)
    return draw(st.sampled_from([plain, plain[:19] + "Z" if ms % 1000 == 0 else plain, plain[:23] + "000Z"]))


@st.composite
def mixed(draw: st.DrawFn, known: Document) -> Document:
    """The object with keys nobody knows, and in an order of somebody's own."""
    whole = {**known, **draw(extras)}
    order = draw(st.permutations(list(whole))) if draw(st.booleans()) else list(whole)
    return {key: whole[key] for key in order}


@st.composite
def feature_ids(draw: st.DrawFn) -> str:
    slug = draw(st.from_regex(r"[a-z0-9]{1,6}(-[a-z0-9]{1,4}){0,2}", fullmatch=True))
    return f"{slug}-{date(2024, 2, 29) + timedelta(days=draw(st.integers(0, 900)))}"


@st.composite
def _pair(draw: st.DrawFn) -> tuple[str, str]:
    one, two = sorted([draw(times()), draw(times())])
    return draw(spelled(one)), draw(spelled(two))


@st.composite
def tasks(draw: st.DrawFn, name: str) -> Document:
    status = draw(st.sampled_from(["pending", "in_progress", "completed", "blocked"]))
    first, then = draw(_pair())
    task: Document = {
        "task_id": name,
        "description": draw(words),
        "agent": draw(st.none() | words),
        "status": status,
        "started_at": draw(st.sampled_from([None, first])),
        "completed_at": then if status == "completed" else draw(st.sampled_from([None, None, then])),
        "artifacts": list(draw(st.lists(words, max_size=2))),
    }
    if status == "blocked" and draw(st.booleans()):
        task["x-holdfast-status"] = "dropped"
    return draw(mixed(task))


@st.composite
def plans(draw: st.DrawFn, feature_id: str) -> Document:
    names = draw(st.lists(task_names, unique=True, max_size=5))
    ids = draw(st.lists(st.just("tasks") | words, unique=True, min_size=1 if names else 0, max_size=3))
    where = [draw(st.sampled_from(ids)) for _ in names]
    return draw(
        mixed(
            {
                "feature": draw(
                    mixed(
                        {
                            "id": feature_id, "name": draw(words), "description": draw(st.just("") | words),
                            "created_at": draw(times().flatmap(spelled)),
                        }
                    )
                ),
                "phases": [
                    draw(
                        mixed(
                            {
                                "phase_id": phase, "name": draw(st.just("Tasks") | words),
                                "tasks": [
                                    draw(tasks(name)) for name, at in zip(names, where, strict=True) if at == phase
                                ],
                            }
                        )
                    )
                    for phase in ids
                ],
            }
        )
    )  # fmt: skip


@st.composite
def lines(draw: st.DrawFn) -> Document:
    line: Document = {
        "timestamp": draw(times().flatmap(spelled)),
        "command": draw(words),
        "arguments": draw(st.text("ab c", max_size=6)),
        "model": draw(models),
        "agent": draw(words),
        "task_id": draw(st.none() | task_names),
        "status": draw(st.sampled_from(["success", "failure"])),
        "duration_ms": draw(st.integers(0, 2**53 - 1)),
    }
    if line["status"] == "failure":
        line["error"] = draw(words)
    if draw(st.integers(0, 4)) == 0:
        line["x-holdfast"] = draw(anything)
    return draw(mixed(line))


def plan_tasks(document: Document) -> list[Document]:
    phases = _object(document.get("plan", {})).get("phases", [])
    assert isinstance(phases, list)
    made: list[Document] = []
    for phase in map(_object, phases):
        tasks_of_phase = phase["tasks"]
        assert isinstance(tasks_of_phase, list)
        made.extend(map(_object, tasks_of_phase))
    return made


@st.composite
def documents(draw: st.DrawFn) -> Document:
    """A feature: always its state, and any of its other files."""
    feature_id = draw(feature_ids())
    document: Document = {}
    if draw(st.booleans()):
        document["plan"] = draw(plans(feature_id))
    names = [task["task_id"] for task in plan_tasks(document)]
    active = st.sampled_from([None, *names]) if "plan" in document else st.none() | task_names
    first, then = draw(_pair())
    state: Document = {"version": "1.0", "feature_id": feature_id}
    if draw(st.booleans()):
        state["implementation_plan"] = draw(st.just("implementation-plan.yaml") | words)
        state["history_log"] = draw(st.just("history.jsonl") | words)
    now: Document = {
        "active_task": draw(active), "model_in_use": draw(models), "started_at": first, "last_updated": then,
    }  # fmt: skip
    state["current_state"] = draw(mixed(now))
    document = {"state": draw(mixed(state)), **document}
    if draw(st.booleans()):
        began, active_at = draw(_pair())
        entry: Document = {
            "feature_id": feature_id, "started_at": began, "last_active": active_at,
            "status": draw(st.sampled_from(["active", "paused", "completed"])),
        }  # fmt: skip
        document["entry"] = draw(mixed(entry))
    if draw(st.booleans()):
        document["history"] = list(draw(st.lists(lines(), max_size=3)))
    return document


_ONWARD = {
    "pending": ["in_progress", "completed", "blocked"], "in_progress": ["completed", "blocked"],
    "blocked": ["in_progress", "pending", "completed"], "completed": [],
}  # fmt: skip


@st.composite
def edits(draw: st.DrawFn) -> tuple[Document, Document]:
    """A document, and what another program made of it: only steps the contract's transitions allow."""
    before = draw(documents())
    after = copy.deepcopy(before)
    current = _object(_object(after["state"])["current_state"])
    active = current["active_task"]
    if draw(st.booleans()):
        current["model_in_use"] = draw(models)
    known = {str(task["task_id"]) for task in plan_tasks(after)} | {str(active)}
    if "plan" in after:
        _edit_plan(draw, _object(after["plan"]), known, active)
        current["active_task"] = draw(
            st.sampled_from([active, None, *(task["task_id"] for task in plan_tasks(after))])
        )
    elif draw(st.booleans()):
        current["active_task"] = draw(task_names)
    if "entry" in after:
        entry = _object(after["entry"])
        onward = {"active": ["paused", "completed"], "paused": ["active", "completed"]}.get(str(entry["status"]), [])
        entry["status"] = draw(st.sampled_from([entry["status"], *onward]))
    if draw(st.booleans()):
        history = after.setdefault("history", [])
        assert isinstance(history, list)
        history.extend(draw(st.lists(lines(), max_size=2)))
    if draw(st.booleans()):
        current["last_updated"] = format_time(draw(st.integers(_TO, _TO + 1_000_000)) * 1000)
    return before, after


def _edit_plan(draw: st.DrawFn, plan: Document, known: set[str], active: Json) -> None:
    if draw(st.booleans()):
        _object(plan["feature"])["name"] = draw(words)
    phases = plan["phases"]
    assert isinstance(phases, list)
    for phase in map(_object, phases):
        tasks_before = phase["tasks"]
        assert isinstance(tasks_before, list)
        for task in map(_object, tasks_before):
            # The task at hand is in progress whatever the plan says; going back to pending is no step from there.
            status = "in_progress" if task["task_id"] == active and task["status"] == "pending" else task["status"]
            if "x-holdfast-status" not in task:
                _edit_task(draw, task, str(status))
        for name in draw(st.lists(task_names, unique=True, max_size=1)):
            if name not in known:
                known.add(name)
                tasks_before.append(draw(tasks(name)))


def _edit_task(draw: st.DrawFn, task: Document, status: str) -> None:
    target = draw(st.sampled_from([task["status"], *_ONWARD[status]]))
    if target == task["status"]:
        return
    task["status"] = target
    if target == "completed" and task["completed_at"] is None:
        task["completed_at"] = format_time(draw(st.integers(_TO, _TO + 1_000_000)) * 1000)


def _object(value: Json) -> Document:
    assert isinstance(value, dict)
    return value
