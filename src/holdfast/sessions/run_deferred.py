"""What became of a command while the server was away, kept here until it can be recorded.

It waits where hooks leave what they heard, under Holdfast's own name, and the next one that reaches the server
records it with its true times. The keys are those under which it was to be recorded at once: what was saved after
all, though the answer was lost, is there once.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core import agents
from holdfast.core.decode import decodable
from holdfast.core.errors import HoldfastError, Invalid
from holdfast.core.events import EVENT_TYPES, TYPE_OF, AgentCompleted, AgentEvent, AgentResumed, EventData
from holdfast.core.lifecycle import AGENT, allows
from holdfast.core.state import State
from holdfast.machine import files
from holdfast.workspace import spool

if TYPE_CHECKING:
    from holdfast.workspace.workspace import Workspace

OWN: Final = "holdfast"  # whose payloads these are, in the spool
_SOURCE: Final = "run"


class DeferredRun(msgspec.Struct, frozen=True, kw_only=True, rename={"events": "said"}):
    """What is to be recorded of an agent, and where."""

    store: str  # its address, as it may be shown
    session: str
    agent: str
    ref: str
    key: str
    at: int
    actor: str
    events: tuple[tuple[str, dict[str, object]], ...]  # kinds of events, and their data


def course(state: State, agent: str, ref: str, events: Sequence[EventData]) -> Iterator[EventData]:
    """What of it the agent's state allows by now."""
    for data in events:
        if not isinstance(data, AgentEvent):
            yield data
            continue
        own = agents.find(state, agent, ref)
        if own is not None and isinstance(data, AgentCompleted) and agents.status_of(own) == "pending":
            yield AgentResumed(id=agent, ref=ref)  # its start could not be recorded
        # The command may have spoken for itself (holdfast agent done), or someone may have given it up.
        if own is not None and allows(AGENT, agents.status_of(own), TYPE_OF[type(data)].name):
            yield data


def numbered(key: str) -> Iterator[str]:
    return (f"{key}:{number}" for number in itertools.count())


def hand_over(
    ws: Workspace, error: HoldfastError, *, session: str, agent: str, ref: str, key: str, at: int,
    events: Sequence[EventData],
) -> bool:  # fmt: skip
    """Keep it for later, durably. False where waiting does not help, or it cannot be kept."""
    if ws.address.path is not None or not error.retry_helps:
        return False
    plain = tuple((TYPE_OF[type(data)].name, msgspec.to_builtins(data)) for data in events)
    later = DeferredRun(
        store=ws.address.key, session=session, agent=agent, ref=ref, key=key, at=at,
        actor=ws.recorder.actor, events=plain,
    )  # fmt: skip
    try:
        spool.add_payload(ws.home.path, OWN, _SOURCE, 0, msgspec.json.encode(later), store=ws.address.url)
    except OSError:
        return False
    return True


def read(entry: spool.SpoolEntry) -> DeferredRun:
    """Raises `Invalid` for what is none, or not yet: somebody may still be writing it."""
    raw = files.read_limited(entry.path, spool.MAX_PAYLOAD_SIZE, what="what became of a command")
    try:
        return msgspec.json.decode(entry.payload(raw), type=decodable(DeferredRun))
    except msgspec.MsgspecError:
        raise Invalid("it says nothing of a command that ran") from None


def take_in(ws: Workspace, later: DeferredRun, patience: float) -> None:
    try:
        events = [msgspec.convert(data, decodable(EVENT_TYPES[kind].data)) for kind, data in later.events]
    except (msgspec.MsgspecError, KeyError):
        raise Invalid("it says nothing of a command that ran") from None
    with ws.transaction(patience=patience, about=later.session) as transaction:
        if transaction.knows(later.session, f"{later.key}:0"):
            return
        allowed = course(transaction.state(later.session), later.agent, later.ref, events)
        ws.recorder.append_reported(
            transaction, later.session, ((later.at, data) for data in allowed),
            keys=numbered(later.key), actor=later.actor,
        )  # fmt: skip
