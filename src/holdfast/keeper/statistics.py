"""Hours: what sessions add up to, by scope, by day, by project or by agent.

Exact sums: a day's working time is cut at the local midnights to the millisecond, so the lines of every table add
up to its total, and in each line working + paused = elapsed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from holdfast.core import agents, view
from holdfast.core.errors import Invalid
from holdfast.core.state import AgentState, State
from holdfast.core.times import DAY, HOUR, text
from holdfast.core.vocabulary import Project

By: TypeAlias = Literal["scope", "day", "project", "agent"]
BY: tuple[By, ...] = ("scope", "day", "project", "agent")
Offset: TypeAlias = Callable[[int], timedelta]
_Key: TypeAlias = str | None


class Line(msgspec.Struct, kw_only=True):
    """Sessions added up. `key` is a scope, a day or a project; null where a session has none."""

    key: str | None
    sessions: int = 0
    elapsed_ms: int = 0
    working_ms: int = 0
    paused_ms: int = 0
    kept: int = 0
    discarded: int = 0
    hill: int | None = None


class AgentLine(msgspec.Struct, kw_only=True):
    """Agents of one type added up. `running_ms` is the sum of their runs, side by side or not."""

    key: str | None
    agents: list[str] = []
    sessions: int = 0
    runs: int = 0
    running_ms: int = 0
    tokens: int = 0
    failures: int = 0


class Table(NamedTuple):
    by: By
    lines: Sequence[Line] | Sequence[AgentLine]
    total: Line | AgentLine


def table(states: Iterable[State], by: str, *, now: int, offset: Offset) -> Table:
    """Statistics of these sessions as of `now`. `offset` tells how far the person's zone is from UTC at a moment."""
    there = [state for state in states if not state.deleted]
    match by:
        case "scope":
            return _scopes(there, now)
        case "day":
            return _days(there, now, offset)
        case "project":
            return _projects(there, now)
        case "agent":
            return _agents(there, now)
    raise Invalid(f"there are no statistics by {by[:40]!a}", hint=f"By {', '.join(BY)}.")


def _total(states: Iterable[State], now: int) -> Line:
    line = Line(key=None)
    for state in states:
        _add(line, state, now)
    return line


def _add(line: Line, state: State, now: int) -> None:
    work = view.worktime(state, now)
    line.sessions += 1
    line.elapsed_ms += work.elapsed
    line.working_ms += work.working
    line.paused_ms += work.paused
    line.kept += state.outcome == "kept"
    line.discarded += state.outcome == "discarded"


def _longest_first(lines: Iterable[Line]) -> list[Line]:
    return sorted(lines, key=lambda line: (-line.working_ms, line.key is None, line.key or ""))


def _scopes(states: list[State], now: int) -> Table:
    lines: dict[_Key, Line] = {}
    moved: dict[str, tuple[int, int]] = {}
    for state in states:
        scope = view.word(state, "scope")
        _add(lines.setdefault(scope, Line(key=scope)), state, now)
        for name, move in state.hill.items():
            moved[name] = max(moved.get(name, move), move)  # who spoke last
    for name, (_, position) in moved.items():
        lines.setdefault(name, Line(key=name)).hill = position
    return Table("scope", _longest_first(lines.values()), _total(states, now))


def _repository(project: Project) -> str:
    """A repository is one project, whatever id each device gave it."""
    return f"{project.remote}\n{project.inside}" if project.remote else project.id


def _projects(states: list[State], now: int) -> Table:
    lines: dict[str, Line] = {}
    paths: dict[str, str | None] = {}
    for state in states:
        which = _repository(state.project) if state.project else ""
        name = state.project.name if state.project else None
        _add(lines.setdefault(which, Line(key=name)), state, now)
        paths[which] = state.project.path if state.project else None
    names = [line.key for line in lines.values()]
    for which, line in lines.items():
        if names.count(line.key) > 1 and paths[which]:  # two projects of one name
            line.key = f"{line.key} ({paths[which]})"
    return Table("project", _longest_first(lines.values()), _total(states, now))


# ── by day ───────────────────────────────────────────────────────────────────────────────────────────────


def _days(states: list[State], now: int, offset: Offset) -> Table:
    lines: dict[str, Line] = {}

    def line(moment: int) -> Line:
        day = _day(moment, offset)
        return lines.setdefault(day, Line(key=day))

    for state in states:
        work = view.worktime(state, now)
        end = view.ended_at(state)
        stop = now if end is None else end
        start = stop - work.elapsed
        touched = {_day(start, offset)}
        line(start)
        for a, b in by_midnight(start, stop, offset):
            line(a).elapsed_ms += b - a
            touched.add(_day(a, offset))
        for rest in work.pauses:
            for a, b in by_midnight(rest.since, rest.since + rest.length, offset):
                line(a).paused_ms += b - a
        for day in touched:
            lines[day].sessions += 1
        if end is not None:
            line(end).kept += state.outcome == "kept"
            line(end).discarded += state.outcome == "discarded"
    for one in lines.values():
        one.working_ms = one.elapsed_ms - one.paused_ms
    return Table("day", [lines[day] for day in sorted(lines)], _total(states, now))


def by_midnight(since: int, until: int, offset: Offset) -> Iterator[tuple[int, int]]:
    """A stretch of time in pieces, none of which reaches beyond its local day."""
    while since < until:
        end = min(_next_midnight(since, offset), until)
        yield since, end
        since = end


def _day(moment: int, offset: Offset) -> str:
    return text(moment + _ms(offset(moment)))[:10]


def _ms(offset: timedelta) -> int:
    return (offset.days * 86_400 + offset.seconds) * 1000 + offset.microseconds // 1000


def _next_midnight(moment: int, offset: Offset) -> int:
    """The first moment of the next local day, also where clocks change in between."""
    day = (moment + _ms(offset(moment))) // DAY
    # Days are 23 to 25 hours long, rarely 22 to 27; zones change at whole seconds. Search where the day ends.
    low, high = moment, moment + 30 * HOUR
    while high - low > 1:
        middle = (low + high) // 2
        if (middle + _ms(offset(middle))) // DAY > day:
            high = middle
        else:
            low = middle
    return high


# ── by agent ─────────────────────────────────────────────────────────────────────────────────────────────


def _agents(states: list[State], now: int) -> Table:
    lines: dict[str, AgentLine] = {}
    total = AgentLine(key=None)
    for state in states:
        end = view.ended_at(state)
        stop = now if end is None else end
        types = {agent.type for agent in state.agents.values()}
        for kind in types:
            lines.setdefault(kind, AgentLine(key=kind)).sessions += 1
        total.sessions += bool(types)
        for agent in state.agents.values():
            for line in (lines[agent.type], total):
                _add_agent(line, state, agent, stop)
    ordered = sorted(lines.values(), key=lambda line: (-line.running_ms, line.key or ""))
    return Table("agent", ordered, total)


def _add_agent(line: AgentLine, state: State, agent: AgentState, stop: int) -> None:
    if agent.id not in line.agents:
        line.agents.append(agent.id)
    line.runs += len(agent.runs)
    line.running_ms += sum(max((stop if run.until is None else run.until) - run.since, 0) for run in agent.runs)
    if agent is agents.find(state, agent.id):  # two of one name share what was measured under it
        line.tokens += agent.tokens if agent.tokens is not None else state.by_agent.get(agent.id, 0)
    line.failures += len(agent.failed_attempts)
