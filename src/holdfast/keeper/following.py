"""Following: while something long-running is up, it hears of every change within a moment.

A thread with a keeper of its own waits for changes in the store's directory, the spool and the mirrored folders of
every work tree, and for what a store on a server tells (`ears`). It does what every command does first, it absorbs;
then it tells whose events arrived, and whether anything else changed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from holdfast.capture import spool
from holdfast.core.errors import HoldfastError
from holdfast.keeper.ears import PATIENCE, Ears, Either, Line
from holdfast.keeper.mirrors.everywhere import Everywhere

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper
    from holdfast.store.interface import Store

SILENCE: Final = 5.0  # seconds that a server may take to say something: then it is asked on another line
SELDOM: Final = 2.0  # seconds between two looks where something tells of changes
_AT_ONCE: Final = 1_000  # events that are read in one go


class Change(NamedTuple):
    """What changed since the last one that was told."""

    # Events up to this place, in the order of their arrival, are told of.
    place: int
    # Whose events arrived.
    sessions: frozenset[str]
    # Something else than events changed: which work tree is at what, remotes, what a sync left in memory.
    beyond: bool


def state_of_things(keeper: Keeper) -> str:
    """What stands in the store, in a few letters: equal before and after a look, it is what was looked at."""
    store = keeper.existing_store()
    place = 0 if store is None else store.latest_place()
    known = f"{keeper.address.stamp()} {_beside(keeper, store)}"
    return f"{place}.{hashlib.blake2b(known.encode(), digest_size=6).hexdigest()}"


class Following:
    """Tells of changes, in its thread, from when the block is entered until it is left."""

    def __init__(self, open_keeper: Callable[[], Keeper], heard: Callable[[Change], None]) -> None:
        self._open = open_keeper
        self._heard = heard
        # The latest place told of. Whoever reads the store once the block is entered misses nothing.
        self.place = 0
        self._beside = ""
        self._file: int | None = None
        # It could not be read for a while: whoever tried meanwhile has only that to show.
        self._lost = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="following", daemon=True)

    def __enter__(self) -> Self:
        # A store that cannot be read now is told of from its beginning, once it can.
        with contextlib.suppress(HoldfastError), self._open() as keeper:
            keeper.hurry = SILENCE
            self._file = keeper.address.stamp()
            store = keeper.existing_store()
            self._beside = _beside(keeper, store)
            self.place = 0 if store is None else store.latest_place()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(timeout=1)

    def _follow(self) -> None:
        while not self._stop.is_set():
            try:
                with self._open() as keeper:
                    keeper.hurry, keeper.looks_once = SILENCE, False
                    self._with(keeper)
            except HoldfastError:
                self._lost = True
                self._stop.wait(PATIENCE)

    def _with(self, keeper: Keeper) -> None:
        """For as long as the store and the settings are the same files: a repair replaces the store."""
        opened = _opened(keeper)
        trees = Everywhere(keeper)
        ears, line = Ears({}), Line()
        looked: int | None = None
        version: int | None = None
        due = True
        try:
            while not self._stop.is_set() and _opened(keeper) == opened:
                store = keeper.existing_store()
                if store is not None:
                    trees.refresh()
                    line.to(store)
                folders = _standing(_folders(keeper, trees))
                if folders != ears.folders:
                    ears.close()
                    ears, due = Ears(folders), True  # before looking: nothing slips through in between
                if due:
                    # Before absorbing: what happens between that and telling is for the next round's files.
                    looked = None if store is None else store.version()
                    _absorb(keeper, trees)
                    version = self._tell(keeper, store, version)
                where = ears.heard(Either(self._stop, line.news), SELDOM)
                line.news.clear()
                due = any(not _of_store(keeper, path) for path in where) or _is_news(keeper, store, looked)
        finally:
            ears.close()
            line.close()

    def _tell(self, keeper: Keeper, store: Store | None, version: int | None) -> int | None:
        """Say what changed, if anything did; gives the version of the store that was looked at."""
        if store is None:
            return None
        file = keeper.address.stamp()
        replaced = self._file is not None and file != self._file
        place = store.latest_place() if replaced else self.place
        sessions = set(store.sessions() if replaced else ())
        while True:
            # Before what arrived, or something could slip through; and anew after it, or it would be told twice.
            now, beside = store.version(), _beside(keeper, store)
            arrived = store.arrived(place, _AT_ONCE)
            if not arrived:
                break
            place = arrived[-1].place
            sessions.update(one.event.session for one in arrived)
        # Without events, but changed by somebody: events were taken out, or what is derived was made anew.
        beyond = beside != self._beside or replaced or (now != version is not None and not sessions) or self._lost
        self.place, self._beside, self._file, self._lost = place, beside, file, False
        if sessions or beyond:
            self._heard(Change(place, frozenset(sessions), beyond))
        return now


def _absorb(keeper: Keeper, trees: Everywhere) -> None:
    for one in (keeper, *trees.keepers.values()):
        # Whatever is wrong with what others left, the next command there says so; following goes on.
        with contextlib.suppress(Exception):
            one.absorb()
        one.told.clear()


def _is_news(keeper: Keeper, store: Store | None, version: int | None) -> bool:
    """For file systems that do not tell of everything."""
    waits = spool.anything(keeper.home.path, keeper.upkeep.spool_tag)
    return waits or (store is not None and store.version() != version)


def _folders(keeper: Keeper, trees: Everywhere) -> Iterable[str]:
    home, store = keeper.home, keeper.address.path
    own = {home.path, home.mirrors, os.path.join(home.path, spool.DIRECTORY)}
    return own | set(trees.folders) | (set() if store is None else {os.path.dirname(store)})


def _of_store(keeper: Keeper, path: str) -> bool:
    """Whether it is a file of the store: whoever only reads the store touches these too."""
    return keeper.address.path is not None and path.startswith(keeper.address.path)


def _standing(folders: Iterable[str]) -> dict[str, int]:
    """Those that are there, and which they are: one that was removed and made again is another."""
    return {folder: number for folder in sorted(folders) if (number := _inode(folder)) is not None}


def _opened(keeper: Keeper) -> tuple[int | None, tuple[int, ...]]:
    return keeper.address.stamp(), _stamp(keeper.home.config)


def _beside(keeper: Keeper, store: Store | None) -> str:
    """What stands beside the events, in the store and in files."""
    home = keeper.home
    files = [_stamp(path) for path in (home.remotes, home.device, home.people, home.config)]
    return f"{'' if store is None else store.beside_the_log()} {files}"


def _inode(path: str) -> int | None:
    try:
        return os.stat(path).st_ino
    except OSError:
        return None


def _stamp(path: str) -> tuple[int, ...]:
    try:
        found = os.lstat(path)
    except OSError:
        return ()
    return found.st_ino, found.st_mtime_ns, found.st_size
