"""F1 for what travels: `kill -9` at random moments of commands that are started as people start them."""

from __future__ import annotations

import json
import random
import subprocess
import time

import pytest

from tests.faults.harness.figures import tell
from tests.faults.harness.travel import Travel, converge, kept
from tests.support.scale import scale

RANDOM = scale(2, 100, 1_000)


@pytest.mark.parametrize("kind", ["folder", "git"])
def test_killed_at_random_while_it_travels(kind: str) -> None:
    """Killed at any moment of its life, again and again, no sync and no `resume` loses what anybody recorded."""
    chance = random.Random(5)
    with Travel() as room:
        if kind == "git":
            room.url = f"git:{room.remote}"
            subprocess.run(["git", "init", "-q", "--bare", room.remote], check=True, env=room.environ)
            room.kept = room.take()
        room.reach("joined")
        before, said, killed = room.logs(), [], 0
        begin = time.monotonic()
        room.cold(("sync",)).communicate()
        usual = time.monotonic() - begin
        for number in range(RANDOM):
            device, argv = chance.choice("ab"), ("resume", "@") if number % 3 == 2 else ("sync",)
            said.append(room.note(device))
            process = room.cold(argv, device)
            try:
                process.wait(chance.uniform(0.2, 1) * usual)
            except subprocess.TimeoutExpired:
                process.kill()
            process.communicate()
            killed += process.returncode == -9
            assert process.returncode in (-9, 0), f"{argv} ended with {process.returncode}"
        room.sync("abab")
        converge(room, "ab")
        kept(before, room.logs())
        everything = json.dumps([room.done("a", "show", session) for session in room.log("b")])
        assert [name for name in said if everything.count(json.dumps(name)) != 1] == []
    tell(fault="F1", how=f"travelling, {kind}", kills=killed)
