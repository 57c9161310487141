"""One verb, one fault, and everything that must hold afterwards."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import pytest
from _pytest.mark import ParameterSet

from tests.faults.harness import judge
from tests.faults.harness.room import Answer, Room
from tests.faults.harness.tracing import Call, record
from tests.faults.harness.verbs import VERBS, Verb

_T = TypeVar("_T")

REFUSED = (1, 3, 4, 5)
NEXT = ("start", "what comes next", "--replace")


class Clean(NamedTuple):
    """What the verb does when nothing goes wrong."""

    verb: Verb
    before: judge.View
    after: judge.View
    calls: list[Call]


def cases(count: int) -> list[ParameterSet]:
    """The first so many verbs, as parameters of a test."""
    return [pytest.param(verb, id=verb.name) for verb in VERBS[:count]]


def undisturbed(room: Room, verb: Verb) -> Clean:
    room.prepare(verb.before)
    before = look_aside(room)
    code, calls, said = record(room, verb.argv)
    assert code == 0, f"{verb.name} ended with {code} by itself: {said}"
    after = look_aside(room)
    assert after.shape != before.shape, f"{verb.name} changed nothing"
    assert judge.leftovers(room.home) == []
    return Clean(verb, before, after, calls)


def look_aside(room: Room) -> judge.View:
    """The state of a copy, so that the room stays as the fault left it; ids and hashes are the room's own."""
    aside = room.root + "-aside"
    judge.copy_of(room.root, aside)
    try:
        return judge.look(os.path.join(aside, "home"), os.path.join(aside, "project"), room.project)
    finally:
        judge.remove(aside)


def judge_state(room: Room, clean: Clean) -> str:
    """`old` or `new`, whole; anything else is an AssertionError."""
    found = look_aside(room)
    assert judge.keeps(clean.before, found), "an event that was acknowledged is gone"
    assert judge.leftovers(room.home) == [], f"left behind unnamed: {judge.leftovers(room.home)}"
    if found.shape == clean.after.shape:
        return "new"
    if found.shape == clean.before.shape:
        return "old"
    if clean.verb.in_parts:
        return "new" if found.is_without_git(clean.after) else "part"
    message = f"neither old nor new: {found.shape}, not {clean.before.shape} and not {clean.after.shape}"
    raise AssertionError(message)


def goes_on(room: Room, clean: Clean, state: str) -> None:
    """Trying again works, or is refused because it has happened; and the next command works unaided."""
    again = room.run(clean.verb.argv)
    if state == "old":
        assert again.code == 0, f"trying again ended with {again.code}: {again.err}"
        assert look_aside(room).shape == clean.after.shape, "trying again led elsewhere"
    else:
        assert again.code in (0, *REFUSED), f"trying again ended with {again.code}: {again.err}"
    decent(again)
    following = room.run(NEXT)
    assert following.code == 0, f"the next command ended with {following.code}: {following.err}"
    found = look_aside(room)
    assert judge.keeps(clean.before, found), "the next command lost events"
    if found.mirrored:
        mirrors_are_right(room)


def mirrors_are_right(room: Room) -> None:
    """Every mirrored file shows what the log says, is valid, and none was taken for somebody's edit."""
    shown = room.run(("mirror", "status", "--json"))
    assert shown.code == 0, shown.err
    for item in json.loads(shown.out)["mirrors"]:
        assert item["paths"], f"nothing is mirrored in {item['format']}"
        assert not item["changed_outside"], item
        assert item["rejected"] == [], item
    checked = room.run(("validate", ".", "--json"))
    assert checked.code == 0, checked.out


def decent(answer: Answer, *, silent: bool = False) -> None:
    """No traceback, no apology for a fault of ours, and a sentence when it failed (if there was a way to say it)."""
    text = answer.out + answer.err
    assert "Traceback" not in text, text
    assert "something unexpected" not in text, text
    if answer.code > 0 and not silent:
        assert answer.err.startswith("holdfast: "), f"exit {answer.code} without a sentence: {text!r}"


def sampled(all_of: Sequence[_T], count: int, seed: int) -> list[_T]:
    """All of them, or this many spread over the whole command."""
    if len(all_of) <= count:
        return list(all_of)
    return [all_of[index] for index in sorted(random.Random(seed).sample(range(len(all_of)), count))]
