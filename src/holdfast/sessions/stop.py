"""Stop or delete a session.

Stopping completes the session and keeps its branch (as one commit on the branch it came from) or discards it.
Deleting erases its text from every file of the home; a session that may still be in use needs force.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import astuple

from holdfast.core import agents, view
from holdfast.core.display_names import device_names
from holdfast.core.errors import Invalid, Refused
from holdfast.core.event_data import read_data
from holdfast.core.events import (
    AgentAborted,
    AgentInterrupted,
    EventData,
    SessionCompleted,
    SessionDeleted,
    SessionEdited,
    SessionStarted,
)
from holdfast.core.lifecycle import FINISHED, refusal, session_allows
from holdfast.core.state import State
from holdfast.core.text import check_text, shorten
from holdfast.core.times import MINUTE, format_time
from holdfast.core.worktime import WorkTime
from holdfast.machine.process import ProcessIdentity, liveness
from holdfast.machine.wall import local_offset
from holdfast.sessions.ownership import own_test
from holdfast.store import origin
from holdfast.store.interface import Draft

if TYPE_CHECKING:
    from holdfast.core.state import State
    from holdfast.workspace.workspace import Workspace


class StopResult(NamedTuple):
    """What became of the session's branch: the squash commit, and the tip of the deleted branch."""

    branch: str | None = None
    commit: str | None = None
    tip: str | None = None
    # The ids of agents that were still running: they are not stopped.
    at_work: tuple[str, ...] = ()


def still_at_work(state: State) -> tuple[str, ...]:
    """The ids of running agents, as far as that can be seen from here."""
    return tuple(
        agent.id
        for agent in agents.running(state)
        if agent.process is None or liveness(ProcessIdentity(*astuple(agent.process))) != "dead"
    )


def stop(ws: Workspace, session: str, *, keep: bool, discard: bool, reason: str | None, at: int | None) -> StopResult:
    if keep and discard:
        raise Invalid("a branch cannot be both kept and discarded")
    if not keep and not discard:
        at_work = still_at_work(ws.state(session))
        end_session(ws, session, SessionCompleted(reason=reason), at)
        return StopResult(at_work=at_work)
    from holdfast.machine.git.branches import GitBranches
    from holdfast.sessions import branches
    from holdfast.sessions.changes.compare import commit_of, compare_at_end

    if reason is not None:
        check_text(reason, "the reason", empty=True)  # before anything is done to the branch
    state = ws.state(session)
    status = view.status_of(state)
    if not session_allows(status, "session.completed"):
        raise refusal("the session", status, "session.completed", session)
    branch = _branch(ws, session, state)
    end = ws.recorder.moment(at, state.latest.get(ws.home.writer(ws.address)), session)
    compare_at_end(ws, session, at)  # before the branch, and with it the work tree, changes
    git = GitBranches(ws.place.root)
    mirrored = ws.own_paths()  # mirrored files are not work
    had_commits = state.came_commit is not None
    if keep:
        goal = view.text_value(state, "summary") or view.text_value(state, "goal") or "Session"
        line = session_line(state.time.start, end, view.worktime(state, end))
        message = f"{shorten(goal, 72)}\n\n{line}\n"
        result = branches.keep(git, branch, state.came_from, message, mirrored, had_commits=had_commits)
        stopped = StopResult(branch, result.commit, result.tip)
    else:
        discarded = branches.discard(
            git, branch, state.came_from, mirrored, commit=state.came_commit, had_commits=had_commits
        )
        stopped = StopResult(branch, None, discarded.tip)
    now = ws.state(session)
    # An earlier stop that failed may have made the commit, and a comparison recorded it since.
    is_new = stopped.commit is not None and stopped.commit not in now.commits
    made = [commit_of(ws, stopped.commit, state.came_from)] if stopped.commit and is_new else []
    at_work = still_at_work(now)
    end_with(ws, session, [*made, SessionCompleted(outcome="kept" if keep else "discarded", reason=reason)], at)
    return stopped._replace(at_work=at_work)


def _branch(ws: Workspace, session: str, state: State) -> str:
    """The session's branch as one of our devices recorded it: other writers must not choose what is deleted."""
    writes = state.registers.get("branch")
    if not writes:
        raise Refused(
            "the session has no branch of its own",
            hint="Stop it without --keep and --discard: holdfast stop",
            session=session,
        )
    is_own = own_test(ws, session)
    latest = writes[-1]
    if is_own(latest.writer):
        return str(latest.value)
    branch = None
    for event in ws.store().events(session):
        if event.type in ("session.started", "session.edited") and is_own(event.writer):
            data = read_data(event)
            if isinstance(data, (SessionStarted, SessionEdited)):
                branch = data.branch or branch
    if branch is None:
        guests = origin.guests(ws.store(), session)
        unnamed = "a guest" if latest.writer in guests else "another device"
        device = device_names(state, guests).get(latest.writer, unnamed)
        raise Refused(
            f"the session's branch {shorten(str(latest.value), 60)!a} was set by {shorten(device, 60)!a},"
            " not by one of your devices",
            hint="Merge or delete the branch with git, then: holdfast stop",
            session=session,
        )
    return branch


def end_session(ws: Workspace, session: str, last: EventData, at: int | None) -> None:
    """End a session, after recording what changed in its work tree since the last turn."""
    from holdfast.sessions.changes.compare import compare_at_end

    ws.collect()
    compare_at_end(ws, session, at)
    end_with(ws, session, [last], at)


def end_with(ws: Workspace, session: str, last: Sequence[EventData], at: int | None) -> None:
    """End a session's agents, then the session with these events."""
    store, place = ws.store(), ws.place.root
    with ws.transaction(about=session) as transaction:
        ws.recorder.within(transaction, session, lambda state: [*ended_with(state), *last], at=at)
        if store.current(place) == session:
            transaction.set_current(place, None)


def ended_with(state: State) -> Iterator[EventData]:
    """Agents end with their session: no further report of them is expected."""
    if view.status_of(state) in FINISHED:
        return
    for agent in state.agents.values():
        if agents.status_of(agent) not in ("pending", "running", "paused"):
            continue
        if agent.process is not None and liveness(ProcessIdentity(*astuple(agent.process))) == "dead":
            yield AgentInterrupted(id=agent.id, ref=agent.ref, last_seen=agent.touched_at)
        else:
            yield AgentAborted(id=agent.id, ref=agent.ref, reason="The session ended")


def session_line(start: int, end: int, work: WorkTime) -> str:
    """`Session: YYYYMMDD HH:MM-HH:MM (NN min actual, NN min paused)`, in this machine's time."""

    def local(ms: int) -> str:
        return format_time(ms + round(local_offset(ms).total_seconds() * 1000))

    day = local(start)[:10].replace("-", "")
    actual, paused = work.working // MINUTE, work.paused // MINUTE
    return f"Session: {day} {local(start)[11:16]}-{local(end)[11:16]} ({actual} min actual, {paused} min paused)"


# ── deleting ───────────────────────────────────────────────────────────────────────────────────────────


def needs_force(ws: Workspace, state: State) -> bool:
    """Whether the session may still be in use."""
    return view.status_of(state) not in FINISHED and not ws.is_over(state)


def delete(ws: Workspace, session: str, *, force: bool, at: int | None) -> str:
    state = ws.state(session)
    for follower in ws.followers:
        follower.refuse_deleting(ws, session)
    if needs_force(ws, state) and not force:
        raise Refused(
            f"session {session[:8]} is unfinished ({view.status_of(state)}) and was not deleted",
            hint=f"Finish it first, or delete it as it is: holdfast delete {session[:8]} --confirm --force",
            operation="delete",
            session=session,
        )
    moment = ws.recorder.moment(at, state.latest.get(ws.home.writer(ws.address)), session)
    for follower in ws.followers:
        follower.deleting(ws, state)
    ws.store().erase(session, Draft(SessionDeleted(), moment, ws.recorder.actor))
    ws.recorded({session}, needs_sync=True)
    ws.follow()
    return session
