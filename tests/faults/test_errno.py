"""F3: every call of every verb that changes a disk fails: once, or permanently from there on.

Errors and empty writes are injected by strace; short writes are the kernel's own, by a limit on the size of files
(strace can only pretend that a call wrote something). An error need not reach the user: SQLite and Python retry
interrupted calls, and work around some failures. What must hold: exit code 0 means that it happened, anything else is
a message with a code and means that it did not; then another run works.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final, NamedTuple

import pytest

from holdfast.machine import files
from tests.faults.harness.figures import record_figures
from tests.faults.harness.tracing import WATCH, Call, injected, require_strace
from tests.faults.harness.verb_checks import (
    Baseline,
    assert_no_traceback,
    assert_old_or_new,
    assert_recovers,
    cases,
    record_baseline,
    sampled,
)
from tests.faults.harness.verbs import VERBS, Verb
from tests.faults.harness.warm_sandbox import Answer, WarmSandbox
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
FAULTS = scale(8, 44, 450)  # per verb
LIMITS = scale(3, 4, 40)

# Steps that are not one transaction are reported as they are: a deletion and its erasing, a file and its directory,
# what `run` recorded and the command's own exit code, which is passed on.
_PARTIAL: Final = ("the session is deleted, but", "was written, but", "not everything about")


class Fault(NamedTuple):
    call: Call
    error: str
    lasting: bool

    @property
    def answering(self) -> bool:
        """Whether it can hit the output itself, after everything was done."""
        return self.call.to_person or (self.lasting and self.call.name == "write")

    @property
    def option(self) -> str:
        what = "retval=0" if self.error == "nothing" else f"error={self.error}"
        return f"inject={self.call.name}:{what}:when={self.call.nth}{'+' if self.lasting else ''}"


def faults(baseline: Baseline) -> list[Fault]:
    return [
        Fault(call, error, lasting)
        for call in baseline.calls
        for error in _ERRORS.get(call.name, _NAMES)
        for lasting in (False, True)
        if not (lasting and error in ("EINTR", "nothing"))  # retrying for ever is correct then
    ]


@pytest.fixture(scope="module")
def sandbox() -> Iterator[WarmSandbox]:
    require_strace()
    with WarmSandbox() as made:
        yield made


@pytest.mark.parametrize("verb", CHOSEN)
def test_verb_is_atomic_when_a_call_fails(sandbox: WarmSandbox, verb: Verb) -> None:
    """A verb has happened and reports it, or has not and reports why."""
    baseline = record_baseline(sandbox, verb)
    chosen = sampled(faults(baseline), FAULTS, seed=len(verb.name))
    for fault in chosen:
        sandbox.prepare(verb.before)
        answer = sandbox.run(verb.argv, strace=("-e", WATCH, "-e", fault.option))
        try:
            assert injected(answer.trace), "the error was not injected"
            state = assert_exit_code_matches_state(sandbox, baseline, answer, to_person=fault.answering)
            if not fault.lasting and "unlink" not in fault.call.name:
                assert files.temporaries(sandbox.home) == [], "a temporary file was left behind"
            assert_recovers(sandbox, baseline, state)
        except Exception as error:
            error.add_note(f"{verb.name}, {fault.option}: {fault.call.line}")
            error.add_note(f"it ended with {answer.code}: {answer.out} {answer.err}")
            raise
    record_figures(fault="F3", verb=verb.name, injections=len(chosen))


@pytest.mark.parametrize("verb", CHOSEN)
def test_verb_is_atomic_when_a_write_is_short(sandbox: WarmSandbox, verb: Verb) -> None:
    """It has not happened, and reports why."""
    baseline = record_baseline(sandbox, verb)
    # The largest file of a small home has some 100 KiB; odd limits cut pages, frames and headers.
    limits = sampled(range(1, 140_000, 37), LIMITS, seed=len(verb.name))
    for limit in limits:
        sandbox.prepare(verb.before)
        answer = sandbox.run(verb.argv, fsize=limit)
        try:
            assert_recovers(
                sandbox, baseline, assert_exit_code_matches_state(sandbox, baseline, answer, to_person=limit < 4096)
            )
        except Exception as error:
            error.add_note(f"{verb.name}, files limited to {limit} bytes; it ended with {answer.code}: {answer.err}")
            raise
    record_figures(fault="F3", verb=verb.name, short_writes=len(limits))


def assert_exit_code_matches_state(
    sandbox: WarmSandbox, baseline: Baseline, answer: Answer, *, to_person: bool
) -> str:
    """Returns the state that the fault left. `to_person`: the output itself may have failed, after everything was
    done.
    """
    assert_no_traceback(answer, silent=to_person)
    assert 0 <= answer.code <= 7, f"it ended with {answer.code}"
    state = assert_old_or_new(sandbox, baseline)
    if any(message in answer.err for message in _PARTIAL):
        return state
    if answer.code == 0:
        assert state == "new", "it exited with 0, but it has not happened"
    elif not to_person:
        assert state == "old" or baseline.verb.in_parts, f"it failed, and the state is {state}"
    return state


# Each once exited with 0, or failed without a message: verb, failing call, path, error, whether permanently.
_ONCE_SILENT: Final = {
    "backfill that can open neither store nor transcripts": ("backfill", "openat", "store.db", "EMFILE", True),
    "disconnect whose rmdir failed": ("disconnect", "rmdir", "opencode", "EIO", False),
    "uninstall whose rmdir failed": ("uninstall", "rmdir", "", "EACCES", False),
    "import without room for the store": ("import", "openat", "store.db", "EDQUOT", True),
    "init without the right to make a home": ("init", "mkdir", "home", "EACCES", False),
}


@pytest.mark.parametrize("name", _ONCE_SILENT)
def test_command_that_failed_exits_with_1_and_a_message(sandbox: WarmSandbox, name: str) -> None:
    """For users, and in the JSON document."""
    word, call_name, within, error, lasting = _ONCE_SILENT[name]
    verb = [verb for verb in VERBS if verb.argv[0] == word][-1]
    baseline = record_baseline(sandbox, verb)
    call = next(call for call in baseline.calls if call.name == call_name and within in call.line)
    for words in ((), ("--json",)):
        sandbox.prepare(verb.before)
        option = Fault(call, error, lasting).option
        answer = sandbox.run((*verb.argv, *words), strace=("-e", WATCH, "-e", option))
        assert injected(answer.trace), "the error was not injected"
        assert answer.code == 1, (answer.out, answer.err)
        if words:
            document = json.loads(answer.out)
            assert document["error"]["kind"] == "failed"
            assert document["error"]["message"]
        else:
            assert_no_traceback(answer)
    assert_recovers(sandbox, baseline, assert_old_or_new(sandbox, baseline))
