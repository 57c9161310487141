"""What the events of a session add up to, with what is needed to go on adding: the state that snapshots hold.

People never see this; `view` turns it into the session of the public contract. Times are milliseconds.
"""

from __future__ import annotations

from binascii import crc32

import msgspec

from holdfast.core.canonical import Json
from holdfast.core.decode import decodable
from holdfast.core.envelope import Position, StreamHead
from holdfast.core.events import Process, ProjectFacts, TimerRules

# Raise it when folding the same events gives another state: snapshots of other versions are ignored.
FOLD_VERSION = 10


class Write(msgspec.Struct, array_like=True, gc=False):
    """One value written to a register, and by which event."""

    value: Json
    writer: str
    seq: int
    hash: str
    at: int


class FieldConflict(msgspec.Struct, array_like=True, gc=False):
    """Things said of one field that cannot both be true; `chosen` counts from 1 once a person chose."""

    field: str
    writes: list[Write]
    chosen: int | None = None


class AgentFailure(msgspec.Struct, array_like=True, gc=False):
    at: int
    message: str
    category: str | None
    agent: str | None


class AgentRun(msgspec.Struct, array_like=True, gc=False):
    """One stretch of an agent at work; `until` is open while it runs."""

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
    # The conversation that asked for it, `agent:id`.
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
    # Who said where it belongs, the latest last.
    writers: tuple[str, ...] = ()
    # The session that it belongs to by now, if that is another one, as the latest of them said.
    moved_to: str | None = None
    # Those of the writers whose last word is that it moved to another session.
    moved_by: tuple[str, ...] = ()
    # By writer, when a person moved it to this session.
    moved_here: dict[str, int] = {}


class ConversationState(msgspec.Struct, array_like=True, gc=False):
    """What the transcript of a conversation says of it: its share in this session."""

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
    """Something that opens or ends a pause: `manual`, `timeout`, `resumed`; or, of a time that is past, a whole one
    (`away`) or work in the place of any (`worked`).
    """

    at: int
    kind: str
    reason: str | None = None
    until: int | None = None
    # Of an `away`: what kind of pause it was.
    pause: str = "manual"
    # Of a pause and its end: who said so. Of a pause: by which event, and how far that writer had seen other streams.
    writer: str = ""
    seq: int = 0
    saw: dict[str, int] = {}
    # Of a pause: other writers that learned of it, each with the number and the time of its first event that knew.
    learned: dict[str, tuple[int, int]] = {}


class ActivitySpan(msgspec.Struct, array_like=True, gc=False):
    """Signs of one writer, close together: from which to which event, and when."""

    first: int
    last: int
    since: int
    until: int
    # How many marks there were: what comes after another mark is kept apart.
    marks: int


class TimeState(msgspec.Struct, gc=False):
    timer: TimerRules = TimerRules()
    start: int = 0
    # Signs of activity, joined into stretches with no gap longer than the idle threshold between two signs.
    active: list[AgentRun] = []
    # Where the person wrote, resumed, or worked by another program's count: joined by the task threshold.
    attended: list[AgentRun] = []
    # Signs by writer: a pause does not stop the clock of who did not know of it.
    signs: dict[str, list[ActivitySpan]] = {}
    marks: list[PauseMark] = []
    # When each line of working time was crossed for the first time, and for the last time.
    reached: dict[str, int] = {}
    crossed: dict[str, int] = {}
    # Of the marks: where another program said that an agent's pause had begun, sorted; and by writer, the number of
    # each event that paused, sorted, with the place of its mark.
    task_begins: list[int] = []
    pauses: dict[str, list[tuple[int, int]]] = {}


class State(msgspec.Struct, gc=False):
    session: str
    count: int = 0
    last: Position | None = None
    # The effective clocks of events that were written with another one, by hash.
    moved: dict[str, int] = {}
    heads: dict[str, StreamHead] = {}
    # writer -> (other writer -> how far it has seen that one's stream)
    seen: dict[str, dict[str, int]] = {}
    # writer -> the latest time it gave an event
    latest: dict[str, int] = {}
    devices: dict[str, str] = {}
    last_writer: str = ""
    # Whether anything was ever erased: then what comes late may have to come without its data.
    erasing: bool = False
    # writer -> the last work it did in the session
    worked: dict[str, Write] = {}

    # As it was found, but for branch and commit: those are where the work was last, as this writer noted.
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
    # Somebody's word; None when nobody said anything, and age decides.
    archived: bool | None = None
    deleted: bool = False
    outcome: str | None = None

    agents: dict[str, AgentState] = {}
    phases: dict[str, str] = {}
    tasks: dict[str, TaskState] = {}
    decisions: list[DecisionState] = []
    files: list[FileState] = []
    # By name, in the order in which they were made.
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
    # Events this program could not apply: of a later version, or about something it has not heard of.
    not_applied: int = 0
    # When the last open conversation was closed, and by which writer; None after the next sign of activity.
    disconnected_at: int | None = None
    disconnected_by: str = ""
    # By writer, when a person there last began the session or took it up: then conversations that begin here join it.
    taken_up: dict[str, int] = {}
    # By writer, the latest last: whether their last word is that it is put away. Who takes it up says that it is not.
    put_away: dict[str, bool] = {}
    # Whether a conversation began it, heard by hooks or read in a transcript.
    captured: bool = False
    # Whether somebody said another goal than the one that hooks or a transcript gave it.
    renamed: bool = False
    # What transcripts say of conversations, under the same names as `native`.
    conversations: dict[str, ConversationState] = {}
    # Of `native`: how many are open. Of `agents` and `tasks`: those of each id, in the order they were created.
    open_natives: int = 0
    agent_refs: dict[str, list[str]] = {}
    task_refs: dict[str, list[str]] = {}
    # Of `clashes`: the last about a field with an event among its values, and the last with exactly these events.
    clash_places: dict[str, int] = {}


_encoder = msgspec.msgpack.Encoder()
_decoders: list[msgspec.msgpack.Decoder[State]] = []


def freeze(state: State) -> bytes:
    """The state as bytes, with a checksum before them: a flipped bit must not become somebody's history."""
    packed = _encoder.encode(state)
    return crc32(packed).to_bytes(4, "big") + packed


def thaw(frozen: bytes) -> State:
    """The inverse of `freeze`. Raises `msgspec.MsgspecError` when the bytes are no state."""
    if not _decoders:  # built on first use: describing the type costs a millisecond
        _decoders.append(msgspec.msgpack.Decoder(decodable(State)))
    if frozen[:4] != crc32(frozen[4:]).to_bytes(4, "big"):
        raise msgspec.DecodeError("the checksum does not fit")
    return _decoders[0].decode(frozen[4:])
