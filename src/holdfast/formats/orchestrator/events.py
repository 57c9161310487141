"""From one document to another, as events; from none at all, that is an import."""

from __future__ import annotations

from itertools import chain

import msgspec

from holdfast.core import view
from holdfast.core.errors import Refused
from holdfast.core.lifecycle import FINISHED, SESSION, allows, refusal
from holdfast.core.modes import MODES
from holdfast.core.state import State
from holdfast.core.vocabulary import (
    TYPE_OF,
    ContextCompressed,
    ContextMeasured,
    Data,
    DecisionMade,
    ErrorNoted,
    Project,
    SessionAborted,
    SessionCompleted,
    SessionEdited,
    SessionPaused,
    SessionResumed,
    SessionSaved,
    SessionStarted,
)
from holdfast.formats import naming
from holdfast.formats.interface import Document, Ground, Heard
from holdfast.formats.orchestrator import usage
from holdfast.formats.orchestrator.agents import Agents
from holdfast.formats.orchestrator.mishaps import Mishaps, read
from holdfast.formats.orchestrator.plan import Plan
from holdfast.formats.orchestrator.reading import names, objects, part, when, whole, words
from holdfast.formats.orchestrator.rendering import shown_agents
from holdfast.formats.orchestrator.story import ERRORS, FIRST, LAST, Story


def changes(before: Document | None, after: Document, state: State | None, ground: Ground) -> list[Heard]:
    if before is None or state is None:
        return _whole(after, ground)
    return _between(before, after, state, ground)


# ── everything ───────────────────────────────────────────────────────────────────────────────────────────


def _whole(document: Document, ground: Ground) -> list[Heard]:
    created = when(document, "created")
    story = Story(ground.now if created is None else created, ground.now)
    end = story.bounded(max(_moments(document), default=ground.now))
    began = story.tell(
        ground.now if created is None else created,
        SessionStarted(
            goal=words(document, "goal") or "work",
            project=_project(document, ground),
            device=ground.device,
            mode=words(document, "mode") or "default",
            status="created" if document.get("status") == "created" else "in_progress",
            aliases={"orchestrator": words(document, "session_id") or ""},
            timer=ground.timer,
        ),
        FIRST,
    )
    _tell(story, None, document, None, added_at=began, moment=end)
    match document.get("status"):
        case "paused":
            story.tell(end, SessionPaused(), LAST)
        case "complete":
            story.tell(end, SessionCompleted(), LAST)
        case "aborted":
            story.tell(end, SessionAborted(), LAST)
        case _ if story.latest < end:
            story.tell(end, SessionSaved(), LAST)
    return story.heard()


def _moments(document: Document) -> list[int]:
    """Every time the document tells: nothing in it happened after it was last saved, whatever that says."""
    told = [when(document, "created"), when(document, "updated")]
    told += chain.from_iterable(
        (when(agent, "started"), when(agent, "completed")) for agent in objects(document, "agents").values()
    )
    told += [when(decision, "timestamp") for decision in objects(document, "decisions_made").values()]
    told += [read(entry, 0).at for entry in names(document, "errors").values()]
    told.append(when(part(document, "context_usage"), "last_compression"))
    return [at for at in told if at is not None]


def _project(document: Document, ground: Ground) -> Project:
    """The project it was found in, as the document describes it."""
    told = part(document, "project")
    path, branch = words(told, "path"), words(told, "git_branch")
    # Of another checkout we know no commit.
    elsewhere = path != ground.project.path or branch != ground.project.git_branch
    return msgspec.structs.replace(
        ground.project,
        name=words(told, "name") or ground.project.name,
        path=path,
        git_branch=branch,
        git_commit=None if elsewhere else ground.project.git_commit,
    )


# ── what is new in it ────────────────────────────────────────────────────────────────────────────────────


def _tell(
    story: Story, before: Document | None, after: Document, state: State | None, *, added_at: int, moment: int
) -> None:
    known = names(before, "errors")
    entries = enumerate(names(after, "errors").items())
    mishaps = Mishaps([read(entry, position) for position, (name, entry) in entries if name not in known])

    agents = Agents(story, mishaps, moment)
    earlier = objects(before, "agents")
    there = {} if state is None else shown_agents(state)
    otherwise = added_at
    for name, entry in objects(after, "agents").items():
        if name not in earlier or name not in there:
            otherwise = max(otherwise, agents.begun(entry, otherwise))
        else:
            agents.changed(earlier[name], entry, there[name])

    Plan(story, state).tell(before, after, added_at, moment)

    decided = names(before, "decisions_made")
    for name, entry in objects(after, "decisions_made").items():
        if name not in decided:
            at = when(entry, "timestamp")
            chosen = DecisionMade(chosen=words(entry, "decision") or "?", why=words(entry, "rationale"))
            story.tell(moment if at is None else at, chosen)

    _tell_usage(story, before, after, moment)
    for mishap in mishaps.left():
        noted = ErrorNoted(message=mishap.message, category=mishap.category, agent=mishap.agent)
        story.tell(moment if mishap.at is None else mishap.at, noted, ERRORS, mishap.position)


def _tell_usage(story: Story, before: Document | None, after: Document, moment: int) -> None:
    was, now = part(before or {}, "context_usage"), part(after, "context_usage")
    compressed = when(now, "last_compression")
    if compressed is not None and compressed != when(was, "last_compression"):
        story.tell(compressed, ContextCompressed())
    tokens = whole(now, "estimated_tokens")
    if tokens is None or tokens == (whole(was, "estimated_tokens") or 0):
        if before is not None or not _agents_count(after):
            return
        tokens = 0  # said, although the agents' own counts say more
    window = usage.window(tokens, now.get("percentage")) if before is None else None
    story.tell(moment, ContextMeasured(tokens=tokens, window=window))


def _agents_count(document: Document) -> bool:
    return any(whole(agent, "context_tokens") for agent in objects(document, "agents").values())


# ── the difference ───────────────────────────────────────────────────────────────────────────────────────


def _between(before: Document, after: Document, state: State, ground: Ground) -> list[Heard]:
    story = Story(naming.began(state), ground.now)
    moment = story.bounded(_noticed(before, after, ground))
    goal, mode = words(after, "goal"), words(after, "mode")
    edited = SessionEdited(
        goal=goal if goal != words(before, "goal") else None,
        mode=mode if mode in MODES and mode != words(before, "mode") else None,
    )
    if edited != SessionEdited():
        story.tell(moment, edited)
    _tell(story, before, after, state, added_at=moment, moment=moment)
    status = view.status_of(state)
    if after.get("status") != before.get("status"):
        for data in _moves(status, str(after.get("status")), state.session):
            story.tell(max(moment, story.latest), data, LAST)
    elif story and status in FINISHED:
        raise refusal("the session", status, "session.edited", state.session)
    return story.heard()


def _noticed(before: Document, after: Document, ground: Ground) -> int:
    """When it was changed: when it says so, if that is news; else we know of it now."""
    was, now = when(before, "updated"), when(after, "updated")
    return now if now is not None and (was is None or now > was) else ground.now


_MOVES: dict[str, type[SessionResumed | SessionPaused | SessionCompleted | SessionAborted]] = {
    "in_progress": SessionResumed, "paused": SessionPaused, "complete": SessionCompleted, "aborted": SessionAborted,
}  # fmt: skip


def _moves(status: str, wanted: str, session: str) -> list[Data]:
    """From one status of the session to another, by way of work where there is no direct way."""
    if wanted not in _MOVES or status in FINISHED:
        if status in FINISHED:
            raise refusal("the session", status, "session.resumed", session)
        raise Refused(
            f"the session is {status.replace('_', ' ')} and cannot be {wanted[:20]!a}",
            hint=f"A status is one of {', '.join(_MOVES)}.",
            session=session,
        )
    final = _MOVES[wanted]()
    kind = TYPE_OF[type(final)].name
    if allows(SESSION, status, kind):
        return [final]
    if allows(SESSION, status, "session.resumed"):
        return [SessionResumed(), final]
    raise refusal("the session", status, kind, session)
