"""How adapters describe an agent's settings: which entries belong in which of its files, and what is there now.

Adapters describe their agents with these classes; nothing is changed here. A settings file that is missing, too
large, not a regular file or malformed counts as empty: a file of another program must not stop anybody.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Final, Literal, NamedTuple, Protocol

import msgspec

from holdfast.conversations.adapters.base import Payload, Scope
from holdfast.conversations.adapters.fields import DECODE_ERRORS
from holdfast.conversations.adapters.json_tree import JsonText
from holdfast.conversations.adapters.jsonl import ReadProblems, read_whole
from holdfast.conversations.connect.mcp_entry import Server
from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid
from holdfast.workspace.agent_dirs import AgentDirs

# What a hook does: hand the payload over and exit (`tell`); also have it drained soon (`stir`); or wait for a reply
# (`ask`).
HookMode = Literal["tell", "stir", "ask"]
# The command line of a hook, for a shell. Harmless if Holdfast was removed.
Command = Callable[[HookMode], str]


class SettingsEntry(NamedTuple):
    """An entry of ours in a JSON or TOML file that also has others' settings.

    `at` is the path of a list, to which `value` is added, or (`only`) of a value, which is set if there is none.
    """

    at: tuple[str, ...]
    value: Json
    only: bool = False


class SettingsChange(NamedTuple):
    """The change of one file: entries in a shared file (created if missing), or a file of our own."""

    path: str
    entries: tuple[SettingsEntry, ...] = ()
    # Paths where no entry of ours may be.
    bare: tuple[tuple[str, ...], ...] = ()
    content: bytes | None = None
    executable: bool = False
    # The file's project: nothing outside it is read or written.
    project: str | None = None


class AgentSettings(Protocol):
    name: str
    # Names of the agent's program on PATH.
    programs: tuple[str, ...]

    def traces(self, places: AgentDirs) -> tuple[str, ...]:
        """Files or directories that show that the agent was used here."""

    def changes(self, places: AgentDirs, scope: Scope, command: Command) -> tuple[SettingsChange, ...]:
        """The changes of a connection. `command` makes the command lines of hooks."""

    def server(self, places: AgentDirs, scope: Scope, server: Server) -> SettingsChange | None:
        """The change that registers the MCP server; None if the agent cannot use it in this scope."""

    def obstacles(self, places: AgentDirs, scope: Scope) -> tuple[str, ...]:
        """What prevents installed hooks from running, in sentences that say what to do."""


def settings_of(name: str) -> AgentSettings:
    settings: AgentSettings = import_module(
        f"holdfast.conversations.adapters.{name.replace('-', '_')}.settings"
    ).SETTINGS
    return settings


# ── reading ────────────────────────────────────────────────────────────────────────────────────────────


LARGEST: Final = 4 << 20  # bytes
_BOM: Final = b"\xef\xbb\xbf"


def content(path: str, largest: int = LARGEST) -> bytes:
    return read_whole(path, ReadProblems(), largest)


def settings_in(path: str, *, comments: bool = False) -> Payload:
    """The content of a JSON file; `comments` if the agent accepts comments and trailing commas."""
    try:
        value = _with_comments(path) if comments else msgspec.json.decode(content(path).removeprefix(_BOM))
    except (*DECODE_ERRORS, Invalid):
        return {}
    return value if type(value) is dict else {}


def _with_comments(path: str) -> Json:
    document = JsonText(content(path).decode(), path)
    return None if document.root is None else document.plain(document.root)
