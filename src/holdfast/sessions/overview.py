"""All projects at once: unfinished sessions with what waits for the person in them, and the progress of scopes.

A scope is on a hill: uphill while people find out how to do it, downhill while they do it.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.core import agents, view
from holdfast.core.display_names import agent_names, with_readable_names
from holdfast.core.errors import Refused
from holdfast.core.lifecycle import FINISHED
from holdfast.core.text import shorten
from holdfast.core.times import MINUTE
from holdfast.core.wording import CROSSED, count, one_line, open_pause
from holdfast.sessions import history, work_trees
from holdfast.sessions.hours.table import repository
from holdfast.sessions.resume import ended_conversations, lost_agents
from holdfast.sessions.work import described
from holdfast.sessions.work_trees import workspace_of_session
from holdfast.store.interface import Filter
from holdfast.workspace.home import default_home

if TYPE_CHECKING:
    from holdfast.core.agents import FailedAgents
    from holdfast.core.model import Agent, Row, Session
    from holdfast.core.state import State
    from holdfast.store.interface import Store
    from holdfast.workspace.workspace import Workspace


_MAX_LINES: Final = 3  # lines of one kind; the rest are summed up
_MAX_VERSIONS: Final = 500  # sessions whose versions are fetched at once; beyond that, each state is read
_MAX_QUOTE: Final = 200  # characters of a quoted text
_FAILED: Final = {"error": "failed", "timeout": "timed out", "interrupted": "was interrupted"}


class SessionCard(NamedTuple):
    """A session with what a person needs to know at first sight."""

    session: Session
    # Agents recorded as running whose process has ended.
    lost: frozenset[str]
    # The work trees whose current session it is.
    places: tuple[str, ...]
    # Its agents that failed since the person's last message.
    failed: FailedAgents
    # Whether its project's directory is on this machine.
    here: bool
    # What needs the person's attention, in sentences, the most urgent first.
    attention: tuple[str, ...]
    # The command that resumes it in a terminal.
    resume: str


def session_card(ws: Workspace, session_id: str, *, at: int | None = None, state: State | None = None) -> SessionCard:
    """The card of one session, now or at a past moment; `state` is its state then, if already loaded."""
    if state is None:
        state = ws.state(session_id, at=at)
    return _card(ws, ws.store(), state, at)


def with_names(card: SessionCard) -> SessionCard:
    """The card with readable agent names."""
    names = agent_names(card.session.agents)
    return card._replace(
        session=with_readable_names(card.session), lost=frozenset(names.get(id_, id_) for id_ in card.lost)
    )


def unfinished(ws: Workspace) -> list[Row]:
    """Every unfinished session of all projects that is neither archived nor over, the latest change first."""
    ws.collect()
    store = ws.existing_store()
    listed = [] if store is None else store.rows(Filter(unfinished=True, archived=False))
    history.mark_inactive(ws, listed)
    listed = [row for row in listed if not row.over]
    return sorted(listed, key=lambda row: (row.updated_at, row.id), reverse=True)


class SessionCards:
    """A cache of cards for views that refresh. A card is valid until its session or the local state changes, and for
    at most a minute, because times and processes change without an event.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[int, int, str], SessionCard]] = {}

    def recall(self, session: str, mark: tuple[int, int, str]) -> SessionCard | None:
        entry = self._known.get(session)
        return entry[1] if entry is not None and entry[0] == mark else None

    def keep(self, cards: dict[str, tuple[tuple[int, int, str], SessionCard]]) -> None:
        self._known = cards  # cards no longer shown are dropped


def current_cards(
    ws: Workspace, rows: Sequence[Row] | None = None, *, memo: SessionCards | None = None
) -> list[SessionCard]:
    """The cards of unfinished sessions, or of these rows: those that need attention first, then the latest."""
    rows = unfinished(ws) if rows is None else rows
    store = ws.existing_store()
    if store is None or not rows:
        return []
    memo = memo or SessionCards()
    local_version, minute = store.local_state_version(), ws.now() // MINUTE
    versions = store.versions([row.id for row in rows[:_MAX_VERSIONS]])
    cards: dict[str, tuple[tuple[int, int, str], SessionCard]] = {}
    for row in rows:
        mark = (versions.get(row.id, -1), minute, local_version)
        known = None if mark[0] < 0 else memo.recall(row.id, mark)
        if known is None:
            state = store.state(row.id)
            if state is None or state.deleted:  # it was just deleted
                continue
            known = _card(ws, store, state, None)
        cards[row.id] = mark, known
    memo.keep(cards)
    shown = [known for _, known in cards.values()]
    shown.sort(key=lambda card: (card.session.updated_at, card.session.id), reverse=True)
    return sorted(shown, key=lambda card: not card.attention)


def _card(ws: Workspace, store: Store, state: State, at: int | None) -> SessionCard:
    document = described(ws, state, ws.now() if at is None else at)
    lost = lost_agents(state, document) if at is None else frozenset[str]()
    places = tuple(store.places(state.session))
    directory = work_trees.directory(store, state.session, state.project, places=places, prefer=ws.place.root)
    failed = agents.failed_agents(state)
    names = agent_names(document.agents)
    unattended = frozenset(names.get(id_, id_) for id_ in lost | failed.unattended)
    ended = ended_conversations(state, document) if at is None else []
    attention = tuple(_attention(with_readable_names(document), unattended, ended))
    resume = _resume(ws, store, state.session, directory)
    return SessionCard(document, lost, places, failed, directory is not None, attention, resume)


def _resume(ws: Workspace, store: Store, session_id: str, directory: str | None) -> str:
    short = session_id[:8]
    command = f"{_env_prefix(ws)}holdfast resume {short if len(store.find(short)) < 2 else session_id}"
    # A path with unprintable characters cannot be pasted into a terminal.
    return (
        command if directory is None or not directory.isprintable() else f"cd {shlex.quote(directory)} && {command}"
    )


def _env_prefix(ws: Workspace) -> str:
    """The variables that a command needs where home or store are not the default ones."""
    variables = []
    if ws.home.path != os.path.abspath(default_home()):
        variables.append(f"HOLDFAST_HOME={shlex.quote(ws.home.path)} ")
    if ws.address.path != ws.home.store:
        variables.append(f"HOLDFAST_STORE={shlex.quote(ws.address.url)} ")
    words = "".join(variables)
    return words if words.isprintable() and os.name != "nt" else ""  # Windows shells set variables differently


# ── what waits for the person ────────────────────────────────────────────────────────────────────────────


def _attention(session: Session, unattended: frozenset[str], ended: Sequence[str]) -> Iterator[str]:
    if session.ended_at is None:
        for wait in session.waiting:
            yield f"Waits for {_quoted(wait.for_)}" + (f": {_quoted(wait.text)}" if wait.text else "")
    disputed = [conflict.field for conflict in session.conflicts if conflict.chosen is None]
    for field in disputed[:_MAX_LINES]:
        yield f"Devices disagree on {_quoted(field)}"
    if len(disputed) > _MAX_LINES:
        yield f"Devices disagree on {count(len(disputed) - _MAX_LINES, 'more thing')}"
    if session.ended_at is None:
        yield from _failures(session, unattended)
        for name in ended[:_MAX_LINES]:
            yield f"{name} ended without a report"
        yield from _reminder(session)
        if session.context.level == "compress":
            yield f"The context is {session.context.percent or 0:g}% full: compress it"
    if session.sync.status == "error" or session.sync.error is not None:
        yield f"Sync: {_quoted(session.sync.error or 'it failed')}"


def _failures(session: Session, unattended: frozenset[str]) -> Iterator[str]:
    if session.status == "error":
        message = session.errors[-1].message if session.errors else None
        yield "Stopped by an error" + (f": {_quoted(message)}" if message else "")
    failed = [agent for agent in session.agents if agent.id in unattended]
    for agent in failed[:_MAX_LINES]:
        yield _failed(agent)
    if len(failed) > _MAX_LINES:
        yield f"{count(len(failed) - _MAX_LINES, 'more agent')} failed"


def _failed(agent: Agent) -> str:
    if agent.status not in _FAILED:
        return f"Agent {_quoted(agent.id)} ended without finishing"
    message = agent.error.message if agent.error is not None and agent.status == "error" else None
    return f"Agent {_quoted(agent.id)} {_FAILED[agent.status]}" + (f": {_quoted(message)}" if message else "")


def _reminder(session: Session) -> Iterator[str]:
    line, rest = session.time.reminder, open_pause(session)
    if rest is not None and rest.kind == "timeout":
        yield "Paused: the working-time limit was reached"
    elif rest is None and session.status == "in_progress" and line is not None:
        yield CROSSED[line].capitalize()


def _quoted(text: str) -> str:
    return shorten(one_line(text), _MAX_QUOTE)


# ── hills ──────────────────────────────────────────────────────────────────────────────────────────────


_MAX_RECENT: Final = 200  # recent sessions, besides unfinished ones, that are searched for moved scopes


class Hill(NamedTuple):
    """The position of a scope on its hill: 0 not started, 5 the crest, 10 done."""

    project: str
    scope: str
    position: int
    # None if it was never moved.
    moved_at: int | None
    # The session that records a move: an unfinished one of the project, else the one it was last moved in.
    session: str


def hills(ws: Workspace) -> list[Hill]:
    """The scopes of unfinished sessions and those moved in recent ones, at their latest positions."""
    ws.collect()
    store = ws.existing_store()
    if store is None:
        return []
    criteria = Filter(archived=False, now=ws.now(), archive_after=ws.home_settings.archive_after)
    open_rows = store.rows(criteria._replace(unfinished=True))
    recent = store.rows(criteria._replace(limit=_MAX_RECENT))
    placed: dict[tuple[str, str], Hill] = {}
    for session in dict.fromkeys(row.id for row in (*open_rows, *recent)):
        state = store.state(session)
        if state is not None and not state.deleted:
            _add_scopes(placed, state)
    return sorted(placed.values(), key=lambda hill: (hill.project, hill.scope))


def _add_scopes(placed: dict[tuple[str, str], Hill], state: State) -> None:
    """Add the scopes of a session. Sessions come newest first: the session to move a scope in is the first one."""
    is_open = view.status_of(state) not in FINISHED
    own = view.text_value(state, "scope")
    moves: dict[str, tuple[int, int] | None] = {own: None} if is_open and own else {}
    moves.update(state.hill)
    which, name = ("", "") if state.project is None else (repository(state.project), state.project.name)
    for scope, move in moves.items():
        at, position = (None, 0) if move is None else move
        new = Hill(name, scope, position, at, state.session)
        old = placed.get((which, scope))
        if old is None:
            placed[which, scope] = new
        elif at is not None and (old.moved_at is None or (at, position) > (old.moved_at, old.position)):
            placed[which, scope] = old._replace(position=position, moved_at=at)


def move_scope(ws: Workspace, session_id: str, scope: str, position: int) -> None:
    """Move a scope on its hill, from the session's work tree if that is on this machine, else from here."""
    from holdfast.sessions.work import Work

    try:
        tree_ws = workspace_of_session(ws, session_id)
    except Refused:  # the project does not have to be on this machine
        tree_ws = ws
    Work(tree_ws, session_id).hill(scope, position)
