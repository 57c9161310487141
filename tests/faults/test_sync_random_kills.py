"""F1 for sync: `kill -9` at random moments of commands that are started as users start them."""

from __future__ import annotations

import json
import random
import subprocess
import time

import pytest

from tests.faults.harness.figures import record_figures
from tests.faults.harness.sync_sandbox import SyncSandbox, assert_kept, converge
from tests.support.scale import scale

RANDOM = scale(2, 100, 1_000)


@pytest.mark.parametrize("kind", ["folder", "git"])
def test_sync_and_resume_lose_nothing_when_killed_at_random(kind: str) -> None:
    """Again and again, at any moment of their lives."""
    rng = random.Random(5)
    with SyncSandbox() as sandbox:
        if kind == "git":
            sandbox.url = f"git:{sandbox.remote}"
            subprocess.run(["git", "init", "-q", "--bare", sandbox.remote], check=True, env=sandbox.environ)
            sandbox.initial = sandbox.take()
        sandbox.restore_stage("joined")
        before, notes, killed = sandbox.logs(), [], 0
        begin = time.monotonic()
        sandbox.start_process(("sync",)).communicate()
        usual = time.monotonic() - begin
        for number in range(RANDOM):
            device, argv = rng.choice("ab"), ("resume", "@") if number % 3 == 2 else ("sync",)
            notes.append(sandbox.note(device))
            process = sandbox.start_process(argv, device)
            try:
                process.wait(rng.uniform(0.2, 1) * usual)
            except subprocess.TimeoutExpired:
                process.kill()
            process.communicate()
            killed += process.returncode == -9
            assert process.returncode in (-9, 0), f"{argv} ended with {process.returncode}"
        sandbox.sync("abab")
        converge(sandbox, "ab")
        assert_kept(before, sandbox.logs())
        everything = json.dumps([sandbox.run_json("a", "show", session) for session in sandbox.log("b")])
        assert [name for name in notes if everything.count(json.dumps(name)) != 1] == []
    record_figures(fault="F1", how=f"travelling, {kind}", kills=killed)
