"""An agent's own SQLite database, opened so that nothing is written: not to the file, and not beside it either. Also
while the agent writes; and whoever made the file has no say in what is executed.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Collection
from typing import Final
from urllib.parse import quote

import apsw

_PATIENCE: Final = 2_000  # ms, where the agent is writing


# What the system does not let us read, as against what is damaged.
REFUSALS: Final = (OSError, apsw.CantOpenError, apsw.IOError, apsw.BusyError, apsw.NoMemError)


class AgentDatabase:
    """Open from the beginning until `close`. Raises OSError, ValueError or apsw.Error."""

    def __init__(self, path: str) -> None:
        self._apart: tempfile.TemporaryDirectory[str] | None = None
        # Reading a database that nobody has open would still make files beside it, were it not called immutable.
        live = os.path.exists(f"{path}-wal")
        if live and not os.path.exists(f"{path}-shm"):
            path = self._copied(path)
        place = quote(os.path.abspath(path).replace(os.sep, "/").encode(errors="surrogateescape"))
        uri = f"file://{'' if place.startswith('/') else '/'}{place}?mode=ro{'' if live else '&immutable=1'}"
        try:
            self.connection = apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
        except apsw.Error:
            self._clear()
            raise
        self.connection.set_busy_timeout(_PATIENCE)
        self.connection.pragma("trusted_schema", False)
        self.connection.pragma("query_only", True)

    def runs_nothing(self, tables: Collection[str]) -> bool:
        """Whether these are tables, if they are there: a view can go on for ever."""
        kinds = self.connection.execute("SELECT type, rootpage, lower(name) FROM sqlite_schema")
        return all(name not in tables or (kind == "table" and page) for kind, page, name in kinds if kind != "index")

    def close(self) -> None:
        self.connection.close()
        self._clear()

    def _clear(self) -> None:
        if self._apart is not None:
            self._apart.cleanup()

    def _copied(self, path: str) -> str:
        """A copy to read, of a database with a log that its agent could not finish: to see what is in it writes."""
        self._apart = tempfile.TemporaryDirectory(prefix="holdfast-")
        copy = os.path.join(self._apart.name, "copy.db")
        for end in ("", "-wal"):
            shutil.copyfile(path + end, copy + end)
        return copy
