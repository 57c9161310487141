"""Notify long-running programs of every change within a moment, from the file system or from the server."""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from holdfast.core.errors import HoldfastError
from holdfast.formats.mirror.work_trees import MirroredTrees
from holdfast.workspace import spool

if TYPE_CHECKING:
    from watchfiles._rust_notify import RustNotify

    from holdfast.store.interface import ChangeListener, Store
    from holdfast.workspace.workspace import Workspace

POLL_INTERVAL: Final = 0.5  # seconds between two polls if nothing notifies of changes
LOOK_INTERVAL: Final = 2.0  # seconds between two polls if something does
SERVER_TIMEOUT: Final = 5.0  # seconds that a server may be silent before another connection is tried
_DEBOUNCE_MS: Final = 100  # without a change, before changes are reported; also how often the watch wakes
_MAX_BATCH_MS: Final = 200  # for collecting changes
_PORTION: Final = 1_000  # events that are read at once


class AnyEvent:
    """Set as soon as one of two events is."""

    def __init__(self, first: threading.Event, second: threading.Event) -> None:
        self._events = (first, second)

    def is_set(self) -> bool:
        return any(event.is_set() for event in self._events)

    def wait(self, seconds: float) -> bool:
        """Whether it was set meanwhile. Waits for the first event, and looks at the other one in short steps."""
        step = _DEBOUNCE_MS / 1000
        for _ in range(max(1, int(seconds / step))):
            if self.is_set():
                break
            self._events[0].wait(step)
        return self.is_set()


class FolderWatch:
    """Watches existing folders for changes. Where the system notifies of none, it reports one twice a second."""

    def __init__(self, folders: dict[str, int]) -> None:
        self.folders = folders
        self._notify: RustNotify | None = None
        if folders:
            with contextlib.suppress(ImportError, OSError, RuntimeError):  # not installed, or no more watches left
                from watchfiles._rust_notify import RustNotify

                self._notify = RustNotify(
                    list(folders), debug=False, force_polling=False, poll_delay_ms=0, recursive=False,
                    ignore_permission_denied=True,
                )  # fmt: skip

    def wait(self, awake: AnyEvent, longest: float) -> list[str]:
        """Wait for changes; returns the paths that changed, or an empty one where those are unknown."""
        if self._notify is None:
            return [""] if not awake.wait(POLL_INTERVAL) else []
        changes = self._notify.watch(_MAX_BATCH_MS, _DEBOUNCE_MS, int(longest * 1000), awake)
        return [path for _, path in changes] if isinstance(changes, set) else []

    def close(self) -> None:
        if self._notify is not None:
            self._notify.close()


class StoreListener:
    """Listens in a thread to a store that notifies of changes; then sets `changed`."""

    def __init__(self) -> None:
        self.changed = threading.Event()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._tried = False

    def listen_to(self, store: Store) -> None:
        """Listen to this store if it can notify. Does something only on the first call."""
        if self._tried:
            return
        self._tried = True
        listener = store.listen()
        if listener is not None:
            self._thread = threading.Thread(target=self._run, args=(listener,), name="listener", daemon=True)
            self._thread.start()

    def _run(self, listener: ChangeListener) -> None:
        try:
            while not self._stopped.is_set():
                if listener.wait(POLL_INTERVAL):
                    self.changed.set()
        finally:
            listener.close()

    def close(self) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(timeout=2 * POLL_INTERVAL)


class Changes(NamedTuple):
    """What changed since the last report."""

    # Events up to this place, in the order of their arrival, are reported.
    place: int
    # The sessions whose events arrived.
    sessions: frozenset[str]
    # Whether something other than events changed: current sessions, remotes, what a sync left in memory.
    other_changes: bool


def state_fingerprint(ws: Workspace) -> str:
    """A short fingerprint of everything in the store: if it is the same before and after reading, nothing changed."""
    store = ws.existing_store()
    place = 0 if store is None else store.latest_place()
    known = f"{ws.address.stamp()} {_local_state_version(ws, store)}"
    return f"{place}.{hashlib.blake2b(known.encode(), digest_size=6).hexdigest()}"


class ChangeFeed:
    """Reports changes, in its own thread, from when the block is entered until it is left."""

    def __init__(self, open_keeper: Callable[[], Workspace], on_change: Callable[[Changes], None]) -> None:
        self._open = open_keeper
        self._on_change = on_change
        # The latest place reported. Reading the store after entering the block misses nothing.
        self.place = 0
        self._local_state = ""
        self._file: int | None = None
        # The store could not be read for a while: those who tried show an error until the next report.
        self._was_unreadable = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="change-feed", daemon=True)

    def __enter__(self) -> Self:
        # A store that cannot be read now is reported from its beginning, once it can.
        with contextlib.suppress(HoldfastError), self._open() as ws:
            ws.timeout = SERVER_TIMEOUT
            self._file = ws.address.stamp()
            store = ws.existing_store()
            self._local_state = _local_state_version(ws, store)
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
                    ws.timeout, ws.collect_mode = SERVER_TIMEOUT, "each"
                    self._watch(ws)
            except HoldfastError:
                self._was_unreadable = True
                self._stop.wait(POLL_INTERVAL)

    def _watch(self, ws: Workspace) -> None:
        """Report changes while the store and the settings stay the same files: a repair replaces the store."""
        opened = _opened(ws)
        trees = MirroredTrees(ws)
        watch, listener = FolderWatch({}), StoreListener()
        examined: int | None = None
        version: int | None = None
        due = True
        try:
            while not self._stop.is_set() and _opened(ws) == opened:
                store = ws.existing_store()
                if store is not None:
                    trees.refresh()
                    listener.listen_to(store)
                folders = _existing(_folders(ws, trees))
                if folders != watch.folders:
                    watch.close()
                    watch, due = FolderWatch(folders), True  # before looking, so that nothing is missed in between
                if due:
                    # Before collecting: a change between that and the report is left to the next round.
                    examined = None if store is None else store.version()
                    _collect(ws, trees)
                    version = self._report(ws, store, version)
                paths = watch.wait(AnyEvent(self._stop, listener.changed), LOOK_INTERVAL)
                listener.changed.clear()
                due = any(not _is_store_file(ws, path) for path in paths) or _has_news(ws, store, examined)
        finally:
            watch.close()
            listener.close()

    def _report(self, ws: Workspace, store: Store | None, version: int | None) -> int | None:
        """Report what changed, if anything did; returns the version of the store that was read."""
        if store is None:
            return None
        file = ws.address.stamp()
        replaced = self._file is not None and file != self._file
        place = store.latest_place() if replaced else self.place
        sessions = set(store.sessions() if replaced else ())
        while True:
            # Read before the arrivals, so that nothing is missed; and again after them, so that none is repeated.
            now, local_state = store.version(), _local_state_version(ws, store)
            arrived = store.arrived(place, _PORTION)
            if not arrived:
                break
            place = arrived[-1].place
            sessions.update(arrival.event.session for arrival in arrived)
        # A new version without new events: events were withdrawn, or derived data was rebuilt.
        other_changes = (
            local_state != self._local_state
            or replaced
            or (now != version is not None and not sessions)
            or self._was_unreadable
        )
        self.place, self._local_state, self._file, self._was_unreadable = place, local_state, file, False
        if sessions or other_changes:
            self._on_change(Changes(place, frozenset(sessions), other_changes))
        return now


def _collect(ws: Workspace, trees: MirroredTrees) -> None:
    for workspace in (ws, *trees.trees.values()):
        # The next command there reports errors; the feed continues.
        with contextlib.suppress(Exception):
            workspace.collect()
        workspace.drop_notices()


def _has_news(ws: Workspace, store: Store | None, version: int | None) -> bool:
    """Polls what file systems may fail to notify of."""
    waits = spool.has_entries(ws.home.path, ws.spool_tag)
    return waits or (store is not None and store.version() != version)


def _folders(ws: Workspace, trees: MirroredTrees) -> Iterable[str]:
    home, store = ws.home, ws.address.path
    own = {home.path, home.mirrors, os.path.join(home.path, spool.DIRECTORY)}
    return own | set(trees.folders) | (set() if store is None else {os.path.dirname(store)})


def _is_store_file(ws: Workspace, path: str) -> bool:
    """Whether it is a file of the store: reading the store touches these too."""
    return ws.address.path is not None and path.startswith(ws.address.path)


def _existing(folders: Iterable[str]) -> dict[str, int]:
    """The folders that exist, with their inodes: one that was removed and created again is another."""
    return {folder: number for folder in sorted(folders) if (number := _inode(folder)) is not None}


def _opened(ws: Workspace) -> tuple[int | None, tuple[int, ...]]:
    return ws.address.stamp(), _file_stamp(ws.home.config)


def _local_state_version(ws: Workspace, store: Store | None) -> str:
    """Differs after any change of what is not in the log, in the store and in files."""
    home = ws.home
    files = [_file_stamp(path) for path in (home.remotes, home.device, home.people, home.config)]
    return f"{'' if store is None else store.local_state_version()} {files}"


def _inode(path: str) -> int | None:
    try:
        return os.stat(path).st_ino
    except OSError:
        return None


def _file_stamp(path: str) -> tuple[int, ...]:
    try:
        status = os.lstat(path)
    except OSError:
        return ()
    return status.st_ino, status.st_mtime_ns, status.st_size
