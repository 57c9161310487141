"""The event types: everything that can be recorded in a session.

This is the smallest vocabulary for the session of the public contract. Each type has a version, stored in the event's
`v`; a type or version this program does not know is kept and passed on, and folded by a program that does. The
reference page is generated from this file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, NamedTuple, TypeAlias, TypeVar

import msgspec

from holdfast.core.canonical import MAX_SAFE_INTEGER, Json

# Whole numbers that every program reads alike; an event with a larger one is kept and not applied.
SafeInteger: TypeAlias = Annotated[int, msgspec.Meta(ge=-MAX_SAFE_INTEGER, le=MAX_SAFE_INTEGER)]


class EventData(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The data of an event. Fields at their default are left out, so adding a field changes no earlier hash."""

    redacted: dict[str, SafeInteger] = {}


class EventType(NamedTuple):
    name: str
    version: int
    data: type[EventData]
    # Whether it counts as a sign of activity for work time.
    is_activity: bool
    # Whether it causes a sync by itself. Measurements and bookkeeping do not: they are sent with later events.
    syncs: bool
    # Whether the work's position in git is recorded before it: others may continue from there.
    with_position: bool
    # Whether it may be recorded in a session that has ended.
    after_end: bool
    # The fields whose text is searched.
    searched_fields: tuple[str, ...]
    # Free text: checked, and scanned for secrets before it is stored. Ids, paths and hashes are not in it.
    text_fields: tuple[str, ...]
    # Values of documents, which were scanned as a whole when they were read: scanned again before they are sent.
    document_fields: tuple[str, ...]


EVENT_TYPES: dict[str, EventType] = {}
TYPE_OF: dict[type[EventData], EventType] = {}

# Raise it when more patterns count as secrets, or more fields are scanned: stored events are then scanned once more
# before they leave the device.
SECRET_RULES = 1

_D = TypeVar("_D", bound=type[EventData])


def _event(
    name: str,
    *,
    version: int = 1,
    is_activity: bool = True,
    syncs: bool = True,
    with_position: bool = False,
    after_end: bool = False,
    searched: str = "",
    text: str = "",
    documents: str = "",
) -> Callable[[_D], _D]:
    """Declare an event type. `searched`, `text` and `documents` are names of fields, in the order of the fields."""

    def register(data: _D) -> _D:
        EVENT_TYPES[name] = TYPE_OF[data] = EventType(
            name, version, data, is_activity, syncs, with_position, after_end, tuple(searched.split()),
            tuple(text.split()), tuple(documents.split()),
        )  # fmt: skip
        return data

    return register


# ── The session ──────────────────────────────────────────────────────────────────────────────────────────


class ProjectFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The project as observed: a random id, and the evidence by which other devices recognize it."""

    id: str
    name: str
    path: str | None = None
    git_branch: str | None = None
    git_commit: str | None = None
    remote: str | None = None
    roots: tuple[str, ...] = ()
    inside: str = ""


class TimerRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The thresholds of work time in milliseconds, recorded so that every device computes the same."""

    idle: SafeInteger = 5 * 60_000
    task: SafeInteger = 10 * 60_000
    break_40: SafeInteger = 40 * 60_000
    warning_60: SafeInteger = 60 * 60_000
    timeout_90: SafeInteger = 90 * 60_000


@_event("session.started", searched="goal task", text="goal scope task feature tags")
class SessionStarted(EventData, frozen=True, kw_only=True):
    """A session begins. `status` is `created` only for imports; `devices` are those that an import names.

    Without `gathers`, conversations that begin in its work tree do not join it.
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


@_event("session.edited", searched="goal summary task", text="goal scope task feature summary tags")
class SessionEdited(EventData, frozen=True, kw_only=True):
    """Facts about the session changed. Only the given fields change; tags are added.

    `continues` is for a session whose predecessor became known late.
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


@_event("session.paused", with_position=True, text="reason")
class SessionPaused(EventData, frozen=True, kw_only=True):
    """The person paused the session; only `session.resumed` ends the pause."""

    reason: str | None = None


@_event("session.resumed", with_position=True)
class SessionResumed(EventData, frozen=True, kw_only=True):
    """Work continues in this work tree. Without `gathers`, conversations that begin there do not join the session."""

    gathers: bool = True


@_event("session.saved", with_position=True)
class SessionSaved(EventData, frozen=True, kw_only=True):
    """The person asked to save everything. It was saved already: this is a mark in the log."""


@_event("session.completed", with_position=True, searched="summary", text="summary outcome reason")
class SessionCompleted(EventData, frozen=True, kw_only=True):
    """The work is done. `outcome` is what happened to the session's branch: `kept` or `discarded`."""

    summary: str | None = None
    outcome: str | None = None
    reason: str | None = None


@_event("session.failed", with_position=True, text="message")
class SessionFailed(EventData, frozen=True, kw_only=True):
    """The work failed, and cannot go on until someone resumes the session."""

    message: str
    category: str | None = None


@_event("session.aborted", with_position=True, text="reason")
class SessionAborted(EventData, frozen=True, kw_only=True):
    """The work was given up."""

    reason: str | None = None


@_event("session.timed_out", is_activity=False, with_position=True)
class SessionTimedOut(EventData, frozen=True, kw_only=True):
    """The working-time limit paused the session. Once per session."""


@_event("session.archived", is_activity=False, after_end=True)
class SessionArchived(EventData, frozen=True, kw_only=True):
    """The session is hidden from listings of current work."""


@_event("session.unarchived", is_activity=False, after_end=True)
class SessionUnarchived(EventData, frozen=True, kw_only=True):
    """The session is listed again."""


@_event("session.deleted", is_activity=False, after_end=True)
class SessionDeleted(EventData, frozen=True, kw_only=True):
    """All data of the session is erased on every device; only the envelopes stay."""


@_event("event.erased", is_activity=False, after_end=True)
class EventErased(EventData, frozen=True, kw_only=True):
    """The data of these events is erased, for instance because it contained a secret.

    `instead` has replacement data for some of the hashes: of the same type, without the secret.
    """

    hashes: tuple[str, ...]
    instead: dict[str, Json] = {}


@_event("device.joined", is_activity=False, syncs=False, after_end=True)
class DeviceJoined(EventData, frozen=True, kw_only=True):
    """The first event of a writer that did not start the session: the name of its device."""

    device: str


@_event("alias.given", is_activity=False, syncs=False, after_end=True)
class AliasGiven(EventData, frozen=True, kw_only=True):
    """The id of the session in one of the four formats."""

    format: str
    id: str


@_event("extra.kept", is_activity=False, syncs=False, after_end=True, documents="value")
class ExtraKept(EventData, frozen=True, kw_only=True):
    """A value that the model has no place for, kept for whoever wrote it. null removes it."""

    name: str
    value: Json = None


class Process(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The process of an agent or a conversation, so that its end can be noticed: pids alone are reused."""

    pid: SafeInteger
    started: str
    boot: str
    namespace: str
    machine: str


@_event("native.linked", is_activity=False, syncs=False, after_end=True)
class NativeLinked(EventData, frozen=True, kw_only=True):
    """A conversation belongs to the session: the agent program's own id, its process, the command to reopen it."""

    agent: str
    id: str
    resume: str | None = None
    process: Process | None = None


@_event("native.closed", is_activity=False, after_end=True, text="reason")
class NativeClosed(EventData, frozen=True, kw_only=True):
    """The agent program reported that the conversation was closed. A crash reports nothing; it may be reopened."""

    agent: str
    id: str
    reason: str | None = None


@_event("native.moved", is_activity=False, after_end=True)
class NativeMoved(EventData, frozen=True, kw_only=True):
    """The conversation belongs to another session from now on. What it recorded here stays here."""

    agent: str
    id: str
    to: str


@_event("conversation.updated", is_activity=False, syncs=False, after_end=True, searched="name", text="name")
class ConversationUpdated(EventData, frozen=True, kw_only=True):
    """Totals of a conversation from its transcript; the latest event counts. `name` is its title.

    If a conversation went on after its session had ended, each session has its own share of prompts, tokens and cost.
    `began` and `ended` are the times of its first and last message, in milliseconds.
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


@_event("ground.noted", is_activity=False, syncs=False)
class GitPositionNoted(EventData, frozen=True, kw_only=True):
    """The branch and commit of the work, recorded when they have changed, for whoever continues elsewhere.

    Without a `branch`, HEAD is detached; without a `commit`, the branch has none yet.
    """

    branch: str | None = None
    commit: str | None = None


# ── Signs of activity, time ──────────────────────────────────────────────────────────────────────────────


@_event("message.exchanged", syncs=False)
class MessageExchanged(EventData, frozen=True, kw_only=True):
    """A message of the person or an agent. Its text is not kept."""

    role: str = "user"


@_event("note.added", searched="text", text="text")
class NoteAdded(EventData, frozen=True, kw_only=True):
    text: str


@_event("away.recorded", after_end=True, text="reason")
class AwayRecorded(EventData, frozen=True, kw_only=True):
    """A pause that nobody recorded at the time. Milliseconds since 1970.

    `kind` is not `manual` only for pauses that another program counted (`idle`, `task`, `timeout`). `activity` is
    false for a correction of hours: recording it is no sign of activity.
    """

    since: SafeInteger
    until: SafeInteger
    reason: str | None = None
    kind: str = "manual"
    activity: bool = True


@_event("worked.recorded", after_end=True, text="reason")
class WorkedRecorded(EventData, frozen=True, kw_only=True):
    """Work that was counted as a pause: this span contains no pause. Milliseconds since 1970.

    `activity` is true only in events of an early version, which counted it as a sign of activity.
    """

    since: SafeInteger
    until: SafeInteger
    reason: str | None = None
    activity: bool = True


@_event("work.recorded")
class WorkRecorded(EventData, frozen=True, kw_only=True):
    """A span that another program observed: no gap in it is idle. Milliseconds since 1970.

    `counted`: that program counted it as working time, so no agent's run in it is a pause either.
    """

    since: SafeInteger
    until: SafeInteger
    counted: bool = False


@_event("error.noted", searched="message", text="message")
class ErrorNoted(EventData, frozen=True, kw_only=True):
    """An error that changed no status."""

    message: str
    category: str | None = None
    agent: str | None = None


@_event("reminder.reached", is_activity=False, syncs=False)
class ReminderReached(EventData, frozen=True, kw_only=True):
    """Working time crossed a line: `break_40`, `warning_60` or `timeout_90`. Later corrections do not revoke it."""

    line: str


@_event("waiting.started", text="for_ text")
class WaitingStarted(EventData, frozen=True, kw_only=True):
    """An agent waits for the person: `for` is what it needs (permission, input)."""

    id: str
    for_: str = msgspec.field(name="for")
    text: str | None = None


@_event("waiting.ended")
class WaitingEnded(EventData, frozen=True, kw_only=True):
    id: str


# ── Agents ───────────────────────────────────────────────────────────────────────────────────────────────


@_event("agent.started", with_position=True, text="task")
class AgentStarted(EventData, frozen=True, kw_only=True):
    """An agent begins. A `pending` one waits for its turn, and `agent.resumed` starts it.

    `conversation` is the one that started it, as `agent:id`, if an agent program reported it.
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
    """An event about an agent, named by the event that created it (`ref`) and, for readers of the log, by id."""

    id: str
    ref: str | None = None


@_event("agent.progressed")
class AgentProgressed(AgentEvent, frozen=True, kw_only=True):
    progress: float


@_event("agent.completed", with_position=True, searched="summary", text="summary")
class AgentCompleted(AgentEvent, frozen=True, kw_only=True):
    summary: str | None = None
    tokens: SafeInteger | None = None


@_event("agent.failed", with_position=True, text="message")
class AgentFailed(AgentEvent, frozen=True, kw_only=True):
    category: str
    message: str


@_event("agent.timed_out", with_position=True, text="message")
class AgentTimedOut(AgentEvent, frozen=True, kw_only=True):
    message: str = "timed out"


@_event("agent.retried")
class AgentRetried(AgentEvent, frozen=True, kw_only=True):
    """The agent is retried after a failure, a timeout or an interruption."""

    pid: SafeInteger | None = None
    process: Process | None = None


@_event("agent.paused")
class AgentPaused(AgentEvent, frozen=True, kw_only=True):
    pass


@_event("agent.resumed")
class AgentResumed(AgentEvent, frozen=True, kw_only=True):
    """The agent continues after a pause, or starts after waiting for its turn."""

    pid: SafeInteger | None = None
    process: Process | None = None


@_event("agent.aborted", text="reason")
class AgentAborted(AgentEvent, frozen=True, kw_only=True):
    reason: str | None = None


@_event("agent.interrupted", is_activity=False)
class AgentInterrupted(AgentEvent, frozen=True, kw_only=True):
    """The agent ended without a report: its process is dead, or its conversation went on without it.

    `last_seen` is the last time it was known to run.
    """

    last_seen: SafeInteger


@_event("agent.edited", searched="summary", text="task summary")
class AgentEdited(AgentEvent, frozen=True, kw_only=True):
    """Facts about an agent changed. Only the given fields change; its status does not.

    `tokens` is what it has used in total, not how full its context is.
    """

    type: str | None = None
    task: str | None = None
    blocking_on: str | None = None
    summary: str | None = None
    tokens: SafeInteger | None = None
    background: bool | None = None


# ── The plan ─────────────────────────────────────────────────────────────────────────────────────────────


@_event("phase.added", text="name")
class PhaseAdded(EventData, frozen=True, kw_only=True):
    id: str
    name: str


@_event("task.added", searched="text", text="text phase")
class TaskAdded(EventData, frozen=True, kw_only=True):
    id: str
    text: str
    phase: str | None = None
    agent: str | None = None


class TaskEvent(EventData, frozen=True, kw_only=True):
    """An event about a task, named by the event that created it (`ref`) and, for readers of the log, by id.

    The times, in milliseconds, are those of a plan, if they differ from the time of the event.
    """

    id: str
    ref: str | None = None
    outcome: str | None = None
    artifacts: tuple[str, ...] = ()
    started_at: SafeInteger | None = None
    completed_at: SafeInteger | None = None


@_event("task.started", searched="outcome", text="outcome")
class TaskStarted(TaskEvent, frozen=True, kw_only=True):
    pass


@_event("task.completed", searched="outcome", text="outcome")
class TaskCompleted(TaskEvent, frozen=True, kw_only=True):
    pass


@_event("task.blocked", searched="outcome", text="outcome")
class TaskBlocked(TaskEvent, frozen=True, kw_only=True):
    pass


@_event("task.reopened", searched="outcome", text="outcome")
class TaskReopened(TaskEvent, frozen=True, kw_only=True):
    pass


@_event("task.dropped", searched="outcome", text="outcome")
class TaskDropped(TaskEvent, frozen=True, kw_only=True):
    pass


@_event("task.edited", searched="text outcome", text="outcome text phase")
class TaskEdited(TaskEvent, frozen=True, kw_only=True):
    """Facts about a task changed. Only the given fields change, artifacts are added; its status does not change."""

    text: str | None = None
    phase: str | None = None
    agent: str | None = None


# ── What was decided, changed, used ──────────────────────────────────────────────────────────────────────


@_event("decision.made", with_position=True, searched="chosen context options why", text="chosen context options why")
class DecisionMade(EventData, frozen=True, kw_only=True):
    chosen: str
    context: str | None = None
    options: tuple[str, ...] = ()
    why: str | None = None


@_event("file.changed", with_position=True)
class FileChanged(EventData, frozen=True, kw_only=True):
    """A file of the project was changed. Contents are never kept; hashes are.

    `by` is an agent's editing tool (`tool`), a shell command (`command`), the `person`, or `unknown`. `among` are the
    conversations that may have done it, as `agent:id`; if there is one, and `by` is known, it did.
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


@_event("commit.recorded", is_activity=False, searched="message sha", text="message")
class CommitRecorded(EventData, frozen=True, kw_only=True):
    """A commit was made in the work tree of the session, at the time of the event; `message` is its first line.

    `conversation` is the one that made it, as `agent:id`; without one, a person did, or it is unknown. `certainty` is
    `certain`, `likely` or `uncertain`; `among` are the conversations that may have made it. `replaces` is the commit
    that an amend or a rebase turned into this one; `folded` are those that a rebase folded into it (`squash`,
    `fixup`). `authored` is in milliseconds.
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


@_event("command.ran", syncs=False, text="command")
class CommandRan(EventData, frozen=True, kw_only=True):
    """A shell command was executed. Without a `code`, it is unknown how it ended."""

    command: str
    code: SafeInteger | None = None
    agent: str | None = None
    duration_ms: SafeInteger | None = None


@_event("context.measured", syncs=False)
class ContextMeasured(EventData, frozen=True, kw_only=True):
    """The number of tokens in the context, of the session or of one agent."""

    tokens: SafeInteger
    window: SafeInteger | None = None
    agent: str | None = None


@_event("context.compressed")
class ContextCompressed(EventData, frozen=True, kw_only=True):
    """The context was compressed to `tokens`."""

    tokens: SafeInteger | None = None


@_event("hill.moved", text="scope")
class HillMoved(EventData, frozen=True, kw_only=True):
    """A scope moved on its hill: 0 not started, 1 to 4 uphill, 5 the crest, 6 to 9 downhill, 10 done."""

    scope: str
    position: SafeInteger


@_event("conflict.resolved", with_position=True, after_end=True, text="value")
class ConflictResolved(EventData, frozen=True, kw_only=True):
    """A person chose between concurrent values: the hashes of the chosen event and of those overruled.

    `value` is the chosen value: it counts even if another device has replaced all of them meanwhile.
    """

    field: str
    chosen: str
    overruled: tuple[str, ...]
    value: str | float | None = None


@_event("conflict.found", is_activity=False, after_end=True, text="value", documents="stood")
class ConflictDetected(EventData, frozen=True, kw_only=True):
    """A field was set in a file by someone who had not seen its latest value: both count until a person chooses.

    `value` is what was written; `stood` the value at that time, for fields that are no registers.
    """

    field: str
    value: Json = None
    stood: Json = None


def is_activity(kind: EventType, data: EventData | None) -> bool:
    """Whether an event is a sign of activity: by its type, unless it corrects hours. Erased data is None."""
    return kind.is_activity and (not isinstance(data, (AwayRecorded, WorkedRecorded)) or data.activity)


def searched_text(kind: EventType, data: EventData) -> str:
    """The text of an event that is searched."""
    parts: list[str] = []
    for name in kind.searched_fields:
        value = getattr(data, name)
        if isinstance(value, str):
            parts.append(value)
        elif value:
            parts.extend(value)
    return "\n".join(parts)
