"""F2 and F3 for sync: killed, or refused by the system, at every call that changes a disk.

Devices, a guest and a folder between them; one of them is stopped in the middle of adding a remote, approving or
removing a device, sharing, accepting, revoking, syncing. Whatever it had done: the next command works unaided,
another run finishes it, all devices have the same log, none is locked out, and removed devices stay removed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

import pytest

from holdfast.machine import files
from tests.faults.harness import invariants
from tests.faults.harness.figures import record_figures
from tests.faults.harness.sync_sandbox import (
    BACKGROUND,
    SYNC_CASES,
    Log,
    SyncCase,
    SyncSandbox,
    assert_kept,
    assert_recovers,
    converge,
)
from tests.faults.harness.tracing import WATCH, Call, calls, injected, require_strace
from tests.faults.harness.verb_checks import assert_no_traceback, sampled
from tests.faults.harness.warm_sandbox import Answer
from tests.support.scale import scale

KILLED = scale(8, len(SYNC_CASES), len(SYNC_CASES))
REFUSED = scale(4, len(SYNC_CASES), len(SYNC_CASES))
KILLS = scale(1, 10_000, 10_000)  # per case
FAULTS = scale(1, 40, 400)
_ALWAYS: Final = ("EIO", "ENOSPC", "EDQUOT")
_NAMES: Final = (*_ALWAYS, "EACCES", "EROFS")
_ERRORS: Final = {
    "openat": (*_NAMES, "EMFILE", "EINTR"),
    "write": (*_ALWAYS, "EINTR"),
    "pwrite64": (*_ALWAYS, "EINTR"),
    "fsync": (*_ALWAYS, "EROFS", "EINTR"),
    "fdatasync": (*_ALWAYS, "EROFS", "EINTR"),
}


@pytest.fixture(scope="module")
def sandbox() -> Iterator[SyncSandbox]:
    require_strace()
    with SyncSandbox() as made:
        yield made


def record_baseline(sandbox: SyncSandbox, sync_case: SyncCase) -> tuple[tuple[str, ...], dict[str, Log], list[Call]]:
    """What the command does without a fault, and the logs before it."""
    sandbox.restore_stage(sync_case.stage)
    argv, before = sync_case.argv(sandbox), sandbox.logs()
    sandbox.restore_stage(sync_case.stage)
    answer = sandbox.at(sync_case.device, *argv, strace=("-e", WATCH))
    assert answer.code == 0, f"{sync_case.name} ended with {answer.code} by itself: {answer.err}"
    return argv, before, calls(answer.trace, sandbox.root)


@pytest.mark.parametrize("sync_case", SYNC_CASES[:KILLED], ids=lambda sync_case: sync_case.name)
def test_sync_case_recovers_after_a_kill_at_any_call(sandbox: SyncSandbox, sync_case: SyncCase) -> None:
    """Another run finishes the command."""
    argv, before, calls = record_baseline(sandbox, sync_case)
    chosen = sampled(calls, KILLS, seed=len(sync_case.name))
    for call in chosen:
        sandbox.restore_stage(sync_case.stage)
        inject = f"inject={call.name}:signal=KILL:when={call.nth}"
        answer = sandbox.at(sync_case.device, *argv, strace=("-e", WATCH, "-e", inject))
        try:
            # File names are random, and sometimes with them the number of calls.
            assert answer.code == -9 or not injected(answer.trace), f"it ended with {answer.code}: {answer.err}"
            assert_recovers(sandbox, sync_case, before)
        except Exception as error:
            error.add_note(f"{sync_case.name}, killed at {call.name} number {call.nth}: {call.line}")
            raise
    record_figures(fault="F2", verb=sync_case.name, kills=len(chosen))


@pytest.mark.parametrize("device", ["a", "b"], ids=["who founds", "who joins"])
def test_device_with_keys_and_an_older_writer_id_is_accepted(sandbox: SyncSandbox, device: str) -> None:
    """It was stopped after it made its keys, and before it renewed its writer id."""
    sandbox.restore_stage("recorded")
    path = os.path.join(sandbox.homes[device], "writer.json")
    with open(path, "rb") as file:
        earlier = file.read()
    sandbox.run_json(device, "device", "show")
    with open(path, "wb") as file:
        file.write(earlier)
    sandbox.note(device)
    for name in "ab":
        sandbox.run_json(name, "remote", "add", "home", sandbox.url)
    sandbox.join("b")
    converge(sandbox, "ab")


def test_background_sync_is_finished_after_a_kill(sandbox: SyncSandbox) -> None:
    """Killed at any call; nothing is recorded twice."""
    call = [*BACKGROUND, sandbox.homes["a"]]

    def request_sync() -> dict[str, Log]:
        sandbox.restore_stage("busy")
        before = sandbox.logs()
        open(os.path.join(sandbox.home, "sync.wanted"), "x").close()
        return before

    request_sync()
    answer = sandbox.at("a", call=call, strace=("-e", WATCH))
    assert answer.code == 0
    assert not os.path.exists(os.path.join(sandbox.home, "sync.wanted"))
    chosen = sampled(calls(answer.trace, sandbox.root), 2 * KILLS, seed=1)
    for item in chosen:
        before = request_sync()
        inject = f"inject={item.name}:signal=KILL:when={item.nth}"
        sandbox.at("a", call=call, strace=("-e", WATCH, "-e", inject))
        try:
            assert sandbox.at("a", "status").code == 0
            if os.path.exists(last := os.path.join(sandbox.home, "sync.last")):
                os.unlink(last)  # otherwise the next one would wait
            assert sandbox.at("a", call=call).code == 0
            converge(sandbox, "ab")
            assert_kept(before, sandbox.logs())
            assert invariants.leftovers(sandbox.home) == []
        except Exception as error:
            error.add_note(f"killed at {item.name} number {item.nth}: {item.line}")
            raise
    record_figures(fault="F2", verb="background sync", kills=len(chosen))


def faults(calls: list[Call]) -> list[tuple[Call, str, str]]:
    return [
        (call, error, lasting)
        for call in calls
        for error in _ERRORS.get(call.name, _NAMES)
        for lasting in ("", "+")
        if not (lasting and error == "EINTR")  # retrying for ever is correct then
    ]


@pytest.mark.parametrize("sync_case", SYNC_CASES[:REFUSED], ids=lambda sync_case: sync_case.name)
def test_sync_case_recovers_after_any_failed_call(sandbox: SyncSandbox, sync_case: SyncCase) -> None:
    """Once or permanently: the command reports it, and another run finishes it."""
    argv, before, calls = record_baseline(sandbox, sync_case)
    chosen = sampled(faults(calls), FAULTS, seed=len(sync_case.name))
    for call, error, lasting in chosen:
        sandbox.restore_stage(sync_case.stage)
        inject = f"inject={call.name}:error={error}:when={call.nth}{lasting}"
        answer = sandbox.at(sync_case.device, *argv, strace=("-e", WATCH, "-e", inject))
        try:
            assert_reported(answer, silent=call.to_person or (bool(lasting) and call.name == "write"))
            if not lasting and "unlink" not in call.name:
                left = [name for home in (*sandbox.homes.values(), sandbox.remote) for name in temporaries(home)]
                assert left == [], f"left behind: {left}"
            assert_recovers(sandbox, sync_case, before)
        except Exception as failure:
            failure.add_note(f"{sync_case.name}, {inject}: {call.line}")
            failure.add_note(f"it ended with {answer.code}: {answer.out} {answer.err}")
            raise
    record_figures(fault="F3", verb=sync_case.name, injections=len(chosen))


def assert_reported(answer: Answer, *, silent: bool) -> None:
    assert_no_traceback(answer, silent=silent)
    assert 0 <= answer.code <= 7, f"it ended with {answer.code}"


def temporaries(folder: str) -> list[str]:
    return files.temporaries(folder) if os.path.isdir(folder) else []
