"""The cycle file: one Markdown document per cycle of work, with its sessions and their hours by scope.

A cycle is a number of weeks from a date on, six by default; a project's first one starts on the Monday before its
first session. In a file, Holdfast owns the text between two comments, the first of which names the cycle: updating a
file keeps its cycle and everything around the section.
"""

from __future__ import annotations

import os
import re
from datetime import date, timedelta
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from holdfast.core import limits, view
from holdfast.core.errors import Invalid, NotFound
from holdfast.core.times import format_duration
from holdfast.core.wording import STATUS
from holdfast.machine import files
from holdfast.machine.wall import local_offset
from holdfast.sessions import format_names, history
from holdfast.sessions.hours.overlaps import OverlapTimeline, messages_in, person_of
from holdfast.sessions.hours.table import Line, SessionHours, Sums, by_midnight, day_of, session_hours
from holdfast.sessions.report import inline

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.state import State
    from holdfast.workspace.workspace import Workspace

WEEKS: Final = 6
_MAX_WEEKS: Final = 52
NO_SCOPE: Final = "Without a scope"
_BEGIN: Final = "<!-- holdfast cycle: {}, {} weeks. The text between these two comments is replaced. -->"
_END: Final = "<!-- end of the holdfast cycle -->"
_SECTION: Final = re.compile(
    r"<!-- holdfast cycle: (\d{4}-\d\d-\d\d), (\d{1,2}) weeks\.[^\n]*-->\r?\n.*?" + re.escape(_END), re.DOTALL
)


class CycleSession(msgspec.Struct, frozen=True):
    """One session of a cycle, with the time worked in it during the cycle."""

    id: str
    alias: str
    day: str
    scope: str | None
    task: str
    summary: str | None
    status: str
    outcome: str | None
    working_ms: int


class Cycle(msgspec.Struct, frozen=True):
    """A cycle; `since` and `until` are its first and last day."""

    project: str
    since: str
    until: str
    weeks: int
    scopes: list[Line]
    sessions: list[CycleSession]
    total: Line


def cycle(
    ws: Workspace,
    *,
    start: str | None = None,
    weeks: int | None = None,
    start_is_first_day: bool = False,
    at: int | None = None,
) -> Cycle:
    """The cycle at a time (default: now), counted from the start of one; or, with `start_is_first_day`, that one."""
    weeks = WEEKS if weeks is None else weeks
    if not 1 <= weeks <= _MAX_WEEKS:
        raise Invalid(f"expected 1 to {_MAX_WEEKS} weeks, got {weeks}")
    now = ws.now() if at is None else at
    rows = history.history(ws, limit=None, at=at)
    states = history.states_of(ws, rows, at=at)
    since = _first_day(states, start, now)
    if not start_is_first_day:
        passed = max(0, (date.fromisoformat(day_of(now, local_offset)) - since).days)
        since += timedelta(days=passed - passed % (7 * weeks))
    shown = {row.id for row in rows}
    all_rows = history.history(ws, limit=None, all_projects=True, at=at) if rows else ()
    overlapping = (
        row
        for row in all_rows
        if row.id not in shown
        and any(row.created_at <= item.updated_at and item.created_at <= row.updated_at for item in rows)
    )
    others = history.states_of(ws, overlapping, at=at)
    return _make_cycle(ws, states, others, since, weeks, now=now)


def render_markdown(section: Cycle) -> str:
    """The cycle as the section of a file."""
    begin = _BEGIN.format(section.since, section.weeks)
    return "\n".join([begin, *_lines(section), _END]) + "\n"


def read_section(path: str) -> tuple[str, int] | None:
    """The cycle of a file's section: first day and weeks; None without a section."""
    match = _SECTION.search(_read(path))
    return None if match is None else (match[1], int(match[2]))


def write_section(path: str, section: Cycle) -> None:
    """Write the section into a file: over the present one, else at the end."""
    above = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(above):
        raise NotFound(f"there is no directory {files.display_path(above)}", hint="Make it first.", file=path)
    old, new = _read(path), render_markdown(section)
    if "\r\n" in old:
        new = new.replace("\n", "\r\n")
    match = _SECTION.search(old)
    if match is not None:
        text = old[: match.start()] + new.rstrip("\r\n") + old[match.end() :]
    else:
        text = old + ("" if not old else "\n" if old.endswith("\n") else "\n\n") + new
    if text != old:
        files.write_atomic(path, text.encode())


def _read(path: str) -> str:
    if not os.path.lexists(path):
        return ""
    try:
        return files.read_limited(path, limits.MAX_DOCUMENT_SIZE, subject="the cycle file").decode()
    except UnicodeDecodeError:
        raise Invalid("the file is not UTF-8 text", hint="Name another one.", file=path) from None


# ── totals ───────────────────────────────────────────────────────────────────────────────────────────────


def _first_day(states: list[State], start: str | None, now: int) -> date:
    if start is not None:
        try:
            return date.fromisoformat(start)
        except ValueError:
            raise Invalid(f"expected a date, got {start[:40]!a}", hint="Write it as 2026-11-02.") from None
    began = min((state.time.start for state in states if state.created_at is not None), default=now)
    day = date.fromisoformat(day_of(began, local_offset))
    return day - timedelta(days=day.weekday())


def _make_cycle(
    ws: Workspace, states: list[State], others: list[State], first: date, weeks: int, *, now: int
) -> Cycle:
    since, until = first.isoformat(), (first + timedelta(days=7 * weeks - 1)).isoformat()
    all_hours = [
        _within(session_hours(state, now=now, offset=local_offset), since, until) for state in [*states, *others]
    ]
    shown = {hours.session: (state, hours) for state, hours in zip(states, all_hours, strict=False) if hours.pieces}
    store = ws.existing_store()
    sums = Sums(mixed=False)
    elsewhere = dict.fromkeys(shown, 0)
    timelines: dict[str, OverlapTimeline] = {}
    for _, hours in shown.values():
        sums.add(hours)
    messages = messages_in(ws)
    for hours in all_hours:
        assert store is not None
        timeline = timelines.setdefault(person_of(store, hours.session), OverlapTimeline(messages))
        for overlap in timeline.add(hours):
            if overlap.hours.session in shown:
                sums.subtract(overlap, local_offset)
                elsewhere[overlap.hours.session] += overlap.until - overlap.since
    sessions = [
        CycleSession(
            session, state.aliases.get("timer") or session[:8], hours.pieces[0].day, hours.scope,
            format_names.task(state), view.text_value(state, "summary"), view.status_of(state), state.outcome,
            sum(piece.elapsed - piece.paused for piece in hours.pieces) - elsewhere[session],
        )
        for session, (state, hours) in shown.items()
    ]  # fmt: skip
    sessions.sort(key=lambda session: (session.day, session.id))
    name = next((state.project.name for state in states if state.project), os.path.basename(ws.place.main))
    return Cycle(name, since, until, weeks, sums.scopes(), sessions, sums.total)


def _within(hours: SessionHours, since: str, until: str) -> SessionHours:
    """The part of a session within these days."""
    return replace(
        hours,
        pieces=tuple(piece for piece in hours.pieces if since <= piece.day <= until),
        blocks=tuple(
            block
            for low, high in hours.blocks
            for block in by_midnight(low, high, local_offset)
            if since <= day_of(block[0], local_offset) <= until
        ),
    )


# ── as Markdown ──────────────────────────────────────────────────────────────────────────────────────────


def _lines(cycle: Cycle) -> Iterator[str]:
    yield from (f"## Cycle {cycle.since} to {cycle.until}", "")
    if not cycle.sessions:
        yield "No sessions yet."
        return
    yield "| Scope | Sessions | Worked | Kept | Discarded | Hill |"
    yield "| --- | ---: | ---: | ---: | ---: | --- |"
    for line in cycle.scopes:
        yield _row(inline(line.key or NO_SCOPE), line)
    yield _row("**All**", cycle.total)
    for line in cycle.scopes:
        sessions = [session for session in cycle.sessions if session.scope == line.key]
        if sessions:
            yield from ("", f"### {inline(line.key or NO_SCOPE)}", "")
            yield "| Day | Task | Summary | Worked | Status | Session |"
            yield "| --- | --- | --- | ---: | --- | --- |"
            yield from (_session(session) for session in sessions)


def _row(name: str, line: Line) -> str:
    hill = "" if line.hill is None else f"{line.hill} of 10"
    return (
        f"| {name} | {line.sessions} | {format_duration(line.working_ms)} | {line.kept} | {line.discarded} | {hill} |"
    )


def _session(session: CycleSession) -> str:
    status = session.outcome or STATUS.get(session.status, session.status)
    cells = (
        session.day,
        inline(session.task),
        inline(session.summary or ""),
        format_duration(session.working_ms),
        status,
        inline(session.alias),
    )
    return f"| {' | '.join(cells)} |"
