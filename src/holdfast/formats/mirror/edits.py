"""Edits of mirrored files: check them more strictly than an import would, merge them, and record what they say.

An import repairs whatever can be understood. Here a program or a person changed one of our own documents: what is
left out was not removed, what is merely spelled differently is understood, and what would have to be reinterpreted
breaks the rules. The beginning of a session and the name of its file cannot be changed.

A merge takes the nearest version we wrote, what is there now, and what is true now. The difference between the truth
and the merged document is recorded, as strictly as anything a person enters. Where both sides changed one value, the
log gets a conflict with both. What no event can say is kept for the format it came in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.core import tasks
from holdfast.core.canonical import Json, digest
from holdfast.core.errors import Invalid
from holdfast.core.events import ConflictDetected, TaskDropped, TaskEdited
from holdfast.core.lifecycle import FINAL
from holdfast.core.state import State
from holdfast.core.text import shorten
from holdfast.core.times import parse_time
from holdfast.formats import document_paths, timestamps
from holdfast.formats.base import Document, Format, ImportContext, Place, TimedEvent
from holdfast.formats.contract.fields import without_history
from holdfast.formats.document_paths import covers, is_covered, value_at
from holdfast.formats.entries import entries_by_name, is_same
from holdfast.formats.import_context import configured
from holdfast.formats.merge import MergeConflict, merge_documents
from holdfast.formats.mirror.base_version import (
    PENDING,
    KnownVersions,
    MovedTask,
    RemovedTasks,
    pending_tasks,
    removed_tasks,
)
from holdfast.formats.remainder import remainder_event, render_with_remainder
from holdfast.formats.text.json import render_json

if TYPE_CHECKING:
    from holdfast.store.interface import Transaction
    from holdfast.workspace.recorder import Recorder

# Where each format says when the session began.
BEGINNINGS: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "orchestrator": (("created",),),
    "timer": (("startTime",),),
    "craft": (("created_at",),),
    "contract": (
        ("state", "current_state", "started_at"), ("plan", "feature", "created_at"), ("entry", "started_at"),
    ),
}  # fmt: skip
# Lines of history are somebody's own, each by itself, and only ever added.
_NOT_COMPARED: Final = frozenset({"history"})
_KEPT_SUFFIX: Final = "_as_found"
# Keys that Holdfast adds itself: they follow what others write next to them.
_OURS: Final = "x-holdfast"
# One word that two formats spell differently.
_SYNONYMS: Final = {"complete": "completed"}


class BrokenRule(NamedTuple):
    """A place that breaks the rules, and why."""

    place: Place
    why: str


# ── what breaks the rules ────────────────────────────────────────────────────────────────────────────────


def broken_rules(value: Json, repaired: Document, rules: Format, context: ImportContext) -> BrokenRule | None:
    """The first value that was reinterpreted, not merely respelled, when the document was repaired."""
    return next(_Comparison(rules, context).differences(value, repaired, ()), None)


class _Comparison:
    def __init__(self, rules: Format, context: ImportContext) -> None:
        self._rules, self._context = rules, context

    def differences(self, raw: Json, repaired: Json, place: Place) -> Iterator[BrokenRule]:
        if raw is None or raw == repaired or is_covered(self._rules.derived, place):
            return
        if isinstance(raw, dict) and isinstance(repaired, dict):
            yield from self._of_objects(raw, repaired, place)
        elif isinstance(raw, list) and isinstance(repaired, list):
            yield from self._of_lists(raw, repaired, place)
        elif not self._is_respelled(raw, repaired):
            yield BrokenRule(
                place, f"{_shown(raw)} breaks the rules, and would have to be read as {_shown(repaired)}"
            )

    def _of_objects(self, raw: dict[str, Json], repaired: dict[str, Json], place: Place) -> Iterator[BrokenRule]:
        ours = [key for key in repaired if key.startswith(_OURS)]
        added = [
            value
            for key, value in repaired.items()
            if (key not in raw or key in ours) and not key.endswith(_KEPT_SUFFIX)
        ]
        for key, value in raw.items():
            if (not place and key in _NOT_COMPARED) or key in ours:
                continue
            if key in repaired:
                if value not in added and not was_set_aside(
                    key, value, repaired
                ):  # else it was kept, next to the nearest word the format has
                    yield from self.differences(value, repaired[key], (*place, key))
            elif f"{key}{_KEPT_SUFFIX}" in repaired and f"{key}{_KEPT_SUFFIX}" not in raw and value is not None:
                yield BrokenRule((*place, key), f"{_shown(value)} breaks the rules")

    def _of_lists(self, raw: list[Json], repaired: list[Json], place: Place) -> Iterator[BrokenRule]:
        filled = [item for item in raw if item not in (None, "", {}, [])]
        if len(filled) > len(repaired):
            yield BrokenRule(place, "has entries that break the rules, and would have to be left out")
            return
        entries = raw if len(raw) <= len(repaired) else filled
        names = [name for name, _ in entries_by_name(repaired, place, self._rules.identities)]
        for position, match in enumerate(entries):
            name = names[position] if isinstance(repaired[position], dict) else position
            yield from self.differences(match, repaired[position], (*place, name))

    def _is_respelled(self, raw: Json, repaired: Json) -> bool:
        if isinstance(raw, bool) or isinstance(repaired, bool):
            return str(raw).strip().lower() == str(repaired).lower()
        if isinstance(raw, (str, int, float)) and isinstance(repaired, (str, int, float)):
            if _plain(raw) == _plain(repaired) or self._same_time(raw, repaired):
                return True
            number = _number(raw)
            return number is not None and number == _number(repaired)
        if isinstance(raw, str):
            return bool(raw.strip()) and _is_within(raw, repaired)
        return isinstance(raw, dict) and (isinstance(repaired, list) or repaired in raw.values())

    def _same_time(self, raw: Json, repaired: Json) -> bool:
        if not isinstance(raw, str) or not isinstance(repaired, str):
            return False
        try:
            return timestamps.read_time(raw, self._context).ms == parse_time(repaired)
        except Invalid:
            return False


def _is_within(words: str, repaired: Json) -> bool:
    """Whether an object or a list contains these words somewhere."""
    inner = repaired.values() if isinstance(repaired, dict) else repaired if isinstance(repaired, list) else ()
    return any(item == words or _is_within(words, item) for item in inner)


def _plain(value: float | str) -> str:
    """A word without capitals, dashes and spaces."""
    word = re.sub(r"[\W_]+", "", str(value).casefold())
    return _SYNONYMS.get(word, word)


def _number(value: float | str) -> float | None:
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _shown(value: Json) -> str:
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    return ascii(shorten(str(value), 40)) if isinstance(value, str) else shorten(str(value), 40)


def changed_beginning(theirs: Document, known: list[Document], rules: Format) -> BrokenRule | None:
    """The first place that contradicts every known version about when the session began."""
    for place in BEGINNINGS[rules.name]:
        begun = _moment(value_at(theirs, place))
        known_beginnings = {moment for entry in known if (moment := _moment(value_at(entry, place))) is not None}
        if begun is not None and known_beginnings and begun not in known_beginnings:
            return BrokenRule(place, "says when the session began, and cannot be changed")
    return None


def _moment(value: Json) -> int | None:
    try:
        return parse_time(value) if isinstance(value, str) else None
    except Invalid:
        return None


# ── what was left out ────────────────────────────────────────────────────────────────────────────────────


def without_assumptions(
    raw: Json, repaired: Json, ours: Json, rules: Format, place: Place = (), *, nulls: bool = False
) -> Json:
    """The repaired document, with the values of `ours` wherever it has a value that was only assumed.

    `nulls`: a written null counts as said; otherwise it says nothing.
    """
    if isinstance(raw, dict) and isinstance(repaired, dict) and isinstance(ours, dict):
        renamed = [value for key, value in raw.items() if key not in ours and value is not None]
        result: dict[str, Json] = {}
        for key, value in repaired.items():
            if key in ours and was_set_aside(key, raw.get(key), repaired):
                result[key] = ours[key]
            elif raw.get(key) is not None:
                result[key] = without_assumptions(raw[key], value, ours.get(key), rules, (*place, key), nulls=nulls)
            elif nulls and key in raw and value is None:
                result[key] = None
            elif key.endswith(_KEPT_SUFFIX) and raw.get(key.removesuffix(_KEPT_SUFFIX)) is not None:
                result[key] = value  # it was written where the format has no room for it
            elif key in ours and not any(_came_from(value, other) for other in renamed):
                result[key] = ours[key]
            else:
                result[key] = value
        return result
    if isinstance(raw, list) and isinstance(repaired, list) and isinstance(ours, list) and len(raw) <= len(repaired):
        entries = entries_by_name(repaired, place, rules.identities)
        return [
            without_assumptions(raw[position], pair, entry, rules, (*place, name), nulls=nulls)
            if position < len(raw)
            else pair
            for position, ((name, pair), entry) in enumerate(
                zip(entries, _ours_of(raw, entries, ours, rules, place), strict=True)
            )
        ]
    return repaired


def _ours_of(
    raw: list[Json], entries: list[tuple[str, Json]], ours: list[Json], rules: Format, place: Place
) -> Iterator[Json]:
    """For each of their entries, which of ours it is. One without its name is the one that was at its position."""
    known = entries_by_name(ours, place, rules.identities)
    ours_by_name, theirs = dict(known), {name for name, _ in entries}
    keys = next((keys for pattern, keys in rules.identities.items() if covers(pattern, place)), ("id",))
    for position, (name, _) in enumerate(entries):
        entry = raw[position] if position < len(raw) else None
        nameless = isinstance(entry, dict) and any(entry.get(key) is None for key in keys)
        if nameless and position < len(known) and known[position][0] not in theirs:
            yield known[position][1]
        else:
            yield ours_by_name.get(name)


def was_set_aside(key: str, value: Json, repaired: dict[str, Json]) -> bool:
    """Whether a value was kept next to its key, which is empty instead."""
    return value is not None and repaired.get(key) is None and repaired.get(f"{key}{_KEPT_SUFFIX}") == value


def _came_from(repaired: Json, other: Json) -> bool:
    """Whether a value came from a key of another name."""
    if repaired == other or type(repaired) is not type(other):
        return repaired == other
    if isinstance(repaired, dict) and isinstance(other, dict):
        return not repaired.keys().isdisjoint(other)
    return isinstance(repaired, list) or _moment(repaired) is not None


def describe(broken: BrokenRule) -> str:
    return f"{document_paths.format_place(broken.place)} {broken.why}"


# ── merging ──────────────────────────────────────────────────────────────────────────────────────────────


class MergedEdit(NamedTuple):
    events: int
    conflicts: int
    # Tasks missing from the document's pending ones.
    removed_tasks: RemovedTasks


def merge_edit(
    recorder: Recorder,
    transaction: Transaction,
    session: str,
    theirs: Document,
    rules: Format,
    *,
    base: Document | None,
    context: ImportContext,
    known: Container[str | None] = (),
    after: Sequence[str] = (),
    versions: Callable[[], KnownVersions] = KnownVersions,
    edited: bool = False,
) -> MergedEdit:
    """Record what a repaired document adds to the session; refused as a whole if the rules forbid any of it.

    `known` are the keys of the session's events: what was recorded under one of them is not new. `after` are the
    events of the writer's earlier edits: undoing and redoing an edit records the same again each time. `versions` are
    those the document may have been made from. `edited`: it is a mirrored file, changed on this device.
    """
    rules = configured(rules, context.models)
    state = transaction.state(session)
    before = state.count
    ours = render_with_remainder(state, rules)
    lines = ours.get("history") if rules.name == "contract" else None
    if rules.name == "contract":
        _record_lines(recorder, transaction, session, ours, theirs, known)
        ours, theirs = without_history(ours), without_history(theirs)
        base = None if base is None else without_history(base)
    source = digest(render_json(base or {}), render_json(theirs), *(name.encode() for name in after))[:32]
    left_out = _left_out(ours, theirs, rules, versions)
    if left_out.moved:
        events = _with_finished_texts(state, left_out.moved, context.now)
        recorder.append_reported(transaction, session, events, keys=_keys_of_edit(f"{rules.name}:{source}:moved"))
        ours = render_with_remainder(state, rules)
    together = merge_documents(base, ours, theirs, rules)
    arranged = _arrange_keys(together.document, base, theirs, rules, ())
    assert isinstance(arranged, dict)
    together = together._replace(document=arranged)
    work = rules.counted(ours if base is None else base, theirs, state, context)
    if is_same(together.document, ours) and not together.clashes and not work:
        return MergedEdit(state.count - before, 0, left_out)
    changes = rules.changes(ours, together.document, state, context)
    changes += [event for event in work if event not in changes]
    conflicts = [TimedEvent(state.updated_at, _conflict(clash, rules)) for clash in together.clashes]
    recorder.append_reported(
        transaction, session, [*changes, *conflicts], keys=_keys_of_edit(f"{rules.name}:{source}")
    )
    _keep_remainder(recorder, transaction, state, ours, together.document, rules, lines, edited=edited)
    return MergedEdit(state.count - before, len(conflicts), left_out)


def _left_out(ours: Document, theirs: Document, rules: Format, versions: Callable[[], KnownVersions]) -> RemovedTasks:
    if PENDING not in theirs or pending_tasks(ours) <= pending_tasks(theirs):
        return RemovedTasks([], [])  # nearly always, and then no version is needed
    known = versions()
    return removed_tasks(theirs, ours, known, rules) if known.later else RemovedTasks([], [])


def _with_finished_texts(state: State, moved: Sequence[MovedTask], now: int) -> Iterator[TimedEvent]:
    """A finished task gets the words it was finished in, which identify it among the completed ones."""
    open_tasks = [task for task in state.tasks.values() if tasks.status_of(task) not in FINAL["task"]]
    for text, became in moved:
        task = next((task for task in open_tasks if task.text == text), None)
        if task is not None:
            open_tasks.remove(task)
            if became is None:
                yield TimedEvent(now, TaskDropped(id=task.id, ref=task.ref))
            else:
                yield TimedEvent(state.updated_at, TaskEdited(id=task.id, ref=task.ref, text=became))


def _keys_of_edit(source: str) -> Iterator[str]:
    """Keys by which one edit, read twice or on two machines, is recorded once."""
    number = 0
    while True:
        yield f"file:{source}:{number}"
        number += 1


def _record_lines(
    recorder: Recorder,
    transaction: Transaction,
    session: str,
    ours: Document,
    theirs: Document,
    known: Container[str | None],
) -> None:
    """Lines that others added to a history: each becomes an event, known by its content, and is kept nowhere else."""
    from holdfast.formats.contract.events import foreign_line_events

    # An import keeps its lines with its document.
    known_names = {name for name, _ in foreign_line_events(ours)}
    new = {
        key: ran
        for name, ran in foreign_line_events(theirs)
        if name not in known_names and (key := f"file:contract:{name}") not in known
    }
    recorder.append_reported(transaction, session, new.values(), keys=iter(new))


def _keep_remainder(
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
    """Keep what their document says beyond the events. Where an event recorded something, its result counts."""
    now = (
        render_with_remainder(state, rules) if lines is None else without_history(render_with_remainder(state, rules))
    )
    document_to_keep = _arrange_keys(
        merge_documents(ours, now, together, rules, in_their_words=True).document, None, together, rules, ()
    )
    assert isinstance(document_to_keep, dict)
    # Where theirs and ours do not fit into one document, ours is shown; all of ours, if that is not enough.
    for everywhere in (False, True):
        unfit = _broken_keys(document_to_keep, rules)
        if unfit:
            unfit = {*document_to_keep} if everywhere else unfit
            document_to_keep = {
                key: now.get(key, value) if key in unfit else value for key, value in document_to_keep.items()
            }
    rest = remainder_event(
        state, rules, document_to_keep if lines is None else {**document_to_keep, "history": lines}, edited=edited
    )
    if rest is not None:
        recorder.append_reported(transaction, state.session, [TimedEvent(state.updated_at, rest)], keys=None)


def _broken_keys(document: Document, rules: Format) -> set[str]:
    """The keys where a document breaks the rules; of several files, their own keys."""
    return {
        str(problem.place[0]) if problem.place else ""
        for kind, value in rules.files(document)
        for problem in rules.broken(value, kind)
        if problem.severity == "error"
    }


def _arrange_keys(value: Json, base: Json, like: Json, rules: Format, place: Place) -> Json:
    """The value with its keys ordered as in `like`, unless that is simply the order of `base`."""
    if isinstance(value, dict) and isinstance(like, dict):
        base_object = base if isinstance(base, dict) else {}
        inner = {
            key: _arrange_keys(item, base_object.get(key), like.get(key), rules, (*place, key))
            for key, item in value.items()
        }
        if [key for key in base_object if key in like] == [key for key in like if key in base_object] and base_object:
            return inner
        return {**{key: inner[key] for key in like if key in inner}, **inner}
    if isinstance(value, list) and isinstance(like, list):
        before = dict(entries_by_name(base, place, rules.identities)) if isinstance(base, list) else {}
        like_by_name = dict(entries_by_name(like, place, rules.identities))
        entries = {
            name: _arrange_keys(item, before.get(name), like_by_name.get(name), rules, (*place, name))
            for name, item in entries_by_name(value, place, rules.identities)
        }
        order = _order_names([*entries], [*before], [*like_by_name]) if place == (PENDING,) else entries
        return [entries[name] for name in order]
    return value


def _order_names(names: list[str], before: list[str], like: list[str]) -> list[str]:
    """The names ordered as in `like`, if somebody moved them or inserted others before them."""
    known, in_both = set(like), set(before) & set(like)
    unmoved = [name for name in before if name in in_both] + [name for name in like if name not in in_both]
    if before and like == unmoved:
        return names
    present = set(names)
    order = [name for name in like if name in present]
    for position, name in enumerate(names):
        if name not in known:
            order.insert(order.index(names[position - 1]) + 1 if position else 0, name)
    return order


def _conflict(clash: MergeConflict, rules: Format) -> ConflictDetected:
    meaning = rules.field(clash.place, clash.theirs)
    if meaning is None:
        return ConflictDetected(
            field=document_paths.format_place(clash.place)[2:], value=clash.theirs, stood=clash.ours
        )
    field, value = meaning
    our_field = rules.field(clash.place, clash.ours)
    return ConflictDetected(field=field, value=value, stood=None if our_field is None else our_field[1])
