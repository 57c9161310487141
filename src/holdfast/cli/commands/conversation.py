"""`holdfast conversation list|move`: the conversations of a session, with what their transcripts say of them."""

from __future__ import annotations

from holdfast.cli.agent_dirs import places
from holdfast.cli.call import Call
from holdfast.cli.clock import Clock
from holdfast.cli.paint import Column, Paint, Painted
from holdfast.core.model import Conversation


def list_(call: Call) -> None:
    call.keeper.agent_dirs = places(call)
    call.keeper.compare()
    session = call.session_to_read()
    found = session.document(at=call.at).conversations
    clock = Clock(call.keeper.now() if call.at is None else call.at)
    call.answer({"conversations": found}, lambda paint: _table(paint, found, clock))


def move(call: Call) -> None:
    from holdfast.conversations.move import move as moved_to

    session = call.keeper.session(call.parsed.need("to"))
    moved = moved_to(call.keeper, call.parsed.need("conversation"), session.id, at=call.at)
    document = session.document(at=call.at)
    call.done(
        document,
        lambda paint: paint.join(
            paint.green("Moved "), moved.conversation, " to ", paint.bold(session.id[:8]), "  ", document.goal
        ),
        moved=moved._asdict(),
    )


def _table(paint: Paint, found: list[Conversation], clock: Clock) -> Painted:
    if not found:
        return paint.dim("The session has no conversations.")
    columns = [
        Column("Agent"), Column("Conversation"), Column("Title", weight=3, least=12),
        Column("Model", weight=1, least=8), Column("Started"), Column("Prompts", "right"), Column("Tokens", "right"),
        Column("Cost", "right"),
    ]  # fmt: skip
    rows = [
        [conversation.agent, conversation.id[:8], conversation.title or "", conversation.model or "",
         clock.at(conversation.started_at) if conversation.started_at else "",
         "" if conversation.prompts is None else str(conversation.prompts), _tokens(conversation),
         "" if conversation.cost_usd is None else f"{conversation.cost_usd:,.2f} USD"]
        for conversation in found
    ]  # fmt: skip
    keep = [n for n in range(len(columns)) if n < 3 or any(row[n] for row in rows)]
    return paint.table([[row[n] for n in keep] for row in rows], [columns[n] for n in keep])


def _tokens(one: Conversation) -> str:
    used = one.tokens
    known = [number for number in (used.input, used.output, used.cache_read, used.cache_write) if number]
    return f"{sum(known):,}" if known else ""
