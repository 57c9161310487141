"""Claude Desktop's own data directory as a remote: the folder `holdfast` in it.

Claude Desktop keeps chats on its maker's servers and copies nothing of this directory to other devices: the folder is
one like any other, and reaches another device only by what else carries the directory there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from holdfast.core.errors import Refused
from holdfast.machine.os_errors import shown
from holdfast.sync.remotes.folder import FolderRemote

URL: Final = "claude-desktop:"
CAVEAT: Final = (
    "Claude Desktop does not copy this folder to other devices: sessions reach another one only if something else"
    " carries it there (a synchronised profile, a sync program, a backup)."
)


def data_directory(environ: Mapping[str, str], system: str) -> str:
    """Where Claude Desktop keeps its data: `system` as `sys.platform` says it. The surface read the environment."""
    if system == "win32":
        roaming = environ.get("APPDATA", "").strip()
        return os.path.join(roaming or os.path.join(_home(environ, "USERPROFILE"), "AppData", "Roaming"), "Claude")
    if system == "darwin":
        return os.path.join(_home(environ, "HOME"), "Library", "Application Support", "Claude")
    config = environ.get("XDG_CONFIG_HOME", "").strip()
    # The XDG rules say that a path which is not absolute counts as unset.
    return os.path.join(
        config if os.path.isabs(config) else os.path.join(_home(environ, "HOME"), ".config"), "Claude"
    )


def _home(environ: Mapping[str, str], variable: str) -> str:
    home = environ.get(variable, "").strip()
    if not home:
        raise Refused(
            "it is not known where Claude Desktop keeps its data: this account has no home directory",
            hint=f"Set {variable}, or use a folder: remote.",
        )
    return os.path.abspath(home)


def open_claude_desktop(environ: Mapping[str, str], *, system: str, create: bool = False) -> FolderRemote:
    """The folder in Claude Desktop's data directory; `Refused` where there is no Claude Desktop."""
    base = data_directory(environ, system)
    if not os.path.isdir(base):
        raise Refused(
            f"Claude Desktop is not set up here: there is no {shown(base)}",
            hint="Install and start Claude Desktop once, or use another remote (folder:, s3:, git:).",
            operation="open",
            file=base,
        )
    return FolderRemote(os.path.join(base, "holdfast"), url=URL, create=create)
