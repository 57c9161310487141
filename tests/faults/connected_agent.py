"""An agent connected to Holdfast, whose hooks are called as it would call them: by the installed script, or by
`holdfast hook`. What it says is countable: each command it ran is one event, and each conversation has its order.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal

import pytest

from holdfast.conversations.hooks import install as hook_install
from holdfast.machine import error_log
from holdfast.workspace import spool
from tests.faults.program import Desk

if sys.platform == "win32":
    pytest.skip("the hook script and its faults are for POSIX systems", allow_module_level=True)

Way = Literal["tell", "stir", "ask", "python"]
WAYS: Final[tuple[Way, ...]] = ("tell", "stir", "ask", "python")
# An agent is held up for about a second at most. A busy machine takes longer; what hangs takes for ever.
HANGING: Final = 60.0
Said = tuple[int, bytes, bytes]
SILENT: Final[Said] = (0, b"", b"")


def ran(number: int | str, *, talk: str = "talk-1", cwd: Path | str, **more: Any) -> bytes:
    """A payload of Claude Code that says: this command was run."""
    said = {
        "session_id": talk, "cwd": str(cwd), "hook_event_name": "PostToolUse", "tool_name": "Bash",
        "tool_input": {"command": f"make {number}"}, "tool_response": {"stdout": "", "stderr": ""},
        "tool_use_id": f"{talk}-{number}", **more,
    }  # fmt: skip
    return json.dumps(said).encode()


def asked(text: str = "Add login", *, talk: str = "talk-1", cwd: Path | str, **more: Any) -> bytes:
    """A prompt: a payload that waits for an answer."""
    said = {"session_id": talk, "cwd": str(cwd), "hook_event_name": "UserPromptSubmit", "prompt": text, **more}
    return json.dumps(said).encode()


def install(home: str) -> str:
    """What `connect` puts into the home; gives the path of the script."""
    Path(home).mkdir(mode=0o700, parents=True, exist_ok=True)
    hook_install.install(home, system=sys.platform)
    return os.path.join(home, "hooks", "hook")


class Hooked(Desk):
    """A desk with the hook script in its home."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.hook = install(str(self.home))

    def words(self, way: Way, agent: str = "claude") -> list[str]:
        if way == "python":
            return [sys.executable, "-m", "holdfast", "hook", agent]
        return [self.hook, agent, way, "user"]

    def say(self, payload: bytes, way: Way = "tell", *, agent: str = "claude", before: Sequence[str] = ()) -> Said:
        """Call a hook; whatever comes of it, it comes soon."""
        done = subprocess.run(
            [*before, *self.words(way, agent)], input=payload, env=self.environ, cwd=self.project,
            capture_output=True, check=False, timeout=HANGING,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    def take_in(self) -> None:
        """What waits becomes events, by a command that came for something else."""
        with self.keeper() as keeper:
            keeper.collect()

    def commands(self) -> dict[str, list[str]]:
        """What was heard of each conversation, in order, after taking in what waits."""
        return commands(self)

    def noted(self) -> list[str]:
        return [str(line["message"]) for line in error_log.lines(str(self.home))]

    def settled(self) -> None:
        """Nothing waits any more, nothing was put aside, and the store is sound."""
        assert spool.list_entries(str(self.home)) == []
        assert spool.list_unread(str(self.home)) == []
        self.sound()


def commands(desk: Desk) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    with desk.keeper() as keeper:
        for _ in range(100):  # so many at a time
            keeper.collect()
            if not spool.has_entries(str(desk.home)):
                break
        store = keeper.store()
        for session in store.sessions():
            for event in store.events(session):
                if event.type == "command.ran":
                    command = json.loads(event.data or b"{}")["command"]
                    talk, _, number = command.removeprefix("make ").partition("/")
                    found.setdefault(talk, []).append(number)
    return found


def need_namespaces() -> None:
    if sys.platform != "linux" or shutil.which("unshare") is None:
        pytest.skip("small file systems are mounted with Linux's unshare, which is not here")
    if subprocess.run(["unshare", "-Urm", "true"], check=False, capture_output=True).returncode:
        pytest.skip("this system does not permit user namespaces: no small file system can be mounted")
