"""Decide which session a conversation belongs to that hooks report; `backfill.placement` places transcripts by the
same rule.

A person who starts or resumes a session means the next conversations in that work tree: they join it. Otherwise each
conversation is its own session. What a conversation reports before it has a session is kept in a file.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from itertools import count as counting
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from holdfast.conversations.adapters.base import HookEvent
from holdfast.conversations.adapters.clean_text import goal_of, plain
from holdfast.conversations.signals import (
    Active,
    AgentEnded,
    Chosen,
    Closed,
    Compacted,
    Compacting,
    Erred,
    Limited,
    Measured,
    Opened,
    Prompted,
    Ran,
    Replied,
    Waits,
)
from holdfast.conversations.status_cache_writer import forget_old
from holdfast.core import own_events, view
from holdfast.core.canonical import Json, digest
from holdfast.core.decode import decodable
from holdfast.core.errors import HoldfastError
from holdfast.core.events import NativeMoved, ProjectFacts, SessionEdited, SessionStarted
from holdfast.core.lifecycle import FINISHED
from holdfast.core.own_events import IsOwn
from holdfast.core.state import State
from holdfast.core.times import HOUR
from holdfast.machine import files
from holdfast.sessions import ownership, work_trees
from holdfast.sessions.ownership import own_test
from holdfast.sessions.start import is_replacement
from holdfast.sessions.work_trees import make_current
from holdfast.store.interface import Draft, Transaction
from holdfast.workspace import projects

if TYPE_CHECKING:
    from holdfast.workspace.workspace import Workspace


class Candidate(NamedTuple):
    """A session of the work tree that a conversation could join."""

    session: str
    # Whether one of our devices started or resumed it.
    resumed: bool
    # Of our devices, too: after activity of others, our conversations do not join it.
    last_sign: int
    closed: bool = False


def candidate(state: State, is_own: IsOwn, *, closed: bool = False) -> Candidate:
    resumed = own_events.started_or_resumed_at(state, is_own) is not None
    return Candidate(state.session, resumed, own_events.last_activity(state, is_own), closed)


def can_be_joined(current: Candidate, at: int, join_window: int) -> bool:
    """Whether a conversation that starts at this time joins it, within `join_window` (ms) of its last sign."""
    return current.resumed and not current.closed and at - current.last_sign < join_window


def session_for(
    linked_session: str | None, current: Candidate | None, *, single: bool, at: int, join_window: int
) -> str | None:
    """The session for what a conversation reports at this time; None to start one.

    `linked_session` is the one that the conversation belongs to, unless closed. `single`: a mirror holds one session,
    so the work tree has only one, and everything joins it.
    """
    if single and current is not None and not current.closed:
        return current.session
    if linked_session is not None:
        return linked_session
    if current is not None and can_be_joined(current, at, join_window):
        return current.session
    return None


# Signals about a conversation or the end of something, not about work: none of them starts a session.
_NO_WORK: Final = (
    Opened, Closed, Measured, Chosen, Active, Replied, Waits, AgentEnded, Compacting, Compacted, Erred, Limited
)  # fmt: skip

_SINGLE: Final = frozenset({"orchestrator", "timer"})  # formats that hold one session


class Router:
    """Finds the session of each conversation in one transaction of one work tree."""

    def __init__(self, ws: Workspace, transaction: Transaction, facts: ProjectFacts | None) -> None:
        self._ws = ws
        self._transaction = transaction
        self._facts = facts
        # Conversations linked in this transaction, which the store finds only after it.
        self.linked: dict[str, str] = {}
        # Results of the store, which do not change during the transaction.
        self._stored_sessions: dict[str, list[str]] = {}
        self._current = ws.store().current(ws.place.root)
        self._join_window = round(ws.settings.number("capture.join_hours") * HOUR)
        self._single: bool | None = None
        self._own_tests: dict[str, IsOwn] = {}

    def session(self, event: HookEvent, at: int, key: str) -> str | None:
        """The session to record an event in, started if needed; None if it is not work and no session is known."""
        name = view.native_name(event.agent, event.conversation)
        known = self._session_of(name)
        # Already recorded by a process that was killed before it removed the payload: it starts nothing.
        if known is not None and self._transaction.knows(known.session, f"{key}:0"):
            return known.session
        linked_session = (
            None if known is None or self._is_closed(known) or self._was_replaced(known, name, at) else known.session
        )
        if linked_session is None and not is_work(event):
            return None
        current = None if linked_session is not None and not self._is_single() else self._candidate(at)
        session_id = session_for(
            linked_session, current, single=self._is_single(), at=at, join_window=self._join_window
        )
        if session_id is None:
            session_id = self._start_session(event, at, key, continues=known or self._read_only_current())
        elif known is not None and session_id == linked_session:
            self._follow_prompt(known, event)
        if known is None or session_id != known.session:
            self.linked[name] = session_id
        if known is not None and session_id != known.session and not self._is_closed(known):
            moved = NativeMoved(agent=event.agent, id=event.conversation, to=session_id)
            self._ws.recorder.append_reported(
                self._transaction, known.session, [(at, moved)], keys=None, actor=event.agent
            )
        return session_id

    def _was_replaced(self, known: State, name: str, at: int) -> bool:
        """Whether a person replaced this session by another one, which conversations join. A conversation that was
        moved to this session since then stays in it.
        """
        if self._current == known.session or view.status_of(known) not in ("paused", "in_progress"):
            return False
        # Only marks of our devices count: others may pause and resume without us.
        mark = own_events.latest_mark(known, self._is_own(known))
        if mark is None or not is_replacement(mark):
            return False
        moved = ownership.moved_here_at(self._ws, known, name)
        if moved is not None and moved >= mark.at:
            return False
        other = self._candidate(at)
        return other is not None and can_be_joined(other, at, self._join_window)

    def _candidate(self, at: int) -> Candidate | None:
        """The session that a conversation could join: the one last started or resumed by a person in this work tree,
        or the current one while a mirror holds it.
        """
        if self._is_single():
            state = self._unfinished_current()
            return None if state is None else self._single_candidate(state, at)
        open_here = work_trees.open_among(self._ws, self._transaction, self._current, self._transaction.state)
        resumed = [
            (since, state.session == self._current, state)
            for state in open_here
            if (since := own_events.started_or_resumed_at(state, self._is_own(state))) is not None
            and not own_events.is_archived_by_us(state, self._is_own(state))
            and not self._is_closed(state)
        ]
        if not resumed:
            return None
        state = max(resumed, key=lambda entry: entry[:2])[2]
        return candidate(state, self._is_own(state))

    def _single_candidate(self, state: State, at: int) -> Candidate:
        current = candidate(state, self._is_own(state), closed=self._ws.is_over(state, at=at))
        # Activity of others does not keep a session open for us that started by itself.
        was_left = view.began_by_itself(state) and at - current.last_sign >= self._join_window
        if was_left and own_events.has_others(state, self._is_own(state)):
            return current._replace(closed=True)
        return current

    def _is_own(self, state: State) -> IsOwn:
        if state.session not in self._own_tests:
            self._own_tests[state.session] = own_test(self._ws, state.session)
        return self._own_tests[state.session]

    def _is_single(self) -> bool:
        """Whether a mirror's format holds only one session."""
        if self._single is None:
            self._single = any(follower.holds_one_session(self._ws) for follower in self._ws.followers)
        return self._single

    def _follow_prompt(self, known: State, event: HookEvent) -> None:
        """Make the session of the latest prompt the work tree's current one; any other activity only if there is
        none.
        """
        if known.session == self._current or not is_work(event):
            return
        if (
            not any(isinstance(signal, Prompted) for signal in event.signals)
            and self._unfinished_current() is not None
        ):
            return
        project = known.project
        in_this_tree = project is not None and (
            project.path == self._ws.place.main
            or project.id in projects.project_ids(self._ws.store(), self._ws.place)
        )
        if in_this_tree:
            make_current(self._ws, self._transaction, known.session)
            self._current = known.session

    def _is_closed(self, state: State) -> bool:
        """Whether nothing can be recorded in it here: it has ended, or is read-only."""
        return view.status_of(state) in FINISHED or self._ws.is_read_only(state.session)

    def _unfinished_current(self) -> State | None:
        """The current session of this work tree, unless closed."""
        state = self._current_state()
        return None if state is None or self._is_closed(state) else state

    def _read_only_current(self) -> State | None:
        """The current session, if it is shared with us to read: a session started instead continues it."""
        state = self._current_state()
        only_read = state is not None and self._ws.is_read_only(state.session)
        return state if state is not None and only_read and view.status_of(state) not in FINISHED else None

    def _current_state(self) -> State | None:
        state = None if self._current is None else self._transaction.state(self._current)
        return None if state is None or not state.count or state.deleted else state

    def _session_of(self, name: str) -> State | None:
        """The session that this conversation belongs to at present."""
        if name in self.linked:
            return self._transaction.state(self.linked[name])
        if name not in self._stored_sessions:
            self._stored_sessions[name] = self._ws.store().find(name)
        return ownership.best_session(
            self._ws, (self._transaction.state(item) for item in self._stored_sessions[name]), name
        )

    def _start_session(self, event: HookEvent, at: int, key: str, *, continues: State | None) -> str:
        from holdfast.sessions.start import new_id

        ws = self._ws
        name = view.native_name(event.agent, event.conversation)
        opening = recall_opening(ws.home.path, name) or Opening()
        facts = self._facts or projects.observe(ws.place, "")
        project = projects.find_project(ws.store(), facts)
        session = new_id()
        earlier = None if continues is None else view.text_value(continues, "goal")
        started = SessionStarted(
            goal=_goal_of(event, opening) or earlier or placeholder(event.agent),
            project=project, device=ws.device(), timer=ws.settings.timer,
            continues=None if continues is None else continues.session,
        )  # fmt: skip
        started_at = min(at, ws.now())
        draft = Draft(ws.recorder.prepare(started), started_at, event.agent, f"{key}:start")
        self._transaction.record(session, draft)
        if continues is not None:
            from holdfast.sessions.fork import open_plan_events

            plan = open_plan_events(continues, self._transaction.writer(), ws.device())
            keys = (f"{key}:open_plan_events:{number}" for number in counting())
            ws.recorder.append_reported(
                self._transaction, session, ((started_at, data) for data in plan), keys=keys, actor=event.agent
            )
        self._transaction.remember_project(project)
        make_current(ws, self._transaction, session)
        self._current = session
        return session


def is_work(event: HookEvent) -> bool:
    """Whether the event is work, which belongs to a session and may start one."""
    return any(
        not isinstance(signal, _NO_WORK)
        and not (isinstance(signal, Prompted) and goal_of(signal.text) is None)
        # Holdfast commands that the agent runs must not reopen what they just ended.
        and not (isinstance(signal, Ran) and signal.command.lstrip().startswith("holdfast "))
        for signal in event.signals
    )


def placeholder(agent: str) -> str:
    """The goal of a session whose first prompt was not reported."""
    return f"Work with {agent}"


def name_after_title(state: State, agent: str, conversation: str, title: str | None) -> Iterator[SessionEdited]:
    """Name a session that a conversation started after the agent's title, unless somebody renamed it."""
    name = plain(title or "", 200).strip()
    if state.renamed or not was_started_by(state, agent, conversation):
        return
    if name and name != view.text_value(state, "goal") and view.status_of(state) not in FINISHED:
        yield SessionEdited(goal=name)


def continue_parent(
    ws: Workspace, state: State, agent: str, conversation: str, parent: str | None
) -> Iterator[SessionEdited]:
    """Let the session of a forked conversation continue its parent's, which only the transcript names."""
    if (
        parent in (None, conversation)
        or state.continues is not None
        or not was_started_by(state, agent, conversation)
    ):
        return
    origin_of = ownership.session_of(ws, view.native_name(agent, plain(parent or "", 200)))
    if origin_of is not None and origin_of.session != state.session and view.status_of(state) not in FINISHED:
        yield SessionEdited(continues=origin_of.session)


def was_started_by(state: State, agent: str, conversation: str) -> bool:
    """Whether this conversation started the session."""
    first = next(iter(state.native.values()), None)
    return state.captured and first is not None and (first.agent, first.id) == (agent, conversation)


def _goal_of(event: HookEvent, opening: Opening) -> str | None:
    for signal in event.signals:
        if isinstance(signal, Prompted):
            return goal_of(signal.text)
    return plain(opening.title, 200) if opening.title else None


def needs_project(ws: Workspace, reported: list[tuple[HookEvent, int]]) -> bool:
    """Whether one of these may start a session: then git is read before the transaction, not within it."""
    store = ws.existing_store()
    work = [event for event, _ in reported if is_work(event)]
    if not work:
        return False
    if store is None:
        return True
    names = {view.native_name(event.agent, event.conversation) for event in work}
    current = store.current(ws.place.root)
    state = None if current is None else store.state(current)
    if state is not None and ws.is_read_only(state.session):
        return True
    if all(ownership.session_of(ws, name) for name in names):
        return False
    if state is None or view.status_of(state) in FINISHED:
        return True
    return own_events.started_or_resumed_at(state, own_test(ws, state.session)) is None


# ── conversations without a session ────────────────────────────────────────────────────────────────────


OPENED_DIRECTORY: Final = "opened"


class Opening(msgspec.Struct, omit_defaults=True):
    model: str | None = None
    permission: str | None = None
    title: str | None = None
    rest: dict[str, Json] = {}


def remember_opening(home: str, name: str, opening: Opening, *, now: int) -> None:
    directory = os.path.join(home, OPENED_DIRECTORY)
    files.make_private_dir(directory)
    known = recall_opening(home, name) or Opening()
    merged = Opening(
        model=opening.model or known.model, permission=opening.permission or known.permission,
        title=opening.title or known.title, rest={**known.rest, **opening.rest},
    )  # fmt: skip
    if merged == known:
        return
    files.write_atomic(_opening_path(home, name), msgspec.json.encode(merged), durable=False)
    forget_old(directory, now)


def recall_opening(home: str, name: str) -> Opening | None:
    path = _opening_path(home, name)
    if not os.path.lexists(path):
        return None
    try:
        return msgspec.json.decode(
            files.read_limited(path, 1 << 20, subject="an opened conversation"), type=decodable(Opening)
        )
    except (msgspec.MsgspecError, HoldfastError):
        return None


def forget_opening(home: str, name: str) -> None:
    """Remove what is kept: it is recorded in the session now."""
    with contextlib.suppress(OSError):
        os.unlink(_opening_path(home, name))


def _opening_path(home: str, name: str) -> str:
    return os.path.join(home, OPENED_DIRECTORY, digest(name.encode(errors="surrogatepass"))[:32] + ".json")
