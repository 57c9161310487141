"""That a store's server is away, shared between hooks: one that comes within seconds does not wait for it again.

An agent at work calls hooks all the time. The first that finds the server silent has waited for it, for a moment, and
says so in the error log; the others see the mark it left, hand over and go. Who has more time than the one who left
it asks for themselves: a server may be slow and not away. Only the standard library is loaded here.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

NAME: Final = "server.away"  # in the home
OUTAGE_SECONDS: Final = 10.0  # seconds for which nobody asks again
HOOK_PATIENCE: Final = 0.4  # seconds that a store may keep an agent waiting
BACKGROUND_PATIENCE: Final = 5.0  # seconds, where nobody waits for us
_OUTAGES: Final = (
    "the server cannot be reached",
    "the server does not answer",
    "the server is away",
    "the server was cut off",
)
_SERVERS: Final = ("postgresql://", "postgres://")
_SAFE_FLAGS: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


def is_on_a_server(store: str | None) -> bool:
    """Whether a store, as it was asked for, is on a server."""
    return store is not None and store.startswith(_SERVERS)


def store_mark(store: str) -> str:
    """By what a store that was asked for is known again: a URL that may hold a password is kept nowhere."""
    if not store or store.startswith("sqlite:"):
        return store
    from hashlib import sha256

    return "x" + sha256(store.encode(errors="surrogatepass")).hexdigest()[:40]


def is_away(home: str, store: str | None, patience: float = HOOK_PATIENCE) -> bool:
    """Whether somebody has just found that this store's server says nothing for so many seconds."""
    if store is None or not is_on_a_server(store):
        return False
    which, waited = _known(home)
    if which != store_mark(store) or waited < patience:
        return False
    from holdfast.machine.wall import Wall

    try:
        return abs(Wall().now() / 1000 - os.lstat(os.path.join(home, NAME)).st_mtime) < OUTAGE_SECONDS
    except OSError:
        return False


def note_outage(home: str, where: str, store: str, why: str, patience: float = HOOK_PATIENCE) -> None:
    """It said nothing: the others need not ask. Noted once, however often it is found to be so until it is back."""
    known_as = store_mark(store)
    first = _known(home)[0] != known_as
    try:
        handle = os.open(os.path.join(home, NAME), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _SAFE_FLAGS, 0o600)
        try:
            os.write(handle, f"{known_as} {patience}".encode())
        finally:
            os.close(handle)
    except OSError:
        pass  # then everybody asks for themselves
    if first:
        from holdfast.machine import error_log

        error_log.note(home, where, why)


def is_outage_message(why: str) -> bool:
    """Whether what was noted is only that: nobody's fault here, and nothing to report."""
    return why.startswith(_OUTAGES)


def clear_outage(home: str) -> None:
    """It was heard again."""
    if _known(home)[0]:
        try:
            os.unlink(os.path.join(home, NAME))
        except OSError:
            return


def _known(home: str) -> tuple[str, float]:
    """Which server it is that is away, and how long it was waited for."""
    try:
        handle = os.open(os.path.join(home, NAME), os.O_RDONLY | _SAFE_FLAGS)
        try:
            which, waited = os.read(handle, 100).decode().split()
            return which, float(waited)
        finally:
            os.close(handle)
    except (OSError, ValueError):
        return "", 0.0
