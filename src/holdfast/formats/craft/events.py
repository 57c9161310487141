"""Everything a craft document tells, as events: an import.

The document says what is, the events what happened: each thing at the time it names, what names none at the time
the document was last changed, and what ended the session, or paused it, last.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from holdfast.core import view
from holdfast.core.events import (
    ContextCompressed,
    ContextMeasured,
    DecisionMade,
    EventData,
    FileChanged,
    NoteAdded,
    ProjectFacts,
    SessionAborted,
    SessionCompleted,
    SessionEdited,
    SessionFailed,
    SessionPaused,
    SessionSaved,
    SessionStarted,
    TaskAdded,
    TaskCompleted,
)
from holdfast.core.text import check_relative_path
from holdfast.formats.base import Document, ImportContext, TimedEvent
from holdfast.formats.convert import folded
from holdfast.formats.craft import agents, fields, rules
from holdfast.formats.craft import names as craft_names
from holdfast.formats.craft.agents import TimeSpan
from holdfast.formats.craft.render import project_path
from holdfast.formats.craft.structs import PERSON

MOST_COMPRESSIONS: Final = 50
_ACTIONS: Final = {"files_created": "created", "files_modified": "modified", "files_deleted": "deleted"}


def import_events(document: Document, alias: str, ground: ImportContext) -> list[TimedEvent]:
    begin = min(_or(fields.moment(document, "created_at"), ground.now), ground.now)
    usual = min(max(_or(fields.moment(document, "updated_at"), begin), begin), ground.now)
    span = TimeSpan(begin, usual, ground.now)
    heard = sorted([_started(document, alias, begin, ground), *_things(document, span)], key=lambda one: one.at)
    last = max(heard[-1].at, usual)
    progress = fields.number(document, "progress")
    if progress is not None and progress != view.progress_of(folded(heard, alias)):
        heard.append(TimedEvent(last, SessionEdited(progress=progress)))
    ending = moved(str(document.get("status")))
    if ending is not None:
        heard.append(TimedEvent(last, ending))
    elif heard[-1].at < last:
        heard.append(TimedEvent(last, SessionSaved()))
    return heard


def _or(found: int | None, otherwise: int) -> int:
    return otherwise if found is None else found


def _started(document: Document, alias: str, begin: int, ground: ImportContext) -> TimedEvent:
    return TimedEvent(
        begin,
        SessionStarted(
            goal=str(document.get("goal")),
            project=_project(document, ground),
            device=fields.said(document, "device") or ground.device,
            devices=_devices(document),
            mode=str(document.get("mode")),
            tags=tuple(dict.fromkeys(fields.texts(fields.part(document, "metadata"), "tags"))),
            aliases={"craft": alias},
            timer=ground.timer,
        ),
    )


def _devices(document: Document) -> tuple[str, ...]:
    """Every device that the document names, the one that wrote last too."""
    names = [fields.said(document, "device"), *fields.texts(fields.part(document, "teleportation"), "devices")]
    return tuple(dict.fromkeys(name for name in names if name))


def _project(document: Document, ground: ImportContext) -> ProjectFacts:
    """The project it was found in, as the document describes it."""
    metadata, project = fields.part(document, "metadata"), ground.project
    path = fields.text(document, "project")
    if path and path != project_path(project.path, project.name):
        name = re.split(r"[/\\]", path.rstrip("/\\"))[-1]
        project = msgspec.structs.replace(project, path=path, name=name or project.name, git_commit=None)
    if "git_branch" in metadata:
        project = msgspec.structs.replace(project, git_branch=fields.text(metadata, "git_branch"))
    if "git_commit" in metadata:
        project = msgspec.structs.replace(project, git_commit=fields.text(metadata, "git_commit"))
    return project


def _things(document: Document, span: TimeSpan) -> Iterator[TimedEvent]:
    done, pending = fields.texts(document, "completed_work"), fields.texts(document, "pending_tasks")
    for number, text in enumerate((*done, *pending), 1):
        yield TimedEvent(span.begin, TaskAdded(id=f"t{number}", text=text))
    tokens = by_agent(document)
    crew = fields.parts(document, "agents")
    for agent in crew:
        yield from agents.story(agent, span, tokens.get(str(agent.get("id"))))
    yield from decisions(fields.parts(document, "decisions_made"), span)
    changes = fields.parts(document, "files_modified")
    yield from files(changes, span)
    for agent in crew:
        yield from artifacts(agent, {}, changes, span)
    for number in range(1, len(done) + 1):
        yield TimedEvent(span.usual, TaskCompleted(id=f"t{number}"))
    yield from _context(document, tokens, span)
    note = fields.said(fields.part(document, "metadata"), "notes")
    if note is not None:
        yield TimedEvent(span.usual, NoteAdded(text=note))


def _context(document: Document, tokens: dict[str, int], span: TimeSpan) -> Iterator[TimedEvent]:
    usage = fields.part(document, "context_usage")
    done = {agent.get("id") for agent in fields.parts(document, "agents") if agent.get("status") == "completed"}
    for name, count in tokens.items():
        if name not in done:  # those said it themselves
            yield TimedEvent(span.usual, ContextMeasured(tokens=count, agent=name))
    # The count is what the context holds now, after it was compressed.
    yield from compressions(fields.whole(usage, "compression_count") or 0, usage, span)
    total = fields.whole(usage, "estimated_tokens") or 0
    if total or tokens:
        yield TimedEvent(span.usual, ContextMeasured(tokens=total))


# ── also what is new in a later version ──────────────────────────────────────────────────────────────────


def decisions(entries: Iterable[Document], span: TimeSpan) -> Iterator[TimedEvent]:
    for entry in entries:
        chosen = fields.said(entry, "chosen")
        if chosen is not None:
            yield TimedEvent(
                span.clamped(fields.moment(entry, "timestamp")),
                DecisionMade(
                    chosen=chosen,
                    context=fields.said(entry, "context"),
                    options=tuple(item for item in fields.entries(entry, "options") if isinstance(item, str)),
                    why=fields.text(entry, "reasoning"),
                ),
            )


def files(entries: Iterable[Document], span: TimeSpan) -> Iterator[TimedEvent]:
    for entry in entries:
        path = fields.text(entry, "path")
        if path is not None and rules.is_inside(path):
            yield TimedEvent(
                span.clamped(fields.moment(entry, "timestamp")),
                FileChanged(
                    path=check_relative_path(path),
                    action=str(entry.get("action")),
                    agent=_by(entry),
                    lines_added=fields.whole(entry, "lines_added"),
                    lines_removed=fields.whole(entry, "lines_removed"),
                    hash_before=fields.text(entry, "hash_before"),
                    hash_after=fields.text(entry, "hash_after"),
                ),
            )


def _by(entry: Document) -> str | None:
    agent = fields.text(entry, "agent_id")
    return None if agent == PERSON else agent


def artifacts(agent: Document, known: Document, changes: Iterable[Document], span: TimeSpan) -> Iterator[TimedEvent]:
    """Files an agent names as its own that no entry about files has, and that it did not name before."""
    name = fields.text(agent, "id")
    listed = {(_path(entry.get("path")), entry.get("action")) for entry in changes if _by(entry) == name}
    earlier, touched = fields.part(known, "artifacts"), fields.part(agent, "artifacts")
    at = agents.ended(agent, span)
    for key, action in _ACTIONS.items():
        before = {_path(path) for path in fields.texts(earlier, key)}
        for path in dict.fromkeys(_path(path) for path in fields.texts(touched, key)):
            if path is not None and path not in before and (path, action) not in listed:
                yield TimedEvent(at, FileChanged(path=path, action=action, agent=name))


def _path(path: object) -> str | None:
    return check_relative_path(path) if isinstance(path, str) and rules.is_inside(path) else None


def compressions(count: int, usage: Document, span: TimeSpan) -> Iterator[TimedEvent]:
    at = span.clamped(fields.moment(usage, "last_compression"))
    for _ in range(min(count, MOST_COMPRESSIONS)):
        yield TimedEvent(at, ContextCompressed())


def by_agent(document: Document) -> dict[str, int]:
    """Tokens by agent: of those whose names can be names."""
    usage = fields.part(fields.part(document, "context_usage"), "by_agent")
    counts = ((name, fields.whole(usage, name)) for name in usage if craft_names.is_name(name))
    return {name: count for name, count in counts if count is not None}


def moved(status: str) -> EventData | None:
    """What leads a session from being in progress to this status."""
    match status:
        case "paused":
            return SessionPaused()
        case "completed":
            return SessionCompleted()
        case "error":
            return SessionFailed(message=craft_names.UNKNOWN_FAILURE)
        case "aborted":
            return SessionAborted()
    return None
