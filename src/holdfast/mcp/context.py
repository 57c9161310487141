"""The context of tool calls: open keepers, the agent's own session, and the project or session that a call means."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple, TypeVar

import anyio
from anyio import to_thread

from holdfast.core import view
from holdfast.core.errors import Failed, Invalid, NotFound, Refused, Unreachable
from holdfast.core.lifecycle import FINISHED
from holdfast.core.text import MAX_PATH_LENGTH, check_text, shorten
from holdfast.core.wording import STATUS, one_line
from holdfast.keeper.keeper import Keeper
from holdfast.keeper.pool import KeeperPool
from holdfast.keeper.session import SessionHandle
from holdfast.machine.files import display_path
from holdfast.sessions import work_trees
from holdfast.workspace.agent_dirs import AgentDirs
from holdfast.workspace.home import default_home
from holdfast.workspace.unit import explain_outage

Result = TypeVar("Result")

_MAX_PROJECTS: Final = 8  # with open keepers
_MAX_AGE: Final = 30.0  # seconds


_END_EVENTS = ("session.completed", "session.aborted")


class OwnSessions:
    """The sessions that the agent works in, by work tree, while the server runs: it serves one client."""

    def __init__(self) -> None:
        self._sessions: dict[str, str] = {}

    def claim(self, session: SessionHandle) -> None:
        self._sessions[session.keeper.place.root] = session.id

    def release(self, session: SessionHandle) -> None:
        for root in [root for root, name in self._sessions.items() if name == session.id]:
            del self._sessions[root]

    def current(self, keeper: Keeper) -> SessionHandle:
        """The current session. Refused if the agent has another one."""
        session = keeper.current()
        refusal = self.other_session_refusal(keeper, session)
        if refusal is not None:
            refusal.message += "; nothing was done"
            raise refusal
        if session is None:
            raise NotFound("there is no current session here", hint="Start one: holdfast start GOAL")
        return session

    def other_session_refusal(self, keeper: Keeper, current: SessionHandle | None) -> Refused | None:
        """The refusal if the agent's own session is not the current one, else None."""
        own = self._sessions.get(keeper.place.root)
        if own is None or (current is not None and current.id == own):
            return None
        other = None if current is None else _describe(current)
        ended = _ended_sentence(keeper, own)
        if ended is not None:
            instead = "" if current is None else f" To work in {other}, resume_session with session {current.id[:8]}."
            return Refused(ended, hint=f"Start a new one: start_session.{instead}", session=own)
        own_session = _describe(SessionHandle(keeper, own))
        current_session = "none is current here" if current is None else f"{other} is current here now"
        hint = f"To continue yours, pass session {own[:8]}, or make it current again: resume_session."
        if current is not None:
            hint += f" To work in the other one, resume_session with session {current.id[:8]}."
        return Refused(f"your session is {own_session}, but {current_session}", hint=hint, session=own)


def _ended_sentence(keeper: Keeper, session: str) -> str | None:
    try:
        state = keeper.state(session)
    except NotFound:
        return f"your session {session[:8]} was deleted"
    status = view.status_of(state)
    if status not in FINISHED:
        return None
    by = ""
    for event in reversed(keeper.events(session)):
        if event.type in _END_EVENTS:
            by = f" by {shorten(one_line(event.actor), 60)}"
            break
    return f"your session, {_describe(SessionHandle(keeper, session))}, was {STATUS[status]}{by}"


def _describe(session: SessionHandle) -> str:
    goal = session.document().goal
    return f"“{shorten(one_line(goal), 80)}” ({session.id[:8]})"


class ServerOptions(NamedTuple):
    """Options of the command; the environment too, which the library does not read itself."""

    directory: str = "."
    home: str | None = None
    store: str | None = None
    actor: str | None = None
    environ: Mapping[str, str] = {}


class McpContext:
    def __init__(self, options: ServerOptions) -> None:
        self.options = options
        self.own_sessions = OwnSessions()
        self._pools: dict[str, KeeperPool] = {}  # by directory, the latest last
        self._writing, self._reading = anyio.Lock(fast_acquire=True), anyio.Lock(fast_acquire=True)

    async def run(self, project: str, work: Callable[[Keeper], Result]) -> Result:
        """Run quick work with the keeper of a directory; the server's own if none is named."""
        async with self._writing:
            return await self._ask(project, work)

    async def read(self, project: str, work: Callable[[Keeper], Result]) -> Result:
        """Run work that records nothing, while others may write."""
        async with self._reading:
            return await self._ask(project, work)

    async def run_with_own_keeper(self, project: str, work: Callable[[Keeper], Result]) -> Result:
        """Run work that may take long with a separate keeper, so that other calls need not wait."""
        return await to_thread.run_sync(self._run_with_own_keeper, project, work)

    def close(self) -> None:
        for pool in self._pools.values():
            pool.close()

    def home(self) -> str:
        """Holdfast's home, for the error log."""
        return default_home() if self.options.home is None else self.options.home

    async def _ask(self, project: str, work: Callable[[Keeper], Result]) -> Result:
        def explained(keeper: Keeper) -> Result:
            keeper.outcome.begin()
            try:
                return work(keeper)
            except Unreachable as error:
                raise explain_outage(keeper, error, writes=False) from None

        return await self._pool(self._directory(project)).ask(explained)

    def _pool(self, directory: str) -> KeeperPool:
        pool = self._pools.pop(directory, None) or KeeperPool(partial(self._open, directory), max_age=_MAX_AGE)
        self._pools[directory] = pool
        if len(self._pools) > _MAX_PROJECTS:
            self._pools.pop(next(iter(self._pools))).close()
        return pool

    def _run_with_own_keeper(self, project: str, work: Callable[[Keeper], Result]) -> Result:
        with self._open(self._directory(project)) as keeper:
            return work(keeper)

    def _open(self, directory: str) -> Keeper:
        options, home = self.options, self.home()
        if os.path.lexists(home) and not os.path.isdir(home):
            raise Failed(
                f"Holdfast's directory, {display_path(home)}, is not a directory",
                hint="The person has to move that file away, or set HOLDFAST_HOME to a directory.",
            )
        return Keeper.open(
            directory, home=options.home, store=options.store, actor=options.actor, environ=options.environ,
            agent_dirs=AgentDirs(os.path.expanduser("~"), directory, options.environ, sys.platform),
        )  # fmt: skip

    # ── which project ────────────────────────────────────────────────────────────────────────────────────

    def _directory(self, project: str) -> str:
        start = self._start_directory()
        if not project:
            if start is None:
                raise Invalid(
                    "the directory the server was started in no longer exists",
                    hint="Say which project you mean: the argument `project`, an absolute path.",
                )
            return self.options.directory
        check_text(project, "the project", max_length=MAX_PATH_LENGTH)
        full = os.path.join(start or os.sep, os.path.expanduser(project))
        if not os.path.isdir(full):
            raise Invalid(
                f"{project[:80]!a} is not a directory here", hint="Give the project's directory as an absolute path."
            )
        return full

    def _start_directory(self) -> str | None:
        """The directory the server was started in, if it still exists."""
        try:
            directory = os.path.abspath(self.options.directory)
        except FileNotFoundError:
            return None
        return directory if os.path.isdir(directory) else None

    def is_outside_projects(self, project: str) -> bool:
        """Whether the server was started outside any project: desktop agents start it anywhere."""
        start = self._start_directory()
        if project or start is None:
            return False
        return os.path.realpath(start) in (os.path.realpath(os.path.expanduser("~")), os.path.abspath(os.sep))

    # ── which session ────────────────────────────────────────────────────────────────────────────────────

    def session_for(self, keeper: Keeper, reference: str) -> SessionHandle:
        """The session to act on: the agent's own, or the named one, with the keeper of its work tree."""
        if not reference:
            return self.own_sessions.current(keeper)
        return handle_in_its_work_tree(keeper, keeper.session(reference))


def handle_in_its_work_tree(keeper: Keeper, session: SessionHandle) -> SessionHandle:
    """The session, with the keeper of its work tree."""
    return SessionHandle(work_trees.workspace_of_session(keeper, session.id), session.id)


def session_to_read(keeper: Keeper, reference: str) -> SessionHandle:
    """A session to read: its project need not be on this machine."""
    session = keeper.session(reference)
    try:
        return handle_in_its_work_tree(keeper, session)
    except Refused:
        return session
