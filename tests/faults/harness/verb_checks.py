"""One verb, one fault, and everything that must be true afterwards."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import pytest
from _pytest.mark import ParameterSet

from tests.faults.harness import invariants
from tests.faults.harness.tracing import Call, record
from tests.faults.harness.verbs import VERBS, Verb
from tests.faults.harness.warm_sandbox import Answer, WarmSandbox

_T = TypeVar("_T")

REFUSED = (1, 3, 4, 5)
NEXT = ("start", "what comes next", "--replace")


class Baseline(NamedTuple):
    """What the verb does without a fault."""

    verb: Verb
    before: invariants.View
    after: invariants.View
    calls: list[Call]


def cases(count: int) -> list[ParameterSet]:
    """The first `count` verbs, as parameters of a test."""
    return [pytest.param(verb, id=verb.name) for verb in VERBS[:count]]


def record_baseline(sandbox: WarmSandbox, verb: Verb) -> Baseline:
    sandbox.prepare(verb.before)
    before = view_of_copy(sandbox)
    code, calls, output = record(sandbox, verb.argv)
    assert code == 0, f"{verb.name} ended with {code} by itself: {output}"
    after = view_of_copy(sandbox)
    assert after.shape != before.shape, f"{verb.name} changed nothing"
    assert invariants.leftovers(sandbox.home) == []
    return Baseline(verb, before, after, calls)


def view_of_copy(sandbox: WarmSandbox) -> invariants.View:
    """The state of a copy, so that checking does not change the sandbox; ids and hashes are the sandbox's own."""
    aside = sandbox.root + "-aside"
    invariants.copy_of(sandbox.root, aside)
    try:
        return invariants.read_view(os.path.join(aside, "home"), os.path.join(aside, "project"), sandbox.project)
    finally:
        invariants.remove(aside)


def assert_old_or_new(sandbox: WarmSandbox, baseline: Baseline) -> str:
    """`old` or `new` as a whole, or `part` for a verb of several transactions."""
    view = view_of_copy(sandbox)
    assert invariants.keeps_events(baseline.before, view), "an acknowledged event is lost"
    assert invariants.leftovers(sandbox.home) == [], f"left behind unnamed: {invariants.leftovers(sandbox.home)}"
    if view.shape == baseline.after.shape:
        return "new"
    if view.shape == baseline.before.shape:
        return "old"
    if baseline.verb.in_parts:
        return "new" if view.is_without_git(baseline.after) else "part"
    message = f"neither old nor new: {view.shape}, not {baseline.before.shape} and not {baseline.after.shape}"
    raise AssertionError(message)


def assert_recovers(sandbox: WarmSandbox, baseline: Baseline, state: str) -> None:
    """Running the verb again works, or is refused because it has happened; and the next command works unaided."""
    again = sandbox.run(baseline.verb.argv)
    if state == "old":
        assert again.code == 0, f"trying again ended with {again.code}: {again.err}"
        assert view_of_copy(sandbox).shape == baseline.after.shape, "trying again led to another state"
    else:
        assert again.code in (0, *REFUSED), f"trying again ended with {again.code}: {again.err}"
    assert_no_traceback(again)
    following = sandbox.run(NEXT)
    assert following.code == 0, f"the next command ended with {following.code}: {following.err}"
    view = view_of_copy(sandbox)
    assert invariants.keeps_events(baseline.before, view), "the next command lost events"
    if view.mirrored:
        assert_mirrors_match(sandbox)


def assert_mirrors_match(sandbox: WarmSandbox) -> None:
    """Every mirrored file shows what the log has, is valid, and was not taken for an external edit."""
    shown = sandbox.run(("mirror", "status", "--json"))
    assert shown.code == 0, shown.err
    for item in json.loads(shown.out)["mirrors"]:
        assert item["paths"], f"nothing is mirrored in {item['format']}"
        assert not item["changed_outside"], item
        assert item["rejected"] == [], item
    checked = sandbox.run(("validate", ".", "--json"))
    assert checked.code == 0, checked.out


def assert_no_traceback(answer: Answer, *, silent: bool = False) -> None:
    """No traceback, no internal error, and a message when the command failed (if it could print one)."""
    text = answer.out + answer.err
    assert "Traceback" not in text, text
    assert "something unexpected" not in text, text
    if answer.code > 0 and not silent:
        assert answer.err.startswith("holdfast: "), f"exit {answer.code} without a message: {text!r}"


def sampled(all_of: Sequence[_T], count: int, seed: int) -> list[_T]:
    """All of them, or a sample of this many in order."""
    if len(all_of) <= count:
        return list(all_of)
    return [all_of[index] for index in sorted(random.Random(seed).sample(range(len(all_of)), count))]
