"""Write events as history lines, and restore events from them.

Each line shows one event in the contract's fields and carries it whole under a key of ours, so that the session, and
every other file of the feature, can be restored from history alone. A line that was edited no longer matches the hash
it carries and is ignored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from holdfast.core import agents, times, view
from holdfast.core.canonical import Json, canonical_json
from holdfast.core.clock import adjusted_clocks, log_position
from holdfast.core.decode import decodable
from holdfast.core.envelope import Event, StreamHead, event_document, find_problem
from holdfast.core.errors import Invalid
from holdfast.core.events import (
    AgentEvent,
    AgentFailed,
    AgentStarted,
    AgentTimedOut,
    CommandRan,
    ErrorNoted,
    EventData,
    SessionFailed,
)
from holdfast.core.fold import apply, fold, in_log_order, skip_duplicate
from holdfast.core.state import State
from holdfast.core.text import shorten
from holdfast.formats.contract.fields import OWN, OWN_ALSO, model_name
from holdfast.formats.contract.render import active_task
from holdfast.formats.timestamps import in_seconds

_MAX_TEXT_LENGTH: Final = 200
# A line's arguments show the first of these fields that the event has, after its id.
_ARGUMENT_FIELDS: Final = (
    "goal", "chosen", "text", "message", "command", "summary", "outcome", "reason", "path", "line", "device",
    "scope", "name", "tokens", "progress", "role",
)  # fmt: skip
# Data that is not canonical JSON cannot be rebuilt from its value: its bytes in hex.
_BYTES: Final = "data_bytes"
_NO_MODELS: Final[Mapping[str, str]] = {}
# Events after which lines show something else: the active task, the model, an agent's run time.
_CHANGES_LINES: Final = frozenset({
    "session.started", "session.edited", "extra.kept", "conflict.resolved", "event.erased", "phase.added",
    "agent.started", "agent.retried", "agent.resumed",
    "task.added", "task.started", "task.completed", "task.blocked", "task.reopened", "task.dropped", "task.edited",
})  # fmt: skip


class _Carried(msgspec.Struct, gc=False):
    v: int
    session: str
    writer: str
    seq: int
    clock: int
    at: str
    seen: list[StreamHead]
    key: str | None
    actor: str
    type: str
    body: str
    prev: str | None
    hash: str
    data: Json
    salt: str | None
    data_bytes: str | None = None


# ── writing ──────────────────────────────────────────────────────────────────────────────────────────────


def with_states(
    events: Sequence[Event], state: State, all_events: Callable[[], Iterable[Event]], *, latest: bool = False
) -> Iterator[tuple[Event, State]]:
    """Each of these events, in log order, with the state at that time, which is valid until the next iteration.

    `state` is the present one. With `latest`, the events are the newest ones: if none of them changes what a line
    shows, the present state serves for all.
    """
    if latest and (len(events) == 1 or not any(event.type in _CHANGES_LINES for event in events)):
        yield from ((event, state) for event in events)
        return
    ordered = list(all_events())
    counting = {event.hash: event for event in in_log_order(ordered)}
    hashes = {event.hash for event in events}
    state_then = State(session=state.session)
    for event in ordered:
        step, counted = (apply, counting[event.hash]) if event.hash in counting else (skip_duplicate, event)
        step(state_then, counted, clock=state.moved.get(event.hash))
        if event.hash in hashes:
            yield event, state_then


def history_line(
    event: Event,
    data: EventData | None,
    state_after: State,
    models: Mapping[str, str] = _NO_MODELS,
    also: Sequence[Event] = (),
) -> dict[str, Json]:
    """The line for one event. `data` is None when erased or unknown.

    `also`: earlier events that need no line of their own, because they came from lines that others wrote.
    """
    error = _error(data)
    result: dict[str, Json] = {
        "timestamp": in_seconds(event.at),
        "command": event.type if event.type.strip() else "event",
        "arguments": _arguments(data),
        "model": model_name(view.text_value(state_after, "model"), models),
        "agent": _agent(event, data),
        "task_id": active_task(state_after),
        "status": "success" if error is None else "failure",
        "duration_ms": _duration(data, state_after),
    }
    if error is not None:
        result["error"] = error
    result[OWN] = _public_event(event)
    if also:
        result[OWN_ALSO] = [_public_event(event) for event in also]
    return result


def _error(data: EventData | None) -> str | None:
    """The error message; None when nothing went wrong."""
    match data:
        case AgentFailed() | AgentTimedOut() | SessionFailed() | ErrorNoted():
            return shorten(data.message, _MAX_TEXT_LENGTH) or "not said"
        case CommandRan() if data.code not in (0, None):
            return f"exit code {data.code}"
    return None


def _arguments(data: EventData | None) -> str:
    if data is None:
        return ""
    main = next((value for name in _ARGUMENT_FIELDS if (value := getattr(data, name, None)) not in (None, "")), None)
    parts = [part for part in (getattr(data, "id", None), main) if part not in (None, "")]
    return shorten(": ".join(str(part) for part in parts), _MAX_TEXT_LENGTH)


def _agent(event: Event, data: EventData | None) -> str:
    named = data.id if isinstance(data, (AgentStarted, AgentEvent)) else getattr(data, "agent", None)
    name = next((item for item in (named, event.actor) if isinstance(item, str) and item.strip()), None)
    return name or "person"


def _duration(data: EventData | None, state: State) -> int:
    if isinstance(data, CommandRan):
        return max(data.duration_ms or 0, 0)
    if not isinstance(data, AgentEvent):
        return 0
    agent = agents.find(state, data.id, data.ref)
    run = agent.runs[-1] if agent is not None and agent.runs else None
    return 0 if run is None or run.until is None else max(run.until - run.since, 0)


def _public_event(event: Event) -> Json:
    shown = event_document(event)
    if event.data is not None and _bytes_of(shown["data"]) != event.data:
        shown["data"] = None
        shown[_BYTES] = event.data.hex()
    return shown


def _bytes_of(data: Json) -> bytes | None:
    try:
        return canonical_json(data)
    except Invalid:
        return None


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────────


def event_of(line: Json) -> Event | None:
    """The event a line carries; None when it has none or was edited."""
    if not isinstance(line, dict) or OWN not in line:
        return None
    try:
        carried = msgspec.convert(line[OWN], decodable(_Carried))
        at = times.parse_time(carried.at)
        salt = None if carried.salt is None else bytes.fromhex(carried.salt)
        data = _data(carried)
    except (msgspec.MsgspecError, Invalid, ValueError, RecursionError):
        return None
    event = Event(
        carried.v, carried.session, carried.writer, carried.seq, carried.clock, at, tuple(carried.seen), carried.key,
        carried.actor, carried.type, carried.body, carried.prev, carried.hash, data, salt,
    )  # fmt: skip
    try:
        return event if find_problem(event) is None else None
    except (msgspec.MsgspecError, UnicodeEncodeError, OverflowError):
        return None


def _data(carried: _Carried) -> bytes | None:
    if carried.data_bytes is not None:
        return bytes.fromhex(carried.data_bytes)
    # An erased event has neither data nor salt.
    return None if carried.salt is None else canonical_json(carried.data)


def carried_events(line: Json) -> Iterator[Event]:
    """The line's own event and the others it carries."""
    others = line.get(OWN_ALSO) if isinstance(line, dict) else None
    for item in (line, *({OWN: inner} for inner in (others if isinstance(others, list) else ()))):
        event = event_of(item)
        if event is not None:
            yield event


def events_of(lines: Iterable[Json]) -> list[Event]:
    """The events of these lines in log order, each once: a union merge leaves duplicates, out of order."""
    events: dict[str, Event] = {}
    for event in (event for item in lines for event in carried_events(item)):
        if event.hash not in events or event.data is None:
            events[event.hash] = event
    clocks = adjusted_clocks(events.values())
    return sorted(events.values(), key=lambda event: log_position(event, clocks))


def restore_session(lines: Iterable[Json]) -> State | None:
    """The session restored from its history; None when no line is Holdfast's own.

    If lines of two sessions were mixed, the one with more events.
    """
    events = events_of(lines)
    if not events:
        return None
    session = Counter(event.session for event in events).most_common(1)[0][0]
    return fold((event for event in events if event.session == session), session)
