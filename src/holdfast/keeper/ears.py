"""How following hears of changes: from the file system where there are files, from the store where it is a server."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from watchfiles._rust_notify import RustNotify

    from holdfast.store.interface import Listening, Store

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


class Line:
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
