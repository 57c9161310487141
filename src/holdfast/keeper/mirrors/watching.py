"""While something long-running is up, what others write into mirrored files is taken in within a second.

A thread with a keeper of its own waits for changes in the mirrored folders (`watchfiles`; where that cannot be had,
it looks twice a second) and does what every command does first: it absorbs.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from holdfast.core.errors import HoldfastError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.keeper.keeper import Keeper

_PATIENCE: Final = 0.5  # seconds between two looks where nothing tells of changes
_STEP: Final = 50  # milliseconds that changes are gathered for


@contextmanager
def watching(open_keeper: Callable[[], Keeper], changed: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Absorb as files change, until the block is left. `changed` is called, in the thread, after each look."""
    stop = threading.Event()
    thread = threading.Thread(target=_watch, args=(open_keeper, changed, stop), name="mirrors", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(timeout=5)


def _watch(open_keeper: Callable[[], Keeper], changed: Callable[[], None], stop: threading.Event) -> None:
    with open_keeper() as keeper:
        while not stop.is_set():
            _look(keeper)
            changed()
            _wait(keeper, stop)


def _look(keeper: Keeper) -> None:
    try:
        keeper.absorb()
    except HoldfastError:
        return  # told by the next command; watching goes on


def _wait(keeper: Keeper, stop: threading.Event) -> None:
    """Until something changed in a mirrored folder, or it is time to see whether there are other folders."""
    folders = _folders(keeper)
    try:
        from watchfiles import watch
    except ImportError:
        stop.wait(_PATIENCE)
        return
    if not folders:
        stop.wait(_PATIENCE)
        return
    # A batch, or nothing for a while: either way the look comes next, and then the folders are found again.
    for _ in watch(
        *folders, stop_event=stop, step=_STEP, debounce=4 * _STEP, rust_timeout=int(_PATIENCE * 1000),
        yield_on_timeout=True, recursive=False, raise_interrupt=False,
    ):  # fmt: skip
        return


def _folders(keeper: Keeper) -> list[str]:
    root = keeper.place.root
    found = {os.path.dirname(os.path.join(root, *path.split("/"))) for path in keeper.mirrors.paths()}
    return sorted(folder for folder in found if os.path.isdir(folder))
