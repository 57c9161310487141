"""Remember that a store's server does not answer, so that hooks within the next seconds do not wait for it too.

An agent at work calls hooks all the time. The first that gets no answer has waited for a moment; it logs an error and
leaves a mark, and the others spool their payload and exit. A caller with more patience than the one that left the
mark asks the server itself, which may only be slow. This module loads only the standard library.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

NAME: Final = "server.away"  # in the home
OUTAGE_SECONDS: Final = 10.0  # seconds for which hooks do not ask again
HOOK_PATIENCE: Final = 0.4  # seconds that a store may delay an agent
BACKGROUND_PATIENCE: Final = 5.0  # seconds, when no agent waits
_OUTAGES: Final = (
    "the server cannot be reached",
    "the server does not answer",
    "the server is away",
    "the connection to the server was lost",
    "the server was cut off",  # of earlier versions: lines of the error log stay for days
)
_SERVERS: Final = ("postgresql://", "postgres://")
_SAFE_FLAGS: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


def is_on_a_server(store: str | None) -> bool:
    """Whether the URL of a store names a server."""
    return store is not None and store.startswith(_SERVERS)


def store_mark(store: str) -> str:
    """An id of a store for the mark: a URL may contain a password, and is stored nowhere."""
    if not store or store.startswith("sqlite:"):
        return store
    from hashlib import sha256

    return "x" + sha256(store.encode(errors="surrogatepass")).hexdigest()[:40]


def is_away(home: str, store: str | None, patience: float = HOOK_PATIENCE) -> bool:
    """Whether this store's server has just failed to answer within so many seconds."""
    if store is None or not is_on_a_server(store):
        return False
    mark, seconds = _read_mark(home)
    if mark != store_mark(store) or seconds < patience:
        return False
    from holdfast.machine.wall import Wall

    try:
        return abs(Wall().now() / 1000 - os.lstat(os.path.join(home, NAME)).st_mtime) < OUTAGE_SECONDS
    except OSError:
        return False


def note_outage(home: str, source: str, store: str, message: str, patience: float = HOOK_PATIENCE) -> None:
    """Mark the server as away, so that others need not ask. Logged once until it is back."""
    mark = store_mark(store)
    first = _read_mark(home)[0] != mark
    try:
        handle = os.open(os.path.join(home, NAME), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _SAFE_FLAGS, 0o600)
        try:
            os.write(handle, f"{mark} {patience}".encode())
        finally:
            os.close(handle)
    except OSError:
        pass  # without a mark, every hook asks the server itself
    if first:
        from holdfast.machine import error_log

        error_log.note(home, source, message)


def is_outage_message(message: str) -> bool:
    """Whether a logged message is about an outage, which is no problem of this device."""
    return message.startswith(_OUTAGES)


def clear_outage(home: str) -> None:
    """Remove the mark: the server answered."""
    if _read_mark(home)[0]:
        try:
            os.unlink(os.path.join(home, NAME))
        except OSError:
            return


def _read_mark(home: str) -> tuple[str, float]:
    """The id of the server that is away, and how long it was waited for."""
    try:
        handle = os.open(os.path.join(home, NAME), os.O_RDONLY | _SAFE_FLAGS)
        try:
            mark, seconds = os.read(handle, 100).decode().split()
            return mark, float(seconds)
        finally:
            os.close(handle)
    except (OSError, ValueError):
        return "", 0.0
