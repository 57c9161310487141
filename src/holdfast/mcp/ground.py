"""Where the server stands: which project a call means, and the keeper that acts on it.

A keeper serves one thread at a time, so calls take turns, off the event loop. What may take long (a sync, a share)
gets a keeper of its own and holds nobody up. Keepers are let go after a while: settings change, stores are repaired.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeVar

import anyio
from anyio import to_thread

from holdfast.capture.places import Places
from holdfast.core.errors import HoldfastError, Invalid, Refused
from holdfast.core.text import LONGEST_PATH, clean
from holdfast.keeper import elsewhere
from holdfast.keeper.home import default_home
from holdfast.keeper.keeper import Keeper
from holdfast.keeper.session import KeptSession

T = TypeVar("T")

_MOST_KEPT: Final = 8
_KEPT_FOR: Final = 30.0  # seconds
CURRENT: Final = "@"


class Told(NamedTuple):
    """What the surface was told: the library reads no environment."""

    directory: str = "."
    home: str | None = None
    store: str | None = None
    actor: str | None = None
    environ: Mapping[str, str] = {}


class _Kept(NamedTuple):
    keeper: Keeper
    until: float
    # Which file the store is: a repair or a restored backup puts another one in its place.
    file: tuple[int, int] | None


class Ground:
    def __init__(self, told: Told) -> None:
        self.told = told
        self._kept: dict[str, _Kept] = {}
        self._turn = anyio.Lock(fast_acquire=True)

    async def ask(self, project: str, work: Callable[[Keeper], T]) -> T:
        """Do something quick with the keeper of a directory (of the server's own, where none is named)."""
        async with self._turn:
            return await to_thread.run_sync(self._work, project, work)

    async def apart(self, project: str, work: Callable[[Keeper], T]) -> T:
        """Do something that may take long, with a keeper of its own: other calls go on meanwhile."""
        return await to_thread.run_sync(self._work_apart, project, work)

    def close(self) -> None:
        for kept in self._kept.values():
            kept.keeper.close()
        self._kept.clear()

    def home(self) -> str:
        """Where Holdfast keeps everything, for the error log."""
        return default_home() if self.told.home is None else self.told.home

    def _work(self, project: str, work: Callable[[Keeper], T]) -> T:
        directory = self._directory(project)
        try:
            return work(self._keeper(directory))
        except HoldfastError as error:
            if error.kind in ("damaged", "busy"):
                self._let_go(directory)
            raise
        except BaseException:
            self._let_go(directory)
            raise

    def _work_apart(self, project: str, work: Callable[[Keeper], T]) -> T:
        with self._open(self._directory(project)) as keeper:
            return work(keeper)

    # ── which project ────────────────────────────────────────────────────────────────────────────────────

    def _directory(self, project: str) -> str:
        if not project:
            return self.told.directory
        clean(project, "the project", longest=LONGEST_PATH)
        full = os.path.join(os.path.abspath(self.told.directory), os.path.expanduser(project))
        if not os.path.isdir(full):
            raise Invalid(
                f"{project[:80]!a} is no directory here", hint="Give the project's directory as an absolute path."
            )
        return full

    def stands_nowhere(self, project: str) -> bool:
        """Whether the server was started in no project: agents with a window of their own start it anywhere."""
        if project:
            return False
        here = os.path.realpath(self.told.directory)
        return here in (os.path.realpath(os.path.expanduser("~")), os.path.abspath(os.sep))

    # ── the keepers ──────────────────────────────────────────────────────────────────────────────────────

    def _keeper(self, directory: str) -> Keeper:
        now = time.monotonic()
        kept = self._kept.pop(directory, None)
        if kept is not None and (now > kept.until or _file(kept.keeper) != kept.file):
            kept.keeper.close()
            kept = None
        if kept is None:
            kept = _Kept(keeper := self._open(directory), now + _KEPT_FOR, _file(keeper))
            while len(self._kept) >= _MOST_KEPT:
                self._let_go(next(iter(self._kept)))
        self._kept[directory] = kept
        return kept.keeper

    def _open(self, directory: str) -> Keeper:
        told = self.told
        keeper = Keeper.open(directory, home=told.home, store=told.store, actor=told.actor)
        keeper.environ = told.environ
        keeper.places = Places(os.path.expanduser("~"), keeper.place.root, told.environ, sys.platform)
        return keeper

    def _let_go(self, directory: str) -> None:
        kept = self._kept.pop(directory, None)
        if kept is not None:
            kept.keeper.close()


def _file(keeper: Keeper) -> tuple[int, int] | None:
    try:
        found = os.lstat(keeper.store_path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def meant(keeper: Keeper, reference: str) -> KeptSession:
    """The session to act on: the current one here or, by name, any, by the keeper of the place it is worked on."""
    found = keeper.session(reference or CURRENT)
    return KeptSession(elsewhere.at_its_place(keeper, found.id), found.id) if reference else found


def looked_at(keeper: Keeper, reference: str) -> KeptSession:
    """The same to look at: its project need not be on this machine."""
    try:
        return meant(keeper, reference)
    except Refused:
        return keeper.session(reference)
