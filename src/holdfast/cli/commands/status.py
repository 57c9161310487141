"""`holdfast status`: where things stand, at a glance."""

from __future__ import annotations

from holdfast.cli.call import Call
from holdfast.cli.clock import Clock
from holdfast.cli.glance import glance
from holdfast.cli.paint import Paint, Painted
from holdfast.core.model import Session
from holdfast.core.state import State


def run(call: Call) -> None:
    reference = call.parsed.text("id") or "@"
    found = call.keeper.current(at=call.at) if reference == "@" else call.keeper.session(reference)
    if found is None:
        call.answer({"session": None}, lambda paint: _nothing(call, paint))
        return
    at = call.at
    now = call.keeper.now() if at is None else at
    state = found.state(at=at)
    document = found.described(state, now)
    call.answer({"session": document}, lambda paint: glance(
        paint, document, Clock(now), hint=not call.quiet,
        gone=_gone(state, document) if at is None else frozenset(),
    ))  # fmt: skip
    if at is None and document.sync.status in ("pending", "error"):
        call.keeper.upkeep.travel()  # what could not be sent when it was recorded is tried again


def _gone(state: State, document: Session) -> frozenset[str]:
    """Agents recorded as at work whose process is not there any more."""
    if document.ended_at is not None or all(agent.status not in ("running", "paused") for agent in document.agents):
        return frozenset()
    from holdfast.keeper.resuming import lost

    return frozenset(agent.id for agent in lost(state)[0])


def _nothing(call: Call, paint: Paint) -> Painted:
    lines = [paint.join("No session is in progress here. Start one: ", paint.bold("holdfast start GOAL"))]
    latest = call.keeper.latest_unfinished()
    if latest is not None:
        document = latest.document()
        ago = Clock(call.keeper.now()).ago(document.updated_at)
        lines += [
            paint.join("Or go on with the latest: ", paint.bold("holdfast continue")),
            paint.cut(paint.join("  ", paint.dim(f"{latest.id[:8]}, {ago}  "), document.goal), paint.width),
        ]
    return Painted("\n".join(lines))
