"""Agents that speak at once while drains take in what they said and are killed: the scene, and what it came to.

Run as a program, it is the same in a set of process numbers of its own: `agents_at_once.py ROOT SEED COUNT`.
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

from tests.faults.connected_agent import HANGING, Hooked, ran
from tests.faults.program import kill

AGENTS: Final = 8
DRAINERS: Final = 3
# Each agent waits for its hook before it goes on, as real ones do.
SPEAKER: Final = textwrap.dedent("""
    import json, os, subprocess, sys
    hook, payload, talk, count = *sys.argv[1:4], int(sys.argv[4])
    said = json.loads(payload)
    for number in range(count):
        said["session_id"], said["tool_use_id"] = talk, f"{talk}-{number}"
        said["tool_input"] = {"command": f"make {talk}/{number}"}
        done = subprocess.run([hook, "claude", "tell", "user"], input=json.dumps(said).encode(), capture_output=True)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b""), done
""")
DRAINER: Final = textwrap.dedent("""
    import sys
    from holdfast.cli import hooking
    while True:
        hooking.drain(sys.argv[1])
""")


def speak_and_drain(hooked: Hooked, seed: int, count: int) -> int:
    """Each agent says `count` commands in a conversation of its own; gives how many drains were killed meanwhile."""
    given = ran(0, cwd=hooked.project).decode()
    speaking = [_start(hooked, SPEAKER, hooked.hook, given, f"talk-{number}", str(count)) for number in range(AGENTS)]
    draining = [_start(hooked, DRAINER, str(hooked.home)) for _ in range(DRAINERS)]
    chance = random.Random(seed)
    # Hooks that come one after another for so long are stuck, however busy the machine.
    until = time.monotonic() + HANGING * (1 + count / 10)
    kills = 0
    try:
        while any(popen.poll() is None for popen in speaking):
            assert time.monotonic() < until, "the agents have not come to their end"
            time.sleep(chance.uniform(0.02, 0.2))
            victim = chance.randrange(DRAINERS)
            _end(draining[victim])
            kills += 1
            draining[victim] = _start(hooked, DRAINER, str(hooked.home))
        for popen in speaking:
            assert popen.communicate(timeout=HANGING)[1] == b""
            assert popen.returncode == 0
    finally:
        for popen in (*draining, *speaking):
            _end(popen)
    return kills


def said(count: int) -> dict[str, list[str]]:
    """What the agents said, by conversation."""
    return {f"talk-{number}": [str(command) for command in range(count)] for number in range(AGENTS)}


def differences(said: Mapping[str, Sequence[str]], recorded: Mapping[str, Sequence[str]]) -> list[str]:
    """What was lost, recorded twice, or recorded in another order than it was said: nothing, if all went well."""
    found: list[str] = []
    for talk in sorted(said.keys() | recorded.keys()):
        there, meant = list(recorded.get(talk, ())), list(said.get(talk, ()))
        lost = [command for command in meant if command not in there]
        more = [command for place, command in enumerate(there) if command in there[:place] or command not in meant]
        places = [meant.index(command) for command in there if command in meant]
        swapped = [
            f"{meant[later]} before {meant[earlier]}" for later, earlier in pairwise(places) if later > earlier
        ]
        found += [
            f"{talk}: {what} {', '.join(which)}"
            for what, which in (("lost", lost), ("doubled or never said", more), ("out of order", swapped))
            if which
        ]
    return found


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
    print(speak_and_drain(Hooked(Path(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3])))
