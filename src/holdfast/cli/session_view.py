"""The screen of `holdfast show`: everything that is known of a session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from holdfast.cli.cells import wrap
from holdfast.cli.clock import Clock
from holdfast.cli.paint import Column, Paint, Painted
from holdfast.cli.session_parts import (
    agents_summary,
    agents_table,
    indented,
    pause_line,
    progress,
    redacted_words,
    reminder,
    status_word,
    tasks_list,
    tasks_summary,
    title,
)
from holdfast.cli.status_view import context_line, sync_words
from holdfast.core.display_names import with_readable_names
from holdfast.core.model import Conversation, Session, Task
from holdfast.core.text import shorten
from holdfast.core.times import format_duration
from holdfast.core.wording import changed_by, count, limit_words, made_by, pause_words, time_words

Block = tuple[str, str, Painted]
# Formats whose documents leave something over, under their names.
_FORMATS: Final = frozenset(("orchestrator", "timer", "contract", "craft"))
# Keys under which Holdfast itself sends things along.
_OWN_KEYS: Final = frozenset(("x-holdfast", "holdfast"))
_MAX_FIELD_LENGTH: Final = 80
_MAX_TITLE_LENGTH: Final = 60
_MAX_FIELDS: Final = 20


def full_view(paint: Paint, session: Session, clock: Clock, names: Sequence[str] = ()) -> Painted:
    """`names` are those that the session has besides the ids of the formats."""
    session = with_readable_names(session)
    line = paint.join(status_word(paint, session), "  ", progress(paint, session.progress, 20, "normal"))
    blocks = [
        Painted(f"{title(paint, session.goal, max_lines=99)}\n{line}"),
        paint.pairs(_facts(paint, session, clock, names)),
    ]
    for name, aside, lines in _sections(paint, session, clock):
        if lines:
            blocks.append(Painted(f"{paint.heading(name, aside)}\n{lines}"))
    return Painted("\n\n".join(blocks))


def _facts(paint: Paint, session: Session, clock: Clock, names: Sequence[str]) -> list[tuple[str, str]]:
    time, project = session.time, session.project
    formats = session.aliases
    aliases = [formats.orchestrator, formats.timer, formats.contract, formats.craft, *names]
    place = " at ".join(part for part in (project.git_branch, (project.git_commit or "")[:12]) if part)
    optional: list[tuple[str, str | None]] = [
        ("Id", session.id),
        ("Also known as", ", ".join(alias for alias in aliases if alias)),
        ("Summary", session.summary),
        ("Project", project.name + (f" ({project.path})" if project.path else "")),
        ("Git", place),
        ("Branch", session.branch),
        ("Scope", session.scope),
        ("Task", session.task),
        ("Feature", session.feature),
        ("Tags", ", ".join(session.tags)),
        ("Continues", session.continues),
        ("Mode", f"{session.mode}: {limit_words(session.mode)}"),
        ("Model", session.model),
        ("Devices", ", ".join(session.devices)),
        ("Created", clock.at(session.created_at)),
        ("Ended", clock.at(session.ended_at) if session.ended_at else None),
        ("Last event", f"{clock.at(session.updated_at)}, {clock.ago(session.updated_at)}"),
        ("Time", f"{time_words(time)}, {format_duration(time.elapsed_ms)} in all"),
    ]  # fmt: skip
    facts: list[tuple[str, str]] = [(name, value) for name, value in optional if value]
    pause = pause_line(paint, session, clock)
    facts += [("", pause)] if pause is not None else []
    due = reminder(session)
    facts += [("", due)] if due else []
    facts.append(("Context", context_line(paint, session)))
    if session.context.compressions:
        last = f", last {clock.ago(session.context.last_compression)}" if session.context.last_compression else ""
        facts.append(("", f"{count(session.context.compressions, 'compression')}{last}"))
    if session.commands.total:
        failed = f", {session.commands.failed:,} failed" if session.commands.failed else ""
        facts.append(("Commands", f"{session.commands.total:,} run{failed}"))
    if session.cost_usd is not None:
        facts.append(("Cost", f"{session.cost_usd:,.2f} USD"))
    if session.sync.status != "none":
        facts.append(("Sync", sync_words(session, clock)))
    secrets = redacted_words(session)
    facts += [("Secrets", secrets)] if secrets else []
    facts += [("Reopen", _reopen(conversation, clock)) for conversation in session.conversations]
    return facts


def _reopen(conversation: Conversation, clock: Clock) -> str:
    """The command that reopens a conversation, with what people know it by."""
    since = clock.at(conversation.started_at) if conversation.started_at else ""
    name = shorten(conversation.title or "", _MAX_TITLE_LENGTH)
    known_by = ", ".join(part for part in (conversation.agent, name, since) if part)
    return f"{conversation.resume or conversation.id}  ({known_by})"


def _sections(paint: Paint, session: Session, clock: Clock) -> list[Block]:
    return [
        ("Waiting for you", "", _rows(paint, [
            [wait.for_, wait.text or "", clock.ago(wait.at)] for wait in session.waiting
        ], 1)),
        ("Agents", agents_summary(session.agents),
         indented(paint, lambda inner: agents_table(inner, session.agents)) if session.agents else Painted("")),
        ("Plan", tasks_summary(session.tasks) if session.tasks else "", _plan(paint, session)),
        ("Decisions", "", _decisions(paint, session, clock)),
        ("Files", "", _rows(paint, [
            [change.action, change.path, changed_by(change), _lines(change.lines_added, change.lines_removed),
             (change.hash_after or "")[:12], clock.at(change.at)]
            for change in session.files
        ], 1)),
        ("Commits", "", _rows(paint, [
            [commit.sha[:12], commit.subject, made_by(commit), clock.at(commit.at)] for commit in session.commits
        ], 1)),
        ("Pauses", "", _rows(paint, [
            [clock.at(pause.started_at), clock.at(pause.ended_at) if pause.ended_at else "now",
             format_duration(pause.duration_ms), pause_words(pause.kind, pause.reason, pause.duration_ms)]
            for pause in session.time.pauses
        ], 3)),
        ("Context by agent", "", _rows(paint, [
            [agent, f"{tokens:,}"] for agent, tokens in session.context.by_agent.items()
        ], 0)),
        ("Notes", "", _texts(paint, [(clock.at(note.at), note.text) for note in session.notes])),
        ("Errors", "", _texts(paint, [
            (clock.at(error.at), ": ".join(part for part in (error.agent, error.category, error.message) if part))
            for error in session.errors
        ])),
        ("Conflicts", "", _conflicts(paint, session, clock)),
        ("Extra", "", _texts(paint, _extra(session))),
    ]  # fmt: skip


def _extra(session: Session) -> list[tuple[str, str]]:
    """What the model has no place for; of documents, the fields that are their writers' own."""
    items: list[tuple[str, str]] = []
    for name, value in session.extra.items():
        if name == "redacted":
            continue
        if name in _FORMATS:
            own_fields = list(_own_fields(value))
            items += [(f"{name} {path}", shorten(text, _MAX_FIELD_LENGTH)) for path, text in own_fields[:_MAX_FIELDS]]
            if len(own_fields) > _MAX_FIELDS:
                items.append((name, f"and {len(own_fields) - _MAX_FIELDS} more (all of them with --json)"))
        else:
            items.append((name, msgspec.json.encode(value).decode()))
    return items


def _own_fields(kept: object) -> Iterator[tuple[str, str]]:
    """The unknown fields in what is kept of a document (see `formats.remainder`), by their paths."""
    from holdfast.formats.document_paths import format_place

    for place, value in _unknown(kept.get("keep") if isinstance(kept, dict) else None):
        yield format_place(place), value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _unknown(kept: object, place: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    """Of a remainder (see `formats.remainder`), the keys that no rendering has; the rest is bookkeeping."""
    if not isinstance(kept, dict):
        return
    unknown, inner_fields = kept.get("m"), kept.get("i")
    for key, value in unknown.items() if isinstance(unknown, dict) else ():
        if key not in _OWN_KEYS:
            yield (*place, key), value
    for key, inner in inner_fields.items() if isinstance(inner_fields, dict) else ():
        yield from _unknown(inner, (*place, key))


def _rows(paint: Paint, rows: list[list[str]], flexible: int) -> Painted:
    """Rows without a head; one column gives way, empty ones disappear."""
    if not rows:
        return Painted("")
    keep = [index for index in range(len(rows[0])) if any(row[index] for row in rows)]
    columns = [Column("", weight=3 if index == flexible else 0, min_width=12) for index in keep]
    return indented(paint, lambda inner: inner.table([[row[index] for index in keep] for row in rows], columns))


def _texts(paint: Paint, items: list[tuple[str, str]]) -> Painted:
    return indented(paint, lambda inner: inner.pairs(items)) if items else Painted("")


def _plan(paint: Paint, session: Session) -> Painted:
    groups: dict[str | None, list[Task]] = {}
    for task in session.tasks:
        groups.setdefault(task.phase, []).append(task)
    if not groups or set(groups) == {None}:
        return tasks_list(paint, session.tasks)
    names: dict[str | None, str] = {phase.id: phase.name for phase in session.phases}
    parts: list[str] = []
    for phase, tasks in groups.items():
        name = "Without a phase" if phase is None else names.get(phase, phase)
        head = paint.cut(paint.join(name, "  ", paint.dim(tasks_summary(tasks))), paint.width - 2)
        parts += [f"  {head}", tasks_list(paint, tasks, nested=True)]
    return Painted("\n".join(parts))


def _decisions(paint: Paint, session: Session, clock: Clock) -> Painted:
    lines: list[str] = []
    for decision in session.decisions:
        about = f" ({decision.context})" if decision.context else ""
        first = paint.join(
            "  ", paint.dim(clock.at(decision.at)), "  ", paint.bold(decision.chosen), paint.dim(about)
        )
        lines.append(paint.cut(first, paint.width))
        options = [f"Options: {', '.join(decision.options)}"] if decision.options else []
        for text in [*options, decision.why] if decision.why else options:
            lines += ["    " + line for line in wrap(paint.plain(text, lines=True), paint.width - 4)]
    return Painted("\n".join(lines))


def _conflicts(paint: Paint, session: Session, clock: Clock) -> Painted:
    lines: list[str] = []
    for conflict in session.conflicts:
        lines.append(paint.join("  ", paint.red(conflict.field), "  ", paint.dim(conflict.id)))
        for number, item in enumerate(conflict.values, start=1):
            value = item.value if isinstance(item.value, str) else msgspec.json.encode(item.value).decode()
            chosen = paint.green("  chosen") if conflict.chosen == number else ""
            source = paint.dim(f"{item.device or 'unknown'}, {clock.ago(item.at)}")
            line = paint.join(f"    {number}. {' '.join(value.split())}  ", source, chosen)
            lines.append(paint.cut(line, paint.width))
    return Painted("\n".join(lines))


def _lines(added: int | None, removed: int | None) -> str:
    return "" if added is None and removed is None else f"+{added or 0} -{removed or 0}"
