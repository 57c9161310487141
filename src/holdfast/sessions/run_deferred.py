"""Keep the outcome of a command while the server is away, until it can be recorded.

It waits in the spool under Holdfast's own name, and the next process that reaches the server records it with its true
times. The keys are those of the first try: what was stored although the reply was lost is not recorded twice.
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

OWN: Final = "holdfast"  # the agent's name of these payloads in the spool
_SOURCE: Final = "run"


class DeferredRun(msgspec.Struct, frozen=True, kw_only=True, rename={"events": "said"}):
    """Events of an agent that are to be recorded, and where."""

    store: str  # the address without a password
    session: str
    agent: str
    ref: str
    key: str
    at: int
    actor: str
    events: tuple[tuple[str, dict[str, object]], ...]  # event types with their data


def still_allowed(state: State, agent: str, ref: str, events: Sequence[EventData]) -> Iterator[EventData]:
    """The events that the agent's state still allows."""
    for data in events:
        if not isinstance(data, AgentEvent):
            yield data
            continue
        own = agents.find(state, agent, ref)
        if own is not None and isinstance(data, AgentCompleted) and agents.status_of(own) == "pending":
            yield AgentResumed(id=agent, ref=ref)  # its start could not be recorded
        # The command may have recorded its own end (holdfast agent done), or someone aborted it.
        if own is not None and allows(AGENT, agents.status_of(own), TYPE_OF[type(data)].name):
            yield data


def numbered_keys(key: str) -> Iterator[str]:
    return (f"{key}:{number}" for number in itertools.count())


def store_for_later(
    ws: Workspace, error: HoldfastError, *, session: str, agent: str, ref: str, key: str, at: int,
    events: Sequence[EventData],
) -> bool:  # fmt: skip
    """Store the events durably for later. False if waiting does not help, or storing failed."""
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
    """Raises `Invalid` for a malformed entry, which may still be being written."""
    raw = files.read_limited(entry.path, spool.MAX_PAYLOAD_SIZE, subject="the outcome of a command")
    try:
        return msgspec.json.decode(entry.payload(raw), type=decodable(DeferredRun))
    except msgspec.MsgspecError:
        raise Invalid("it is not the record of a command") from None


def record_deferred(ws: Workspace, later: DeferredRun, patience: float) -> None:
    try:
        events = [msgspec.convert(data, decodable(EVENT_TYPES[kind].data)) for kind, data in later.events]
    except (msgspec.MsgspecError, KeyError):
        raise Invalid("it is not the record of a command") from None
    with ws.transaction(patience=patience, about=later.session) as transaction:
        if transaction.knows(later.session, f"{later.key}:0"):
            return
        allowed = still_allowed(transaction.state(later.session), later.agent, later.ref, events)
        ws.recorder.append_reported(
            transaction, later.session, ((later.at, data) for data in allowed),
            keys=numbered_keys(later.key), actor=later.actor,
        )  # fmt: skip
