"""F7 for hooks: many agents speak at once while several processes take in what they said, and are killed at it."""

from __future__ import annotations

import random
import subprocess
import sys
import textwrap
import time
from pathlib import Path

from harness.figures import tell
from hooked import Hooked, ran
from program import kill
from scale import scale

from holdfast.capture import spool

AGENTS = 8
DRAINERS = 3
# Each agent waits for its hook before it goes on, as real ones do.
SPEAKER = textwrap.dedent("""
    import json, os, subprocess, sys
    hook, payload, talk, count = *sys.argv[1:4], int(sys.argv[4])
    said = json.loads(payload)
    for number in range(count):
        said["session_id"], said["tool_use_id"] = talk, f"{talk}-{number}"
        said["tool_input"] = {"command": f"make {talk}/{number}"}
        done = subprocess.run([hook, "claude", "tell", "user"], input=json.dumps(said).encode(), capture_output=True)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b""), done
""")
DRAINER = textwrap.dedent("""
    import sys
    from holdfast.cli import hooking
    while True:
        hooking.main(["drain"], sys.argv[1])
""")


def _start(hooked: Hooked, code: str, *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *words], cwd=hooked.project, env=hooked.environ, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip


def test_agents_at_once_and_drains_that_are_killed(tmp_path: Path) -> None:
    """Everything that was said is there: once, and in the order of its conversation."""
    count = scale(25, 250, 2_500)
    for seed in range(scale(1, 6, 20)):
        root = tmp_path / str(seed)
        root.mkdir()
        hooked = Hooked(root)
        # From the first moment on, and also when the session is a person's.
        if seed % 2:
            assert hooked.call("start", "Build the shop").code == 0
        given = ran(0, cwd=hooked.project).decode()
        talks = [f"talk-{number}" for number in range(AGENTS)]
        speaking = [_start(hooked, SPEAKER, hooked.hook, given, talk, str(count)) for talk in talks]
        draining = [_start(hooked, DRAINER, str(hooked.home)) for _ in range(DRAINERS)]
        chance = random.Random(seed)
        kills = 0
        try:
            while any(one.poll() is None for one in speaking):
                time.sleep(chance.uniform(0.02, 0.2))
                victim = chance.randrange(DRAINERS)
                _end(draining[victim])
                kills += 1
                draining[victim] = _start(hooked, DRAINER, str(hooked.home))
            for one in speaking:
                assert one.communicate()[1] == b""
                assert one.returncode == 0
        finally:
            for one in draining:
                _end(one)
            for one in speaking:
                _end(one)
        # A hook that was waited for has handed over: nothing else may be missing or too much.
        assert hooked.commands() == {talk: [str(number) for number in range(count)] for talk in talks}
        hooked.settled()
        assert {path.name for path in hooked.home.iterdir()} <= {
            "store.db", "store.db-wal", "store.db-shm", "writer.json", "spool", "hooks", "opened",
        }, "something is left, or was noted"  # fmt: skip
        tell(fault="F7", hooks=AGENTS * count, drainers=DRAINERS, kills=kills)


def _end(process: subprocess.Popen[bytes]) -> None:
    kill(process)
    if process.stderr is not None:
        process.stderr.close()


def test_the_same_words_again_are_one_event_only_when_they_were_heard_twice(tmp_path: Path) -> None:
    """One event heard through two configurations at once is one; and processes that take it in together agree."""
    hooked = Hooked(tmp_path)
    count = scale(6, 40, 400)
    for number in range(count):
        given = ran(f"talk-1/{number}", cwd=hooked.project)
        both = [
            subprocess.Popen(
                [hooked.hook, "claude", "stir", source], stdin=subprocess.PIPE, cwd=hooked.project, env=hooked.environ
            )
            for source in ("user", "project")
        ]
        for one in both:
            one.communicate(given)
            assert one.returncode == 0
    assert hooked.commands() == {"talk-1": [str(number) for number in range(count)]}
    assert spool.waiting(str(hooked.home)) == []
    hooked.settled()
