"""The advisory locks of one database, as everybody who writes there names them (and rights.sql, in plain numbers)."""

from __future__ import annotations

from typing import Final

from holdfast.core.canonical import digest

INSTALLATION: Final = 0x48460001
SESSION: Final = 0x48460002
_MOST: Final = 1024  # of sessions; a server has some thousands, for everybody


def number(session: str) -> int:
    """A session's lock. Two that share one only wait for each other; all there are must find room at the server."""
    return int(digest(session.encode(errors="surrogatepass"))[:8], 16) % _MOST
