"""An agent connected to Holdfast, whose hooks are called as it would call them: by the installed script, or by
`holdfast hook`. Each command it runs is one countable event, and each conversation has its order.
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
from tests.faults.sandbox import Sandbox

if sys.platform == "win32":
    pytest.skip("the hook script and its faults are for POSIX systems", allow_module_level=True)

Way = Literal["tell", "stir", "ask", "python"]
WAYS: Final[tuple[Way, ...]] = ("tell", "stir", "ask", "python")
# A hook delays its agent by about a second at most. A busy machine takes longer; a hang never ends.
HANGING: Final = 60.0
HookResult = tuple[int, bytes, bytes]
SILENT: Final[HookResult] = (0, b"", b"")


def command_payload(number: int | str, *, conversation: str = "talk-1", cwd: Path | str, **more: Any) -> bytes:
    """A payload of Claude Code that reports a command."""
    payload = {
        "session_id": conversation, "cwd": str(cwd), "hook_event_name": "PostToolUse", "tool_name": "Bash",
        "tool_input": {"command": f"make {number}"}, "tool_response": {"stdout": "", "stderr": ""},
        "tool_use_id": f"{conversation}-{number}", **more,
    }  # fmt: skip
    return json.dumps(payload).encode()


def prompt_payload(text: str = "Add login", *, conversation: str = "talk-1", cwd: Path | str, **more: Any) -> bytes:
    """A payload that waits for an answer."""
    payload = {
        "session_id": conversation,
        "cwd": str(cwd),
        "hook_event_name": "UserPromptSubmit",
        "prompt": text,
        **more,
    }
    return json.dumps(payload).encode()


def install(home: str) -> str:
    """What `connect` puts into the home; returns the path of the script."""
    Path(home).mkdir(mode=0o700, parents=True, exist_ok=True)
    hook_install.install(home, system=sys.platform)
    return os.path.join(home, "hooks", "hook")


class Hooked(Sandbox):
    """A sandbox with the hook script in its home."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.hook = install(str(self.home))

    def hook_command(self, way: Way, agent: str = "claude") -> list[str]:
        if way == "python":
            return [sys.executable, "-m", "holdfast", "hook", agent]
        return [self.hook, agent, way, "user"]

    def run_hook(
        self, payload: bytes, way: Way = "tell", *, agent: str = "claude", before: Sequence[str] = ()
    ) -> HookResult:
        """Call a hook, and fail if it hangs."""
        done = subprocess.run(
            [*before, *self.hook_command(way, agent)], input=payload, env=self.environ, cwd=self.project,
            capture_output=True, check=False, timeout=HANGING,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    def drain(self) -> None:
        """Record waiting payloads by a command that does something else."""
        with self.keeper() as keeper:
            keeper.collect()

    def commands(self) -> dict[str, list[str]]:
        """The recorded commands of each conversation, in order, after a drain."""
        return commands(self)

    def logged_errors(self) -> list[str]:
        return [str(line["message"]) for line in error_log.lines(str(self.home))]

    def assert_drained(self) -> None:
        """Nothing is waiting or unreadable, and the store is sound."""
        assert spool.list_entries(str(self.home)) == []
        assert spool.list_unread(str(self.home)) == []
        self.assert_sound()


def commands(sandbox: Sandbox) -> dict[str, list[str]]:
    by_conversation: dict[str, list[str]] = {}
    with sandbox.keeper() as keeper:
        for _ in range(100):  # each call drains a limited number
            keeper.collect()
            if not spool.has_entries(str(sandbox.home)):
                break
        store = keeper.store()
        for session in store.sessions():
            for event in store.events(session):
                if event.type == "command.ran":
                    command = json.loads(event.data or b"{}")["command"]
                    conversation, _, number = command.removeprefix("make ").partition("/")
                    by_conversation.setdefault(conversation, []).append(number)
    return by_conversation


def require_namespaces() -> None:
    if sys.platform != "linux" or shutil.which("unshare") is None:
        pytest.skip("small file systems are mounted with Linux's unshare, which is not here")
    if subprocess.run(["unshare", "-Urm", "true"], check=False, capture_output=True).returncode:
        pytest.skip("this system does not permit user namespaces: no small file system can be mounted")
