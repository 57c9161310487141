"""F2 and F3 for what travels: killed, or refused by the system, at every call that changes a disk.

Devices, a guest and a folder between them; one of them is stopped in the middle of adding a remote, letting a device
in or taking it out, sharing, taking part, taking back, syncing. Whatever it had come to: the next command works
unaided, trying again finishes it, everybody has the same, nobody is locked out, and whoever is out stays out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

import pytest

from holdfast.machine import files
from tests.faults.harness import judge
from tests.faults.harness.figures import tell
from tests.faults.harness.room import Answer
from tests.faults.harness.tracing import WATCH, Call, calls, injected, need_strace
from tests.faults.harness.travel import BACKGROUND, TRIPS, Log, Travel, Trip, converge, goes_on, kept
from tests.faults.harness.trials import decent, sampled
from tests.support.scale import scale

KILLED = scale(8, len(TRIPS), len(TRIPS))
REFUSED = scale(4, len(TRIPS), len(TRIPS))
KILLS = scale(1, 10_000, 10_000)  # of each
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
def room() -> Iterator[Travel]:
    need_strace()
    with Travel() as made:
        yield made


def undisturbed(room: Travel, trip: Trip) -> tuple[tuple[str, ...], dict[str, Log], list[Call]]:
    """What it does when nothing goes wrong, and who had what before."""
    room.reach(trip.stage)
    argv, before = trip.argv(room), room.logs()
    room.reach(trip.stage)
    answer = room.at(trip.device, *argv, strace=("-e", WATCH))
    assert answer.code == 0, f"{trip.name} ended with {answer.code} by itself: {answer.err}"
    return argv, before, calls(answer.trace, room.root)


@pytest.mark.parametrize("trip", TRIPS[:KILLED], ids=lambda trip: trip.name)
def test_killed_at_any_call_everybody_goes_on(room: Travel, trip: Trip) -> None:
    """Killed on entry to any call that changes a disk, a command is finished by trying again, and all is well."""
    argv, before, found = undisturbed(room, trip)
    chosen = sampled(found, KILLS, seed=len(trip.name))
    for call in chosen:
        room.reach(trip.stage)
        inject = f"inject={call.name}:signal=KILL:when={call.nth}"
        answer = room.at(trip.device, *argv, strace=("-e", WATCH, "-e", inject))
        try:
            # Names are drawn by lot, and with them now and then the number of calls.
            assert answer.code == -9 or not injected(answer.trace), f"it ended with {answer.code}: {answer.err}"
            goes_on(room, trip, before)
        except Exception as error:
            error.add_note(f"{trip.name}, killed at {call.name} number {call.nth}: {call.line}")
            raise
    tell(fault="F2", verb=trip.name, kills=len(chosen))


@pytest.mark.parametrize("device", ["a", "b"], ids=["who founds", "who joins"])
def test_stopped_between_the_keys_and_the_id_they_vouch_for(room: Travel, device: str) -> None:
    """Keys are there, and what is recorded still has an id of earlier days: others accept the device all the same."""
    room.reach("recorded")
    path = os.path.join(room.homes[device], "writer.json")
    with open(path, "rb") as file:
        earlier = file.read()
    room.done(device, "device", "show")
    with open(path, "wb") as file:
        file.write(earlier)
    room.note(device)
    for name in "ab":
        room.done(name, "remote", "add", "home", room.url)
    room.join("b")
    converge(room, "ab")


def test_a_sync_in_the_background_that_is_killed(room: Travel) -> None:
    """Killed at any call, what it had begun is finished by the next sync, and nothing is told twice."""
    call = [*BACKGROUND, room.homes["a"]]

    def asked() -> dict[str, Log]:
        room.reach("busy")
        before = room.logs()
        open(os.path.join(room.home, "sync.wanted"), "x").close()
        return before

    asked()
    answer = room.at("a", call=call, strace=("-e", WATCH))
    assert answer.code == 0
    assert not os.path.exists(os.path.join(room.home, "sync.wanted"))
    chosen = sampled(calls(answer.trace, room.root), 2 * KILLS, seed=1)
    for item in chosen:
        before = asked()
        inject = f"inject={item.name}:signal=KILL:when={item.nth}"
        room.at("a", call=call, strace=("-e", WATCH, "-e", inject))
        try:
            assert room.at("a", "status").code == 0
            if os.path.exists(last := os.path.join(room.home, "sync.last")):
                os.unlink(last)  # it was begun a moment ago, and the next one would wait
            assert room.at("a", call=call).code == 0
            converge(room, "ab")
            kept(before, room.logs())
            assert judge.leftovers(room.home) == []
        except Exception as error:
            error.add_note(f"killed at {item.name} number {item.nth}: {item.line}")
            raise
    tell(fault="F2", verb="background sync", kills=len(chosen))


def faults(found: list[Call]) -> list[tuple[Call, str, str]]:
    return [
        (call, error, lasting)
        for call in found
        for error in _ERRORS.get(call.name, _NAMES)
        for lasting in ("", "+")
        if not (lasting and error == "EINTR")  # to repeat for ever is right then
    ]


@pytest.mark.parametrize("trip", TRIPS[:REFUSED], ids=lambda trip: trip.name)
def test_a_refused_call_is_told_and_everybody_goes_on(room: Travel, trip: Trip) -> None:
    """Whatever call fails, once or from there on, a command says so in words, and trying again finishes it."""
    argv, before, found = undisturbed(room, trip)
    chosen = sampled(faults(found), FAULTS, seed=len(trip.name))
    for call, error, lasting in chosen:
        room.reach(trip.stage)
        inject = f"inject={call.name}:error={error}:when={call.nth}{lasting}"
        answer = room.at(trip.device, *argv, strace=("-e", WATCH, "-e", inject))
        try:
            told(answer, silent=call.to_person or (bool(lasting) and call.name == "write"))
            if not lasting and "unlink" not in call.name:
                left = [name for home in (*room.homes.values(), room.remote) for name in temporaries(home)]
                assert left == [], f"left behind: {left}"
            goes_on(room, trip, before)
        except Exception as wrong:
            wrong.add_note(f"{trip.name}, {inject}: {call.line}")
            wrong.add_note(f"it ended with {answer.code}: {answer.out} {answer.err}")
            raise
    tell(fault="F3", verb=trip.name, injections=len(chosen))


def told(answer: Answer, *, silent: bool) -> None:
    decent(answer, silent=silent)
    assert 0 <= answer.code <= 7, f"it ended with {answer.code}"


def temporaries(folder: str) -> list[str]:
    return files.temporaries(folder) if os.path.isdir(folder) else []
