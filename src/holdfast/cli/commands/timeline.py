"""`holdfast timeline`: agents and pauses over time."""

from __future__ import annotations

from holdfast.cli.call import Call
from holdfast.cli.gantt import TimelineChart, TimelineLane, TimelinePause, chart
from holdfast.cli.paint import Paint, Painted
from holdfast.cli.session_parts import title
from holdfast.core import agents, view
from holdfast.core.short_names import agent_names
from holdfast.core.state import AgentState, State
from holdfast.core.times import format_time
from holdfast.core.worktime import WorkTime


def run(call: Call) -> None:
    at = call.at
    now = call.keeper.now() if at is None else at
    session = call.session_to_read()
    state = session.state(at=at)
    work = view.worktime(state, now)
    stop = _end(state, now)

    def human(paint: Paint) -> Painted:
        goal = title(paint, view.text_value(state, "goal") or "", most=2)
        return Painted(f"{goal}\n\n{chart(paint, _line(state, work, stop))}")

    call.answer({"timeline": _document(state, work, stop)} if call.json else {}, human)


def _end(state: State, now: int) -> int:
    end = view.ended_at(state)
    return now if end is None else end


def _runs(agent: AgentState, stop: int) -> tuple[tuple[int, int], ...]:
    return tuple((run.since, stop if run.until is None else run.until) for run in agent.runs if run.since <= stop)


def _line(state: State, work: WorkTime, stop: int) -> TimelineChart:
    names = agent_names(state.agents.values())
    return TimelineChart(
        since=stop - work.elapsed,
        until=stop,
        live=view.ended_at(state) is None,
        pauses=tuple(
            TimelinePause(rest.kind, rest.since, rest.since + rest.length, rest.reason) for rest in work.pauses
        ),
        lanes=tuple(
            TimelineLane(
                names.get(agent.id, agent.id),
                agents.status_of(agent),
                _runs(agent, stop),
                tuple(agent.failed_attempts),
            )
            for agent in state.agents.values()
        ),
    )


def _document(state: State, work: WorkTime, stop: int) -> dict[str, object]:
    end = view.ended_at(state)
    return {
        "id": state.session,
        "started_at": format_time(stop - work.elapsed),
        "ended_at": None if end is None else format_time(end),
        "elapsed_ms": work.elapsed, "working_ms": work.working, "paused_ms": work.paused,
        "pauses": [
            {"kind": rest.kind, "reason": rest.reason, "started_at": format_time(rest.since),
             "ended_at": None if rest.until is None else format_time(rest.until), "duration_ms": rest.length}
            for rest in work.pauses
        ],
        "agents": [
            {"id": agent.id, "type": agent.type, "task": agent.task, "status": agents.status_of(agent),
             "background": agent.background,
             "runs": [{"started_at": format_time(run.since),
                       "ended_at": None if run.until is None else format_time(run.until)}
                      for run in agent.runs]}
            for agent in state.agents.values()
        ],
    }  # fmt: skip
