"""That a store's server is away, as hooks tell each other: who comes within seconds does not wait for it again.

An agent at work calls hooks all the time. The first that finds the server silent has waited for it, for a moment, and
says so in the error log; the others see the mark it left, hand over and go. Only the standard library is loaded here.
"""

from __future__ import annotations

import os

from holdfast.capture import glances

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

NAME: Final = "server.away"  # in the home
LASTS: Final = 10.0  # seconds for which nobody asks again
_SERVERS: Final = ("postgresql://", "postgres://")
_CAREFUL: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


def is_on_a_server(store: str | None) -> bool:
    """Whether a store, as it was asked for, is on a server."""
    return store is not None and store.startswith(_SERVERS)


def is_away(home: str, store: str | None) -> bool:
    """Whether somebody has just found that this store's server says nothing."""
    if store is None or not is_on_a_server(store) or _known(home) != glances.mark(store).encode():
        return False
    from holdfast.machine.wall import Wall

    try:
        return abs(Wall().now() / 1000 - os.lstat(os.path.join(home, NAME)).st_mtime) < LASTS
    except OSError:
        return False


def noticed(home: str, where: str, store: str, why: str) -> None:
    """It said nothing: the others need not ask. Noted once, however often it is found to be so until it is back."""
    mark = glances.mark(store).encode()
    first = _known(home) != mark
    try:
        handle = os.open(os.path.join(home, NAME), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _CAREFUL, 0o600)
        try:
            os.write(handle, mark)
        finally:
            os.close(handle)
    except OSError:
        pass  # then everybody asks for themselves
    if first:
        from holdfast.machine import errorlog

        errorlog.note(home, where, why)


def is_over(home: str) -> None:
    """It was heard again."""
    if _known(home) is not None:
        try:
            os.unlink(os.path.join(home, NAME))
        except OSError:
            return


def _known(home: str) -> bytes | None:
    """Which server it is that is away."""
    try:
        handle = os.open(os.path.join(home, NAME), os.O_RDONLY | _CAREFUL)
        try:
            return os.read(handle, 100)
        finally:
            os.close(handle)
    except OSError:
        return None
