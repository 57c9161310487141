"""F2: SIGKILL at every call of every verb that changes a disk.

A command is run once undisturbed to count its calls; then, for each of them, again on the same home with strace
killing it on entry to that call. So every state between two calls is visited, and each must be the old state or the
new one as a whole; `doctor` must report everything left behind; another run and the next command must work.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.cli.declaration import Command
from holdfast.cli.table import COMMANDS
from tests.faults.harness.figures import record_figures
from tests.faults.harness.sync_sandbox import SYNC_CASES
from tests.faults.harness.tracing import WATCH, require_strace
from tests.faults.harness.verb_checks import assert_old_or_new, assert_recovers, cases, record_baseline, sampled
from tests.faults.harness.verbs import SERVER_VERBS, VERBS, Verb
from tests.faults.harness.warm_sandbox import WarmSandbox
from tests.support.scale import scale

SAMPLE = 5  # the first verbs of the table: the first start, an append, an erasure, a backup, a setting
CHOSEN = cases(scale(SAMPLE, len(VERBS), len(VERBS)))
CALLS = scale(6, 10_000, 10_000)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[WarmSandbox]:
    require_strace()
    with WarmSandbox() as made:
        yield made


@pytest.mark.parametrize("verb", CHOSEN)
def test_verb_is_atomic_when_killed_at_any_call(sandbox: WarmSandbox, verb: Verb) -> None:
    """Killed on entry to any call that changes a disk."""
    baseline = record_baseline(sandbox, verb)
    chosen = sampled(baseline.calls, CALLS, seed=len(verb.name))
    for call in chosen:
        sandbox.prepare(verb.before)
        answer = sandbox.run(verb.argv, strace=("-e", WATCH, "-e", f"inject={call.name}:signal=KILL:when={call.nth}"))
        assert answer.code == -9, f"{call.name} number {call.nth} was not injected: {answer.code} {answer.err}"
        try:
            assert_recovers(sandbox, baseline, assert_old_or_new(sandbox, baseline))
        except Exception as error:
            error.add_note(f"{verb.name}, killed at {call.name} number {call.nth}: {call.line}")
            raise
    record_figures(fault="F2", verb=verb.name, kills=len(chosen))


def test_every_verb_that_writes_is_in_the_table() -> None:
    """A verb added to the command line must be added to the fault tests."""
    named = {verb.argv[:2] for verb in VERBS} | {verb.argv[:1] for verb in VERBS}
    named |= {sync_case.path for sync_case in SYNC_CASES}  # in test_sync_kills
    named |= SERVER_VERBS  # on a server
    assert [path for path in _writing(COMMANDS) if path not in named] == []


def _writing(commands: tuple[Command, ...], above: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    paths: list[tuple[str, ...]] = []
    for command in commands:
        paths += _writing(command.verbs, (*above, command.name))
        if command.writes:
            paths.append((*above, command.name))
    return paths
