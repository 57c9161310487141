"""F7 for hooks: many agents send payloads concurrently while several processes drain them and are killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.workspace import spool
from tests.faults.connected_agent import HANGING, Hooked, command_payload, require_namespaces
from tests.faults.harness import concurrent_agents
from tests.faults.harness.concurrent_agents import (
    AGENTS,
    DRAINERS,
    differences,
    expected_commands,
    run_agents_and_drains,
)
from tests.faults.harness.figures import record_figures
from tests.support import processes
from tests.support.scale import scale


def test_concurrent_payloads_survive_killed_drains(tmp_path: Path) -> None:
    """Every payload is recorded once, in the order of its conversation."""
    count = scale(25, 250, 2_500)
    for seed in range(scale(1, 6, 20)):
        root = tmp_path / str(seed)
        root.mkdir()
        hooked = Hooked(root)
        # Without a session, and with one that a user started.
        if seed % 2:
            assert hooked.call("start", "Build the shop").code == 0
        kills = run_agents_and_drains(hooked, seed, count)
        # A hook that has returned has handed over its payload: nothing may be missing or doubled.
        assert differences(expected_commands(count), hooked.commands()) == [], f"seed {seed}"
        hooked.assert_drained()
        assert hooked.call("note", "that was all").code == 0  # a writing command removes files of killed processes
        assert {path.name for path in hooked.home.iterdir()} <= {
            "store.db", "store.db-wal", "store.db-shm", "writer.json", "spool", "hooks", "opened",
        }, "a file is left, or an error was logged"  # fmt: skip
        record_figures(fault="F7", hooks=AGENTS * count, drainers=DRAINERS, kills=kills)


FEW_PIDS = 400  # process ids; the lowest three hundred are assigned only once


def test_payload_names_do_not_collide_when_process_ids_are_reused(tmp_path: Path) -> None:
    """A new payload may get the name of one that is being drained, or was a moment ago."""
    require_pid_namespace()
    count = scale(20, 250, 1_000)
    for seed in range(scale(1, 10, 40)):
        root = tmp_path / str(seed)
        root.mkdir()
        hooked = Hooked(root)
        scene = [sys.executable, concurrent_agents.__file__, str(root), str(seed), str(count)]
        done = _in_pid_namespace(f'echo {FEW_PIDS} >/proc/sys/kernel/pid_max && exec "$@"', scene, count)
        assert done.returncode == 0, done.stderr.decode()
        recorded = hooked.commands()
        # With so few process ids, the order within one moment is not known.
        assert (
            differences(
                expected_commands(count),
                {conversation: sorted(recorded[conversation], key=int) for conversation in recorded},
            )
            == []
        ), f"seed {seed}"
        hooked.assert_drained()


def test_payload_order_is_kept_when_process_ids_wrap_around(tmp_path: Path) -> None:
    """The highest process id is followed by the lowest."""
    require_pid_namespace()
    count = 16
    for number in range(scale(3, 30, 300)):
        root = tmp_path / str(number)
        (root / "said").mkdir(parents=True)
        hooked = Hooked(root)
        for command in range(count):
            (root / "said" / str(command)).write_bytes(
                command_payload(f"talk-0/{command}", conversation="talk-0", cwd=hooked.project)
            )
        script = (
            f"last=$(cat /proc/sys/kernel/pid_max); echo $((last - {count})) >/proc/sys/kernel/ns_last_pid || exit\n"
            f'number=0; while [ $number -lt {count} ]; do "$1" claude tell user <"$2/$number"\n'
            "number=$((number + 1)); done"
        )
        done = _in_pid_namespace(script, [hooked.hook, str(root / "said")], count)
        assert (done.returncode, done.stderr) == (0, b"")
        pids = [entry.own for entry in spool.list_entries(str(hooked.home))]
        assert min(pids) < max(pids) // 2, "the process ids did not wrap around"
        assert differences({"talk-0": [str(command) for command in range(count)]}, hooked.commands()) == []
        hooked.assert_drained()


def require_pid_namespace() -> None:
    """Skip where a process cannot have a PID namespace with a limit of its own."""
    require_namespaces()
    tried = _in_pid_namespace(
        f"echo {FEW_PIDS} >/proc/sys/kernel/pid_max && echo {FEW_PIDS - 1} >/proc/sys/kernel/ns_last_pid", [], 0
    )
    if tried.returncode:
        pytest.skip(f"this system does not let process numbers be chosen: {tried.stderr.decode().strip()}")


def _in_pid_namespace(script: str, words: list[str], hooks: int) -> subprocess.CompletedProcess[bytes]:
    namespace = ["unshare", "-Urpf", "--mount-proc", "--kill-child"]
    return subprocess.run(
        [*namespace, "sh", "-c", script, "sh", *words], check=False, capture_output=True,
        timeout=HANGING * (2 + hooks / 10), env=processes.environ_with_tests(),
    )  # fmt: skip


def test_payload_sent_through_two_configurations_is_recorded_once(tmp_path: Path) -> None:
    """Also when two processes drain it at the same time."""
    hooked = Hooked(tmp_path)
    count = scale(6, 40, 400)
    for number in range(count):
        payload = command_payload(f"talk-1/{number}", cwd=hooked.project)
        hooks = [
            subprocess.Popen(
                [hooked.hook, "claude", "stir", source], stdin=subprocess.PIPE, cwd=hooked.project, env=hooked.environ
            )
            for source in ("user", "project")
        ]
        for popen in hooks:
            popen.communicate(payload, timeout=HANGING)
            assert popen.returncode == 0
    assert hooked.commands() == {"talk-1": [str(number) for number in range(count)]}
    assert spool.list_entries(str(hooked.home)) == []
    hooked.assert_drained()
