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

# What a hook does: hand the payload over and leave (`tell`); the same, and let it be taken in soon (`stir`); or
# wait for the answer (`ask`).
Manner = Literal["tell", "stir", "ask"]
# The command line of a hook, as a shell takes it. Harmless where Holdfast is gone.
Command = Callable[[Manner], str]


class SettingsEntry(NamedTuple):
    """Something to stand in a JSON or TOML file that is shared with others.

    `at` leads to a list, to which `value` is added, or (`only`) to a value that is set if nothing stands there.
    """

    at: tuple[str, ...]
    value: Json
    only: bool = False


class SettingsChange(NamedTuple):
    """What becomes of one file: entries in a shared file (made if it is not there), or a file of our own."""

    path: str
    entries: tuple[SettingsEntry, ...] = ()
    # Where nothing of ours is to stand.
    bare: tuple[tuple[str, ...], ...] = ()
    content: bytes | None = None
    executable: bool = False
    # The project it is in: nothing outside is read or written for it.
    project: str | None = None


class AgentSettings(Protocol):
    name: str
    # What the agent's program is called on the PATH; directories that show it was used here.
    programs: tuple[str, ...]

    def traces(self, places: AgentDirs) -> tuple[str, ...]:
        """Files or directories that exist when this agent was ever used here."""

    def changes(self, places: AgentDirs, scope: Scope, command: Command) -> tuple[SettingsChange, ...]:
        """What a connection consists of. The command lines in it are made by `command`."""

    def server(self, places: AgentDirs, scope: Scope, server: Server) -> SettingsChange | None:
        """What tells the agent of the MCP server; None where it cannot be told in this scope."""

    def obstacles(self, places: AgentDirs, scope: Scope) -> tuple[str, ...]:
        """What keeps the hooks from being run though they stand there, in sentences that say what to do."""


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
    """What stands in a JSON file; `comments` where the agent passes over them, as over a comma too many."""
    try:
        value = _with_comments(path) if comments else msgspec.json.decode(content(path).removeprefix(_BOM))
    except (*DECODE_ERRORS, Invalid):
        return {}
    return value if type(value) is dict else {}


def _with_comments(path: str) -> Json:
    document = JsonText(content(path).decode(), path)
    return None if document.root is None else document.plain(document.root)
