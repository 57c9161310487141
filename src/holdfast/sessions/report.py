"""A session as a report for other people: Markdown here, HTML in `report_html`.

Stored text comes from models, web pages and other people. Every character with a meaning in Markdown is escaped, so
that no goal or note can break out of its table, fake a heading or add a link.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from holdfast.core.display_names import with_readable_names
from holdfast.core.model import Session, Task
from holdfast.core.times import format_duration, format_time, parse_time
from holdfast.core.wording import (
    STATUS,
    changed_by,
    limit_words,
    made_by,
    one_line,
    pause_words,
    paused_and_away,
    percent,
    visible,
)
from holdfast.machine.wall import local_text, zone

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|~#&!])")
_LINE_START = re.compile(r"^(\s*)([-+=:]|\d+[.)])")
_AUTOLINK = re.compile(r"(?i)\b(https?|ftp|mailto|www)([:.])")


def markdown(session: Session) -> str:
    """The session as a Markdown document."""
    return "\n".join(_lines(with_readable_names(session))).rstrip() + "\n"


def html(session: Session) -> str:
    """The session as one self-contained HTML file."""
    from holdfast.sessions.report_html import page

    return page(with_readable_names(session))


def escape(stored: str) -> str:
    """Stored text as one line of Markdown that shows it and does nothing else."""
    return _LINE_START.sub(lambda match: f"{match[1]}{match[2][:-1]}\\{match[2][-1]}", inline(stored))


def inline(stored: str) -> str:
    """The same within a line or a table's cell."""
    return _AUTOLINK.sub(r"\1\\\2", _SPECIAL.sub(r"\\\1", one_line(stored)))


# ── facts both kinds of document show ────────────────────────────────────────────────────────────────────


def stamp(moment: str | None) -> str:
    """`2026-11-15 09:02`, in local time."""
    return "" if moment is None else local_text(parse_time(moment))[:16]


def zone_words(session: Session) -> str:
    """The time zone of the report's times; the offset may change during a session."""
    began = parse_time(session.started_at or session.created_at)
    first, last = zone(began), zone(began + session.time.elapsed_ms)
    return f"Times are local, UTC{first}" + (f", at the end UTC{last}." if last != first else ".")


def facts(session: Session) -> list[tuple[str, str]]:
    project = session.project
    parts = [
        ("Session", session.id),
        ("Status", f"{STATUS.get(session.status, session.status)}, {percent(session.progress)} complete"),
        ("Summary", session.summary),
        ("Project", project.name),
        ("Git", " at ".join(part for part in (project.git_branch, (project.git_commit or "")[:12]) if part)),
        ("Branch", session.branch),
        ("Scope", session.scope),
        ("Task", session.task),
        ("Feature", session.feature),
        ("Tags", ", ".join(session.tags)),
        ("Mode", f"{session.mode}: {limit_words(session.mode)}"),
        ("Model", session.model),
        ("Devices", ", ".join(session.devices)),
        ("Continues", session.continues),
        ("Started", stamp(session.started_at or session.created_at)),
        ("Ended", stamp(session.ended_at)),
        ("Cost", None if session.cost_usd is None else f"{session.cost_usd:,.2f} USD"),
    ]
    return [(name, value) for name, value in parts if value]


def time_table(session: Session) -> list[tuple[str, str]]:
    """Worked, paused, away and elapsed time, rounded so that the shown seconds add up."""
    time = session.time
    working, away, elapsed = (
        ms // 1000 * 1000 for ms in (time.working_ms, paused_and_away(time)[1], time.elapsed_ms)
    )
    parts = [("Worked", working), ("Paused", elapsed - working - away), ("Away", away), ("Elapsed", elapsed)]
    return [(name, exact(ms)) for name, ms in parts if ms or name != "Away"]


def as_of(session: Session) -> str:
    """The moment the report describes: the session's end, or the time of the report."""
    return stamp(format_time(parse_time(session.started_at or session.created_at) + session.time.elapsed_ms))


def error_lines(session: Session) -> list[tuple[str, str]]:
    return [
        (error.at, ": ".join(part for part in (error.agent, error.category, error.message) if part))
        for error in session.errors
    ]


def exact(ms: int) -> str:
    """`1:05:09`, hours, minutes and seconds."""
    minutes, seconds = divmod(max(ms, 0) // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,}:{minutes:02d}:{seconds:02d}"


def phases(session: Session) -> list[tuple[str, list[Task]]]:
    """The plan by phase, in the plan's order; tasks of no phase under an empty name."""
    groups: dict[str | None, list[Task]] = {phase.id: [] for phase in session.phases}
    for task in session.tasks:
        groups.setdefault(task.phase, []).append(task)
    names: dict[str | None, str] = {phase.id: phase.name for phase in session.phases}
    return [(names.get(key) or key or "", tasks) for key, tasks in groups.items() if tasks]


def context_words(session: Session) -> list[tuple[str, str]]:
    context = session.context
    if context.tokens is None and not context.compressions and not context.by_agent:
        return []
    used = "not measured" if context.tokens is None else f"{context.tokens:,} of {context.window:,} tokens"
    parts = [("In use", used + ("" if context.percent is None else f" ({context.percent:g}%)"))]
    parts.append(("Compressions", f"{context.compressions:,}"))
    if context.last_compression:
        parts.append(("Last compression", stamp(context.last_compression)))
    return parts + [(agent, f"{tokens:,} tokens") for agent, tokens in context.by_agent.items()]


def agent_rows(session: Session) -> list[list[str]]:
    return [
        [agent.id, agent.type, agent.task or "", agent.status,
         "" if agent.progress is None else percent(agent.progress), stamp(agent.started_at),
         "" if agent.duration_ms is None else format_duration(agent.duration_ms),
         "" if agent.tokens is None else f"{agent.tokens:,}",
         agent.summary or "" if agent.error is None else f"{agent.error.category}: {agent.error.message}"
         + (f" (retries: {agent.error.retry_count})" if agent.error.retry_count else "")]
        for agent in session.agents
    ]  # fmt: skip


AGENT_HEAD = ("Agent", "Type", "Task", "Status", "Done", "Started", "Time", "Tokens", "Outcome or error")
PAUSE_HEAD = ("From", "To", "Length", "What")
FILE_HEAD = ("File", "Change", "By", "Lines", "Hash", "When")


def pause_rows(session: Session) -> list[list[str]]:
    return [
        [stamp(pause.started_at), stamp(pause.ended_at) or "now", exact(pause.duration_ms),
         pause_words(pause.kind, pause.reason, pause.duration_ms)]
        for pause in session.time.pauses
    ]  # fmt: skip


def file_rows(session: Session) -> list[list[str]]:
    return [
        [change.path, change.action, changed_by(change),
         "" if change.lines_added is None else f"+{change.lines_added} -{change.lines_removed or 0}",
         (change.hash_after or change.hash_before or "")[:12], stamp(change.at)]
        for change in session.files
    ]  # fmt: skip


COMMIT_HEAD = ("Commit", "First line", "By", "Branch", "When")


def commit_rows(session: Session) -> list[list[str]]:
    return [
        [commit.sha[:12], commit.subject, made_by(commit), commit.branch or "", stamp(commit.at)]
        for commit in session.commits
    ]


def conflict_lines(session: Session) -> list[tuple[str, list[str]]]:
    import msgspec

    return [
        (conflict.field, [
            (value.value if isinstance(value.value, str) else msgspec.json.encode(value.value).decode())
            + f" ({value.device or 'unknown device'}, {stamp(value.at)})"
            + (", chosen" if conflict.chosen == number else "")
            for number, value in enumerate(conflict.values, start=1)
        ])
        for conflict in session.conflicts
    ]  # fmt: skip


# ── Markdown ─────────────────────────────────────────────────────────────────────────────────────────────


def _lines(session: Session) -> Iterator[str]:
    yield f"# {escape(session.goal)}"
    yield ""
    yield zone_words(session)
    yield ""
    yield from _table(("Fact", ""), facts(session))
    yield from _section("Time", _table(("Time", ""), time_table(session)))
    yield from _section("Pauses", _table(PAUSE_HEAD, pause_rows(session)))
    yield from _section("Agents", _table(AGENT_HEAD, agent_rows(session)))
    yield from _section("Plan", _plan(session))
    yield from _section("Decisions", _decisions(session))
    yield from _section("Files", _table(FILE_HEAD, file_rows(session)))
    yield from _section("Commits", _table(COMMIT_HEAD, commit_rows(session)))
    yield from _section("Context", _table(("Context", ""), context_words(session)))
    yield from _section("Notes", (line for note in session.notes for line in _note(note.at, note.text)))
    yield from _section("Errors", (f"- {stamp(at)} {escape(message)}" for at, message in error_lines(session)))
    yield from _section("Conflicts", _conflicts(session))
    yield ""
    yield f"Made by Holdfast from its log, as of {as_of(session)}."


def _section(title: str, lines: Iterable[str]) -> Iterator[str]:
    content = list(lines)
    if content:
        yield from ("", f"## {title}", "", *content)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    if rows:
        yield f"| {' | '.join(head)} |"
        yield f"| {' | '.join('---' for _ in head)} |"
        for row in rows:
            yield f"| {' | '.join(inline(cell) for cell in row)} |"


def _plan(session: Session) -> Iterator[str]:
    for number, (name, tasks) in enumerate(phases(session)):
        if number:
            yield ""
        if name:
            yield f"### {escape(name)}"
            yield ""
        for task in tasks:
            done = "x" if task.status == "completed" else " "
            state = "" if task.status in ("completed", "pending") else f" ({task.status.replace('_', ' ')})"
            outcome = f": {escape(task.outcome)}" if task.outcome else ""
            by = f", by {escape(task.agent)}" if task.agent else ""
            yield f"- [{done}] {escape(task.text)}{state}{outcome}{by}"


def _decisions(session: Session) -> Iterator[str]:
    for decision in session.decisions:
        about = f" ({escape(decision.context)})" if decision.context else ""
        yield f"- {stamp(decision.at)} **{escape(decision.chosen)}**{about}"
        if decision.options:
            yield f"  - Options: {', '.join(escape(option) for option in decision.options)}"
        if decision.why:
            yield f"  - Why: {escape(decision.why)}"


def _conflicts(session: Session) -> Iterator[str]:
    for field, values in conflict_lines(session):
        yield f"- {escape(field)}"
        for number, value in enumerate(values, start=1):
            yield f"  {number}. {escape(value)}"


def _note(at: str, words: str) -> Iterator[str]:
    yield f"- {stamp(at)}"
    yield ""
    for line in visible(words, lines=True).strip().split("\n"):
        yield f"  > {escape(line)}  ".rstrip() if line.strip() else "  >"
    yield ""
