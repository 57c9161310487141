"""Merge what somebody made of a session's document: three versions become one, and that becomes events.

The nearest version we wrote, what is there now, and what is true now are merged; the difference between the truth
and the merged document is recorded, strictly, like anything a person says. Where both sides changed one value the
log gets a conflict with both. Whatever no event can say is kept for the format it came in.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from holdfast.core import tasks
from holdfast.core.canonical import Json, digest
from holdfast.core.events import ConflictDetected, TaskDropped, TaskEdited
from holdfast.core.lifecycle import FINAL
from holdfast.core.state import State
from holdfast.formats import document_paths
from holdfast.formats.base import Document, Format, ImportContext, Place, TimedEvent
from holdfast.formats.contract.fields import without_history
from holdfast.formats.entries import named, same
from holdfast.formats.import_context import configured
from holdfast.formats.merge import MergeConflict, merged
from holdfast.formats.mirror.moved_tasks import PENDING, MovedTask, Remembered, TakenOut, pending, taken_out
from holdfast.formats.stored_remainder import keep, shown
from holdfast.formats.text.json import written

if TYPE_CHECKING:
    from holdfast.store.interface import Transaction
    from holdfast.workspace.recorder import Recorder


class Absorbed(NamedTuple):
    events: int
    conflicts: int
    # Tasks that the document left out of its pending ones.
    taken_out: TakenOut


def absorb(
    recorder: Recorder,
    transaction: Transaction,
    session: str,
    theirs: Document,
    rules: Format,
    *,
    base: Document | None,
    ground: ImportContext,
    known: Container[str | None] = (),
    after: Sequence[str] = (),
    versions: Callable[[], Remembered] = Remembered,
    edited: bool = False,
) -> Absorbed:
    """Record what a (tidy) document says that the session does not. Refused as a whole when the rules forbid it.

    `known` are the keys of the session's events: what came in under one of them is no news. `after` are the events
    that came of the writer's own words before: who goes back and forth says the same anew each time. `versions` are
    those that the document may have been made from. `edited`: it is a mirrored file, changed on this device.
    """
    rules = configured(rules, ground.models)
    state = transaction.state(session)
    before = state.count
    ours = shown(state, rules)
    lines = ours.get("history") if rules.name == "contract" else None
    if rules.name == "contract":
        _hear_lines(recorder, transaction, session, ours, theirs, known)
        ours, theirs = without_history(ours), without_history(theirs)
        base = None if base is None else without_history(base)
    source = digest(written(base or {}), written(theirs), *(name.encode() for name in after))[:32]
    left_out = _left_out(ours, theirs, rules, versions)
    if left_out.moved:
        heard = _of_moved(state, left_out.moved, ground.now)
        recorder.append_reported(transaction, session, heard, keys=_keys(f"{rules.name}:{source}:moved"))
        ours = shown(state, rules)
    together = merged(base, ours, theirs, rules)
    arranged = _arranged(together.document, base, theirs, rules, ())
    assert isinstance(arranged, dict)
    together = together._replace(document=arranged)
    counted = rules.counted(ours if base is None else base, theirs, state, ground)
    if same(together.document, ours) and not together.clashes and not counted:
        return Absorbed(state.count - before, 0, left_out)
    changes = rules.changes(ours, together.document, state, ground)
    changes += [event for event in counted if event not in changes]
    found = [TimedEvent(state.updated_at, _conflict(clash, rules)) for clash in together.clashes]
    recorder.append_reported(transaction, session, [*changes, *found], keys=_keys(f"{rules.name}:{source}"))
    _keep_the_rest(recorder, transaction, state, ours, together.document, rules, lines, edited=edited)
    return Absorbed(state.count - before, len(found), left_out)


def _left_out(ours: Document, theirs: Document, rules: Format, versions: Callable[[], Remembered]) -> TakenOut:
    if PENDING not in theirs or pending(ours) <= pending(theirs):
        return TakenOut([], [])  # as nearly always: no version need be looked at
    known = versions()
    return taken_out(theirs, ours, known, rules) if known.later else TakenOut([], [])


def _of_moved(state: State, moved: Sequence[MovedTask], now: int) -> Iterator[TimedEvent]:
    """What was finished gets the words it was finished in, by which it is found among the completed ones."""
    left = [task for task in state.tasks.values() if tasks.status_of(task) not in FINAL["task"]]
    for text, became in moved:
        task = next((task for task in left if task.text == text), None)
        if task is not None:
            left.remove(task)
            if became is None:
                yield TimedEvent(now, TaskDropped(id=task.id, ref=task.ref))
            else:
                yield TimedEvent(state.updated_at, TaskEdited(id=task.id, ref=task.ref, text=became))


def _keys(source: str) -> Iterator[str]:
    """The same edit read twice, or on two machines, is one edit."""
    number = 0
    while True:
        yield f"file:{source}:{number}"
        number += 1


def _hear_lines(
    recorder: Recorder,
    transaction: Transaction,
    session: str,
    ours: Document,
    theirs: Document,
    known: Container[str | None],
) -> None:
    """Lines that others added to a history: each an event, known by what it says, and kept nowhere else."""
    from holdfast.formats.contract.events import commands

    # What an import brought is kept with its document.
    here = {name for name, _ in commands(ours)}
    new = {
        key: ran
        for name, ran in commands(theirs)
        if name not in here and (key := f"file:contract:{name}") not in known
    }
    recorder.append_reported(transaction, session, new.values(), keys=iter(new))


def _keep_the_rest(
    recorder: Recorder,
    transaction: Transaction,
    state: State,
    ours: Document,
    together: Document,
    rules: Format,
    lines: Json,
    *,
    edited: bool,
) -> None:
    """What their document says beyond the events. Where an event did speak, what it led to counts."""
    now = shown(state, rules) if lines is None else without_history(shown(state, rules))
    meant = _arranged(merged(ours, now, together, rules, in_their_words=True).document, None, together, rules, ())
    assert isinstance(meant, dict)
    # Where theirs and ours do not fit into one document, what we know is shown as it is here; all of it, if that is
    # not enough.
    for everywhere in (False, True):
        unfit = _broken_keys(meant, rules)
        if unfit:
            unfit = {*meant} if everywhere else unfit
            meant = {key: now.get(key, value) if key in unfit else value for key, value in meant.items()}
    rest = keep(state, rules, meant if lines is None else {**meant, "history": lines}, edited=edited)
    if rest is not None:
        recorder.append_reported(transaction, state.session, [TimedEvent(state.updated_at, rest)], keys=None)


def _broken_keys(document: Document, rules: Format) -> set[str]:
    """Where a document breaks the rules; of several files, by their own keys."""
    return {
        str(problem.place[0]) if problem.place else ""
        for kind, value in rules.files(document)
        for problem in rules.broken(value, kind)
        if problem.severity == "error"
    }


def _arranged(value: Json, base: Json, like: Json, rules: Format, place: Place) -> Json:
    """The value with its keys in the order they have in `like`, where that is not simply the order of `base`."""
    if isinstance(value, dict) and isinstance(like, dict):
        was = base if isinstance(base, dict) else {}
        inner = {
            key: _arranged(item, was.get(key), like.get(key), rules, (*place, key)) for key, item in value.items()
        }
        if [key for key in was if key in like] == [key for key in like if key in was] and was:
            return inner
        return {**{key: inner[key] for key in like if key in inner}, **inner}
    if isinstance(value, list) and isinstance(like, list):
        before = dict(named(base, place, rules.identities)) if isinstance(base, list) else {}
        there = dict(named(like, place, rules.identities))
        entries = {
            name: _arranged(item, before.get(name), there.get(name), rules, (*place, name))
            for name, item in named(value, place, rules.identities)
        }
        order = _order([*entries], [*before], [*there]) if place == (PENDING,) else entries
        return [entries[name] for name in order]
    return value


def _order(names: list[str], before: list[str], there: list[str]) -> list[str]:
    """The names in the order they have `there`, if somebody moved them or put in others before them."""
    known, stay = set(there), set(before) & set(there)
    unmoved = [name for name in before if name in stay] + [name for name in there if name not in stay]
    if before and there == unmoved:
        return names
    present = set(names)
    order = [name for name in there if name in present]
    for position, name in enumerate(names):
        if name not in known:
            order.insert(order.index(names[position - 1]) + 1 if position else 0, name)
    return order


def _conflict(clash: MergeConflict, rules: Format) -> ConflictDetected:
    meaning = rules.field(clash.place, clash.theirs)
    if meaning is None:
        return ConflictDetected(field=document_paths.written(clash.place)[2:], value=clash.theirs, stood=clash.ours)
    field, value = meaning
    stood = rules.field(clash.place, clash.ours)
    return ConflictDetected(field=field, value=value, stood=None if stood is None else stood[1])
