"""F8 for hooks: clocks that go back, jump ahead or stop between payloads. Nothing is refused or negative."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from holdfast import Keeper
from holdfast.machine.wall import Wall
from holdfast.workspace import spool
from tests.faults.connected_agent import Hooked, command_payload, prompt_payload
from tests.faults.harness.figures import record_figures
from tests.faults.sandbox import assert_times_add_up
from tests.support.scale import scale

NOW = 1_794_000_000_000
HOUR = 3_600_000
YEAR = 365 * 24 * HOUR
STEPS = (0, 1, -1, 1_000, -1_000, HOUR, -HOUR, 24 * HOUR, -24 * HOUR, YEAR, -10 * YEAR, 100 * YEAR, -NOW)


class Clocked(Hooked):
    """Payloads with any time of arrival, drained at any other time."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.count = 0

    def add(self, payload: bytes, at: int, *, own: int | None = None) -> Path:
        self.count += 1
        path = Path(spool.add_payload(str(self.home), "claude", "user", 1, payload))
        target = path.with_name(f"claude.user.1.{2**30 + self.count if own is None else own}")
        path.rename(target)
        os.utime(target, ns=(at * 1_000_000, at * 1_000_000))
        return target

    def at(self, now: int) -> Keeper:
        wall = Wall(lambda: now * 1_000_000)
        return Keeper.open(str(self.project), home=str(self.home), actor="anna", wall=wall)


@pytest.mark.parametrize("step", STEPS)
def test_payloads_are_recorded_when_the_clock_changes_between_hooks(tmp_path: Path, step: int) -> None:
    """Drained together or one by one: both are recorded, and times add up."""
    for together in (True, False):
        root = tmp_path / str(together)
        root.mkdir()
        clocked = Clocked(root)
        clocked.add(prompt_payload(cwd=clocked.project), NOW)
        clocked.add(command_payload("talk-1/0", cwd=clocked.project), NOW + 1_000)
        if not together:
            with clocked.at(NOW + 2_000) as keeper:
                keeper.collect()
        after = max(0, NOW + 2_000 + step)
        clocked.add(command_payload("talk-1/1", cwd=clocked.project), after)
        with clocked.at(after) as keeper:
            keeper.collect()
            (row,) = keeper.history(all_projects=True)
            assert_times_add_up(keeper.session(row.id).document())
        assert sorted(clocked.commands()["talk-1"]) == ["0", "1"]
        clocked.assert_drained()


def test_payload_files_with_wrong_times_are_recorded(tmp_path: Path) -> None:
    """Each is recorded now, at a time that is not in the future."""
    clocked = Clocked(tmp_path)
    rng = random.Random(8)
    count = scale(60, 500, 5_000)
    for number in range(count):
        clocked.add(command_payload(f"talk-{number % 3}/{number}", conversation=f"talk-{number % 3}",
                                    cwd=clocked.project),
                      max(0, NOW + rng.choice(STEPS) + rng.choice(STEPS)))  # fmt: skip
    for number in range(10):
        with clocked.at(max(1, NOW + rng.choice(STEPS))) as keeper:
            keeper.collect()
            for row in keeper.history(all_projects=True):
                assert_times_add_up(keeper.session(row.id).document())
            assert keeper.session().note(f"{number}") is not None
    with clocked.at(NOW) as keeper:
        keeper.collect()
    commands = clocked.commands()
    assert sorted(int(number) for numbers in commands.values() for number in numbers) == list(range(count))
    clocked.assert_drained()
    record_figures(fault="F8", hooks=count)


@pytest.mark.parametrize("step", [0, 1_000, -1_000, 100 * YEAR, -10 * YEAR])
def test_partial_payload_is_waited_for_only_some_seconds(tmp_path: Path, step: int) -> None:
    """A wrong clock does not make them years."""
    clocked = Clocked(tmp_path)
    # Of a process that is alive: this one.
    half = clocked.add(b'{"session_id":', NOW + step, own=os.getpid())
    clocked.add(command_payload("talk-1/0", cwd=clocked.project), NOW + step + 1)
    with clocked.at(NOW) as keeper:
        keeper.collect()
    assert half.exists() is (abs(step) < 10_000)
    with clocked.at(NOW + 60_000) as keeper:
        keeper.collect()
    assert not half.exists()
    assert clocked.commands() == {"talk-1": ["0"]}
    assert len(spool.list_unread(str(clocked.home))) == 1


def test_hook_ignores_a_future_time_of_the_spool(tmp_path: Path) -> None:
    hooked = Hooked(tmp_path)
    future = time.time() + 100 * 365 * 24 * 3600
    os.utime(hooked.home / "spool", (future, future))
    for way in ("tell", "python", "stir", "ask"):
        assert hooked.run_hook(command_payload(f"talk-1/{way}", cwd=hooked.project), way) == (0, b"", b"")
    assert sorted(hooked.commands()["talk-1"]) == ["ask", "python", "stir", "tell"]
