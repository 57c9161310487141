"""Keepers that stay open for a while. A keeper serves one thread at a time, so callers take turns.

They are let go after some time, and after trouble: settings change, stores are repaired.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeVar

import anyio
from anyio import to_thread

from holdfast.core import view
from holdfast.core.errors import Failed, HoldfastError, Invalid, NotFound, Refused
from holdfast.core.lifecycle import FINISHED
from holdfast.core.text import MAX_PATH_LENGTH, check_text, shorten
from holdfast.core.wording import STATUS, one_line
from holdfast.keeper.keeper import Keeper
from holdfast.keeper.session import SessionHandle
from holdfast.machine.files import display_path
from holdfast.machine.wall import monotonic
from holdfast.sessions import work_trees
from holdfast.workspace.agent_dirs import AgentDirs
from holdfast.workspace.home import default_home
from holdfast.workspace.unit import explain_outage, name_feature

Result = TypeVar("Result")

_MOST_KEPT: Final = 8
_KEPT_FOR: Final = 30.0  # seconds


class _Kept(NamedTuple):
    keeper: Keeper
    until: float
    # Which file the store is: a repair or a restored backup puts another one in its place.
    file: int | None


class Keepers:
    """Keepers of directories, used one after the other."""

    def __init__(self, open_keeper: Callable[[str], Keeper]) -> None:
        self._open = open_keeper
        self._kept: dict[str, _Kept] = {}
        self._turn = anyio.Lock(fast_acquire=True)

    async def use(self, directory: Callable[[], str], work: Callable[[Keeper], Result]) -> Result:
        async with self._turn:
            return await to_thread.run_sync(self._work, directory, work)

    def close(self) -> None:
        for kept in self._kept.values():
            kept.keeper.close()
        self._kept.clear()

    def _work(self, which: Callable[[], str], work: Callable[[Keeper], Result]) -> Result:
        directory = which()
        try:
            keeper = self._keeper(directory)
            keeper.outcome.begin()
            return work(keeper)
        except HoldfastError as error:
            if (kept := self._kept.get(directory)) is not None:
                name_feature(kept.keeper, error)
            if error.kind in ("damaged", "busy"):
                self._let_go(directory)
            if error.kind == "unreachable" and kept is not None:
                raise explain_outage(kept.keeper, error, writes=False) from None
            raise
        except BaseException:
            self._let_go(directory)
            raise

    def _keeper(self, directory: str) -> Keeper:
        now = monotonic()
        kept = self._kept.pop(directory, None)
        if kept is not None and (now > kept.until or kept.keeper.address.stamp() != kept.file):
            kept.keeper.close()
            kept = None
        if kept is None:
            kept = _Kept(keeper := self._open(directory), now + _KEPT_FOR, keeper.address.stamp())
            while len(self._kept) >= _MOST_KEPT:
                self._let_go(next(iter(self._kept)))
        self._kept[directory] = kept
        return kept.keeper

    def _let_go(self, directory: str) -> None:
        kept = self._kept.pop(directory, None)
        if kept is not None:
            kept.keeper.close()


_ENDS = ("session.completed", "session.aborted")


class Mine:
    """By work tree; for as long as the server runs, which serves one client."""

    def __init__(self) -> None:
        self._sessions: dict[str, str] = {}

    def took(self, session: SessionHandle) -> None:
        self._sessions[session.keeper.place.root] = session.id

    def finished(self, session: SessionHandle) -> None:
        for root in [root for root, name in self._sessions.items() if name == session.id]:
            del self._sessions[root]

    def current(self, keeper: Keeper) -> SessionHandle:
        """The current session, where it is the agent's own or the agent has none."""
        found = keeper.current()
        trouble = self.displaced(keeper, found)
        if trouble is not None:
            trouble.message += "; nothing was done"
            raise trouble
        if found is None:
            raise NotFound("there is no current session here", hint="Start one: holdfast start GOAL")
        return found

    def displaced(self, keeper: Keeper, found: SessionHandle | None) -> Refused | None:
        """What to say where the agent's own session is not the one that is current."""
        mine = self._sessions.get(keeper.place.root)
        if mine is None or (found is not None and found.id == mine):
            return None
        other = None if found is None else _named(found)
        ended = _ended(keeper, mine)
        if ended is not None:
            instead = "" if found is None else f" To work in {other}, resume_session with session {found.id[:8]}."
            return Refused(ended, hint=f"Begin a new one: start_session.{instead}", session=mine)
        yours = _named(SessionHandle(keeper, mine))
        now = "none is current here" if found is None else f"{other} is current here now"
        hint = f"To go on with yours, pass session {mine[:8]}, or make it current again: resume_session."
        if found is not None:
            hint += f" To work in the other one, resume_session with session {found.id[:8]}."
        return Refused(f"your session is {yours}, but {now}", hint=hint, session=mine)


def _ended(keeper: Keeper, session: str) -> str | None:
    try:
        state = keeper.state(session)
    except NotFound:
        return f"your session {session[:8]} was deleted"
    status = view.status_of(state)
    if status not in FINISHED:
        return None
    by = ""
    for event in reversed(keeper.events(session)):
        if event.type in _ENDS:
            by = f" by {shorten(one_line(event.actor), 60)}"
            break
    return f"your session, {_named(SessionHandle(keeper, session))}, was {STATUS[status]}{by}"


def _named(session: SessionHandle) -> str:
    goal = session.document().goal
    return f"“{shorten(one_line(goal), 80)}” ({session.id[:8]})"


class SurfaceFacts(NamedTuple):
    """What the surface was told: the library reads no environment."""

    directory: str = "."
    home: str | None = None
    store: str | None = None
    actor: str | None = None
    environ: Mapping[str, str] = {}


class McpContext:
    def __init__(self, told: SurfaceFacts) -> None:
        self.told = told
        self.mine = Mine()
        self._writers = Keepers(self._open)
        self._readers = Keepers(self._open)

    async def ask(self, project: str, work: Callable[[Keeper], Result]) -> Result:
        """Do something quick with the keeper of a directory (of the server's own, where none is named)."""
        return await self._writers.use(lambda: self._directory(project), work)

    async def look(self, project: str, work: Callable[[Keeper], Result]) -> Result:
        """Do something that records nothing, whoever may be writing meanwhile."""
        return await self._readers.use(lambda: self._directory(project), work)

    async def apart(self, project: str, work: Callable[[Keeper], Result]) -> Result:
        """Do something that may take long, with a keeper of its own: other calls go on meanwhile."""
        return await to_thread.run_sync(self._work_apart, project, work)

    def close(self) -> None:
        self._writers.close()
        self._readers.close()

    def home(self) -> str:
        """Where Holdfast keeps everything, for the error log."""
        return default_home() if self.told.home is None else self.told.home

    def _work_apart(self, project: str, work: Callable[[Keeper], Result]) -> Result:
        with self._open(self._directory(project)) as keeper:
            return work(keeper)

    def _open(self, directory: str) -> Keeper:
        told, home = self.told, self.home()
        if os.path.lexists(home) and not os.path.isdir(home):
            raise Failed(
                f"Holdfast's directory, {display_path(home)}, is not a directory",
                hint="The person has to move that file away, or set HOLDFAST_HOME to a directory.",
            )
        keeper = Keeper.open(directory, home=told.home, store=told.store, actor=told.actor)
        keeper.environ = told.environ
        keeper.places = AgentDirs(os.path.expanduser("~"), keeper.place.root, told.environ, sys.platform)
        return keeper

    # ── which project ────────────────────────────────────────────────────────────────────────────────────

    def _directory(self, project: str) -> str:
        own = self._own()
        if not project:
            if own is None:
                raise Invalid(
                    "the directory that the server was started in is gone",
                    hint="Say which project you mean: the argument `project`, an absolute directory.",
                )
            return self.told.directory
        check_text(project, "the project", longest=MAX_PATH_LENGTH)
        full = os.path.join(own or os.sep, os.path.expanduser(project))
        if not os.path.isdir(full):
            raise Invalid(
                f"{project[:80]!a} is not a directory here", hint="Give the project's directory as an absolute path."
            )
        return full

    def _own(self) -> str | None:
        """The directory the server was started in, while it is there."""
        try:
            own = os.path.abspath(self.told.directory)
        except FileNotFoundError:
            return None
        return own if os.path.isdir(own) else None

    def stands_nowhere(self, project: str) -> bool:
        """Whether the server was started in no project: agents with a window of their own start it anywhere."""
        own = self._own()
        if project or own is None:
            return False
        return os.path.realpath(own) in (os.path.realpath(os.path.expanduser("~")), os.path.abspath(os.sep))

    # ── which session ────────────────────────────────────────────────────────────────────────────────────

    def meant(self, keeper: Keeper, reference: str) -> SessionHandle:
        """The session to act on: the agent's own, which is current, or any by name, by the keeper of its place."""
        if not reference:
            return self.mine.current(keeper)
        return at_its_place(keeper, keeper.session(reference))


def at_its_place(keeper: Keeper, found: SessionHandle) -> SessionHandle:
    """The session in the hands of the keeper of the place it is worked on."""
    return SessionHandle(work_trees.at_its_place(keeper, found.id), found.id)


def looked_at(keeper: Keeper, reference: str) -> SessionHandle:
    """A session by name, to look at: its project need not be on this machine."""
    found = keeper.session(reference)
    try:
        return at_its_place(keeper, found)
    except Refused:
        return found
