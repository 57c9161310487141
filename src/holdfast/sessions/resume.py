"""Resume a session after a stop or a crash: which agents still run, and which changes reached the disk.

Nothing is recorded when the power fails. Agents whose process has ended are marked as interrupted, but only where
that can be known: on the machine, boot and process namespace that started them. Files are compared with their
recorded hashes. Where another device worked on the session last, the project here is compared with what it left
(`resume_check`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

from msgspec.structs import astuple

from holdfast.core import agents, view
from holdfast.core.canonical import digest
from holdfast.core.display_names import device_names
from holdfast.core.errors import HoldfastError, NotFound
from holdfast.core.events import AgentInterrupted, EventData, SessionResumed, SessionUnarchived, WaitingEnded
from holdfast.core.lifecycle import refusal, session_allows
from holdfast.core.state import AgentState, FileState, State
from holdfast.core.text import shorten
from holdfast.core.wording import count
from holdfast.machine import files
from holdfast.machine.process import ProcessIdentity, liveness
from holdfast.sessions.work_trees import make_current
from holdfast.store import origin

if TYPE_CHECKING:
    from holdfast.core.model import Session, Waiting
    from holdfast.core.state import State
    from holdfast.workspace.followers import ResumeDifference
    from holdfast.workspace.workspace import Workspace


Landing = Literal["landed", "not landed", "changed since", "unknown"]


class FileLanding(NamedTuple):
    path: str
    action: str
    agent: str | None
    landing: Landing


class LostAgent(NamedTuple):
    """An agent recorded as running whose process has ended, or cannot be seen from here."""

    id: str
    task: str
    since: int


class BrokenConversation(NamedTuple):
    """A conversation that was not closed and whose program has ended."""

    agent: str
    id: str


class ResumeResult(NamedTuple):
    interrupted: tuple[LostAgent, ...]
    unknown: tuple[LostAgent, ...]
    files: tuple[FileLanding, ...]
    broken: tuple[BrokenConversation, ...] = ()
    # How this project differs from what another device left.
    differences: tuple[ResumeDifference, ...] = ()
    # Interrupted agents after which the work went on.
    settled: frozenset[str] = frozenset()

    def renamed(self, names: Mapping[str, str]) -> ResumeResult:
        """The same result with these names instead of agents' ids."""
        interrupted, unknown = (
            tuple(agent._replace(id=names.get(agent.id, agent.id)) for agent in agents_of)
            for agents_of in (self.interrupted, self.unknown)
        )
        files = tuple(file._replace(agent=names.get(file.agent or "", file.agent)) for file in self.files)
        settled = frozenset(names.get(id_, id_) for id_ in self.settled)
        return self._replace(interrupted=interrupted, unknown=unknown, files=files, settled=settled)


def preview(state: State, root: str) -> ResumeResult:
    """Show what a resume here would report. Records nothing."""
    interrupted, unknown = find_lost_agents(state)
    unattended = agents.failed_agents(state).unattended
    settled = frozenset(
        agent.id
        for agent in state.agents.values()
        if agents.status_of(agent) == "interrupted" and agent.id not in unattended
    )
    files_ = tuple(_landings(state, root))
    return ResumeResult(interrupted, unknown, files_, tuple(crashed_conversations(state)), settled=settled)


def find_lost_agents(state: State) -> tuple[tuple[LostAgent, ...], tuple[LostAgent, ...]]:
    """Agents recorded as running: those whose process has ended, and those that cannot be seen from here."""
    dead, unknown = [], []
    for agent in state.agents.values():
        status = agents.status_of(agent)
        if status not in ("pending", "running", "paused") or (status == "pending" and agent.process is None):
            continue
        process_state = "unknown" if agent.process is None else liveness(ProcessIdentity(*astuple(agent.process)))
        if process_state == "dead":
            dead.append(_lost(agent))
        elif process_state == "unknown":
            unknown.append(_lost(agent))
    return tuple(dead), tuple(unknown)


def resume(
    ws: Workspace, session: str, *, device: str | None, force: bool, gathers: bool, at: int | None
) -> ResumeResult:
    from holdfast.sessions import resume_check
    from holdfast.sessions.conflicts import choices_for_device
    from holdfast.workspace import projects

    ws.refuse_if_read_only(session)
    state, guests = ws.state(session), origin.guests(ws.store(), session)
    if device is None:
        _refuse_the_ended(state)
    elif device not in (names := device_names(state, guests).values()):
        known = ", ".join(sorted(set(names)))
        raise NotFound(
            f"no device called {shorten(device, 60)!a} has worked on this session",
            hint=f"Devices that have: {known}.",
            session=session,
        )
    before = preview(state, ws.place.root)
    foreign, project = resume_check.left_by_another(ws, state), state.project
    differences = resume_check.check(ws, state, before.files, foreign=foreign)
    if not force:
        resume_check.refuse(differences, state)
    claimed = project is not None and (
        resume_check.would_claim_project(ws, project, foreign=foreign)
        # Git showed that both are one project: claim it, so that the path is enough from now on.
        or (foreign and projects.is_same_project(ws.store(), ws.place, project))
    )
    results: list[ResumeResult] = []

    def build(state: State) -> Iterator[EventData]:
        if device is not None:
            yield from choices_for_device(state, device, guests)
        _refuse_the_ended(state)
        dead, unknown = find_lost_agents(state)
        results.append(ResumeResult(dead, unknown, before.files, tuple(crashed_conversations(state)), differences))
        for agent in list(state.agents.values()):
            if agents.status_of(agent) in ("pending", "running", "paused") and _lost(agent) in dead:
                yield AgentInterrupted(id=agent.id, ref=agent.ref, last_seen=agent.touched_at)

        for item in results[0].broken:
            yield from [WaitingEnded(id=name) for name in waits_of(state, item.agent, item.id)]
        yield SessionResumed(gathers=gathers)
        if state.archived:  # resuming unarchives a session
            yield SessionUnarchived()

    with ws.transaction(about=session) as transaction:
        if foreign:
            projects.learn_project(ws, transaction, state)
        if claimed and project is not None:
            projects.claim_project(transaction, ws.place, project)
        ws.recorder.within(transaction, session, build, at=at, make_current=True)
        make_current(ws, transaction, session)
    return results[0]


def take_up(
    ws: Workspace, session: str, *, device: str | None, force: bool, gathers: bool, at: int | None
) -> tuple[str, ResumeResult, str | None]:
    """Resume a session; where it has ended, start one that continues it with its open tasks.

    Gives the session to work in, the result, and a notice about a new session.
    """
    from holdfast.core.lifecycle import FINISHED
    from holdfast.sessions import resume_check
    from holdfast.sessions.fork import fork

    state = ws.state(session)
    if device is not None or view.status_of(state) not in FINISHED:
        return session, resume(ws, session, device=device, force=force, gathers=gathers, at=at), None
    files_ = tuple(_landings(state, ws.place.root))
    differences = resume_check.check(ws, state, files_, foreign=resume_check.left_by_another(ws, state))
    if not force:
        resume_check.refuse(differences, state)
    begun = fork(ws, session, gathers=gathers, at=at)
    tasks = ws.state(begun).tasks
    open_tasks = count(len(tasks), "open task")
    message = f"Session {session[:8]} is {view.status_of(state)}: {begun[:8]} continues it"
    message += f", with {open_tasks}." if tasks else "."
    return begun, ResumeResult((), (), files_, differences=differences), message


def _refuse_the_ended(state: State) -> None:
    status = view.status_of(state)
    if not session_allows(status, "session.resumed"):
        raise refusal("the session", status, "session.resumed", state.session)


def crashed_conversations(state: State) -> list[BrokenConversation]:
    """Conversations that were not closed and whose process has ended: the program crashed or was killed."""
    return [
        BrokenConversation(native.agent, native.id)
        for native in state.native.values()
        if native.closed_at is None
        and native.process is not None
        and liveness(ProcessIdentity(*astuple(native.process))) == "dead"
    ]


def lost_agents(state: State, document: Session) -> frozenset[str]:
    """The ids of agents recorded as running whose process has ended."""
    if document.ended_at is not None or all(agent.status not in ("running", "paused") for agent in document.agents):
        return frozenset()
    return frozenset(agent.id for agent in find_lost_agents(state)[0])


def ended_conversations(state: State, document: Session) -> list[str]:
    """Names of conversations whose program ended without a report."""
    if document.ended_at is not None:
        return []
    known = {(conversation.agent, conversation.id): conversation.title for conversation in document.conversations}
    return [f"{item.agent} ({shorten(known.get(item) or item.id[:8], 60)})" for item in crashed_conversations(state)]


def _lost(agent: AgentState) -> LostAgent:
    return LostAgent(agent.id, agent.task or agent.type, agent.touched_at)


def _landings(state: State, root: str) -> list[FileLanding]:
    """Compare the last recorded change of each file with the disk."""
    last: dict[str, FileState] = {}
    for change in state.files:
        last.pop(change.path, None)
        last[change.path] = change
    return [FileLanding(path, change.action, change.agent, _landing(change, root)) for path, change in last.items()]


def _landing(change: FileState, root: str) -> Landing:
    full = os.path.join(root, *change.path.split("/"))
    if change.action == "deleted":
        return "not landed" if os.path.lexists(full) else "landed"
    try:
        now = files.hash_file(full)
    except HoldfastError:
        return "unknown"
    if change.hash_after is None:
        return "unknown"
    if now == change.hash_after:
        return "landed"
    return "not landed" if now is None or now == change.hash_before else "changed since"


# ── what agents wait for ───────────────────────────────────────────────────────────────────────────────


def wait_name(agent: str, conversation: str, subagent: str | None) -> str:
    """The name of the wait of a conversation or of one of its subagents."""
    return _of_conversation(agent, conversation) + _short(subagent or "")


def waits_of(state: State, agent: str, conversation: str) -> list[str]:
    """The names of a conversation's waits."""
    return [name for name in state.waiting if name.startswith(_of_conversation(agent, conversation))]


def still_waiting(state: State, waits: list[Waiting]) -> list[Waiting]:
    """The waits of an unfinished session, without those of programs that have ended."""
    ended = {name for item in crashed_conversations(state) for name in waits_of(state, item.agent, item.id)}
    return [wait for name, wait in zip(state.waiting, waits, strict=True) if name not in ended]


def _of_conversation(agent: str, conversation: str) -> str:
    return f"{agent}-{_short(conversation)}-"


def _short(words: str) -> str:
    return digest(words.encode(errors="surrogatepass"))[:8]
