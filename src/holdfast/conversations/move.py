"""Move a conversation to another session: later events go there, earlier ones stay."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from holdfast.conversations.ingest.subagents import end_unreported
from holdfast.core import view
from holdfast.core.errors import Conflict, Invalid, NotFound, Refused
from holdfast.core.events import EventData, NativeLinked, NativeMoved
from holdfast.core.lifecycle import FINISHED
from holdfast.core.text import MAX_NAME_LENGTH, check_text, shorten
from holdfast.sessions.history import SHORTEST_PREFIX
from holdfast.sessions.ownership import is_linked, native_of, own_test, session_of
from holdfast.store.interface import Filter

if TYPE_CHECKING:
    from holdfast.core.state import State
    from holdfast.store.interface import Transaction
    from holdfast.workspace.workspace import Workspace


class MovedConversation(NamedTuple):
    """A conversation, as `agent:id`, with its previous and its present session."""

    conversation: str
    before: str | None
    session: str


def move(ws: Workspace, reference: str, to: str, *, at: int | None = None) -> MovedConversation:
    """Move a conversation, given by its native id, a unique prefix of it, or `agent:id`, to a session."""
    ws.collect()
    name = resolve(ws, reference)
    state = ws.state(to)
    if view.status_of(state) in FINISHED:
        raise Refused(
            f"session {to[:8]} has ended: no conversation can be moved to it",
            hint=f"Start one that continues it: holdfast start GOAL --continues {to[:8]}",
            session=to,
        )
    ws.refuse_if_read_only(to)
    with ws.transaction(about=to) as transaction:
        return move_within(ws, transaction, name, to, at=at)


def move_within(
    ws: Workspace, transaction: Transaction, name: str, to: str, *, at: int | None = None
) -> MovedConversation:
    """Move it as part of a larger transaction."""
    agent, _, id_ = name.partition(":")
    before = session_of(ws, name)
    if before is not None and before.session == to:
        raise Conflict(f"conversation {shorten(name, 60)} already belongs to session {to[:8]}", session=to)
    native = None if before is None else native_of(before, name)
    linked = NativeLinked(
        agent=agent, id=id_, resume=None if native is None else view.reopen_command(native),
        process=None if native is None else native.process,
    )  # fmt: skip
    ws.recorder.within(transaction, to, lambda _: [linked], at=at)
    if before is not None and not ws.is_read_only(before.session):

        def leave(state: State) -> Iterator[EventData]:
            # Reports of its agents now go to the other session.
            yield from end_unreported(
                state, name, ws.now() if at is None else at, is_own=own_test(ws, state.session),
                background=True,
            )  # fmt: skip
            yield NativeMoved(agent=agent, id=id_, to=to)

        ws.recorder.within(transaction, before.session, leave, at=at)
    return MovedConversation(name, None if before is None else before.session, to)


def resolve(ws: Workspace, reference: str) -> str:
    """Resolve a native id, a unique prefix of it, or `agent:id` to one conversation."""
    check_text(reference, "the conversation's id", max_length=MAX_NAME_LENGTH)
    store = ws.existing_store()
    if store is not None and session_of(ws, reference) is not None:
        return reference
    lowered = reference.lower()
    matches: dict[str, bool] = {}  # whether the whole id matches
    for row in store.rows(Filter()) if store is not None else ():
        state = store.state(row.id) if store is not None else None
        if state is None or state.deleted:
            continue
        for native in state.native.values():
            name = view.native_name(native.agent, native.id)
            if native.id.lower().startswith(lowered) and is_linked(ws, state, name):
                matches[name] = native.id.lower() == lowered
    candidates = [name for name, is_whole in matches.items() if is_whole] or [
        name for name in matches if len(reference) >= SHORTEST_PREFIX
    ]
    if not candidates:
        raise NotFound(
            f"no conversation matches {shorten(reference, 60)!a}",
            hint="holdfast conversation list ID names the conversations of a session.",
        )
    if len(candidates) > 1:
        listed = ", ".join(candidates[:10]) + (", …" if len(candidates) > 10 else "")
        raise Invalid(
            f"{shorten(reference, 60)!a} matches {len(candidates)} conversations: {listed}",
            hint="Give more of the id, or the agent with it: agent:id",
        )
    return candidates[0]
