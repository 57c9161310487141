"""Stopping: the session is completed, and its branch kept (one commit on the branch it came from) or discarded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import astuple

from holdfast.core import agents, view
from holdfast.core.device_names import device_names
from holdfast.core.errors import Invalid, Refused
from holdfast.core.lifecycle import FINISHED, refusal, session_allows
from holdfast.core.reading import read
from holdfast.core.state import State
from holdfast.core.text import clean, shorten
from holdfast.core.times import MINUTE, text
from holdfast.core.vocabulary import (
    AgentAborted,
    AgentInterrupted,
    Data,
    SessionCompleted,
    SessionEdited,
    SessionStarted,
)
from holdfast.core.worktime import WorkTime
from holdfast.keeper.own_devices import own_test
from holdfast.machine.process import Identity, fate
from holdfast.machine.wall import local_offset

if TYPE_CHECKING:
    from holdfast.keeper.session import KeptSession


class Stopped(NamedTuple):
    """What became of the session's branch: the commit it was merged as, and where it stood when it was deleted."""

    branch: str | None = None
    commit: str | None = None
    tip: str | None = None
    # The agents that were still at work, by their ids: nobody stops them.
    at_work: tuple[str, ...] = ()


def still_at_work(state: State) -> tuple[str, ...]:
    """The agents that run, as far as that can be seen from here."""
    return tuple(
        agent.id
        for agent in agents.running(state)
        if agent.process is None or fate(Identity(*astuple(agent.process))) != "gone"
    )


def stop(session: KeptSession, *, keep: bool, discard: bool, reason: str | None, at: int | None) -> Stopped:
    if keep and discard:
        raise Invalid("a branch cannot be both kept and discarded")
    if not keep and not discard:
        at_work = still_at_work(session.state())
        session.complete(reason=reason, at=at)
        return Stopped(at_work=at_work)
    from holdfast.keeper import branches
    from holdfast.keeper.captures.comparison import commit_of, compare_at_end
    from holdfast.machine.git import Git

    if reason is not None:
        clean(reason, "the reason", empty=True)  # before anything is done to the branch
    state = session.state()
    status = view.status_of(state)
    if not session_allows(status, "session.completed"):
        raise refusal("the session", status, "session.completed", session.id)
    branch = _branch(session, state)
    keeper = session.keeper
    end = keeper.recorder.moment(at, state.latest.get(keeper.home.writer(keeper.address)), session.id)
    compare_at_end(keeper, session.id, at)  # before the branch, and with it the work tree, becomes another
    git = Git(session.keeper.place.root)
    ours = session.keeper.mirrors.paths()  # mirrored files are nobody's work
    born = state.came_commit is not None
    if keep:
        goal = view.word(state, "summary") or view.word(state, "goal") or "Session"
        line = session_line(state.time.start, end, view.worktime(state, end))
        message = f"{shorten(goal, 72)}\n\n{line}\n"
        kept = branches.keep(git, branch, state.came_from, message, ours, born=born)
        stopped = Stopped(branch, kept.commit, kept.tip)
    else:
        gone = branches.discard(git, branch, state.came_from, ours, commit=state.came_commit, born=born)
        stopped = Stopped(branch, None, gone.tip)
    now = session.state()
    # It is known already where a stop that failed had made it, and the work tree was compared since.
    is_new = stopped.commit is not None and stopped.commit not in now.commits
    made = [commit_of(keeper, stopped.commit, state.came_from)] if stopped.commit and is_new else []
    at_work = still_at_work(now)
    session.end_with([*made, SessionCompleted(outcome="kept" if keep else "discarded", reason=reason)], at)
    return stopped._replace(at_work=at_work)


def _branch(session: KeptSession, state: State) -> str:
    """The session's branch, as a device of ours said: whoever else writes in it must not choose what is deleted."""
    writes = state.registers.get("branch")
    if not writes:
        raise Refused(
            "the session has no branch of its own", hint="Stop it plainly: holdfast stop", session=session.id
        )
    is_own = own_test(session.keeper, session.id)
    stands = writes[-1]
    if is_own(stands.writer):
        return str(stands.value)
    branch = None
    for event in session.keeper.store().events(session.id):
        if event.type in ("session.started", "session.edited") and is_own(event.writer):
            said = read(event)
            if isinstance(said, (SessionStarted, SessionEdited)):
                branch = said.branch or branch
    if branch is None:
        guests = session.guests()
        unnamed = "a guest" if stands.writer in guests else "another device"
        who = device_names(state, guests).get(stands.writer, unnamed)
        raise Refused(
            f"that the session's branch is {shorten(str(stands.value), 60)!a} was said by {shorten(who, 60)!a},"
            " and by no device of yours",
            hint="Merge or delete the branch with git, then stop plainly: holdfast stop",
            session=session.id,
        )
    return branch


def ended_with(state: State) -> Iterator[Data]:
    """Agents end with their session: nobody will report on them any more."""
    if view.status_of(state) in FINISHED:
        return
    for agent in state.agents.values():
        if agents.status_of(agent) not in ("pending", "running", "paused"):
            continue
        if agent.process is not None and fate(Identity(*astuple(agent.process))) == "gone":
            yield AgentInterrupted(id=agent.id, ref=agent.ref, last_seen=agent.touched_at)
        else:
            yield AgentAborted(id=agent.id, ref=agent.ref, reason="The session ended")


def session_line(start: int, end: int, work: WorkTime) -> str:
    """`Session: YYYYMMDD HH:MM-HH:MM (NN min actual, NN min paused)`, in this machine's time."""

    def local(ms: int) -> str:
        return text(ms + round(local_offset(ms).total_seconds() * 1000))

    day = local(start)[:10].replace("-", "")
    actual, paused = work.working // MINUTE, work.paused // MINUTE
    return f"Session: {day} {local(start)[11:16]}-{local(end)[11:16]} ({actual} min actual, {paused} min paused)"
