"""Hours of sessions, added up by scope, day, project or agent.

Exact sums: a day's working time is cut at the local midnights to the millisecond, so the lines of every table add up
to its total, and in each line working + paused = elapsed. Overlapping time counts once (`overlaps`), and an
unfinished session ends where it was last worked on: its present pause may never end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from datetime import timedelta
from typing import Literal, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from holdfast.core import agents, view
from holdfast.core.display_names import agent_names
from holdfast.core.errors import Invalid
from holdfast.core.events import ProjectFacts
from holdfast.core.state import AgentState, State
from holdfast.core.times import DAY, HOUR, format_time
from holdfast.core.wording import one_line
from holdfast.core.worktime import WorkPause
from holdfast.sessions.hours.overlaps import Messages, Overlap, OverlapTimeline

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
    """Agents of one type added up. `running_ms` is the sum of their runs, in parallel or not."""

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
    # The names shown instead of generated agent ids.
    names: Mapping[str, str] = {}


def table(
    states: Iterable[State],
    by: str,
    *,
    now: int,
    offset: Offset,
    mixed: bool = False,
    others: Iterable[State] = (),
    messages: Messages = lambda _: (),
    person: Callable[[str], str] = lambda _: "",
) -> Table:
    """The hours of these sessions as of `now`. `offset` gives the local offset from UTC at a moment.

    `others` are sessions that are not shown but may overlap; `person` says whose time a session's is.
    """
    existing = [state for state in states if not state.deleted]
    if by == "agent":
        return _agents(existing, now)
    sums = Sums(mixed=mixed)
    timelines: dict[str, OverlapTimeline] = {}
    all_hours = [session_hours(state, now=now, offset=offset) for state in existing]
    for hours in all_hours:
        sums.add(hours)
    for hours in [
        *all_hours,
        *(session_hours(state, now=now, offset=offset) for state in others if not state.deleted),
    ]:
        for overlap in timelines.setdefault(person(hours.session), OverlapTimeline(messages)).add(hours):
            if any(overlap.hours is item for item in all_hours):
                sums.subtract(overlap, offset)
    match by:
        case "scope":
            return Table("scope", sums.scopes(), sums.total)
        case "day":
            return Table("day", sums.days(), sums.total)
        case "project":
            return Table("project", sums.projects(), sums.total)
    raise Invalid(f"hours cannot be grouped by {by[:40]!a}", hint=f"By {', '.join(BY)}.")


# ── what one session adds ────────────────────────────────────────────────────────────────────────────────


class DayShare(msgspec.Struct, frozen=True, gc=False):
    """What a session adds to one day. `there`: it started or was worked on then."""

    day: str
    there: bool
    elapsed: int
    paused: int
    kept: bool
    discarded: bool


class SessionHours(msgspec.Struct, frozen=True, gc=False):
    """What one session adds to every table."""

    session: str
    start: int
    scope: str | None
    repository: str
    project: str | None
    path: str | None
    # The latest moves of scopes on their hills: when, and to which position.
    hill: Mapping[str, tuple[int, int]]
    pieces: tuple[DayShare, ...]
    # When it was worked on, in order.
    blocks: tuple[tuple[int, int], ...]


def session_hours(state: State, *, now: int, offset: Offset) -> SessionHours:
    work = view.worktime(state, now)
    end = view.ended_at(state)
    stop = now if end is None else end
    start = stop - work.elapsed
    if end is None and work.pauses and work.pauses[-1].until is None:
        stop = work.pauses[-1].since  # whether work continues is not known yet
        work = work._replace(pauses=work.pauses[:-1])
    lasted: dict[str, int] = {day_of(start, offset): 0}
    rested: dict[str, int] = {}
    for since, until in by_midnight(start, stop, offset):
        day = day_of(since, offset)
        lasted[day] = lasted.get(day, 0) + until - since
    for rest in work.pauses:
        for since, until in by_midnight(rest.since, rest.since + rest.length, offset):
            day = day_of(since, offset)
            rested[day] = rested.get(day, 0) + until - since
    first, last = day_of(start, offset), None if end is None else day_of(end, offset)
    days = dict.fromkeys((*lasted, *rested, *(() if last is None else (last,))))
    project = state.project
    return SessionHours(
        state.session, start, view.text_value(state, "scope"), "" if project is None else repository(project),
        None if project is None else project.name, None if project is None else project.path, dict(state.hill),
        tuple(
            DayShare(
                day, day == first or lasted.get(day, 0) > rested.get(day, 0), lasted.get(day, 0), rested.get(day, 0),
                day == last and state.outcome == "kept", day == last and state.outcome == "discarded",
            )
            for day in days
        ),
        tuple(_blocks(start, stop, work.pauses)),
    )  # fmt: skip


def _blocks(start: int, stop: int, pauses: Sequence[WorkPause]) -> Iterator[tuple[int, int]]:
    for rest in pauses:
        if start < rest.since:
            yield start, rest.since
        start = max(start, rest.since + rest.length)
    if start < stop:
        yield start, stop


def repository(project: ProjectFacts) -> str:
    """A repository is one project, whatever ids devices gave it."""
    return f"{project.remote}\n{project.inside}" if project.remote else project.id


# ── what they add up to ──────────────────────────────────────────────────────────────────────────────────


class Sums:
    """Hours of sessions added up, optionally from a day on.

    `mixed`: of several projects. Scopes with one name are one line, which has a hill only if one project has the
    scope.
    """

    def __init__(self, since: str = "", *, mixed: bool = True) -> None:
        self._since = since
        self._mixed = mixed
        self._days: dict[str, Line] = {}
        self._scopes: dict[_Key, Line] = {}
        self._projects: dict[str, Line] = {}
        self._paths: dict[str, str | None] = {}
        # By scope: the projects that have it, and its latest move.
        self._projects_of_scope: dict[_Key, set[str]] = {}
        self._moved: dict[str, tuple[int, int]] = {}
        self.total = Line(key=None)

    def copy(self) -> Sums:
        """A copy to extend."""
        other = Sums(self._since, mixed=self._mixed)
        other._days = {key: copy(line) for key, line in self._days.items()}
        other._scopes = {key: copy(line) for key, line in self._scopes.items()}
        other._projects = {key: copy(line) for key, line in self._projects.items()}
        other._paths, other._moved, other.total = dict(self._paths), dict(self._moved), copy(self.total)
        other._projects_of_scope = {key: set(projects) for key, projects in self._projects_of_scope.items()}
        return other

    def add(self, hours: SessionHours) -> None:
        pieces = [piece for piece in hours.pieces if piece.day >= self._since]
        if not pieces:
            return
        scope = self._scopes.setdefault(hours.scope, Line(key=hours.scope))
        project = self._projects.setdefault(hours.repository, Line(key=hours.project))
        self._paths[hours.repository] = hours.path
        worked_on = any(piece.there or piece.elapsed for piece in pieces)
        for line in (scope, project, self.total):
            line.sessions += worked_on
        for piece in pieces:
            day = self._days.setdefault(piece.day, Line(key=piece.day))
            day.sessions += piece.there
            for line in (day, scope, project, self.total):
                line.elapsed_ms += piece.elapsed
                line.paused_ms += piece.paused
                line.working_ms += piece.elapsed - piece.paused
                line.kept += piece.kept
                line.discarded += piece.discarded
        for name, move in hours.hill.items():
            self._moved[name] = max(self._moved.get(name, move), move)  # the latest move
        for key in (hours.scope, *hours.hill):
            self._projects_of_scope.setdefault(key, set()).add(hours.repository if self._mixed else "")

    def subtract(self, overlap: Overlap, offset: Offset) -> None:
        """Subtract an overlap, which counts for another session."""
        hours = overlap.hours
        for since, until in by_midnight(overlap.since, overlap.until, offset):
            day = day_of(since, offset)
            if day >= self._since:
                for line in (
                    self._days[day],
                    self._scopes[hours.scope],
                    self._projects[hours.repository],
                    self.total,
                ):
                    line.elapsed_ms -= until - since
                    line.working_ms -= until - since

    def days(self) -> list[Line]:
        return [self._days[day] for day in sorted(self._days)]

    def scopes(self) -> list[Line]:
        for name, (_, position) in self._moved.items():
            line = self._scopes.setdefault(name, Line(key=name))
            line.hill = position if len(self._projects_of_scope[name]) == 1 else None
        return _longest_first(self._scopes.values())

    def projects(self) -> list[Line]:
        names = Counter(line.key for line in self._projects.values())
        return _longest_first(
            # Two projects with one name are distinguished by their paths.
            replace(line, key=f"{line.key} ({self._paths[which]})")
            if names[line.key] > 1 and self._paths[which]
            else line
            for which, line in self._projects.items()
        )


def worked_days(days: Iterable[Line]) -> list[Line]:
    """The days with work: a session that was not ended also spans nights and weekends."""
    return [day for day in days if day.working_ms]


def _longest_first(lines: Iterable[Line]) -> list[Line]:
    return sorted(lines, key=lambda line: (-line.working_ms, line.key is None, line.key or ""))


# ── days ─────────────────────────────────────────────────────────────────────────────────────────────────


def by_midnight(since: int, until: int, offset: Offset) -> Iterator[tuple[int, int]]:
    """Divide a stretch of time at local midnights."""
    while since < until:
        end = min(_next_midnight(since, offset), until)
        yield since, end
        since = end


def day_of(moment: int, offset: Offset) -> str:
    """The local day of a moment."""
    return format_time(moment + _ms(offset(moment)))[:10]


def _ms(offset: timedelta) -> int:
    return (offset.days * 86_400 + offset.seconds) * 1000 + offset.microseconds // 1000


def _next_midnight(moment: int, offset: Offset) -> int:
    """The start of the next local day, also where clocks change in between."""
    ahead = _ms(offset(moment))
    day = (moment + ahead) // DAY
    likely = (day + 1) * DAY - ahead
    if _ms(offset(likely)) == ahead == _ms(offset(likely - 1)):
        return likely
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
    return Table("agent", ordered, total, _names(states, ordered))


def _names(states: Iterable[State], lines: Iterable[AgentLine]) -> dict[str, str]:
    """The agents' names as in their sessions, with a prefix of the id where two are equal."""
    names: dict[str, str] = {}
    for state in states:
        names = agent_names(state.agents.values()) | names
    used = Counter(names.get(id_, id_) for line in lines for id_ in line.agents)
    return {id_: f"{name} ({id_[:8]})" if used[name] > 1 else name for id_, name in names.items()}


def _add_agent(line: AgentLine, state: State, agent: AgentState, stop: int) -> None:
    if agent.id not in line.agents:
        line.agents.append(agent.id)
    line.runs += len(agent.runs)
    line.running_ms += sum(max((stop if run.until is None else run.until) - run.since, 0) for run in agent.runs)
    if agent is agents.find(state, agent.id):  # two agents with one id share its measurements
        line.tokens += agent.tokens if agent.tokens is not None else state.by_agent.get(agent.id, 0)
    line.failures += len(agent.failed_attempts)


# ── for a spreadsheet ──────────────────────────────────────────────────────────────────────────────────


_FORMULA = tuple("=+-@")


def csv_of(by: str, lines: Sequence[Line] | Sequence[AgentLine], kind: type[Line | AgentLine] = Line) -> str:
    """A table of hours as CSV; the first column is the grouping."""
    import csv
    import io

    text = io.StringIO()
    fields = [name for name in kind.__struct_fields__ if name != "key"]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([by, *fields])
    for line in lines:
        values = [getattr(line, name) for name in fields]
        writer.writerow(
            [cell(line.key), *(cell(" ".join(value)) if isinstance(value, list) else value for value in values)]
        )
    return text.getvalue()


def cell(value: str | None) -> str:
    """A text on one line that is neither a spreadsheet formula nor a terminal sequence."""
    text = one_line(value or "")
    return f"'{text}" if text[:1] in _FORMULA else text
