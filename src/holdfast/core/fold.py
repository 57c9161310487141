"""Fold the events of a session into its state.

The fold accepts any events in any order, any number of times, and does not depend on the order of arrival: events are
sorted into log order first, equal keys count once, and a contradiction becomes a conflict, never an exception and
never a silent loss. `apply` adds one event to a state in place, so appending costs the same however long the log is;
`fold` is `apply` over the whole log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import TypeVar, cast

from msgspec.structs import replace

from holdfast.core import agents, tasks
from holdfast.core.activity import (
    add_activity,
    add_attended,
    add_mark,
    add_watched_span,
    add_writer_activity,
    last_activity,
    note_seen_pauses,
    pause_mark,
)
from holdfast.core.canonical import MAX_SAFE_INTEGER, with_json_numbers
from holdfast.core.clock import adjusted_clocks, log_position
from holdfast.core.envelope import Event
from holdfast.core.errors import Invalid
from holdfast.core.event_data import collect_erasures, read_data, with_data_or_replacement
from holdfast.core.events import (
    EVENT_TYPES,
    AgentEvent,
    AgentStarted,
    AliasGiven,
    AwayRecorded,
    CommandRan,
    CommitRecorded,
    ConflictDetected,
    ConflictResolved,
    ContextCompressed,
    ContextMeasured,
    ConversationUpdated,
    DecisionMade,
    DeviceJoined,
    ErrorNoted,
    EventData,
    EventErased,
    ExtraKept,
    FileChanged,
    GitPositionNoted,
    HillMoved,
    MessageExchanged,
    NativeClosed,
    NativeLinked,
    NativeMoved,
    NoteAdded,
    PhaseAdded,
    ReminderReached,
    SessionAborted,
    SessionArchived,
    SessionCompleted,
    SessionDeleted,
    SessionEdited,
    SessionFailed,
    SessionPaused,
    SessionResumed,
    SessionSaved,
    SessionStarted,
    SessionTimedOut,
    SessionUnarchived,
    TaskAdded,
    TaskEvent,
    WaitingEnded,
    WaitingStarted,
    WorkedRecorded,
    WorkRecorded,
    is_activity,
)
from holdfast.core.registers import (
    add_contradiction,
    add_dispute,
    blocking_write,
    current_value,
    entries_of_field,
    record_work,
    resolve,
    write_register,
    write_status,
)
from holdfast.core.state import (
    AgentFailure,
    AgentState,
    CommitState,
    ConversationState,
    DecisionState,
    FileState,
    NativeState,
    NoteState,
    PauseMark,
    State,
    TaskState,
    WaitState,
    Write,
)

__all__ = ["apply", "fold", "in_log_order", "read_data", "skip_duplicate"]

Rule = Callable[[State, Event, EventData], None]
_Data = TypeVar("_Data", bound=EventData)

_AGENT_ENDS = frozenset({"agent.completed", "agent.failed", "agent.timed_out", "agent.aborted"})
# Prefixes of the keys of events that agents reported. Such a file change without `by` is an edit by a tool.
_CAPTURED = ("hook:", "story:", "live:")

_EDITABLE = ("goal", "mode", "model", "progress", "scope", "task", "feature", "summary", "branch", "cost_usd")


def fold(events: Iterable[Event], session: str | None = None) -> State:
    """The state after these events. `session` is needed only if there may be none."""
    ordered, clocks = _sorted(events)
    counting = {event.hash: event for event in _without_duplicates(ordered)}
    state = State(session=session or (ordered[0].session if ordered else ""))
    for event in ordered:
        clock = clocks.get(event.hash)
        if event.hash in counting:
            apply(state, counting[event.hash], clock=clock)
        else:
            skip_duplicate(state, event, clock)
    return state


def in_log_order(events: Iterable[Event]) -> list[Event]:
    """Events as every device orders them, each event and each key once; erased data is replaced where possible."""
    return _without_duplicates(_sorted(events)[0])


def _without_duplicates(ordered: list[Event]) -> list[Event]:
    """The events that count: of those with the same key, the first by written clock, which an index can find."""
    keys: dict[str, Event] = {}
    for event in ordered:
        if event.key is not None and event.written <= keys.setdefault(event.key, event).written:
            keys[event.key] = event
    unique = [event for event in ordered if event.key is None or keys[event.key] is event]
    if all(event.data is not None for event in unique):
        return unique
    instead = collect_erasures(unique).instead
    return [with_data_or_replacement(event, instead) for event in unique]


def _sorted(events: Iterable[Event]) -> tuple[list[Event], dict[str, int]]:
    unique: dict[str, Event] = {}
    for event in events:
        if event.hash not in unique or event.data is None:  # an erased copy wins: erasing is for ever
            unique[event.hash] = event
    clocks = adjusted_clocks(unique.values())
    return sorted(unique.values(), key=lambda event: log_position(event, clocks)), clocks


def apply(state: State, event: Event, data: EventData | None = None, *, clock: int | None = None) -> None:
    """Add one event, the latest in log order, to the state.

    `data` is the event's data if the caller has it already; `clock` its effective clock where that is not the written
    one.
    """
    _note_position(state, event, clock)
    kind = EVENT_TYPES.get(event.type)
    if kind is None:
        state.not_applied += 1
        return
    if data is None:
        data = read_data(event)
    if is_activity(kind, data):
        if state.created_at is None or event.at >= state.time.start:
            add_activity(state.time, event.at)
            add_writer_activity(state.time, event, event.at, event.at)
        record_work(state, event)
        _reconnect(state, event)
    if data is None:
        # Erased: its effect on the lifecycle follows from the envelope and stays; its data is lost.
        implied = _DATA_BY_TYPE.get(event.type)
        if event.data is not None or implied is None:
            state.not_applied += 1
            if event.data is None and event.type == "session.started":
                _begin_session(state, event, "in_progress")
            return
        data = implied
    for secret, count in data.redacted.items():
        state.redacted[secret] = min(max(state.redacted.get(secret, 0) + count, -MAX_SAFE_INTEGER), MAX_SAFE_INTEGER)
    _RULES[event.type](state, event, data)


def skip_duplicate(state: State, event: Event, clock: int | None = None) -> None:
    """Record the position of an event without applying it: an earlier event has its key, but its stream continues."""
    if clock is not None:
        state.moved[event.hash] = clock
    state.last = log_position(event, state.moved)
    head = state.heads.get(event.writer)
    if head is None or head.seq <= event.seq:
        state.heads[event.writer] = event.head
    state.latest[event.writer] = max(event.at, state.latest.get(event.writer, event.at))
    if event.type == "event.erased":
        state.erasing = True
    if event.seen:
        known = state.seen.setdefault(event.writer, {})
        for head in event.seen:
            before = known.get(head.writer, 0)
            known[head.writer] = max(before, head.seq)
            note_seen_pauses(state.time, event, head.writer, before, head.seq)


def _note_position(state: State, event: Event, clock: int | None) -> None:
    skip_duplicate(state, event, clock)
    state.count += 1
    state.last_writer = event.writer
    state.updated_at = max(state.updated_at, event.at) if state.count > 1 else event.at


# ── Rules: what each event does to the state ─────────────────────────────────────────────────────────────

_RULES: dict[str, Rule] = {}


def _rule(*types: type[_Data]) -> Callable[[Callable[[State, Event, _Data], None]], Rule]:
    """The rule of every event type whose data is of one of these classes."""

    def register(rule: Callable[[State, Event, _Data], None]) -> Rule:
        known = cast("Rule", rule)
        _RULES.update((kind.name, known) for kind in EVENT_TYPES.values() if issubclass(kind.data, types))
        return known

    return register


@_rule(SessionStarted)
def _start_session(state: State, event: Event, data: SessionStarted) -> None:
    if state.created_at is not None:
        # Ids are random, so a second start is damage or malice: report a conflict, keep the first.
        first = Write(current_value(state.registers.get("goal", ())), "", 0, "", state.created_at)
        add_contradiction(state, "started", first, data.goal, event)
        return
    state.project = data.project
    state.devices[event.writer] = data.device
    # Devices that an import names have no writer id: they get one of their own here.
    state.devices.update({f"{event.writer}/{name}": name for name in data.devices})
    state.came_from = data.came_from
    state.came_commit = data.came_commit
    state.continues = data.continues
    for name, alias in data.aliases.items():
        _set_alias(state, event, name, alias)
    state.tags.update(dict.fromkeys(data.tags))
    state.time.timer = data.timer
    for name in ("goal", "mode", "model", "scope", "task", "feature", "branch"):
        value = getattr(data, name)
        if value is not None:
            write_register(state, name, value, event)
    _note_started_or_resumed(state, event, gathers=data.gathers)
    state.captured = _is_captured(event)
    _begin_session(state, event, data.status if data.status in ("created", "in_progress") else "in_progress")


def _begin_session(state: State, event: Event, status: str) -> None:
    """Apply what the envelope alone tells about a start."""
    if state.created_at is None:
        state.created_at = state.time.start = event.at
        write_register(state, "status", status, event)


def _is_captured(event: Event) -> bool:
    return event.key is not None and event.key.startswith(_CAPTURED)


def _note_started_or_resumed(state: State, event: Event, *, gathers: bool) -> None:
    """Record that a person took the session up: events from hooks, transcripts, imports and mirrors have a key."""
    if gathers and event.key is None:
        state.taken_up[event.writer] = max(event.at, state.taken_up.get(event.writer, event.at))
        _note_put_away(state, event, archived=False)


def _note_put_away(state: State, event: Event, *, archived: bool) -> None:
    state.put_away.pop(event.writer, None)
    state.put_away[event.writer] = archived


@_rule(SessionEdited)
def _edit_session(state: State, event: Event, data: SessionEdited) -> None:
    for name in _EDITABLE:
        value = getattr(data, name)
        if value is not None:
            write_register(state, name, value, event)
    if data.goal is not None and not _is_captured(event):
        state.renamed = True
    state.continues = state.continues or data.continues
    state.tags.update(dict.fromkeys(data.tags))


@_rule(SessionPaused, SessionResumed, SessionCompleted, SessionFailed, SessionAborted, SessionTimedOut)
def _change_session_status(state: State, event: Event, data: EventData) -> None:
    """Apply an event of the session's own lifecycle."""
    writes = state.registers.setdefault("status", [])
    refused = blocking_write(state, "session", writes, event) is not None
    write_status(state, "session", writes, "status", event)
    match data:
        case SessionPaused() | SessionResumed() if refused:
            pass
        case SessionPaused():
            add_mark(state.time, pause_mark(state, event, "manual", data.reason))
        case SessionTimedOut():
            if not refused:
                add_mark(state.time, pause_mark(state, event, "timeout", "Working-time limit reached"))
            _record_crossing(state, "timeout_90", event.at)
        case SessionResumed():
            _note_started_or_resumed(state, event, gathers=data.gathers)
            add_mark(state.time, PauseMark(event.at, "resumed", writer=event.writer))
            add_attended(state.time, event.at, event.at)
        case SessionCompleted():
            if data.summary is not None:
                write_register(state, "summary", data.summary, event)
            state.outcome = data.outcome or state.outcome
        case SessionFailed():
            state.failures.append(AgentFailure(event.at, data.message, data.category, None))


@_rule(ReminderReached)
def _record_reminder(state: State, event: Event, data: ReminderReached) -> None:
    _record_crossing(state, data.line, event.at)


def _record_crossing(state: State, line: str, at: int) -> None:
    state.time.reached.setdefault(line, at)
    state.time.crossed[line] = max(at, state.time.crossed.get(line, at))


@_rule(AwayRecorded)
def _add_away(state: State, event: Event, data: AwayRecorded) -> None:
    add_mark(state.time, PauseMark(data.since, "away", data.reason, data.until, data.kind))


@_rule(WorkedRecorded)
def _add_worked(state: State, event: Event, data: WorkedRecorded) -> None:
    add_mark(state.time, PauseMark(data.since, "worked", data.reason, data.until))


@_rule(WorkRecorded)
def _add_observed_work(state: State, event: Event, data: WorkRecorded) -> None:
    if state.created_at is not None and state.time.start <= data.since <= data.until <= event.at:
        add_watched_span(state.time, data.since, data.until)
        add_writer_activity(state.time, event, data.since, data.until)
        if data.counted:
            add_attended(state.time, data.since, data.until)


@_rule(MessageExchanged)
def _add_message(state: State, event: Event, data: MessageExchanged) -> None:
    if data.role == "user":
        add_attended(state.time, event.at, event.at)


@_rule(ErrorNoted)
def _add_error(state: State, event: Event, data: ErrorNoted) -> None:
    state.failures.append(AgentFailure(event.at, data.message, data.category, data.agent))


@_rule(DecisionMade)
def _add_decision(state: State, event: Event, data: DecisionMade) -> None:
    state.decisions.append(DecisionState(event.at, data.chosen, data.context, data.options, data.why))


@_rule(NoteAdded)
def _add_note(state: State, event: Event, data: NoteAdded) -> None:
    state.notes.append(NoteState(event.at, data.text))


def _note_agent_active(state: State, agent_id: str | None, at: int) -> None:
    """Record that an agent was active: what it does shows that it runs."""
    agent = None if agent_id is None else agents.find(state, agent_id)
    if agent is not None and agents.status_of(agent) == "running":
        agent.touched_at = max(agent.touched_at, at)


@_rule(FileChanged)
def _add_file_change(state: State, event: Event, data: FileChanged) -> None:
    _note_agent_active(state, data.agent, event.at)
    state.files.append(
        FileState(
            event.at, data.path, data.action, data.agent,
            data.lines_added, data.lines_removed, data.hash_before, data.hash_after,
            data.by or ("tool" if _is_captured(event) else None), data.among,
        )
    )  # fmt: skip


@_rule(CommitRecorded)
def _add_commit(state: State, event: Event, data: CommitRecorded) -> None:
    state.commits[data.sha] = CommitState(
        event.at, data.sha, data.message, data.branch, data.tree, data.parents, data.authored,
        data.conversation, data.certainty, data.among, data.replaces, data.folded,
    )  # fmt: skip


@_rule(CommandRan)
def _add_command(state: State, event: Event, data: CommandRan) -> None:
    _note_agent_active(state, data.agent, event.at)
    state.commands += 1
    state.commands_failed += data.code not in (0, None)
    state.last_command = data.command


@_rule(ContextMeasured)
def _measure_context(state: State, event: Event, data: ContextMeasured) -> None:
    if data.agent is None:
        state.tokens, state.outdated = data.tokens, False
    else:
        state.by_agent[data.agent] = data.tokens
    if data.window is not None:
        state.window = data.window


@_rule(ContextCompressed)
def _compress_context(state: State, event: Event, data: ContextCompressed) -> None:
    state.compressions += 1
    state.last_compression = event.at
    # Without a number, the earlier measurement is outdated and nothing else is known.
    state.outdated = data.tokens is None
    if data.tokens is not None:
        state.tokens = data.tokens


@_rule(HillMoved)
def _move_hill(state: State, event: Event, data: HillMoved) -> None:
    state.hill[data.scope] = (event.at, data.position)


@_rule(PhaseAdded)
def _add_phase(state: State, event: Event, data: PhaseAdded) -> None:
    if data.id in state.phases and state.phases[data.id] != data.name:
        first = Write(state.phases[data.id], "", 0, "", event.at)
        add_contradiction(state, f"phases.{data.id}", first, data.name, event)
    state.phases.setdefault(data.id, data.name)


@_rule(WaitingStarted, WaitingEnded)
def _update_waits(state: State, event: Event, data: EventData) -> None:
    match data:
        case WaitingStarted():
            state.waiting[data.id] = WaitState(event.at, data.for_, data.text)
        case WaitingEnded():
            state.waiting.pop(data.id, None)


@_rule(
    DeviceJoined, AliasGiven, ExtraKept, NativeLinked, NativeClosed, NativeMoved, ConversationUpdated,
    GitPositionNoted,
)  # fmt: skip
def _update_names_and_conversations(state: State, event: Event, data: EventData) -> None:
    match data:
        case DeviceJoined():
            state.devices[event.writer] = data.device
        case AliasGiven():
            _set_alias(state, event, data.format, data.id)
        case ExtraKept(value=None):
            state.extra.pop(data.name, None)
        case ExtraKept():
            try:
                state.extra[data.name] = with_json_numbers(data.value)
            except Invalid:
                state.not_applied += 1
        case NativeLinked():
            state.open_natives += not _is_open(state.native.get(f"{data.agent}\n{data.id}"))
            _link_conversation(state, event, data)
        case NativeClosed():
            native = state.native.get(f"{data.agent}\n{data.id}")
            if native is not None:
                state.open_natives -= _is_open(native)
                native.closed_at = event.at
                _disconnect(state, event)
        case NativeMoved():
            native = state.native.get(f"{data.agent}\n{data.id}")
            if native is not None:
                state.open_natives -= _is_open(native)
                native.moved_to = data.to
                native.writers = _with_last(native.writers, event.writer)
                native.moved_by = _with_last(native.moved_by, event.writer)
                native.moved_here.pop(event.writer, None)
                native.closed_at = native.closed_at or event.at
                _disconnect(state, event)
        case ConversationUpdated():
            state.conversations[f"{data.agent}\n{data.id}"] = ConversationState(
                data.name, data.model, data.began, data.ended, data.prompts, data.input, data.output,
                data.cache_read, data.cache_write, data.cost_usd,
            )  # fmt: skip
        case GitPositionNoted() if state.project is not None:
            state.project = replace(state.project, git_branch=data.branch, git_commit=data.commit)
            state.noted_by = event.writer


def _set_alias(state: State, event: Event, name: str, alias: str) -> None:
    """Set the session's id in a format, which its files use. Only the writer that set it first can change it."""
    if state.aliased_by.setdefault(name, event.writer) == event.writer:
        state.aliases[name] = alias


def _link_conversation(state: State, event: Event, data: NativeLinked) -> None:
    """Record that a conversation was opened or reopened, perhaps by another process."""
    name = f"{data.agent}\n{data.id}"
    known = state.native.get(name)
    # Hooks record under the agent's name; anybody else who links a conversation moves it here.
    moved_here = {event.writer: event.at} if event.actor != data.agent else {}
    state.native[name] = NativeState(
        data.agent, data.id, data.resume or (known.resume if known else None), data.process,
        known.linked_at if known else event.at, None,
        _with_last(known.writers if known else (), event.writer), None,
        tuple(writer for writer in known.moved_by if writer != event.writer) if known else (),
        {**known.moved_here, **moved_here} if known else moved_here,
    )  # fmt: skip
    state.disconnected_at = None


def _with_last(writers: tuple[str, ...], writer: str) -> tuple[str, ...]:
    return (*(name for name in writers if name != writer), writer)


def _is_open(native: NativeState | None) -> bool:
    return native is not None and native.closed_at is None


def _disconnect(state: State, event: Event) -> None:
    """Record that no conversation is open on any device."""
    if not state.open_natives and event.at >= last_activity(state.time, event.at):
        state.disconnected_at, state.disconnected_by = event.at, event.writer


def _reconnect(state: State, event: Event) -> None:
    """Record that a person is at work again.

    An agent's end does not show that, nor does an event that the same writer records late (a hook from before the
    end).
    """
    since = state.disconnected_at
    late = since is not None and event.writer == state.disconnected_by and event.at <= since
    if since is not None and not late and event.type not in _AGENT_ENDS:
        state.disconnected_at = None


@_rule(SessionArchived, SessionUnarchived, SessionDeleted)
def _archive_or_delete(state: State, event: Event, data: EventData) -> None:
    match data:
        case SessionArchived():
            state.archived = True
            _note_put_away(state, event, archived=True)
        case SessionUnarchived():
            state.archived = False
            _note_put_away(state, event, archived=False)
        case SessionDeleted():
            state.deleted = True


@_rule(ConflictResolved)
def _resolve_conflict(state: State, event: Event, data: ConflictResolved) -> None:
    resolve(state, event, data)
    _apply_chosen_status(event, entries_of_field(state, data.field))


@_rule(ConflictDetected)
def _add_conflict(state: State, event: Event, data: ConflictDetected) -> None:
    try:
        data = replace(data, value=with_json_numbers(data.value), stood=with_json_numbers(data.stood))
    except Invalid:
        state.not_applied += 1
        return
    add_dispute(state, event, data)
    _apply_chosen_status(event, islice(entries_of_field(state, data.field), 1))


def _apply_chosen_status(event: Event, entries: Iterable[AgentState | TaskState]) -> None:
    """Apply the consequences of a status that a person chose in a conflict."""
    for entry in entries:
        if isinstance(entry, AgentState):
            agents.close_run(entry, event.at)
        else:
            tasks.set_completion_time(entry, event.at)


@_rule(SessionSaved, EventErased)
def _leave_unchanged(state: State, event: Event, data: EventData) -> None:
    """No effect on the state: a sign of activity, or an instruction to stores."""


_rule(AgentStarted)(agents.apply_started)
_rule(AgentEvent)(agents.apply_change)
_rule(TaskAdded)(tasks.apply_added)
_rule(TaskEvent)(tasks.apply_change)

# The data of an erased event that follows from its type alone.
_DATA_BY_TYPE: dict[str, EventData] = {
    "session.paused": SessionPaused(), "session.resumed": SessionResumed(), "session.aborted": SessionAborted(),
    "session.completed": SessionCompleted(), "session.timed_out": SessionTimedOut(),
    "session.failed": SessionFailed(message=""), "session.archived": SessionArchived(),
    "session.unarchived": SessionUnarchived(), "session.deleted": SessionDeleted(),
    "session.saved": SessionSaved(), "message.exchanged": MessageExchanged(),
}  # fmt: skip
