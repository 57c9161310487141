"""The events: everything that can be recorded of a session, and what each one says.

This is the smallest vocabulary that carries the session of the public contract. Each type has a version, stored
in the event's `v`; a type or version this program does not know is kept and passed on, and folded by one that
does. The reference page is generated from this file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, NamedTuple, TypeAlias, TypeVar

import msgspec

from holdfast.core.canonical import MAX_SAFE_INTEGER, Json

# Numbers that every program reads alike; an event with another one is kept and not applied.
SafeInteger: TypeAlias = Annotated[int, msgspec.Meta(ge=-MAX_SAFE_INTEGER, le=MAX_SAFE_INTEGER)]


class EventData(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What an event says. Absent fields are left out, so adding one changes no hash of the past."""

    redacted: dict[str, SafeInteger] = {}


class EventType(NamedTuple):
    name: str
    version: int
    data: type[EventData]
    # Does it count as a sign of activity for work time?
    is_activity: bool
    # Text of it that a search looks at.
    searched_fields: tuple[str, ...]


EVENT_TYPES: dict[str, EventType] = {}
TYPE_OF: dict[type[EventData], EventType] = {}

# Raise it when more is taken for a secret than before, or more fields are looked at: what is stored already is then
# looked through once more before it leaves the device.
SECRET_RULES = 1

# Free text: scanned for secrets before it is stored. Ids, paths and hashes are not in it.
FREE_TEXT = frozenset(
    [
        "goal",
        "summary",
        "scope",
        "task",
        "feature",
        "text",
        "reason",
        "message",
        "chosen",
        "context",
        "options",
        "why",
        "outcome",
        "tags",
        "name",
        "command",
        "phase",
        "value",
        "for_",
    ]
)

_D = TypeVar("_D", bound=type[EventData])


def _event(name: str, *, is_activity: bool = True, searched: str = "", version: int = 1) -> Callable[[_D], _D]:
    def register(data: _D) -> _D:
        kind = EventType(name, version, data, is_activity, tuple(searched.split()))
        EVENT_TYPES[name] = kind
        TYPE_OF[data] = kind
        return data

    return register


# ── The session ──────────────────────────────────────────────────────────────────────────────────────────


class ProjectFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The project as it was found: a random id, and the evidence that finds it again elsewhere."""

    id: str
    name: str
    path: str | None = None
    git_branch: str | None = None
    git_commit: str | None = None
    remote: str | None = None
    roots: tuple[str, ...] = ()
    inside: str = ""


class TimerRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The thresholds of work time, recorded so that every device computes the same. Milliseconds."""

    idle: SafeInteger = 5 * 60_000
    task: SafeInteger = 10 * 60_000
    break_40: SafeInteger = 40 * 60_000
    warning_60: SafeInteger = 60 * 60_000
    timeout_90: SafeInteger = 90 * 60_000


@_event("session.started", searched="goal task")
class SessionStarted(EventData, frozen=True, kw_only=True):
    """A piece of work begins. `status` is `created` only for imports; `devices` are those that an import names.

    Not `gathers`: conversations that begin in its work tree do not join it.
    """

    goal: str
    project: ProjectFacts
    device: str
    devices: tuple[str, ...] = ()
    mode: str = "default"
    status: str = "in_progress"
    model: str | None = None
    scope: str | None = None
    task: str | None = None
    feature: str | None = None
    branch: str | None = None
    came_from: str | None = None
    came_commit: str | None = None
    tags: tuple[str, ...] = ()
    continues: str | None = None
    aliases: dict[str, str] = {}
    timer: TimerRules = TimerRules()
    gathers: bool = True


@_event("session.edited", searched="goal summary task")
class SessionEdited(EventData, frozen=True, kw_only=True):
    """Facts about the session changed. Only what is named changes; tags are added.

    `continues` is for a session of which it was learned late what it goes on from.
    """

    goal: str | None = None
    mode: str | None = None
    model: str | None = None
    progress: float | None = None
    scope: str | None = None
    task: str | None = None
    feature: str | None = None
    summary: str | None = None
    branch: str | None = None
    cost_usd: float | None = None
    tags: tuple[str, ...] = ()
    continues: str | None = None


@_event("session.paused")
class SessionPaused(EventData, frozen=True, kw_only=True):
    """The person paused; ends only by `session.resumed`."""

    reason: str | None = None


@_event("session.resumed")
class SessionResumed(EventData, frozen=True, kw_only=True):
    """Work goes on, here. Not `gathers`: nobody took the session up to gather what begins in its work tree."""

    gathers: bool = True


@_event("session.saved")
class SessionSaved(EventData, frozen=True, kw_only=True):
    """The person asked for everything to be saved (it already was): a mark in the log."""


@_event("session.completed", searched="summary")
class SessionCompleted(EventData, frozen=True, kw_only=True):
    """The work is done. `outcome` says what became of the session's branch: `kept` or `discarded`."""

    summary: str | None = None
    outcome: str | None = None
    reason: str | None = None


@_event("session.failed")
class SessionFailed(EventData, frozen=True, kw_only=True):
    """The work cannot go on until someone resumes it."""

    message: str
    category: str | None = None


@_event("session.aborted")
class SessionAborted(EventData, frozen=True, kw_only=True):
    """The work was given up."""

    reason: str | None = None


@_event("session.timed_out", is_activity=False)
class SessionTimedOut(EventData, frozen=True, kw_only=True):
    """The working-time limit was reached: a pause that needs an explicit resume. Once per session."""


@_event("session.archived", is_activity=False)
class SessionArchived(EventData, frozen=True, kw_only=True):
    """Put away: hidden from listings of current work."""


@_event("session.unarchived", is_activity=False)
class SessionUnarchived(EventData, frozen=True, kw_only=True):
    """Taken out again."""


@_event("session.deleted", is_activity=False)
class SessionDeleted(EventData, frozen=True, kw_only=True):
    """All data of the session is erased, on every device; only the envelopes stay."""


@_event("event.erased", is_activity=False)
class EventErased(EventData, frozen=True, kw_only=True):
    """The data of these events is erased, for instance because it held a secret.

    `instead` has, for some of the hashes, the data as it may stand: of the same type, and without the secret.
    """

    hashes: tuple[str, ...]
    instead: dict[str, Json] = {}


@_event("device.joined", is_activity=False)
class DeviceJoined(EventData, frozen=True, kw_only=True):
    """The first word of a writer that did not start the session: which device it is."""

    device: str


@_event("alias.given", is_activity=False)
class AliasGiven(EventData, frozen=True, kw_only=True):
    """The id under which one of the four formats knows the session."""

    format: str
    id: str


@_event("extra.kept", is_activity=False)
class ExtraKept(EventData, frozen=True, kw_only=True):
    """Something the model has no place for, kept for whoever wrote it."""

    name: str
    value: Json = None


class Process(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Which process an agent or a conversation is, so that its end can be noticed: a pid alone is used again."""

    pid: SafeInteger
    started: str
    boot: str
    namespace: str
    machine: str


@_event("native.linked", is_activity=False)
class NativeLinked(EventData, frozen=True, kw_only=True):
    """The agent program's own id of the conversation, the command that reopens it, and the process it runs in."""

    agent: str
    id: str
    resume: str | None = None
    process: Process | None = None


@_event("native.closed", is_activity=False)
class NativeClosed(EventData, frozen=True, kw_only=True):
    """The agent program said that the conversation was closed. A hint: a crash says nothing, and it may go on."""

    agent: str
    id: str
    reason: str | None = None


@_event("native.moved", is_activity=False)
class NativeMoved(EventData, frozen=True, kw_only=True):
    """The conversation belongs to another session from now on. What was recorded of it here stays here."""

    agent: str
    id: str
    to: str


@_event("conversation.updated", is_activity=False, searched="name")
class ConversationUpdated(EventData, frozen=True, kw_only=True):
    """What an agent program's transcript says of a conversation as a whole; the latest counts. `name` is its title.

    Of a conversation that went on after its session had ended, each session has its own share of prompts, tokens
    and cost. `began` and `ended` are the times of its first and last message, in milliseconds.
    """

    agent: str
    id: str
    name: str | None = None
    model: str | None = None
    began: SafeInteger | None = None
    ended: SafeInteger | None = None
    prompts: SafeInteger = 0
    input: SafeInteger = 0
    output: SafeInteger = 0
    cache_read: SafeInteger = 0
    cache_write: SafeInteger = 0
    cost_usd: float | None = None


@_event("ground.noted", is_activity=False)
class GitPositionNoted(EventData, frozen=True, kw_only=True):
    """Where the work is in git, when that is another place than the log knew: whoever follows looks for it there.

    Without a `branch`, the commit is checked out by itself; without a `commit`, the branch has none yet.
    """

    branch: str | None = None
    commit: str | None = None


# ── Signs of activity, time ──────────────────────────────────────────────────────────────────────────────


@_event("message.exchanged")
class MessageExchanged(EventData, frozen=True, kw_only=True):
    """A person or an agent said something. What was said is not kept."""

    role: str = "user"


@_event("note.added", searched="text")
class NoteAdded(EventData, frozen=True, kw_only=True):
    text: str


@_event("away.recorded")
class AwayRecorded(EventData, frozen=True, kw_only=True):
    """A pause nobody recorded at the time. Milliseconds since 1970.

    `kind` is another than `manual` only for pauses that another program counted (`idle`, `task`, `timeout`).
    `activity` is false where it corrects hours: then it is no sign that anybody is at work when it is recorded.
    """

    since: SafeInteger
    until: SafeInteger
    reason: str | None = None
    kind: str = "manual"
    activity: bool = True


@_event("worked.recorded")
class WorkedRecorded(EventData, frozen=True, kw_only=True):
    """Work that was counted as a pause: no pause is left in this span. Milliseconds since 1970.

    `activity` is false unless an early version recorded it, which took it for a sign of activity.
    """

    since: SafeInteger
    until: SafeInteger
    reason: str | None = None
    activity: bool = True


@_event("work.recorded")
class WorkRecorded(EventData, frozen=True, kw_only=True):
    """A stretch that another program watched over: no gap in it is idle. Milliseconds since 1970.

    `counted` says that the program counted it as working time: then no agent's run makes a pause of it either.
    """

    since: SafeInteger
    until: SafeInteger
    counted: bool = False


@_event("error.noted", searched="message")
class ErrorNoted(EventData, frozen=True, kw_only=True):
    """Something went wrong that changed no status: an entry in the list of errors."""

    message: str
    category: str | None = None
    agent: str | None = None


@_event("reminder.reached", is_activity=False)
class ReminderReached(EventData, frozen=True, kw_only=True):
    """Working time crossed a line: `break_40`, `warning_60` or `timeout_90`. Stays true whatever is learned later."""

    line: str


@_event("waiting.started")
class WaitingStarted(EventData, frozen=True, kw_only=True):
    """An agent waits for the person: `for` what (permission, input)."""

    id: str
    for_: str = msgspec.field(name="for")
    text: str | None = None


@_event("waiting.ended")
class WaitingEnded(EventData, frozen=True, kw_only=True):
    id: str


# ── Agents ───────────────────────────────────────────────────────────────────────────────────────────────


@_event("agent.started")
class AgentStarted(EventData, frozen=True, kw_only=True):
    """An agent begins. `pending` while it waits for its turn; starting it later is `agent.resumed`.

    `conversation` is the one that asked for it, as `agent:id`, where an agent program reported it.
    """

    id: str
    type: str
    task: str | None = None
    blocking_on: str | None = None
    background: bool = False
    pending: bool = False
    pid: SafeInteger | None = None
    process: Process | None = None
    conversation: str | None = None


class AgentEvent(EventData, frozen=True, kw_only=True):
    """Which agent: by the event that created it (`ref`), and by id for people who read the log."""

    id: str
    ref: str | None = None


@_event("agent.progressed")
class AgentProgressed(AgentEvent, frozen=True, kw_only=True):
    progress: float


@_event("agent.completed", searched="summary")
class AgentCompleted(AgentEvent, frozen=True, kw_only=True):
    summary: str | None = None
    tokens: SafeInteger | None = None


@_event("agent.failed")
class AgentFailed(AgentEvent, frozen=True, kw_only=True):
    category: str
    message: str


@_event("agent.timed_out")
class AgentTimedOut(AgentEvent, frozen=True, kw_only=True):
    message: str = "timed out"


@_event("agent.retried")
class AgentRetried(AgentEvent, frozen=True, kw_only=True):
    """Tried again after a failure, a timeout or an interruption."""

    pid: SafeInteger | None = None
    process: Process | None = None


@_event("agent.paused")
class AgentPaused(AgentEvent, frozen=True, kw_only=True):
    pass


@_event("agent.resumed")
class AgentResumed(AgentEvent, frozen=True, kw_only=True):
    """Goes on after a pause, or begins after waiting for its turn."""

    pid: SafeInteger | None = None
    process: Process | None = None


@_event("agent.aborted")
class AgentAborted(AgentEvent, frozen=True, kw_only=True):
    reason: str | None = None


@_event("agent.interrupted", is_activity=False)
class AgentInterrupted(AgentEvent, frozen=True, kw_only=True):
    """It ended without saying so: its process is gone, or its conversation went on without it.

    `last_seen` is the last moment it was known to run.
    """

    last_seen: SafeInteger


@_event("agent.edited", searched="summary")
class AgentEdited(AgentEvent, frozen=True, kw_only=True):
    """Facts about an agent changed. Only what is named changes; its status does not.

    `tokens` is what it has spent in all; how full its context is, is another matter.
    """

    type: str | None = None
    task: str | None = None
    blocking_on: str | None = None
    summary: str | None = None
    tokens: SafeInteger | None = None
    background: bool | None = None


# ── The plan ─────────────────────────────────────────────────────────────────────────────────────────────


@_event("phase.added")
class PhaseAdded(EventData, frozen=True, kw_only=True):
    id: str
    name: str


@_event("task.added", searched="text")
class TaskAdded(EventData, frozen=True, kw_only=True):
    id: str
    text: str
    phase: str | None = None
    agent: str | None = None


class TaskEvent(EventData, frozen=True, kw_only=True):
    """Which task: by the event that created it (`ref`), and by id for people who read the log; what came of it.

    The times are those that a plan gives where they are not when the event happened: milliseconds.
    """

    id: str
    ref: str | None = None
    outcome: str | None = None
    artifacts: tuple[str, ...] = ()
    started_at: SafeInteger | None = None
    completed_at: SafeInteger | None = None


@_event("task.started", searched="outcome")
class TaskStarted(TaskEvent, frozen=True, kw_only=True):
    pass


@_event("task.completed", searched="outcome")
class TaskCompleted(TaskEvent, frozen=True, kw_only=True):
    pass


@_event("task.blocked", searched="outcome")
class TaskBlocked(TaskEvent, frozen=True, kw_only=True):
    pass


@_event("task.reopened", searched="outcome")
class TaskReopened(TaskEvent, frozen=True, kw_only=True):
    pass


@_event("task.dropped", searched="outcome")
class TaskDropped(TaskEvent, frozen=True, kw_only=True):
    pass


@_event("task.edited", searched="text outcome")
class TaskEdited(TaskEvent, frozen=True, kw_only=True):
    """Facts about a task changed. Only what is named changes, artifacts are added; its status does not change."""

    text: str | None = None
    phase: str | None = None
    agent: str | None = None


# ── What was decided, changed, used ──────────────────────────────────────────────────────────────────────


@_event("decision.made", searched="chosen context options why")
class DecisionMade(EventData, frozen=True, kw_only=True):
    chosen: str
    context: str | None = None
    options: tuple[str, ...] = ()
    why: str | None = None


@_event("file.changed")
class FileChanged(EventData, frozen=True, kw_only=True):
    """A file of the project was changed. Contents are never kept; hashes are.

    `by` says how: an agent's editing tool (`tool`), a shell command (`command`), the `person`, or `unknown`. `among`
    names the conversations that may have done it, as `agent:id`; where there is one, and it is known how, it did.
    """

    path: str
    action: str
    agent: str | None = None
    lines_added: SafeInteger | None = None
    lines_removed: SafeInteger | None = None
    hash_before: str | None = None
    hash_after: str | None = None
    by: str | None = None
    among: tuple[str, ...] = ()


@_event("commit.recorded", is_activity=False, searched="message sha")
class CommitRecorded(EventData, frozen=True, kw_only=True):
    """A commit was made in the work tree of the session, at the time of the event; `message` is its first line.

    `conversation` is the one that made it, as `agent:id`; without one, a person did, or nobody knows. `certainty`
    says how sure that is: `certain`, `likely` or `uncertain`; `among` names the conversations that come into
    question. `replaces` is the commit that an amend or a rebase made this one of; `folded` are those that a rebase
    folded into it (`squash`, `fixup`). `authored` is in milliseconds.
    """

    sha: str
    message: str = ""
    branch: str | None = None
    tree: str | None = None
    parents: tuple[str, ...] = ()
    authored: SafeInteger | None = None
    conversation: str | None = None
    certainty: str = "certain"
    among: tuple[str, ...] = ()
    replaces: str | None = None
    folded: tuple[str, ...] = ()


@_event("command.ran")
class CommandRan(EventData, frozen=True, kw_only=True):
    """A shell command was executed. Without a `code`, nobody told how it ended."""

    command: str
    code: SafeInteger | None = None
    agent: str | None = None
    duration_ms: SafeInteger | None = None


@_event("context.measured")
class ContextMeasured(EventData, frozen=True, kw_only=True):
    """How many tokens the context holds, in all or of one agent."""

    tokens: SafeInteger
    window: SafeInteger | None = None
    agent: str | None = None


@_event("context.compressed")
class ContextCompressed(EventData, frozen=True, kw_only=True):
    """The context was compressed; `tokens` is what is left."""

    tokens: SafeInteger | None = None


@_event("hill.moved")
class HillMoved(EventData, frozen=True, kw_only=True):
    """A scope moved on its hill: 0 not started, 1 to 4 uphill, 5 the crest, 6 to 9 downhill, 10 done."""

    scope: str
    position: SafeInteger


@_event("conflict.resolved")
class ConflictResolved(EventData, frozen=True, kw_only=True):
    """A person chose between concurrent values: the hash of the event that stands, and those overruled.

    `value` is what was chosen: it stands even where another device has meanwhile replaced all of them.
    """

    field: str
    chosen: str
    overruled: tuple[str, ...]
    value: str | float | None = None


@_event("conflict.found", is_activity=False)
class ConflictDetected(EventData, frozen=True, kw_only=True):
    """Someone set a field in a file without having seen its latest value: both stand until a person chooses.

    `value` is what they wrote. `stood` is what stood then, told for fields that are no registers.
    """

    field: str
    value: Json = None
    stood: Json = None


def is_activity(kind: EventType, data: EventData | None) -> bool:
    """Whether an event is a sign of activity: by its type, unless it corrects hours. Erased data is None."""
    return kind.is_activity and (not isinstance(data, (AwayRecorded, WorkedRecorded)) or data.activity)


def searched_text(kind: EventType, data: EventData) -> str:
    """The text of an event that a search looks at."""
    parts: list[str] = []
    for name in kind.searched_fields:
        value = getattr(data, name)
        if isinstance(value, str):
            parts.append(value)
        elif value:
            parts.extend(value)
    return "\n".join(parts)
