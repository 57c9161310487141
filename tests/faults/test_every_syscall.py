"""F2: SIGKILL at every call of every verb that changes a disk.

A command is run once undisturbed to count its calls; then, for each of them, again on the same home with strace
killing it on entry to that call. So every state between two calls is visited, and each must be the old state or the
new one, whole; nothing may be left behind that `doctor` does not name; trying again and going on must work.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.cli.declaration import Command
from holdfast.cli.table import COMMANDS
from tests.faults.harness.figures import tell
from tests.faults.harness.room import Room
from tests.faults.harness.tracing import WATCH, need_strace
from tests.faults.harness.travel import TRIPS
from tests.faults.harness.trials import cases, goes_on, judge_state, sampled, undisturbed
from tests.faults.harness.verbs import SERVED, VERBS, Verb
from tests.support.scale import scale

SAMPLE = 5  # the first verbs of the table: the first start, an append, an erasure, a backup, a setting
CHOSEN = cases(scale(SAMPLE, len(VERBS), len(VERBS)))
CALLS = scale(6, 10_000, 10_000)


@pytest.fixture(scope="module")
def room() -> Iterator[Room]:
    need_strace()
    with Room() as made:
        yield made


@pytest.mark.parametrize("verb", CHOSEN)
def test_a_kill_at_any_call_leaves_the_old_or_the_new_state(room: Room, verb: Verb) -> None:
    """Killed on entry to any call that changes a disk, a verb has happened as a whole or not at all."""
    clean = undisturbed(room, verb)
    chosen = sampled(clean.calls, CALLS, seed=len(verb.name))
    for call in chosen:
        room.prepare(verb.before)
        answer = room.run(verb.argv, strace=("-e", WATCH, "-e", f"inject={call.name}:signal=KILL:when={call.nth}"))
        assert answer.code == -9, f"{call.name} number {call.nth} did not come: {answer.code} {answer.err}"
        try:
            goes_on(room, clean, judge_state(room, clean))
        except Exception as error:
            error.add_note(f"{verb.name}, killed at {call.name} number {call.nth}: {call.line}")
            raise
    tell(fault="F2", verb=verb.name, kills=len(chosen))


def test_every_verb_that_writes_is_here() -> None:
    """A verb added to the command line is added to the faults too."""
    named = {verb.argv[:2] for verb in VERBS} | {verb.argv[:1] for verb in VERBS}
    named |= {trip.path for trip in TRIPS}  # in test_travel_kills
    named |= SERVED  # on a server
    assert [path for path in _writing(COMMANDS) if path not in named] == []


def _writing(commands: tuple[Command, ...], above: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for command in commands:
        found += _writing(command.verbs, (*above, command.name))
        if command.writes:
            found.append((*above, command.name))
    return found
