"""F8: clocks that jump, stop, run backwards or show another century."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable, Iterator
from itertools import count, cycle, pairwise
from pathlib import Path

import pytest

from holdfast import Keeper
from holdfast.core.envelope import make_event
from holdfast.core.errors import HoldfastError
from holdfast.core.times import LATEST
from holdfast.machine.wall import BUILD_DATE, Wall
from tests.faults.sandbox import Sandbox, assert_times_add_up, assert_well_formed
from tests.support.scale import scale

SECOND, HOUR, YEAR = 1_000_000_000, 3_600_000_000_000, 31_557_600_000_000_000
NOW = (BUILD_DATE + 30 * 86_400_000) * 1_000_000
STEPS = [-SECOND, -HOUR, -10 * YEAR, 100 * YEAR, -NOW, SECOND, HOUR, 90 * 60 * SECOND, 0, 19 * YEAR, 1, -1]


def wall(read: Callable[[], int]) -> Wall:
    ticking = count(0, 1_000_000)
    return Wall(read=read, elapsed=lambda: next(ticking))


def stepping(rng: random.Random) -> Callable[[], int]:
    """A clock that jumps every few readings, mid-call as well."""
    now = NOW

    def read() -> int:
        nonlocal now
        now = max(0, now + (rng.choice(STEPS) if rng.random() < 0.3 else rng.randrange(2 * SECOND)))
        if rng.random() < 0.1:
            now = NOW
        return now

    return read


def run_random_verbs(keeper: Keeper, rng: random.Random, verbs: int) -> str:
    """Typical use; nothing may be refused because of the clock."""
    session = keeper.start("G", replace=True)
    for number in range(verbs):
        status = session.document().status
        match rng.randrange(6):
            case 0 if status == "in_progress":
                session.pause()
            case 0 | 1:
                session.resume()
            case 2:
                session.agent(f"a{number}", type="t", pid=None)
            case 3:
                for agent in session.document().agents:
                    if agent.status == "running":
                        session.find_agent(agent.id).done()
            case _:
                session.note(str(number))
        assert_times_add_up(session.document())
    return session.id


def assert_log_consistent(keeper: Keeper, session: str) -> None:
    """Ordered numbers, growing clocks, times that never go back in one stream, and no negative time."""
    events = keeper.events(session)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    clocks = [event.clock for event in events]
    assert all(number < other for number, other in pairwise(clocks))
    moments = [event.at for event in events]
    assert moments == sorted(moments)
    assert_times_add_up(keeper.session(session).document())


@pytest.mark.parametrize(
    "shift", [-SECOND, -HOUR, -10 * YEAR, 100 * YEAR, -NOW, -NOW - SECOND, 0, 19 * YEAR, 2**63 - NOW - 1]
)
def test_recording_continues_under_a_wrong_clock(tmp_path: Path, shift: int) -> None:
    """From the start, and after events of a correct one."""
    sandbox = Sandbox(tmp_path)
    for read in (lambda: NOW, lambda: NOW + shift, lambda: NOW + SECOND):
        with Keeper.open(str(sandbox.project), home=str(sandbox.home), wall=wall(read)) as keeper:
            current = keeper.current()
            if current is not None:
                current.note("still here")
                assert_log_consistent(keeper, current.id)
            assert_log_consistent(keeper, run_random_verbs(keeper, random.Random(shift), 12))
    sandbox.assert_sound()


def test_recording_continues_when_the_clock_jumps(tmp_path: Path) -> None:
    """Random jumps between and within calls, on one store."""
    sandbox = Sandbox(tmp_path)
    for seed in range(scale(25, 500, 5_000)):
        rng = random.Random(seed)
        with Keeper.open(str(sandbox.project), home=str(sandbox.home), wall=wall(stepping(rng))) as keeper:
            assert_log_consistent(keeper, run_random_verbs(keeper, rng, 10))
    sandbox.assert_sound()


def test_clock_at_1970_continues_from_the_last_known_time(tmp_path: Path) -> None:
    """A dead battery: a new session is not dated before what the store knows."""
    sandbox = Sandbox(tmp_path)
    with Keeper.open(str(sandbox.project), home=str(sandbox.home), wall=wall(lambda: NOW)) as keeper:
        first = keeper.start("One").document()
    with Keeper.open(str(sandbox.project), home=str(sandbox.home), wall=wall(lambda: 0)) as keeper:
        second = keeper.start("Two", replace=True).document()
    assert first.created_at <= second.created_at < first.created_at[:10] + "U"


def test_explicit_time_is_checked_against_the_corrected_clock(tmp_path: Path) -> None:
    """`at` far ahead is refused even when the machine's own clock is just as wrong."""
    sandbox = Sandbox(tmp_path)
    with Keeper.open(str(sandbox.project), home=str(sandbox.home), wall=wall(lambda: NOW + 100 * YEAR)) as keeper:
        with pytest.raises(HoldfastError, match="24 hours"):
            keeper.start("G", at=(NOW + 100 * YEAR) // 1_000_000)
        keeper.start("G")


def test_foreign_event_of_9999_does_not_shift_local_times(tmp_path: Path) -> None:
    """Deleting and completing happen at the time that is given."""
    sandbox = Sandbox(tmp_path)
    with Keeper.open(str(sandbox.project), home=str(sandbox.home), wall=wall(lambda: NOW)) as keeper:
        for end in (
            lambda session, at: keeper.delete(session, force=True, at=at),
            lambda session, at: keeper.session(session).complete(at=at),
        ):
            session = keeper.start("G", replace=True).id
            foreign = make_event(
                session=session, writer="f" * 20, seq=1, prev=None, clock=NOW // 1000 + 5, at=LATEST, actor="ben",
                type="note.added", version=1, data=b'{"text":"x"}', salt=bytes(16),
            )  # fmt: skip
            with keeper.transaction() as transaction:
                transaction.receive([foreign])
            end(session, at=NOW // 1_000_000 + 60_000)
            assert [event.at for event in keeper.store().events(session)][-1] == NOW // 1_000_000 + 60_000


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("berlin")
@pytest.mark.parametrize(
    ("noon", "typed_times"),
    [
        # 2027-03-28: at 02:00 it becomes 03:00; 02:30 does not exist and counts as an hour later.
        (1_806_228_000, {"00:00": 23, "01:30": 24.5, "02:30": 25.5, "03:30": 25.5, "11:59": 33 + 59 / 60}),
        # 2027-10-31: at 03:00 it becomes 02:00; 02:30 occurs twice.
        (1_824_980_400, {"00:00": 22, "01:30": 23.5, "03:30": 26.5, "11:59": 34 + 59 / 60}),
    ],
    ids=["spring", "autumn"],
)
def test_local_times_are_resolved_on_days_of_a_dst_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noon: int, typed_times: dict[str, float]
) -> None:
    """`HH:MM` means the wall clock's time, in hours after midnight UTC of the day before."""
    sandbox = Sandbox(tmp_path)
    monkeypatch.setattr("holdfast.workspace.workspace.Wall", lambda: wall(lambda: noon * SECOND))
    midnight = noon // 86_400 * 86_400 - 86_400
    for written, hours in typed_times.items():
        answer = sandbox.call("start", "G", "--replace", "--at", written, "--json", project=make_project(tmp_path))
        created = answer.document["session"]["created_at"]
        from holdfast.core.times import parse_time

        assert parse_time(created) // 1000 == midnight + round(hours * 3600), written


def make_project(root: Path) -> Path:
    path = root / f"p{len(list(root.iterdir()))}"
    path.mkdir()
    return path


def test_leap_second_is_accepted(tmp_path: Path) -> None:
    """`:60` is the last moment of its minute."""
    sandbox = Sandbox(tmp_path)
    answer = sandbox.call("start", "G", "--at", "2016-12-31T23:59:60Z", "--json")
    assert answer.document["session"]["created_at"] == "2016-12-31T23:59:59.000Z"


def test_commands_work_under_wrong_clocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each command under another clock: nothing is refused, nothing is negative."""
    sandbox = Sandbox(tmp_path)
    clocks = cycle([NOW, NOW - HOUR, NOW + 100 * YEAR, 0, NOW - 10 * YEAR, NOW + SECOND])

    def next_clock() -> Wall:
        reading = next(clocks)
        return wall(lambda: reading)

    monkeypatch.setattr("holdfast.workspace.workspace.Wall", next_clock)
    verbs = "start G, note x, pause, status, resume, agent start a --type t, history, agent done a, log, stop"
    for words in verbs.split(", "):
        answer = sandbox.call(*words.split())
        assert_well_formed(answer)
        assert answer.code == 0, answer
        assert "-" not in "".join(part for part in answer.out.split() if part.endswith(("min", "ms")))
    sandbox.assert_sound()


@pytest.mark.skipif(shutil.which("faketime") is None, reason="faketime is not installed")
@pytest.mark.parametrize(
    "when", ["1970-01-01 00:00:01", "2099-01-01", "10 years ago", "2 hours", "2262-04-12", "2298-01-01", "9000-01-01"]
)
def test_processes_work_under_faketime(tmp_path: Path, when: str) -> None:
    import subprocess
    import sys

    sandbox = Sandbox(tmp_path)
    assert sandbox.run("start", "G").code == 0
    for words in (["note", "x"], ["pause"], ["resume"], ["status", "--json"], ["stop"]):
        done = subprocess.run(
            ["faketime", when, sys.executable, "-m", "holdfast", *words],
            cwd=sandbox.project,
            env=sandbox.environ,
            check=False,
        )
        assert done.returncode == 0
    sandbox.assert_sound()


def test_wall_continues_from_the_last_known_time_when_the_clock_overflows(monkeypatch: pytest.MonkeyPatch) -> None:
    """After 2262 the system's clocks no longer fit; the problem is reported."""

    def fail() -> int:
        raise OverflowError("timestamp too large to convert to C _PyTime_t")

    for name in ("time_ns", "monotonic_ns"):
        monkeypatch.setattr(f"holdfast.machine.wall.time.{name}", fail)
    seconds = 300 * 31_557_600.0
    monkeypatch.setattr("holdfast.machine.wall.time.clock_gettime", lambda _: seconds)
    far, known = Wall(), BUILD_DATE + 5 * 86_400_000
    far.note_time(known)
    assert far.now() == known
    seconds += 60
    assert far.now() == known + 60_000
    assert "2270-01-03, which is too far in the future" in str(far.problem())
    monkeypatch.delattr("holdfast.machine.wall.time.clock_gettime")  # as on Windows
    assert Wall().now() == BUILD_DATE
