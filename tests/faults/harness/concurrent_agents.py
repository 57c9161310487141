"""Agents that send payloads concurrently while drains record them and are killed: the run, and its comparison.

As a script, it does the same in a PID namespace: `concurrent_agents.py ROOT SEED COUNT`.
"""

from __future__ import annotations

import random
import subprocess
import sys
import textwrap
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

from tests.faults.connected_agent import HANGING, Hooked, command_payload
from tests.faults.sandbox import kill

AGENTS: Final = 8
DRAINERS: Final = 3
# Like real agents, each waits for its hook before it continues.
AGENT_CODE: Final = textwrap.dedent("""
    import json, os, subprocess, sys
    hook, payload, conversation, count = *sys.argv[1:4], int(sys.argv[4])
    body = json.loads(payload)
    for number in range(count):
        body["session_id"], body["tool_use_id"] = conversation, f"{conversation}-{number}"
        body["tool_input"] = {"command": f"make {conversation}/{number}"}
        done = subprocess.run([hook, "claude", "tell", "user"], input=json.dumps(body).encode(), capture_output=True)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b""), done
""")
DRAIN_CODE: Final = textwrap.dedent("""
    import sys
    from holdfast.cli import hooking
    while True:
        hooking.drain(sys.argv[1])
""")


def run_agents_and_drains(hooked: Hooked, seed: int, count: int) -> int:
    """Each agent sends `count` commands in a conversation of its own; returns how many drains were killed."""
    payload = command_payload(0, cwd=hooked.project).decode()
    agents = [
        _start(hooked, AGENT_CODE, hooked.hook, payload, f"talk-{number}", str(count)) for number in range(AGENTS)
    ]
    drains = [_start(hooked, DRAIN_CODE, str(hooked.home)) for _ in range(DRAINERS)]
    rng = random.Random(seed)
    # Hooks that take longer than this are stuck, however busy the machine is.
    until = time.monotonic() + HANGING * (1 + count / 10)
    kills = 0
    try:
        while any(popen.poll() is None for popen in agents):
            assert time.monotonic() < until, "the agents have not finished"
            time.sleep(rng.uniform(0.02, 0.2))
            victim = rng.randrange(DRAINERS)
            _end(drains[victim])
            kills += 1
            drains[victim] = _start(hooked, DRAIN_CODE, str(hooked.home))
        for popen in agents:
            assert popen.communicate(timeout=HANGING)[1] == b""
            assert popen.returncode == 0
    finally:
        for popen in (*drains, *agents):
            _end(popen)
    return kills


def expected_commands(count: int) -> dict[str, list[str]]:
    """The commands that the agents sent, by conversation."""
    return {f"talk-{number}": [str(command) for command in range(count)] for number in range(AGENTS)}


def differences(expected: Mapping[str, Sequence[str]], recorded: Mapping[str, Sequence[str]]) -> list[str]:
    """What was lost, recorded twice, or recorded in another order than it was sent."""
    result: list[str] = []
    for conversation in sorted(expected.keys() | recorded.keys()):
        actual, wanted = list(recorded.get(conversation, ())), list(expected.get(conversation, ()))
        lost = [command for command in wanted if command not in actual]
        more = [command for place, command in enumerate(actual) if command in actual[:place] or command not in wanted]
        places = [wanted.index(command) for command in actual if command in wanted]
        swapped = [
            f"{wanted[later]} before {wanted[earlier]}" for later, earlier in pairwise(places) if later > earlier
        ]
        result += [
            f"{conversation}: {what} {', '.join(which)}"
            for what, which in (("lost", lost), ("doubled or never sent", more), ("out of order", swapped))
            if which
        ]
    return result


def _start(hooked: Hooked, code: str, *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *words], cwd=hooked.project, env=hooked.environ, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip


def _end(process: subprocess.Popen[bytes]) -> None:
    kill(process)
    if process.stderr is not None:
        process.stderr.close()


if __name__ == "__main__":
    print(run_agents_and_drains(Hooked(Path(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3])))
