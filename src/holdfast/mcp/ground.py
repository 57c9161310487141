"""Where the server stands: which project a call means, and the keeper that acts on it.

Calls that write take turns, in the order in which they come; calls that only look take turns of their own, so that
nobody who looks waits for a writer. What may take long (a sync, a share) has a keeper of its own and holds nobody up.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

from anyio import to_thread

from holdfast.capture.places import Places
from holdfast.core.errors import Failed, Invalid, Refused
from holdfast.core.text import LONGEST_PATH, clean
from holdfast.keeper import elsewhere
from holdfast.keeper.home import default_home
from holdfast.keeper.keeper import Keeper
from holdfast.keeper.session import KeptSession
from holdfast.machine.files import shown
from holdfast.mcp.keepers import Keepers
from holdfast.mcp.mine import Mine

T = TypeVar("T")


class Told(NamedTuple):
    """What the surface was told: the library reads no environment."""

    directory: str = "."
    home: str | None = None
    store: str | None = None
    actor: str | None = None
    environ: Mapping[str, str] = {}


class Ground:
    def __init__(self, told: Told) -> None:
        self.told = told
        self.mine = Mine()
        self._writers = Keepers(self._open)
        self._readers = Keepers(self._open)

    async def ask(self, project: str, work: Callable[[Keeper], T]) -> T:
        """Do something quick with the keeper of a directory (of the server's own, where none is named)."""
        return await self._writers.use(lambda: self._directory(project), work)

    async def look(self, project: str, work: Callable[[Keeper], T]) -> T:
        """Do something that records nothing, whoever may be writing meanwhile."""
        return await self._readers.use(lambda: self._directory(project), work)

    async def apart(self, project: str, work: Callable[[Keeper], T]) -> T:
        """Do something that may take long, with a keeper of its own: other calls go on meanwhile."""
        return await to_thread.run_sync(self._work_apart, project, work)

    def close(self) -> None:
        self._writers.close()
        self._readers.close()

    def home(self) -> str:
        """Where Holdfast keeps everything, for the error log."""
        return default_home() if self.told.home is None else self.told.home

    def _work_apart(self, project: str, work: Callable[[Keeper], T]) -> T:
        with self._open(self._directory(project)) as keeper:
            return work(keeper)

    def _open(self, directory: str) -> Keeper:
        told, home = self.told, self.home()
        if os.path.lexists(home) and not os.path.isdir(home):
            raise Failed(
                f"Holdfast's directory, {shown(home)}, is no directory",
                hint="The person has to move that file away, or set HOLDFAST_HOME to a directory.",
            )
        keeper = Keeper.open(directory, home=told.home, store=told.store, actor=told.actor)
        keeper.environ = told.environ
        keeper.places = Places(os.path.expanduser("~"), keeper.place.root, told.environ, sys.platform)
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
        clean(project, "the project", longest=LONGEST_PATH)
        full = os.path.join(own or os.sep, os.path.expanduser(project))
        if not os.path.isdir(full):
            raise Invalid(
                f"{project[:80]!a} is no directory here", hint="Give the project's directory as an absolute path."
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

    def meant(self, keeper: Keeper, reference: str) -> KeptSession:
        """The session to act on: the agent's own, which is current, or any by name, by the keeper of its place."""
        if not reference:
            return self.mine.current(keeper)
        return at_its_place(keeper, keeper.session(reference))


def at_its_place(keeper: Keeper, found: KeptSession) -> KeptSession:
    """The session in the hands of the keeper of the place it is worked on."""
    return KeptSession(elsewhere.at_its_place(keeper, found.id), found.id)


def looked_at(keeper: Keeper, reference: str) -> KeptSession:
    """A session by name, to look at: its project need not be on this machine."""
    found = keeper.session(reference)
    try:
        return at_its_place(keeper, found)
    except Refused:
        return found
