"""F7 for hooks: many agents speak at once while several processes take in what they said, and are killed at it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.workspace import spool
from tests.faults.connected_agent import HANGING, Hooked, need_namespaces, ran
from tests.faults.harness import agents_at_once
from tests.faults.harness.agents_at_once import AGENTS, DRAINERS, differences, said, speak_and_drain
from tests.faults.harness.figures import tell
from tests.support import processes
from tests.support.scale import scale


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
        kills = speak_and_drain(hooked, seed, count)
        # A hook that was waited for has handed over: nothing else may be missing or too much.
        assert differences(said(count), hooked.commands()) == [], f"seed {seed}"
        hooked.settled()
        assert hooked.call("note", "that was all").code == 0  # whoever writes removes what killed processes left
        assert {path.name for path in hooked.home.iterdir()} <= {
            "store.db", "store.db-wal", "store.db-shm", "writer.json", "spool", "hooks", "opened",
        }, "something is left, or was noted"  # fmt: skip
        tell(fault="F7", hooks=AGENTS * count, drainers=DRAINERS, kills=kills)


FEW = 400  # numbers of processes; the lowest three hundred are given out only once


def test_agents_at_once_where_process_numbers_are_soon_given_out_again(tmp_path: Path) -> None:
    """A payload has the name of one that is being taken in, or was a moment ago: neither is taken for the other."""
    need_process_numbers()
    count = scale(20, 250, 1_000)
    for seed in range(scale(1, 10, 40)):
        root = tmp_path / str(seed)
        root.mkdir()
        hooked = Hooked(root)
        scene = [sys.executable, agents_at_once.__file__, str(root), str(seed), str(count)]
        done = _with_own_numbers(f'echo {FEW} >/proc/sys/kernel/pid_max && exec "$@"', scene, count)
        assert done.returncode == 0, done.stderr.decode()
        heard = hooked.commands()
        # Numbers so close together say nothing of who was first within one moment.
        assert differences(said(count), {talk: sorted(heard[talk], key=int) for talk in heard}) == [], f"seed {seed}"
        hooked.settled()


def test_an_agent_speaks_while_process_numbers_begin_again(tmp_path: Path) -> None:
    """The last number a system has is followed by the first: what was said next comes next."""
    need_process_numbers()
    count = 16
    for number in range(scale(3, 30, 300)):
        root = tmp_path / str(number)
        (root / "said").mkdir(parents=True)
        hooked = Hooked(root)
        for command in range(count):
            (root / "said" / str(command)).write_bytes(ran(f"talk-0/{command}", talk="talk-0", cwd=hooked.project))
        speak = (
            f"last=$(cat /proc/sys/kernel/pid_max); echo $((last - {count})) >/proc/sys/kernel/ns_last_pid || exit\n"
            f'number=0; while [ $number -lt {count} ]; do "$1" claude tell user <"$2/$number"\n'
            "number=$((number + 1)); done"
        )
        done = _with_own_numbers(speak, [hooked.hook, str(root / "said")], count)
        assert (done.returncode, done.stderr) == (0, b"")
        owns = [entry.own for entry in spool.list_entries(str(hooked.home))]
        assert min(owns) < max(owns) // 2, "the numbers did not begin again"
        assert differences({"talk-0": [str(command) for command in range(count)]}, hooked.commands()) == []
        hooked.settled()


def need_process_numbers() -> None:
    """Skips where a process cannot have a set of process numbers of its own, with an end of its own."""
    need_namespaces()
    tried = _with_own_numbers(
        f"echo {FEW} >/proc/sys/kernel/pid_max && echo {FEW - 1} >/proc/sys/kernel/ns_last_pid", [], 0
    )
    if tried.returncode:
        pytest.skip(f"this system does not let process numbers be chosen: {tried.stderr.decode().strip()}")


def _with_own_numbers(script: str, words: list[str], hooks: int) -> subprocess.CompletedProcess[bytes]:
    namespace = ["unshare", "-Urpf", "--mount-proc", "--kill-child"]
    return subprocess.run(
        [*namespace, "sh", "-c", script, "sh", *words], check=False, capture_output=True,
        timeout=HANGING * (2 + hooks / 10), env=processes.environ_with_tests(),
    )  # fmt: skip


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
        for popen in both:
            popen.communicate(given, timeout=HANGING)
            assert popen.returncode == 0
    assert hooked.commands() == {"talk-1": [str(number) for number in range(count)]}
    assert spool.list_entries(str(hooked.home)) == []
    hooked.settled()
