"""Holdfast's MCP server as an entry in agents' settings: what they start, and how the entry is recognised.

In the user's scope it is a script in the home, next to the hook script: graphical programs have no shell variables or
PATH, and the script keeps working when Python or Holdfast is upgraded. A project's shared entry has no personal path:
it is `holdfast`, from the PATH of the person who runs it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.conversations.hooks.script import DIRECTORY, ScriptSetup, quote

if TYPE_CHECKING:
    from holdfast.conversations.adapters.base import Scope
    from holdfast.core.canonical import Json

NAME: Final = "holdfast"  # the server's name in agents' settings
SCRIPT: Final = "holdfast-mcp"
PYTHON: Final = "holdfast-mcp.py"
CALL: Final = ("command", "args")  # the keys of an entry that say what it starts
_APART: Final = "\0"  # between words, so that no other text is mistaken for a server
_OF_A_HOME: Final = re.compile(
    rf"server\0(?:[^\0]+\0-P\0(?P<windows>[^\0]+)\\{DIRECTORY}\\holdfast-mcp\.py"
    rf"|(?P<posix>[^\0]+)/{DIRECTORY}/holdfast-mcp)"
)


class Server(NamedTuple):
    """The program that agents start, with its arguments."""

    command: str
    args: tuple[str, ...] = ()

    @property
    def entry(self) -> dict[str, Json]:
        """The entry in the form that most agents use."""
        return {"command": self.command, "args": list(self.args)}


_COMMAND: Final = "mcp"
_PYTHONS: Final = re.compile(r"pythonw?[0-9.]*|py")
_STARTERS: Final = frozenset({"env", "uv", "uvx", "pipx"})
SHARED: Final = Server("holdfast", (_COMMAND,))


def server(home: str, scope: Scope, *, python: str, system: str) -> Server:
    """The server that an agent has to start in this scope."""
    if scope == "project":
        return SHARED
    if system == "win32":
        # Not every agent can start a cmd script, but each can start a program.
        return Server(python, ("-P", f"{home}\\{DIRECTORY}\\{PYTHON}"))
    return Server(f"{home}/{DIRECTORY}/{SCRIPT}")


def call_of(entry: object) -> str:
    """What an entry starts, as one text; empty if it starts nothing."""
    if type(entry) is not dict:
        return ""
    command, args = entry.get("command"), entry.get("args")
    words = [*(command if type(command) is list else [command]), *(args if type(args) is list else [])]
    texts = [word for word in words if type(word) is str]
    return _APART.join(["server", *texts]) if texts and len(texts) == len(words) else ""


def is_shared(call: str) -> bool:
    """Whether it is the server entry that projects share."""
    return call == call_of(SHARED.entry)


def home_of(call: str) -> str | None:
    """The home whose server is started; None if it is none of ours."""
    match = _OF_A_HOME.fullmatch(call)
    return None if match is None else match["posix"] or match["windows"]


def by_hand(call: str) -> bool:
    """Whether it starts Holdfast's server as a person would write it: `holdfast mcp`, by any path, or through a
    launcher such as `uvx`.
    """
    _, *words = call.split(_APART)
    while words:
        first, *rest = words
        program = re.split(r"[/\\]", first)[-1].lower().removesuffix(".exe")
        if program == NAME:
            return rest[:1] == [_COMMAND]
        if _PYTHONS.fullmatch(program):
            return any(rest[at : at + 3] == ["-m", NAME, _COMMAND] for at in range(len(rest)))
        if program not in _STARTERS:
            return False
        # The launcher's options come first, including `--from`, whose value may look like the program.
        words = next((rest[at:] for at in range(len(rest) - 1) if rest[at + 1] == _COMMAND), [])
    return False


def program(call: str) -> str:
    """The program that is started."""
    return call.split(_APART)[1]


# ── the script ───────────────────────────────────────────────────────────────────────────────────────────

_SCRIPT: Final = r"""#!/bin/sh
# Holdfast's MCP server, made by `holdfast connect` for the Holdfast that ran then.
python=@python@
if [ ! -x "$python" ] || [ ! -e @package@ ]; then
  echo "holdfast: the installation that this agent was connected to no longer exists: run holdfast connect" >&2
  exit 1
fi
exec "$python" -P @serving@
"""

# With -P: modules in the project's directory must never be imported.
_PYTHON: Final = '''"""Holdfast's MCP server for this home; made by `holdfast connect`."""

import os
import sys

os.environ["HOLDFAST_HOME"] = @home@
if not os.environ.get("HOLDFAST_STORE"):
    try:
        with open(@store@, encoding="utf-8") as file:
            os.environ["HOLDFAST_STORE"] = file.read(4096)
    except OSError:
        pass  # the home's own

try:
    from holdfast.cli.entry import main
except ImportError:
    sys.path += @paths@
    from holdfast.cli.entry import main

sys.exit(main(["mcp"]))
'''


def serving_script(made: ScriptSetup) -> str:
    """The script that agents start on POSIX systems."""
    words = {
        "python": quote(made.python),
        "package": quote(made.package),
        "serving": quote(f"{made.home}/{DIRECTORY}/{PYTHON}"),
    }
    return re.sub("@([a-z]+)@", lambda match: words[match[1]], _SCRIPT)


def serving_python(made: ScriptSetup, store: str) -> str:
    """The Python script next to it, in ASCII; `store` is the file that names the store."""
    words = {"home": ascii(made.home), "store": ascii(store), "paths": ascii(list(made.paths))}
    return re.sub("@([a-z]+)@", lambda match: words[match[1]], _PYTHON)
