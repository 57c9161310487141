"""Open an agent's own SQLite database without writing anything, neither to the file nor next to it.

This works while the agent writes, and nothing that the file contains is executed.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Collection
from typing import Final
from urllib.parse import quote

import apsw

_BUSY_TIMEOUT_MS: Final = 2_000  # while the agent writes
# The system does not let us read, as opposed to a damaged file.
ACCESS_ERRORS: Final = (OSError, apsw.CantOpenError, apsw.IOError, apsw.BusyError, apsw.NoMemError)


class AgentDatabase:
    """Open until `close`. Raises OSError, ValueError or apsw.Error."""

    def __init__(self, path: str) -> None:
        self._copy: tempfile.TemporaryDirectory[str] | None = None
        # SQLite makes files next to a database that nobody has open, unless it is called immutable.
        live = os.path.exists(f"{path}-wal")
        if live and not os.path.exists(f"{path}-shm"):
            path = self._make_copy(path)
        quoted = quote(os.path.abspath(path).replace(os.sep, "/").encode(errors="surrogateescape"))
        uri = f"file://{'' if quoted.startswith('/') else '/'}{quoted}?mode=ro{'' if live else '&immutable=1'}"
        try:
            self.connection = apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
        except apsw.Error:
            self._remove_copy()
            raise
        self.connection.set_busy_timeout(_BUSY_TIMEOUT_MS)
        self.connection.pragma("trusted_schema", False)
        self.connection.pragma("query_only", True)

    def has_only_tables(self, names: Collection[str]) -> bool:
        """Whether those of these names that exist are tables: a view can run for ever."""
        kinds = self.connection.execute("SELECT type, rootpage, lower(name) FROM sqlite_schema")
        return all(name not in names or (kind == "table" and page) for kind, page, name in kinds if kind != "index")

    def close(self) -> None:
        self.connection.close()
        self._remove_copy()

    def _remove_copy(self) -> None:
        if self._copy is not None:
            self._copy.cleanup()

    def _make_copy(self, path: str) -> str:
        """Copy a database with an unfinished log: reading the original would write to it."""
        self._copy = tempfile.TemporaryDirectory(prefix="holdfast-")
        copy = os.path.join(self._copy.name, "copy.db")
        for end in ("", "-wal"):
            shutil.copyfile(path + end, copy + end)
        return copy
