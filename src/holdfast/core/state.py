"""The state that the events of a session fold into, as snapshots store it.

People never see it; `view` turns it into the session of the public contract. Times are milliseconds.
"""

from __future__ import annotations

from binascii import crc32

import msgspec

from holdfast.core.canonical import Json
from holdfast.core.decode import decodable
from holdfast.core.envelope import Position, StreamHead
from holdfast.core.events import Process, ProjectFacts, TimerRules

# Raise it when the same events fold into another state: snapshots of other versions are ignored.
FOLD_VERSION = 11


class Write(msgspec.Struct, array_like=True, gc=False):
    """One value written to a register, and by which event."""

    value: Json
    writer: str
    seq: int
    hash: str
    at: int


class FieldConflict(msgspec.Struct, array_like=True, gc=False):
    """Values of one field that cannot all be true; `chosen` counts from 1 once a person has chosen."""

    field: str
    writes: list[Write]
    chosen: int | None = None


class AgentFailure(msgspec.Struct, array_like=True, gc=False):
    at: int
    message: str
    category: str | None
    agent: str | None


class AgentRun(msgspec.Struct, array_like=True, gc=False):
    """One run of an agent, or a span of activity; `until` is None while it lasts."""

    since: int
    until: int | None = None


class AgentState(msgspec.Struct, gc=False):
    ref: str
    id: str
    type: str
    writer: str
    made: Write
    task: str | None = None
    blocking_on: str | None = None
    background: bool = False
    pid: int | None = None
    process: Process | None = None
    # The conversation that started it, `agent:id`.
    conversation: str | None = None
    status: list[Write] = []
    progress: float | None = None
    started_at: int | None = None
    ended_at: int | None = None
    touched_at: int = 0
    runs: list[AgentRun] = []
    summary: str | None = None
    tokens: int | None = None
    retries: int = 0
    last_retry_at: int | None = None
    failure: AgentFailure | None = None
    failed_attempts: list[int] = []


class TaskState(msgspec.Struct, gc=False):
    ref: str
    id: str
    text: str
    made: Write
    phase: str | None = None
    agent: str | None = None
    status: list[Write] = []
    outcome: str | None = None
    artifacts: dict[str, None] = {}
    created_at: int = 0
    started_at: int | None = None
    completed_at: int | None = None


class FileState(msgspec.Struct, array_like=True, gc=False):
    at: int
    path: str
    action: str
    agent: str | None
    lines_added: int | None
    lines_removed: int | None
    hash_before: str | None
    hash_after: str | None
    by: str | None = None
    among: tuple[str, ...] = ()


class CommitState(msgspec.Struct, array_like=True, gc=False):
    at: int
    sha: str
    subject: str
    branch: str | None
    tree: str | None
    parents: tuple[str, ...]
    authored: int | None
    conversation: str | None
    certainty: str
    among: tuple[str, ...]
    replaces: str | None
    folded: tuple[str, ...] = ()


class DecisionState(msgspec.Struct, array_like=True, gc=False):
    at: int
    chosen: str
    context: str | None
    options: tuple[str, ...]
    why: str | None


class NoteState(msgspec.Struct, array_like=True, gc=False):
    at: int
    text: str


class WaitState(msgspec.Struct, array_like=True, gc=False):
    at: int
    for_: str
    text: str | None


class NativeState(msgspec.Struct, array_like=True, gc=False):
    """A conversation of an agent program, under its own id there."""

    agent: str
    id: str
    resume: str | None
    process: Process | None
    linked_at: int
    closed_at: int | None = None
    # The writers that linked or moved it, the latest last.
    writers: tuple[str, ...] = ()
    # The session that it was moved to, by the latest of them.
    moved_to: str | None = None
    # Those of the writers that moved it to another session last.
    moved_by: tuple[str, ...] = ()
    # By writer, when a person moved it to this session.
    moved_here: dict[str, int] = {}


class ConversationState(msgspec.Struct, array_like=True, gc=False):
    """What the transcript of a conversation says about its share in this session."""

    name: str | None = None
    model: str | None = None
    began: int | None = None
    ended: int | None = None
    prompts: int | None = None
    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    cost_usd: float | None = None


class PauseMark(msgspec.Struct, array_like=True, gc=False):
    """Something that opens or ends a pause (`manual`, `timeout`, `resumed`), or that was entered afterwards: a whole
    pause (`away`), or work instead of any (`worked`).
    """

    at: int
    kind: str
    reason: str | None = None
    until: int | None = None
    # Of an `away`: the kind of pause.
    pause: str = "manual"
    # Of a pause and its end: the writer. Of a pause: the event's number, and how far its writer had seen other
    # streams.
    writer: str = ""
    seq: int = 0
    saw: dict[str, int] = {}
    # Of a pause: other writers that learned of it, each with the number and time of its first event that had seen it.
    learned: dict[str, tuple[int, int]] = {}


class ActivitySpan(msgspec.Struct, array_like=True, gc=False):
    """Signs of activity of one writer, close together: the range of events, and of times."""

    first: int
    last: int
    since: int
    until: int
    # The number of marks at that time: signs after another mark are kept separately.
    marks: int


class TimeState(msgspec.Struct, gc=False):
    timer: TimerRules = TimerRules()
    start: int = 0
    # Signs of activity, joined into spans without a gap longer than the idle threshold.
    active: list[AgentRun] = []
    # When the person wrote, resumed, or worked by another program's count: joined by the task threshold.
    attended: list[AgentRun] = []
    # Signs by writer: a pause does not stop the clock of writers that did not know of it.
    signs: dict[str, list[ActivitySpan]] = {}
    marks: list[PauseMark] = []
    # When each line of working time was crossed for the first time, and for the last time.
    reached: dict[str, int] = {}
    crossed: dict[str, int] = {}
    # Sorted: when another program recorded the beginning of an agent's pause; and by writer, the number of each event
    # that paused, with the index of its mark.
    task_begins: list[int] = []
    pauses: dict[str, list[tuple[int, int]]] = {}


class State(msgspec.Struct, gc=False):
    session: str
    count: int = 0
    last: Position | None = None
    # The effective clocks of events that were written with another one, by hash.
    moved: dict[str, int] = {}
    heads: dict[str, StreamHead] = {}
    # writer -> other writer -> how far it has seen that stream
    seen: dict[str, dict[str, int]] = {}
    # writer -> the latest time of its events
    latest: dict[str, int] = {}
    devices: dict[str, str] = {}
    last_writer: str = ""
    # Whether anything was ever erased: then late events may have to be stored without their data.
    erasing: bool = False
    # writer -> its last work in the session
    worked: dict[str, Write] = {}

    # As observed at the start, except for branch and commit: those of the last position, which this writer noted.
    project: ProjectFacts | None = None
    noted_by: str = ""
    created_at: int | None = None
    updated_at: int = 0
    registers: dict[str, list[Write]] = {}
    came_from: str | None = None
    came_commit: str | None = None
    # In the order in which they were given.
    tags: dict[str, None] = {}
    continues: str | None = None
    # By format: the id in it, and the writer that gave one first.
    aliases: dict[str, str] = {}
    aliased_by: dict[str, str] = {}
    # None: it was not archived or unarchived, and age decides.
    archived: bool | None = None
    deleted: bool = False
    outcome: str | None = None

    agents: dict[str, AgentState] = {}
    phases: dict[str, str] = {}
    tasks: dict[str, TaskState] = {}
    decisions: list[DecisionState] = []
    files: list[FileState] = []
    # By SHA, in log order.
    commits: dict[str, CommitState] = {}
    notes: list[NoteState] = []
    failures: list[AgentFailure] = []
    waiting: dict[str, WaitState] = {}
    native: dict[str, NativeState] = {}
    clashes: list[FieldConflict] = []
    hill: dict[str, tuple[int, int]] = {}

    tokens: int | None = None
    window: int | None = None
    by_agent: dict[str, int] = {}
    # `tokens` was measured before the context was compressed.
    outdated: bool = False
    compressions: int = 0
    last_compression: int | None = None
    commands: int = 0
    commands_failed: int = 0
    last_command: str | None = None

    time: TimeState = msgspec.field(default_factory=TimeState)
    redacted: dict[str, int] = {}
    extra: dict[str, Json] = {}
    # Events that this program could not apply: of a later version, or about something unknown.
    not_applied: int = 0
    # When the last open conversation was closed, and by which writer; None after the next sign of activity.
    disconnected_at: int | None = None
    disconnected_by: str = ""
    # By writer, when a person there last began the session or took it up: conversations that begin there join it.
    taken_up: dict[str, int] = {}
    # By writer, the latest last: whether it archived the session, and has not reopened it since.
    put_away: dict[str, bool] = {}
    # Whether a conversation began it, reported by hooks or read in a transcript.
    captured: bool = False
    # Whether a person replaced the goal that hooks or a transcript gave it.
    renamed: bool = False
    # What transcripts say about conversations, by the keys of `native`.
    conversations: dict[str, ConversationState] = {}
    # How many of `native` are open; the `agents` and `tasks` of each id, in order of creation.
    open_natives: int = 0
    agent_refs: dict[str, list[str]] = {}
    task_refs: dict[str, list[str]] = {}
    # Indexes into `clashes`: the last one of a field with a given event, and the last with exactly given events.
    clash_places: dict[str, int] = {}


_encoder = msgspec.msgpack.Encoder()
_decoders: list[msgspec.msgpack.Decoder[State]] = []


def freeze(state: State) -> bytes:
    """The state as bytes after a checksum: a flipped bit must not corrupt a history."""
    packed = _encoder.encode(state)
    return crc32(packed).to_bytes(4, "big") + packed


def thaw(frozen: bytes) -> State:
    """The inverse of `freeze`. Raises `msgspec.MsgspecError` for anything else."""
    if not _decoders:  # built on first use: describing the type costs a millisecond
        _decoders.append(msgspec.msgpack.Decoder(decodable(State)))
    if frozen[:4] != crc32(frozen[4:]).to_bytes(4, "big"):
        raise msgspec.DecodeError("the checksum does not match")
    return _decoders[0].decode(frozen[4:])
