"""Render a state as an orchestrator document as of its last event.

Any state gives a valid document. What the format cannot express is left out.
"""

from __future__ import annotations

import msgspec

from holdfast.core import agents as agents_of
from holdfast.core import tasks as tasks_of
from holdfast.core import view
from holdfast.core.canonical import MAX_SAFE_INTEGER, Json
from holdfast.core.modes import MODES
from holdfast.core.state import AgentFailure, AgentState, State, TaskState
from holdfast.core.text import slug
from holdfast.formats.base import Document
from holdfast.formats.orchestrator import fields
from holdfast.formats.orchestrator.fields import AGENT_ID, ENDED, SHOWN_AGENT, SHOWN_SESSION, is_session_id
from holdfast.formats.timestamps import in_seconds
from holdfast.sessions import format_names

VERSION = "1.0"


def render(state: State) -> Document:
    began = format_names.began(state)
    mode = view.text_value(state, "mode")
    goal = view.text_value(state, "goal") or ""
    return {
        "schema_version": VERSION,
        "session_id": session_id(state),
        "created": in_seconds(began),
        "updated": in_seconds(max(began, state.updated_at)),
        "project": _project(state),
        "goal": goal if goal.strip() else "work",
        "mode": mode if mode in MODES else "default",
        "status": SHOWN_SESSION.get(view.shown_status(state), "in_progress"),
        "agents": [_agent(name, agent, state) for name, agent in shown_agents(state).items()],
        "completed_work": [_done(task) for task in completed_tasks(state)],
        "pending_tasks": [shown_text(task) for task in open_tasks(state)],
        "decisions_made": [
            {"decision": decision.chosen if decision.chosen.strip() else "?", "rationale": decision.why or "",
             "timestamp": in_seconds(decision.at)}
            for decision in state.decisions
        ],
        "context_usage": {
            "estimated_tokens": min(fields.total_tokens(state), MAX_SAFE_INTEGER),
            "percentage": fields.percentage(state),
            "last_compression": None if state.last_compression is None else in_seconds(state.last_compression),
        },
        "errors": [_error(failure) for failure in state.failures],
    }  # fmt: skip


def session_id(state: State) -> str:
    """The id it was imported with, or one derived from its own."""
    named = format_names.orchestrator_id(state)
    return named if is_session_id(named) else format_names.orchestrator_id(msgspec.structs.replace(state, aliases={}))


def shown_agents(state: State) -> dict[str, AgentState]:
    """Agents by the id they are shown with: their own, unless two devices used the same one."""
    shown: dict[str, AgentState] = {}
    for agent in state.agents.values():
        name = plain = agent.id if AGENT_ID.match(agent.id) else slug(agent.id)
        number = 2
        while name in shown:
            name = f"{plain[:90]}-{number}"
            number += 1
        shown[name] = agent
    return shown


def completed_tasks(state: State) -> list[TaskState]:
    """Completed tasks in order of completion.

    Tasks of the same text keep the order of the plan, so that editing one does not turn it into the other.
    """
    completed = [task for task in state.tasks.values() if tasks_of.status_of(task) == "completed"]
    same_text: dict[str, list[TaskState]] = {}
    for task in reversed(completed):
        same_text.setdefault(shown_text(task), []).append(task)
    return [same_text[shown_text(task)].pop() for task in sorted(completed, key=lambda task: task.completed_at or 0)]


def open_tasks(state: State) -> list[TaskState]:
    return [
        task for task in state.tasks.values() if tasks_of.status_of(task) in ("pending", "in_progress", "blocked")
    ]


def shown_text(task: TaskState) -> str:
    return task.text if task.text.strip() else f"({task.id})"


def _project(state: State) -> Json:
    project = state.project
    if project is None:
        return {"name": "project", "path": None, "git_branch": None}
    name = project.name if project.name.strip() else "project"
    return {"name": name, "path": project.path, "git_branch": project.git_branch}


def _agent(name: str, agent: AgentState, state: State) -> Json:
    canonical = agents_of.status_of(agent)
    status = SHOWN_AGENT.get(canonical, "in_progress")
    result: dict[str, Json] = {
        "id": name,
        "type": agent.type if agent.type.strip() else "agent",
        "task": agent.task or "",
        "status": status,
    }
    if agent.started_at is not None:
        result["started"] = in_seconds(agent.started_at)
    if status in ENDED and agent.ended_at is not None:
        # Clocks of two devices may differ; an agent never ends before it starts.
        began = agent.ended_at if agent.started_at is None else agent.started_at
        result["completed"] = in_seconds(max(agent.ended_at, began))
    if status == "complete" and agent.summary is not None:
        result["result_summary"] = agent.summary
    if status not in ("complete", "pending") and agent.progress is not None:
        result["progress"] = round(agent.progress * 100)
    used = state.by_agent.get(agent.id, agent.tokens)
    if used is not None:
        result["context_tokens"] = min(max(used, 0), MAX_SAFE_INTEGER)
    return result


def _done(task: TaskState) -> Json:
    return {"task": shown_text(task), "outcome": task.outcome or "", "files": list(task.artifacts)}


def _error(failure: AgentFailure) -> Json:
    return {
        "timestamp": in_seconds(failure.at),
        "agent": failure.agent,
        "message": failure.message,
        "category": failure.category,
    }
