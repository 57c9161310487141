"""Which session a conversation belongs to.

By the agent program's own id of the conversation, wherever that was heard before: a `cd`, another terminal or a
resumed conversation changes nothing. A conversation heard for the first time joins the session its work tree is at,
and starts one where there is none. What a session cannot take any more, because it has ended or because others share
it with us to read, goes to a new one that continues it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from holdfast.capture.interface import Heard
from holdfast.capture.plain import goal_of, plain
from holdfast.capture.signals import (
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
from holdfast.core import view
from holdfast.core.lifecycle import FINISHED
from holdfast.core.state import State
from holdfast.core.times import HOUR
from holdfast.core.vocabulary import Project, SessionStarted
from holdfast.keeper import projects
from holdfast.keeper.captures import opened
from holdfast.keeper.replacing import put_away, was_put_away
from holdfast.store import origin
from holdfast.store.interface import Draft, Transaction

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper

# These tell of a conversation, or of the end of something, not of work: none of them starts a session.
_NO_WORK = (
    Opened, Closed, Measured, Chosen, Active, Replied, Waits, AgentEnded, Compacting, Compacted, Erred, Limited
)  # fmt: skip


class Belonging:
    """Finds the session of each conversation in one transaction of one work tree."""

    def __init__(self, keeper: Keeper, transaction: Transaction, seen: Project | None) -> None:
        self._keeper = keeper
        self._transaction = transaction
        self._seen = seen
        # Conversations linked in this very transaction: the store finds them only after it.
        self.linked: dict[str, str] = {}
        # What the store finds, which is the same until the end of the transaction.
        self._found: dict[str, list[str]] = {}
        self._current = keeper.store().current(keeper.place.root)

    def session(self, heard: Heard, at: int, key: str) -> str | None:
        """The session to record this in, begun if need be; None when it tells of no work and of no known session."""
        name = view.native_name(heard.agent, heard.conversation)
        known = self._known(name)
        if (
            known is not None
            and (
                not self._is_closed(known)
                # Told already, by a process that was killed before the payload went: nothing begins because of it.
                or self._transaction.knows(known.session, f"{key}:0")
            )
            and not self._left(known)
        ):
            self._come_back(known, heard)
            return known.session
        if not is_work(heard):
            return None
        # Also when its own session has ended: what the work tree is at now is what is worked on.
        found = self._joined(at)
        if found is None:
            found = self._begin(heard, at, key, continues=known or self._only_read())
        self.linked[name] = found
        return found

    def _left(self, known: State) -> bool:
        """Whether a person put this session away for another one, which the work tree is at."""
        if not was_put_away(known) or self._current == known.session:
            return False
        current = self._unfinished()
        return current is not None and not view.began_by_itself(current)

    def _come_back(self, known: State, heard: Heard) -> None:
        """A conversation goes on with its session in a work tree that is at none: now it is at this one."""
        own = known.project
        here = own is not None and (
            own.path == self._keeper.place.main or own.id in projects.known(self._keeper.store(), self._keeper.place)
        )
        if here and is_work(heard) and not self._is_closed(known) and self._unfinished() is None:
            self._keeper.make_current(self._transaction, known.session)
            self._current = known.session

    def _is_closed(self, state: State) -> bool:
        """Whether it takes nothing more from here: it has ended, or it is not ours to write."""
        return view.status_of(state) in FINISHED or self._keeper.upkeep.reads_only(state.session)

    def _unfinished(self) -> State | None:
        """The session this work tree is at, while it can go on here."""
        state = self._at()
        return None if state is None or self._is_closed(state) else state

    def _only_read(self) -> State | None:
        """The same, where it could go on if it were ours to write."""
        state = self._at()
        return None if state is None or view.status_of(state) in FINISHED else state

    def _at(self) -> State | None:
        state = None if self._current is None else self._transaction.state(self._current)
        return None if state is None or not state.count or state.deleted else state

    def _known(self, name: str) -> State | None:
        """The session this conversation was heard in last: one of our own before those of others, who may name it to
        have what we do recorded in theirs; then an unfinished one before all others.
        """
        if name in self.linked:
            return self._transaction.state(self.linked[name])
        if name not in self._found:
            self._found[name] = self._keeper.store().find(name)
        states = [self._transaction.state(one) for one in self._found[name]]
        states = [
            state for state in states if state.count and not state.deleted and self._is_linked_by_us(state, name)
        ]
        if len(states) > 1:
            states = [state for state in states if self._keeper.store().may_repair(state.session)] or states
        return max(
            states, key=lambda state: (view.status_of(state) not in FINISHED, state.created_at or 0), default=None
        )

    def _is_linked_by_us(self, state: State, name: str) -> bool:
        """Whether a device of ours said that the conversation belongs to this session.

        Anybody who may write in a session can say so of any conversation: that must not draw our work there.
        """
        native = state.native.get(name.replace(":", "\n", 1))
        writers = () if native is None else native.writers
        keeper = self._keeper
        if not writers or self._transaction.writer() in writers:
            return bool(writers)
        writers = tuple(writer for writer in writers if keeper.store().is_own_stream(state.session, writer))
        if not writers or not os.path.lexists(keeper.home.remotes):
            return bool(writers)
        from holdfast.keeper.teleports import opening
        from holdfast.teleport.keys import is_certified

        shared = origin.share_of(self._transaction, state.session) is not None
        is_ours = opening.here(keeper).is_ours
        return any(is_ours(writer) or not (shared or is_certified(writer)) for writer in writers)

    def _joined(self, at: int) -> str | None:
        """The session this work tree is at, if a new conversation may join it."""
        state = self._unfinished()
        if state is None:
            return None
        # What a person began goes on until they end it. What began by itself ends by itself: by nothing happening.
        hours = self._keeper.settings.number("capture.join_hours")
        if view.began_by_itself(state) and at - state.updated_at > hours * HOUR:
            self._put_away(state, at)
            return None
        return state.session

    def _put_away(self, state: State, at: int) -> None:
        away = [(at, data) for data in put_away(state)]
        self._keeper.recorder.hear(self._transaction, state.session, away, keys=None)

    def _begin(self, heard: Heard, at: int, key: str, *, continues: State | None) -> str:
        from holdfast.keeper.starting import new_id

        keeper = self._keeper
        name = view.native_name(heard.agent, heard.conversation)
        said = opened.recall(keeper.home.path, name) or opened.Opening()
        seen = self._seen or projects.observe(keeper.place, "")
        project = projects.found(keeper.store(), seen)
        session = new_id()
        earlier = None if continues is None else view.word(continues, "goal")
        begins = SessionStarted(
            goal=_goal(heard, said) or earlier or placeholder(heard.agent),
            project=project, device=keeper.device(), timer=keeper.settings.timer,
            continues=None if continues is None else continues.session,
        )  # fmt: skip
        moment = min(at, keeper.now())
        draft = Draft(keeper.recorder.prepare(begins), moment, heard.agent, f"{key}:start")
        self._transaction.record(session, draft)
        self._transaction.know_project(project)
        keeper.make_current(self._transaction, session)
        self._current = session
        return session


def is_work(heard: Heard) -> bool:
    """Whether something happened that belongs into a session, be it a new one."""
    return any(
        not isinstance(signal, _NO_WORK)
        and not (isinstance(signal, Prompted) and goal_of(signal.text) is None)
        # Holdfast's own commands, run by the agent, must not reopen what they have just ended.
        and not (isinstance(signal, Ran) and signal.command.lstrip().startswith("holdfast "))
        for signal in heard.signals
    )


def placeholder(agent: str) -> str:
    """The goal of a session whose first prompt was not heard."""
    return f"Work with {agent}"


def _goal(heard: Heard, said: opened.Opening) -> str | None:
    for signal in heard.signals:
        if isinstance(signal, Prompted):
            return goal_of(signal.text)
    return plain(said.title, 200) if said.title else None


def needs_project(keeper: Keeper, told: list[tuple[Heard, int]]) -> bool:
    """Whether one of these may begin a session: then git is asked before the transaction, not within it."""
    store = keeper.existing_store()
    fresh = [heard for heard, _ in told if is_work(heard)]
    if not fresh:
        return False
    if store is None:
        return True
    names = {view.native_name(heard.agent, heard.conversation) for heard in fresh}
    current = store.current(keeper.place.root)
    state = None if current is None else store.state(current)
    if state is not None and keeper.upkeep.reads_only(state.session):
        return True
    if all(store.find(name) for name in names):
        return False
    return state is None or view.status_of(state) in FINISHED
