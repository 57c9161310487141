"""Turn a state into the session of the public contract, as of a given moment."""

from __future__ import annotations

import re
from contextlib import suppress

import msgspec

from holdfast.core import activity, modes
from holdfast.core import agents as agents_of
from holdfast.core import tasks as tasks_of
from holdfast.core.agent_programs import resume_command
from holdfast.core.canonical import Json
from holdfast.core.lifecycle import FINAL, FINISHED
from holdfast.core.model import (
    Agent,
    AgentError,
    AgentFiles,
    Aliases,
    Certainty,
    ChangedBy,
    Commands,
    Commit,
    Conflict,
    ConflictValue,
    Context,
    Conversation,
    Decision,
    Error,
    FileChange,
    Native,
    Note,
    Pause,
    Phase,
    Project,
    Reminders,
    Session,
    Sync,
    Task,
    Time,
    Tokens,
    Waiting,
)
from holdfast.core.registers import Dispute, current_value, current_write, disputes
from holdfast.core.state import AgentState, CommitState, ConversationState, NativeState, PauseMark, State
from holdfast.core.times import HOUR, format_time
from holdfast.core.worktime import ForegroundRun, WorkTime, measure

MAX_LOOKUP_NAME_LENGTH = 1_200  # characters and bytes: indexes on a server have no room for longer names
# An id that every shell reads as one word, and that no program takes for an option.
_PLAIN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@+-]*")
_ENDED = frozenset({"completed", "error", "timeout", "aborted", "interrupted"})
# Another program may have written anything: only the contract's words are shown.
_CHANGED_BY: dict[str, ChangedBy] = {"tool": "tool", "command": "command", "person": "person", "unknown": "unknown"}
_CERTAINTY: dict[str, Certainty] = {"certain": "certain", "likely": "likely", "uncertain": "uncertain"}
_RESULTS = {"completed": "success", "error": "failure", "timeout": "timeout", "aborted": "aborted"}


def status_of(state: State) -> str:
    current = current_write("session", state.registers.get("status", []))
    return "created" if current is None else str(current.value)


def shown_status(state: State) -> str:
    """The status that people and files see. The lifecycle goes by `status_of`.

    Closing a conversation records no pause: a session in progress counts as paused while it is disconnected. That
    follows from the log, so it is the same on every device and conflicts with nothing.
    """
    status = status_of(state)
    return "paused" if status == "in_progress" and is_disconnected(state) else status


def status_at(state: State, now: int) -> str:
    """The status as shown at a moment: an idle session counts as paused."""
    status = shown_status(state)
    return "paused" if status == "in_progress" and worktime(state, now).idle_since is not None else status


def is_disconnected(state: State) -> bool:
    """Whether all its conversations are closed, nothing has happened since, and no agent runs."""
    return state.disconnected_at is not None and not agents_of.running(state)


def began_by_itself(state: State) -> bool:
    """Whether the first prompt of a conversation began the session, not a person's `start`."""
    return state.captured


def is_over(state: State, now: int, join_hours: float) -> bool:
    """Whether a session that began by itself was left: nothing in it is open, and it has been disconnected so long.

    It is computed and never recorded, so the next sign of activity reopens the session.
    """
    since = state.disconnected_at
    return (
        since is not None
        and now - since >= join_hours * HOUR
        and shown_status(state) == "paused"
        and began_by_itself(state)
        and all(agents_of.status_of(agent) in _ENDED for agent in state.agents.values())
        and all(tasks_of.status_of(task) in FINAL["task"] for task in state.tasks.values())
    )


def ended_at(state: State) -> int | None:
    current = current_write("session", state.registers.get("status", []))
    return current.at if current is not None and current.value in FINISHED else None


def worktime(state: State, now: int) -> WorkTime:
    """Work time as of `now`; of an ended session, as of its end."""
    end = ended_at(state)
    runs = (
        ForegroundRun(run.since, run.until, f"Agent at work: {agent.task or agent.type}", agent.writer)
        for agent in state.agents.values()
        if not agent.background
        for run in agent.runs
    )
    time = state.time
    if state.created_at is None:
        time = msgspec.structs.replace(time, start=counted_from(state))
    return measure(time, runs, end=end, now=now)


def counted_from(state: State) -> int:
    """When its time begins: with the first sign of activity, if its first event has not arrived yet."""
    if state.created_at is not None:
        return state.time.start
    return state.time.active[0].since if state.time.active else state.updated_at


def progress_of(state: State) -> float:
    """The progress that was set; else the share of completed tasks; else the agents' mean; else 0."""
    explicit = current_value(state.registers.get("progress", ()))
    if isinstance(explicit, (int, float)):
        return fraction(explicit)
    statuses = [tasks_of.status_of(task) for task in state.tasks.values()]
    planned = [status for status in statuses if status != "dropped"]
    if planned:
        return round(planned.count("completed") / len(planned), 4)
    if state.agents:
        return round(sum(fraction(agent.progress or 0.0) for agent in state.agents.values()) / len(state.agents), 4)
    return 0.0


def fraction(value: float) -> float:
    """A progress from 0 to 1, whatever another program's row or snapshot says: NaN counts as 0."""
    return 1.0 if value >= 1 else float(value) if value > 0 else 0.0


def text_value(state: State, name: str) -> str | None:
    value = current_value(state.registers.get(name, ()))
    return value if isinstance(value, str) else None


def aliases_of(state: State) -> Aliases:
    """The ids by which the formats know the session."""
    return Aliases(**{name: state.aliases.get(name) for name in Aliases.__struct_fields__})


def other_names(state: State) -> tuple[str, ...]:
    """Aliases that belong to no format: ids and files of people who kept sessions by hand."""
    return tuple(alias for name, alias in state.aliases.items() if name not in Aliases.__struct_fields__)


def device_of(state: State) -> str | None:
    """The device that acted last."""
    return state.devices.get(state.last_writer) or next(iter(state.devices.values()), None)


def session(state: State, now: int) -> Session:
    work = worktime(state, now)
    end = ended_at(state)
    created = state.created_at if state.created_at is not None else state.updated_at
    conversations = [
        _conversation(state, native)
        for name, native in state.native.items()
        if native.moved_to is None
        or name in state.conversations  # the tokens it used in this session still count here
    ]
    return Session(
        id=state.session,
        aliases=aliases_of(state),
        project=_project(state),
        goal=text_value(state, "goal") or "",
        summary=text_value(state, "summary"),
        mode=text_value(state, "mode") or "default",
        model=text_value(state, "model"),
        status=status_at(state, now),
        progress=progress_of(state),
        scope=text_value(state, "scope"),
        task=text_value(state, "task"),
        feature=text_value(state, "feature"),
        branch=text_value(state, "branch"),
        tags=list(state.tags),
        continues=state.continues,
        created_at=format_time(created),
        updated_at=format_time(state.updated_at),
        started_at=None if status_of(state) == "created" else format_time(state.time.start or created),
        ended_at=None if end is None else format_time(end),
        device=device_of(state),
        devices=sorted(set(state.devices.values())),
        cost_usd=_cost(state, conversations),
        # In an ended session, nothing waits for an answer.
        waiting=[
            Waiting(at=format_time(wait.at), for_=wait.for_, text=wait.text)
            for wait in state.waiting.values() if end is None
        ],
        native=[
            Native(agent=native.agent, id=native.id, resume=reopen_command(native))
            for native in state.native.values()
            if native.moved_to is None
        ],
        conversations=conversations,
        commits=_commits(state),
        agents=_agents(state, now if end is None else end),
        phases=[Phase(id=id_, name=name) for id_, name in state.phases.items()],
        tasks=[
            Task(
                id=task.id, text=task.text, phase=task.phase, agent=task.agent, status=tasks_of.status_of(task),
                outcome=task.outcome, artifacts=list(task.artifacts), created_at=format_time(task.created_at),
                started_at=_time_text(task.started_at),
                completed_at=_time_text(task.completed_at) if tasks_of.status_of(task) == "completed" else None,
            )
            for task in state.tasks.values()
        ],
        decisions=[
            Decision(
                at=format_time(decision.at), chosen=decision.chosen, context=decision.context,
                options=list(decision.options), why=decision.why,
            )
            for decision in state.decisions
        ],
        files=[
            FileChange(
                path=change.path, action=change.action, agent=change.agent, at=format_time(change.at),
                lines_added=change.lines_added, lines_removed=change.lines_removed,
                hash_before=change.hash_before, hash_after=change.hash_after,
                by=None if change.by is None else _CHANGED_BY.get(change.by, "unknown"), among=list(change.among),
            )
            for change in state.files
        ],
        context=context_of(state),
        time=_time(state, work),
        notes=[Note(at=format_time(note.at), text=note.text) for note in state.notes],
        errors=[
            Error(at=format_time(failure.at), message=failure.message, category=failure.category, agent=failure.agent)
            for failure in state.failures
        ],
        conflicts=conflicts(state),
        commands=Commands(total=state.commands, failed=state.commands_failed, last=state.last_command),
        sync=Sync(),
        extra=_extra(state),
    )  # fmt: skip


def _conversation(state: State, native: NativeState) -> Conversation:
    update = state.conversations.get(f"{native.agent}\n{native.id}") or ConversationState()
    models = state.extra.get("models")
    chosen = models.get(native.agent) if isinstance(models, dict) else None
    costs = state.extra.get("costs")
    counted = costs.get(native_name(native.agent, native.id)) if isinstance(costs, dict) else None
    known = [] if update.cost_usd is None else [update.cost_usd]
    # While it is open, there is no last message yet, and a status line may be ahead of the transcript.
    is_over = native.closed_at is not None or status_of(state) in FINISHED
    if isinstance(counted, (int, float)) and not (known and is_over):
        known.append(float(counted))
    return Conversation(
        id=native.id, agent=native.agent, title=update.name,
        model=update.model or (chosen if isinstance(chosen, str) else None),
        started_at=_time_text(native.linked_at if update.began is None else update.began),
        ended_at=_time_text(native.closed_at if update.ended is None else update.ended) if is_over else None,
        prompts=update.prompts or None, kept=False, resume=reopen_command(native),
        cost_usd=max(known, default=None),
        tokens=Tokens(
            input=update.input, output=update.output, cache_read=update.cache_read, cache_write=update.cache_write
        ),
    )  # fmt: skip


def _cost(state: State, conversations: list[Conversation]) -> float | None:
    """The cost of its conversations; if none is known, the cost recorded for the session."""
    known = [conversation.cost_usd for conversation in conversations if conversation.cost_usd is not None]
    if known:
        return round(sum(known), 6)
    cost = current_value(state.registers.get("cost_usd", ()))
    return float(cost) if isinstance(cost, (int, float)) else None


def _commits(state: State) -> list[Commit]:
    """The commits that no amend or rebase has replaced.

    Amending or rebasing a commit does not change its author: its first version says who made it.
    """
    replaced = {sha for commit in state.commits.values() for sha in (commit.replaces, *commit.folded)}
    current = [commit for commit in state.commits.values() if commit.sha not in replaced]
    return [
        Commit(
            sha=commit.sha, at=format_time(commit.at), subject=commit.subject, branch=commit.branch,
            conversation=None if first.conversation is None else first.conversation.partition(":")[2],
            certainty=_CERTAINTY.get(first.certainty, "uncertain"), among=list(first.among),
            replaces=commit.replaces,
        )
        for commit in sorted(current, key=lambda commit: commit.at)
        for first in [_first_version(state, commit)]
    ]  # fmt: skip


def _first_version(state: State, commit: CommitState) -> CommitState:
    """The first version of this commit, before amends and rebases."""
    visited = {commit.sha}
    while (earlier := state.commits.get(commit.replaces or "")) is not None and earlier.sha not in visited:
        visited.add(earlier.sha)
        commit = earlier
    return commit


def _extra(state: State) -> dict[str, Json]:
    """What the model has no place for. A format's own values are kept as text, to preserve their spelling."""
    # Names that begin with a dot are internal bookkeeping.
    values = {name: value for name, value in state.extra.items() if not name.startswith(".")}
    for name in Aliases.__struct_fields__:
        text = values.get(name)
        if isinstance(text, str):
            with suppress(msgspec.MsgspecError, RecursionError):
                values[name] = msgspec.json.decode(text)
    if state.redacted:
        values["redacted"] = dict(state.redacted)
    return values


def conflicts(state: State) -> list[Conflict]:
    """All conflicts, settled ones too: the same on every device."""
    return [conflict(state, dispute) for dispute in disputes(state)]


def conflict(state: State, dispute: Dispute) -> Conflict:
    return Conflict(
        id=dispute.id,
        field=dispute.field,
        values=[
            ConflictValue(value=write.value, device=state.devices.get(write.writer), at=format_time(write.at))
            for write in dispute.writes
        ],
        chosen=dispute.chosen,
    )


def _time_text(ms: int | None) -> str | None:
    return None if ms is None else format_time(ms)


def _project(state: State) -> Project:
    project = state.project
    if project is None:
        return Project(name="", path=None, git_branch=None, git_commit=None, remote=None)
    return Project(
        name=project.name, path=project.path, git_branch=project.git_branch, git_commit=project.git_commit,
        remote=project.remote,
    )  # fmt: skip


def _agents(state: State, now: int) -> list[Agent]:
    touched: dict[str, dict[str, dict[str, None]]] = {}
    for change in state.files:
        if change.agent is not None:
            touched.setdefault(change.agent, {}).setdefault(change.action, {})[change.path] = None
    return [_agent(agent, touched.get(agent.id, {}), now) for agent in state.agents.values()]


def _agent(agent: AgentState, touched: dict[str, dict[str, None]], now: int) -> Agent:
    status = agents_of.status_of(agent)
    failure = agent.failure
    ended = agent.ended_at if status in _ENDED else None
    finish = ended if ended is not None else now
    return Agent(
        id=agent.id, type=agent.type, task=agent.task, status=status,
        progress=None if agent.progress is None else fraction(agent.progress),
        started_at=_time_text(agent.started_at), completed_at=_time_text(ended),
        duration_ms=None if agent.started_at is None else max(0, finish - agent.started_at),
        result=_RESULTS.get(status), summary=agent.summary, blocking_on=agent.blocking_on, tokens=agent.tokens,
        retries=agent.retries, pid=agent.pid, background=agent.background,
        error=None if failure is None or status == "completed" else AgentError(
            category=failure.category or "logical", message=failure.message,
            retry_count=agent.retries, last_retry_at=_time_text(agent.last_retry_at),
        ),
        files=AgentFiles(
            created=list(touched.get("created", ())), modified=list(touched.get("modified", ())),
            deleted=list(touched.get("deleted", ())),
        ),
    )  # fmt: skip


def measured_tokens(state: State) -> int | None:
    """The tokens in use by the last measurement, even if the context has been compressed since."""
    return state.tokens if state.tokens is not None else (sum(state.by_agent.values()) or None)


def window_of(state: State) -> int:
    """The context window: as the agent reported it, else that of the model."""
    if state.window is not None and state.window > 0:
        return state.window
    return modes.window(text_value(state, "model"), measured_tokens(state) or 0)


def context_of(state: State) -> Context:
    tokens = None if state.outdated else measured_tokens(state)
    window = window_of(state)
    return Context(
        tokens=tokens, window=window, percent=None if tokens is None else modes.percent(tokens, window),
        level=modes.level(tokens, window), compressions=state.compressions,
        last_compression=_time_text(state.last_compression), by_agent=dict(state.by_agent),
    )  # fmt: skip


def _time(state: State, work: WorkTime) -> Time:
    reached = state.time.reached
    return Time(
        elapsed_ms=work.elapsed,
        working_ms=work.working,
        paused_ms=work.paused,
        idle_since=_time_text(work.idle_since),
        pauses=[
            Pause(
                kind=pause.kind, reason=pause.reason, started_at=format_time(pause.since),
                ended_at=_time_text(pause.until), duration_ms=pause.length,
            )
            for pause in work.pauses
        ],
        reminders=Reminders(
            break_40="break_40" in reached, warning_60="warning_60" in reached, timeout_90="timeout_90" in reached
        ),
    )  # fmt: skip


def reopen_command(native: NativeState) -> str | None:
    """The command that reopens a conversation, if one was recorded.

    It is built from the id and not the recorded text: people paste it, and anybody who may write in the session could
    have recorded another command.
    """
    is_shown = native.resume is not None and _PLAIN_ID.fullmatch(native.id) is not None
    return resume_command(native.agent, native.id) if is_shown else None


def lookup_names(state: State) -> list[str]:
    """The names that find a session besides its id: its aliases, and its conversations as `agent:id`."""
    names = [*state.aliases.values(), *(native_name(native.agent, native.id) for native in state.native.values())]
    return [name for name in names if is_lookup_name(name)]


def is_lookup_name(name: str) -> bool:
    """Whether every store can look this name up."""
    return len(name) <= MAX_LOOKUP_NAME_LENGTH and len(name.encode(errors="surrogatepass")) <= MAX_LOOKUP_NAME_LENGTH


def last_activity(state: State) -> int:
    """The time of the last activity of a person or an agent in the session."""
    return activity.last_activity(state.time, state.time.start)


def native_name(agent: str, conversation: str) -> str:
    return f"{agent}:{conversation}"


def latest_mark(state: State) -> PauseMark | None:
    """The mark that last opened or ended a pause; pauses entered afterwards do not count."""
    return next((mark for mark in reversed(state.time.marks) if mark.kind not in ("away", "worked")), None)


def message_ends_pause(state: State, *, message_resumes: bool, limit_holds: bool) -> bool:
    """Whether a message of the person ends the current pause; one made by a limit may outlast messages."""
    mark = latest_mark(state)
    return message_resumes and not (limit_holds and mark is not None and mark.kind == "timeout")


def pause_reason(state: State) -> str:
    """The reason of the last explicit pause, unless it was resumed since."""
    mark = latest_mark(state)
    return (mark.reason if mark is not None and mark.kind == "manual" else None) or ""
