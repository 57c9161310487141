"""F1: `kill -9` at random moments.

Processes write as fast as they can, and note in a file what has been acknowledged; each is killed after a random
time, and the next one continues with the same home, unaided. Most are forked from a warm process, which costs little;
some are started cold, as a user would. A kill cannot show whether anything reached the disk, because the page cache
survives it: that is the subject of test_power_loss.
"""

from __future__ import annotations

import random
import time
from pathlib import Path
from subprocess import TimeoutExpired

import msgspec
import pytest

from holdfast.store.sqlite import SqliteStore
from tests.faults.harness import invariants
from tests.faults.harness.figures import record_figures
from tests.faults.harness.warm_sandbox import WarmSandbox
from tests.support.scale import scale

LIBRARY = scale(24, 800, 8_000)
COMMANDS = scale(8, 152, 1_520)
COLD = scale(4, 52, 528)
SHARDS = scale(1, 4, 16)  # shared by several test processes
LIVES = 20  # kills of one home


def _seeds(count: int) -> list[tuple[int, int]]:
    return [(seed, count // SHARDS) for seed in range(SHARDS)]


def notes(sandbox: WarmSandbox) -> list[str]:
    """All notes in the log, in order; the store is checked too."""
    invariants.read_view(sandbox.home, sandbox.project, sandbox.project)
    store = SqliteStore(sandbox.store, writer=lambda: "0" * 20, wall=lambda: 0, create=False)
    try:
        events = [event for session in store.sessions() for event in store.events(session)]
    finally:
        store.close()
    return [msgspec.json.decode(event.data or b"{}")["text"] for event in events if event.type == "note.added"]


def assert_acknowledged_notes_exist(texts: list[str], acked: list[str], life: str) -> None:
    """Everything acknowledged in one life is there, in order, once, and at most one more note that was in
    progress.
    """
    mine = [text for text in texts if text.startswith(f"{life}-")]
    assert mine[: len(acked)] == acked, f"acknowledged and lost: {[name for name in acked if name not in mine]}"
    assert len(mine) <= len(acked) + 1, f"never acknowledged: {mine[len(acked) :]}"


@pytest.mark.parametrize(("seed", "kills"), _seeds(LIBRARY))
def test_acknowledged_notes_survive_kills_of_the_library(seed: int, kills: int, tmp_path: Path) -> None:
    """The next process continues."""
    rng = random.Random(seed)
    acknowledged = 0
    # On a real disk, where a commit takes long enough to be killed in its middle.
    with WarmSandbox(str(tmp_path)) as sandbox:
        for life in range(kills):
            if life % LIVES == 0:
                sandbox.put({})
            acked = sandbox.write_until_killed(rng.uniform(0, 0.08), life=life, notes=1_000)
            acknowledged += len(acked)
            assert_acknowledged_notes_exist(
                notes(sandbox) if (Path(sandbox.store)).exists() else [], acked, str(life)
            )
            assert invariants.leftovers(sandbox.home) == []
        assert sandbox.run(("start", "what comes next", "--replace")).code == 0
    record_figures(fault="F1", how="library", kills=kills, acknowledged=acknowledged)


@pytest.mark.parametrize(("seed", "kills"), _seeds(COMMANDS))
def test_acknowledged_commands_survive_kills(seed: int, kills: int) -> None:
    rng = random.Random(seed)
    acknowledged = 0
    with WarmSandbox() as sandbox:
        for life in range(kills):
            if life % LIVES == 0:
                sandbox.put({})
            acked = sandbox.write_until_killed(rng.uniform(0, 0.1), argvs=_commands(life))
            acknowledged += len(acked)
            done = [name for name in acked if "-" in name]
            assert_acknowledged_notes_exist(notes(sandbox) if Path(sandbox.store).exists() else [], done, str(life))
            assert invariants.leftovers(sandbox.home) == []
        assert sandbox.run(("start", "what comes next", "--replace")).code == 0
    record_figures(fault="F1", how="commands", kills=kills, acknowledged=acknowledged)


def _commands(life: int) -> list[tuple[str, list[str]]]:
    argvs: list[tuple[str, list[str]]] = [("start", ["start", "to be killed", "--replace"])]
    for number in range(100):
        argvs += [
            (f"{life}-{number}", ["note", f"{life}-{number}"]),
            ("task", ["task", "add", "something to do"]),
            ("agent", ["agent", "start", f"a{number}", "--type", "coder"]),
            ("setting", ["config", "set", "history.limit", str(number + 1)]),
        ]
    return argvs


@pytest.mark.parametrize(("seed", "kills"), _seeds(COLD))
def test_cold_command_is_atomic_when_killed(seed: int, kills: int, tmp_path: Path) -> None:
    """At any moment of its life, from the start of the interpreter on."""
    rng = random.Random(seed)
    answered: list[str] = []
    killed = 0
    with WarmSandbox(str(tmp_path)) as sandbox:
        assert sandbox.run(("start", "to be killed")).code == 0
        begin = time.monotonic()
        uninterrupted = sandbox.start_process(("note", "undisturbed"))
        uninterrupted.communicate()
        assert uninterrupted.returncode == 0
        usual = time.monotonic() - begin
        for number in range(10 * kills):
            text = f"0-{number}"
            process = sandbox.start_process(("note", text))
            try:
                process.wait(rng.uniform(0, usual))
            except TimeoutExpired:
                process.kill()
            process.communicate()
            killed += process.returncode == -9
            if process.returncode == 0:
                answered.append(text)
            texts = notes(sandbox)
            assert [name for name in answered if name not in texts] == []
            assert len(texts) == len(set(texts))
            if killed == kills:
                break
    record_figures(fault="F1", how="cold", kills=killed, acknowledged=len(answered))
