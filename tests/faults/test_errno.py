"""F3: the system refuses at every call of every verb that changes a disk: once, or from there on for good.

Errors and empty writes are strace's; short writes are the kernel's own, by a limit on the size of files (strace can
only pretend that a call wrote something). An error need not reach the person: SQLite and Python repeat what was
interrupted, and do without what they can do without. What must hold: exit 0 means that it happened, anything else
is a sentence with a code and means that it did not; then trying again works.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final, NamedTuple

import pytest

from holdfast.machine import files
from tests.faults.harness.figures import tell
from tests.faults.harness.room import Answer, Room
from tests.faults.harness.tracing import WATCH, Call, injected, need_strace
from tests.faults.harness.trials import Clean, cases, decent, goes_on, judge_state, sampled, undisturbed
from tests.faults.harness.verbs import VERBS, Verb
from tests.support.scale import scale

_ALWAYS: Final = ("EIO", "ENOSPC", "EDQUOT")
_NAMES: Final = (*_ALWAYS, "EACCES", "EROFS")
_ERRORS: Final = {
    "openat": (*_NAMES, "EMFILE", "EINTR"),
    "write": (*_ALWAYS, "EINTR", "nothing"),
    "pwrite64": (*_ALWAYS, "EINTR", "nothing"),
    "fsync": (*_ALWAYS, "EROFS", "EINTR"),
    "fdatasync": (*_ALWAYS, "EROFS", "EINTR"),
    "ftruncate": (*_NAMES, "EINTR"),
}
SAMPLE = 5
CHOSEN = cases(scale(SAMPLE, len(VERBS), len(VERBS)))
FAULTS = scale(8, 44, 450)  # of each verb
LIMITS = scale(3, 4, 40)

# What no transaction holds together is told as it is: a deletion and its erasing, a file and its directory, what
# `run` recorded and what the command itself came to (whose exit code is passed on).
_SAID: Final = ("the session is deleted, but", "was written, but", "not everything about")


class Fault(NamedTuple):
    call: Call
    error: str
    lasting: bool

    @property
    def answering(self) -> bool:
        """Whether it can hit the answer itself, after everything was done."""
        return self.call.to_person or (self.lasting and self.call.name == "write")

    @property
    def option(self) -> str:
        what = "retval=0" if self.error == "nothing" else f"error={self.error}"
        return f"inject={self.call.name}:{what}:when={self.call.nth}{'+' if self.lasting else ''}"


def faults(clean: Clean) -> list[Fault]:
    return [
        Fault(call, error, lasting)
        for call in clean.calls
        for error in _ERRORS.get(call.name, _NAMES)
        for lasting in (False, True)
        if not (lasting and error in ("EINTR", "nothing"))  # to repeat for ever is right then
    ]


@pytest.fixture(scope="module")
def room() -> Iterator[Room]:
    need_strace()
    with Room() as made:
        yield made


@pytest.mark.parametrize("verb", CHOSEN)
def test_a_refused_call_is_told_and_changes_nothing(room: Room, verb: Verb) -> None:
    """Whatever call fails, in whatever way, a verb has happened and says so, or has not and says why."""
    clean = undisturbed(room, verb)
    chosen = sampled(faults(clean), FAULTS, seed=len(verb.name))
    for fault in chosen:
        room.prepare(verb.before)
        answer = room.run(verb.argv, strace=("-e", WATCH, "-e", fault.option))
        try:
            assert injected(answer.trace), "the call did not come"
            state = judged(room, clean, answer, to_person=fault.answering)
            if not fault.lasting and "unlink" not in fault.call.name:
                assert files.temporaries(room.home) == [], "a temporary file was left behind"
            goes_on(room, clean, state)
        except Exception as error:
            error.add_note(f"{verb.name}, {fault.option}: {fault.call.line}")
            error.add_note(f"it ended with {answer.code}: {answer.out} {answer.err}")
            raise
    tell(fault="F3", verb=verb.name, injections=len(chosen))


@pytest.mark.parametrize("verb", CHOSEN)
def test_a_short_write_is_told_and_changes_nothing(room: Room, verb: Verb) -> None:
    """When the kernel takes only the beginning of a write, a verb has not happened and says why."""
    clean = undisturbed(room, verb)
    # The largest file of a small home has some 100 KiB; odd limits cut pages, frames and headers.
    limits = sampled(range(1, 140_000, 37), LIMITS, seed=len(verb.name))
    for limit in limits:
        room.prepare(verb.before)
        answer = room.run(verb.argv, fsize=limit)
        try:
            goes_on(room, clean, judged(room, clean, answer, to_person=limit < 4096))
        except Exception as error:
            error.add_note(f"{verb.name}, files limited to {limit} bytes; it ended with {answer.code}: {answer.err}")
            raise
    tell(fault="F3", verb=verb.name, short_writes=len(limits))


def judged(room: Room, clean: Clean, answer: Answer, *, to_person: bool) -> str:
    """The state the fault left. `to_person`: the answer itself may have failed, after everything was done."""
    decent(answer, silent=to_person)
    assert 0 <= answer.code <= 7, f"it ended with {answer.code}"
    state = judge_state(room, clean)
    if any(said in answer.err for said in _SAID):
        return state
    if answer.code == 0:
        assert state == "new", "it said that it was done, and it was not"
    elif not to_person:
        assert state == "old" or clean.verb.in_parts, f"it failed, and the state is {state}"
    return state


# Each once called itself done, or failed without a sentence: the verb, the call that is refused, how, how often.
_ONCE_SILENT: Final = {
    "backfill that can open neither store nor transcripts": ("backfill", "openat", "store.db", "EMFILE", True),
    "disconnect whose rmdir failed": ("disconnect", "rmdir", "opencode", "EIO", False),
    "uninstall whose rmdir failed": ("uninstall", "rmdir", "", "EACCES", False),
    "import without room for the store": ("import", "openat", "store.db", "EDQUOT", True),
    "init without the right to make a home": ("init", "mkdir", "home", "EACCES", False),
}


@pytest.mark.parametrize("name", _ONCE_SILENT)
def test_a_command_that_could_not_do_its_work_says_so(room: Room, name: str) -> None:
    """The exit code is not 0, and the error is said in its agreed form: to a person, and in the document."""
    word, call_name, within, error, lasting = _ONCE_SILENT[name]
    verb = [verb for verb in VERBS if verb.argv[0] == word][-1]
    clean = undisturbed(room, verb)
    call = next(call for call in clean.calls if call.name == call_name and within in call.line)
    for words in ((), ("--json",)):
        room.prepare(verb.before)
        option = Fault(call, error, lasting).option
        answer = room.run((*verb.argv, *words), strace=("-e", WATCH, "-e", option))
        assert injected(answer.trace), "the call did not come"
        assert answer.code == 1, (answer.out, answer.err)
        if words:
            document = json.loads(answer.out)
            assert document["error"]["kind"] == "failed"
            assert document["error"]["message"]
        else:
            decent(answer)
    goes_on(room, clean, judge_state(room, clean))
