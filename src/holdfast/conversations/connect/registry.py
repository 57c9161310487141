"""Remember connections: every file that was changed, its content before, and what was written.

There is one private file per connection, in `connections` in the home. It is written before the agent's file, and
removed after that is restored: whenever a process is killed, the next one knows enough. Original settings may hold
secrets; they are kept no longer than the connection.
"""

from __future__ import annotations

import contextlib
import os
from typing import Final

import msgspec

from holdfast.conversations.adapters.base import Scope
from holdfast.conversations.connect.json_edit import EditReceipt
from holdfast.core import limits
from holdfast.core.canonical import digest
from holdfast.core.decode import decodable
from holdfast.core.errors import Damaged
from holdfast.machine import files

DIRECTORY: Final = "connections"
LOCK: Final = ".lock"
_ENDING: Final = ".json"


class ConnectedFile(msgspec.Struct, kw_only=True):
    """One file of a connection."""

    path: str
    existed: bool
    # A file of our own, not entries in a shared one.
    own: bool = False
    original: bytes = b""
    # SHA-256 of what we wrote.
    wrote: str = ""
    receipt: EditReceipt | None = None
    # Directories created for it, outermost first.
    made: list[str] = []
    # Whether the path was a link (to a file that did not exist yet, if `existed` is false).
    linked: bool = False


class AgentConnection(msgspec.Struct, kw_only=True, rename={"came_with_project": "stood"}):
    agent: str
    scope: Scope
    # The project's directory, in project scope.
    project: str | None = None
    files: list[ConnectedFile] = []
    # Whether the project had our hooks before: somebody else's, shared with everybody who works on it.
    came_with_project: bool = False

    def of(self, path: str) -> ConnectedFile | None:
        return next((file for file in self.files if file.path == path), None)


class Connections:
    """All connections of a home."""

    def __init__(self, home: str) -> None:
        self._directory = os.path.join(home, DIRECTORY)

    @property
    def lock(self) -> str:
        """The file to lock while connections change; makes the directory."""
        files.make_private_dir(self._directory)
        return os.path.join(self._directory, LOCK)

    @property
    def are_there(self) -> bool:
        return os.path.isdir(self._directory)

    def of(self, agent: str, scope: Scope, project: str | None) -> AgentConnection | None:
        path = self._path(agent, scope, project)
        return _read(path) if os.path.lexists(path) else None

    def all(self) -> list[AgentConnection]:
        """Every remembered connection. One that cannot be read is an error."""
        try:
            names = sorted(os.listdir(self._directory))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise files.explain(error, "list", self._directory) from error
        return [
            _read(os.path.join(self._directory, name))
            for name in names
            if name.endswith(_ENDING) and not name.startswith(".")
        ]

    def remember(self, connection: AgentConnection) -> None:
        files.make_private_dir(self._directory)
        files.write_atomic(self._path_of(connection), msgspec.json.encode(connection) + b"\n")

    def forget(self, connection: AgentConnection) -> None:
        files.remove_file(self._path_of(connection))
        with contextlib.suppress(FileNotFoundError):
            files.sync_directory(self._directory)

    def clear(self) -> bool:
        """Remove the directory, once nothing is remembered; False if other files are in it."""
        files.remove_file(os.path.join(self._directory, LOCK))
        return files.remove_directory(self._directory)

    def _path_of(self, connection: AgentConnection) -> str:
        return self._path(connection.agent, connection.scope, connection.project)

    def _path(self, agent: str, scope: Scope, project: str | None) -> str:
        where = "" if scope == "user" else f"-{digest((project or '').encode(errors='surrogateescape'))[:16]}"
        return os.path.join(self._directory, f"{agent}-{scope}{where}{_ENDING}")


def _read(path: str) -> AgentConnection:
    data = files.read_limited(path, 2 * limits.MAX_AGENT_SETTINGS_SIZE, subject="the record of a connection")
    try:
        return msgspec.json.decode(data, type=decodable(AgentConnection))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Damaged(
            f"{files.display_path(path)} cannot be read, so its connection is unknown",
            hint="Remove it; holdfast disconnect then finds Holdfast's entries without it.",
            file=path,
        ) from error
