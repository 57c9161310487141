"""Stopping: the session is completed, and its branch kept (one commit on the branch it came from) or discarded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import astuple

from holdfast.core import agents, view
from holdfast.core.errors import Invalid, Refused
from holdfast.core.lifecycle import FINISHED, refusal, session_allows
from holdfast.core.state import State
from holdfast.core.text import clean, shorten
from holdfast.core.times import MINUTE, text
from holdfast.core.vocabulary import AgentAborted, AgentInterrupted, Data, SessionCompleted
from holdfast.core.worktime import WorkTime
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
    branch = view.word(state, "branch")
    if branch is None:
        raise Refused(
            "the session has no branch of its own", hint="Stop it plainly: holdfast stop", session=session.id
        )
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
    made = [] if stopped.commit is None else [commit_of(keeper, stopped.commit, state.came_from)]
    at_work = still_at_work(session.state())
    session.end_with([*made, SessionCompleted(outcome="kept" if keep else "discarded", reason=reason)], at)
    return stopped._replace(at_work=at_work)


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
