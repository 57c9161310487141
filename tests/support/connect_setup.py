"""The setup of the tests of connecting: a person's home with settings in it, a project, and Holdfast's home."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

from holdfast.conversations.adapters.json_tree import JsonText
from holdfast.conversations.connect.apply import ConnectResult, connect
from holdfast.conversations.connect.disconnect import disconnect
from holdfast.keeper.keeper import Keeper
from holdfast.workspace.agent_dirs import AgentDirs

MINE = """{
\t// my own settings
\t"model": "opus", /* the big one */
\t"hooks": {
\t\t"Stop": [
\t\t\t{ "hooks": [{ "type": "command", "command": "say done" }] },
\t\t],
\t},
}
"""


class ConnectSetup:
    """A person's home with settings in it, a project, and Holdfast's home."""

    def __init__(self, root: Path) -> None:
        self.me, self.project, self.home = root / "me", root / "project", root / "hold fast"
        self.me.mkdir()
        self.project.mkdir()
        self.places = AgentDirs(str(self.me), str(self.project), {"PATH": ""}, sys.platform)
        self.keeper = Keeper.open(str(self.project), home=str(self.home))
        self.keeper.agent_dirs = self.places
        self.claude = self.me / ".claude" / "settings.json"

    def write_settings(self, text: str = MINE, mode: int = 0o644) -> bytes:
        self.claude.parent.mkdir(exist_ok=True)
        self.claude.write_bytes(text.encode())
        self.claude.chmod(mode)
        return text.encode()

    def snapshot(self) -> dict[str, tuple[int, bytes | str | None]]:
        """Everything outside Holdfast's home: modes, contents, targets of links."""
        seen: dict[str, tuple[int, bytes | str | None]] = {}
        for top in (self.me, self.project):
            for path in sorted(top.rglob("*")):
                info = path.lstat()
                if stat.S_ISLNK(info.st_mode):
                    seen[str(path)] = (0, os.readlink(path))
                else:
                    seen[str(path)] = (stat.S_IMODE(info.st_mode), path.read_bytes() if path.is_file() else None)
        return seen

    def connect(self, *names: str, scope: str = "user") -> list[ConnectResult]:
        return connect(self.keeper, self.places, names, scope)  # type: ignore[arg-type]

    def disconnect(self, *names: str) -> list[ConnectResult]:
        return disconnect(self.keeper, self.places, names)

    def receipts(self) -> list[str]:
        place = self.home / "connections"
        return sorted(path.name for path in place.iterdir() if path.suffix == ".json") if place.exists() else []


def plain(path: Path) -> dict[str, dict[str, object]]:
    document = JsonText(path.read_text(), str(path))
    assert document.root is not None
    value = document.plain(document.root)
    assert isinstance(value, dict)
    return value  # type: ignore[return-value]
