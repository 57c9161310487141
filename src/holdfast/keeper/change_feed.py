"""Tell long-running programs of every change within a moment, from the file system or from the server."""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from holdfast.core.errors import HoldfastError
from holdfast.formats.mirror.work_trees import Everywhere
from holdfast.workspace import spool

if TYPE_CHECKING:
    from watchfiles._rust_notify import RustNotify

    from holdfast.store.interface import Listening, Store
    from holdfast.workspace.workspace import Workspace

PATIENCE: Final = 0.5  # seconds between two looks where nothing tells of changes
_STEP: Final = 100  # milliseconds without a change after which changes are told; also how often it wakes
_LONGEST: Final = 200  # milliseconds that changes are gathered for


class Either:
    """Set as soon as one of two events is."""

    def __init__(self, one: threading.Event, other: threading.Event) -> None:
        self._both = (one, other)

    def is_set(self) -> bool:
        return any(event.is_set() for event in self._both)

    def wait(self, seconds: float) -> bool:
        """Whether it was set meanwhile. The first of them is waited for, the other looked at in short steps."""
        step = _STEP / 1000
        for _ in range(max(1, int(seconds / step))):
            if self.is_set():
                break
            self._both[0].wait(step)
        return self.is_set()


class Ears:
    """Hears of changes in folders that are there. Where nothing tells of them, it says so twice a second."""

    def __init__(self, folders: dict[str, int]) -> None:
        self.folders = folders
        self._notify: RustNotify | None = None
        if folders:
            with contextlib.suppress(ImportError, OSError, RuntimeError):  # not to be had, or too much asked for
                from watchfiles._rust_notify import RustNotify

                self._notify = RustNotify(
                    list(folders), debug=False, force_polling=False, poll_delay_ms=0, recursive=False,
                    ignore_permission_denied=True,
                )  # fmt: skip

    def heard(self, awake: Either, longest: float) -> list[str]:
        """Wait; the paths where something changed, or just anywhere if that cannot be known."""
        if self._notify is None:
            return [""] if not awake.wait(PATIENCE) else []
        found = self._notify.watch(_LONGEST, _STEP, int(longest * 1000), awake)
        return [path for _, path in found] if isinstance(found, set) else []

    def close(self) -> None:
        if self._notify is not None:
            self._notify.close()


class StoreListener:
    """Listens to a store that tells of changes by itself, in a thread; `news` is set when it did."""

    def __init__(self) -> None:
        self.news = threading.Event()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._asked = False

    def to(self, store: Store) -> None:
        """Listen to this store, if it can be listened to; asked once."""
        if self._asked:
            return
        self._asked = True
        listening = store.listening()
        if listening is not None:
            self._thread = threading.Thread(target=self._listen, args=(listening,), name="line", daemon=True)
            self._thread.start()

    def _listen(self, listening: Listening) -> None:
        try:
            while not self._over.is_set():
                if listening.heard(PATIENCE):
                    self.news.set()
        finally:
            listening.close()

    def close(self) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join(timeout=2 * PATIENCE)


SILENCE: Final = 5.0  # seconds that a server may take to say something: then it is asked on another line
SELDOM: Final = 2.0  # seconds between two looks where something tells of changes
_AT_ONCE: Final = 1_000  # events that are read in one go


class Changes(NamedTuple):
    """What changed since the last one that was told."""

    # Events up to this place, in the order of their arrival, are told of.
    place: int
    # Whose events arrived.
    sessions: frozenset[str]
    # Something else than events changed: which work tree is at what, remotes, what a sync left in memory.
    beyond: bool


def state_of_things(ws: Workspace) -> str:
    """What stands in the store, in a few letters: equal before and after a look, it is what was looked at."""
    store = ws.existing_store()
    place = 0 if store is None else store.latest_place()
    known = f"{ws.address.stamp()} {_beside(ws, store)}"
    return f"{place}.{hashlib.blake2b(known.encode(), digest_size=6).hexdigest()}"


class Following:
    """Tells of changes, in its thread, from when the block is entered until it is left."""

    def __init__(self, open_keeper: Callable[[], Workspace], heard: Callable[[Changes], None]) -> None:
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
        with contextlib.suppress(HoldfastError), self._open() as ws:
            ws.hurry = SILENCE
            self._file = ws.address.stamp()
            store = ws.existing_store()
            self._beside = _beside(ws, store)
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
                with self._open() as ws:
                    ws.hurry, ws.collects = SILENCE, "each"
                    self._with(ws)
            except HoldfastError:
                self._lost = True
                self._stop.wait(PATIENCE)

    def _with(self, ws: Workspace) -> None:
        """For as long as the store and the settings are the same files: a repair replaces the store."""
        opened = _opened(ws)
        trees = Everywhere(ws)
        ears, line = Ears({}), StoreListener()
        looked: int | None = None
        version: int | None = None
        due = True
        try:
            while not self._stop.is_set() and _opened(ws) == opened:
                store = ws.existing_store()
                if store is not None:
                    trees.refresh()
                    line.to(store)
                folders = _standing(_folders(ws, trees))
                if folders != ears.folders:
                    ears.close()
                    ears, due = Ears(folders), True  # before looking: nothing slips through in between
                if due:
                    # Before absorbing: what happens between that and telling is for the next round's files.
                    looked = None if store is None else store.version()
                    _absorb(ws, trees)
                    version = self._tell(ws, store, version)
                where = ears.heard(Either(self._stop, line.news), SELDOM)
                line.news.clear()
                due = any(not _of_store(ws, path) for path in where) or _is_news(ws, store, looked)
        finally:
            ears.close()
            line.close()

    def _tell(self, ws: Workspace, store: Store | None, version: int | None) -> int | None:
        """Say what changed, if anything did; gives the version of the store that was looked at."""
        if store is None:
            return None
        file = ws.address.stamp()
        replaced = self._file is not None and file != self._file
        place = store.latest_place() if replaced else self.place
        sessions = set(store.sessions() if replaced else ())
        while True:
            # Before what arrived, or something could slip through; and anew after it, or it would be told twice.
            now, beside = store.version(), _beside(ws, store)
            arrived = store.arrived(place, _AT_ONCE)
            if not arrived:
                break
            place = arrived[-1].place
            sessions.update(arrival.event.session for arrival in arrived)
        # Without events, but changed by somebody: events were taken out, or what is derived was made anew.
        beyond = beside != self._beside or replaced or (now != version is not None and not sessions) or self._lost
        self.place, self._beside, self._file, self._lost = place, beside, file, False
        if sessions or beyond:
            self._heard(Changes(place, frozenset(sessions), beyond))
        return now


def _absorb(ws: Workspace, trees: Everywhere) -> None:
    for workspace in (ws, *trees.trees.values()):
        # Whatever is wrong with what others left, the next command there says so; following goes on.
        with contextlib.suppress(Exception):
            workspace.collect()
        workspace.notices.clear()


def _is_news(ws: Workspace, store: Store | None, version: int | None) -> bool:
    """For file systems that do not tell of everything."""
    waits = spool.anything(ws.home.path, ws.spool_tag)
    return waits or (store is not None and store.version() != version)


def _folders(ws: Workspace, trees: Everywhere) -> Iterable[str]:
    home, store = ws.home, ws.address.path
    own = {home.path, home.mirrors, os.path.join(home.path, spool.DIRECTORY)}
    return own | set(trees.folders) | (set() if store is None else {os.path.dirname(store)})


def _of_store(ws: Workspace, path: str) -> bool:
    """Whether it is a file of the store: whoever only reads the store touches these too."""
    return ws.address.path is not None and path.startswith(ws.address.path)


def _standing(folders: Iterable[str]) -> dict[str, int]:
    """Those that are there, and which they are: one that was removed and made again is another."""
    return {folder: number for folder in sorted(folders) if (number := _inode(folder)) is not None}


def _opened(ws: Workspace) -> tuple[int | None, tuple[int, ...]]:
    return ws.address.stamp(), _stamp(ws.home.config)


def _beside(ws: Workspace, store: Store | None) -> str:
    """What stands beside the events, in the store and in files."""
    home = ws.home
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
