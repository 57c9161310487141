"""F2 for `doctor --repair`: SIGKILL at every call of a repair.

Wherever it is killed, another repair recovers what an undisturbed repair recovers, and the damaged file is kept.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import apsw
import pytest

from holdfast.store.sqlite import SqliteStore
from tests.faults.harness import invariants
from tests.faults.harness.figures import record_figures
from tests.faults.harness.tracing import WATCH, record, require_strace
from tests.faults.harness.verb_checks import sampled
from tests.faults.harness.verbs import VERBS
from tests.faults.harness.warm_sandbox import Tree, WarmSandbox
from tests.support.scale import scale

REPAIR = ("doctor", "--repair")
CALLS = scale(6, 10_000, 10_000)
PAGE = 4096


@pytest.fixture
def sandbox() -> Iterator[WarmSandbox]:
    require_strace()
    with WarmSandbox() as made:
        yield made


def a_page(sandbox: WarmSandbox) -> None:
    """The second page of the events table is noise: the file has to be replaced."""
    with open(sandbox.store, "r+b") as file:
        file.seek(2 * PAGE)
        file.write(bytes(range(256)) * (PAGE // 256))


def a_listing(sandbox: WarmSandbox) -> None:
    """Derived data differs from the log: it is rebuilt in place."""
    connection = apsw.Connection(sandbox.store)
    connection.execute("UPDATE sessions SET goal = 'another'; DELETE FROM words")
    connection.close()


def recovered_hashes(sandbox: WarmSandbox) -> set[str]:
    """The hashes of all events, after a check that may only report what was set aside."""
    store = SqliteStore(sandbox.store, writer=lambda: "0" * 20, wall=lambda: 0, create=False)
    try:
        wrong = [finding for finding in store.check() if finding.check != "aside"]
        assert not wrong, f"repaired, the check found {wrong}"
        return {event.hash for session in store.sessions() for event in store.events(session)}
    finally:
        store.close()


def largest_quarantined_file(sandbox: WarmSandbox) -> bytes:
    place = os.path.join(sandbox.home, "aside")
    contents = [b""]
    for name in os.listdir(place) if os.path.isdir(place) else ():
        with open(os.path.join(place, name), "rb") as file:
            contents.append(file.read())
    return max(contents, key=len)


@pytest.mark.parametrize("damage", [a_page, a_listing])
def test_repair_is_completed_by_the_next_one_after_a_kill(sandbox: WarmSandbox, damage: object) -> None:
    """Killed at any call, the next one recovers as much, and the damaged file is kept."""
    assert callable(damage)
    sandbox.prepare(VERBS[1].before)
    damage(sandbox)
    damaged: Tree = sandbox.take()
    code, calls, output = record(sandbox, REPAIR)
    assert code == 0, output
    recovered, kept = recovered_hashes(sandbox), largest_quarantined_file(sandbox)
    assert recovered
    chosen = sampled(calls, CALLS, seed=1)
    for call in chosen:
        sandbox.put(damaged)
        answer = sandbox.run(REPAIR, strace=("-e", WATCH, "-e", f"inject={call.name}:signal=KILL:when={call.nth}"))
        try:
            assert answer.code == -9, f"the kill was not injected: {answer.code} {answer.err}"
            again = sandbox.run(REPAIR)
            assert again.code == 0, f"repairing again ended with {again.code}: {again.out} {again.err}"
            assert recovered_hashes(sandbox) == recovered, "repairing again saved something else"
            assert len(largest_quarantined_file(sandbox)) == len(kept), "what was damaged is not kept"
            assert invariants.leftovers(sandbox.home) == []
            assert sandbox.run(("start", "what comes next", "--replace")).code == 0
        except Exception as error:
            error.add_note(f"killed at {call.name} number {call.nth}: {call.line}")
            raise
    record_figures(fault="F2", verb="doctor --repair", kills=len(chosen))
