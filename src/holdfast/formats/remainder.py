"""What a rendering leaves out of a document, and how it is put back.

A document has more than the model: unknown fields, times with an offset, its own order of keys. `remainder(shown,
original)` is exactly that: where the rendering is right, nothing is kept. `restore(shown, kept)` applies it to a
later rendering. What has changed since is shown as it is now; everything else is restored exactly.

    restore(shown, remainder(shown, original)) == original        for any two documents

The loss report of a conversion lists a remainder, and `--carry` writes one into the document. The store keeps one per
format as text in the session's `extra`, because data in the log would lose the order of keys and spelling of numbers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.canonical import Json
from holdfast.core.events import ExtraKept
from holdfast.core.model import SyncFacts
from holdfast.core.state import State
from holdfast.formats.base import Document, Format, Place
from holdfast.formats.document_paths import is_covered
from holdfast.formats.entries import Identities, entries_by_name, is_same

if TYPE_CHECKING:
    from collections.abc import Collection

# The parts of a remainder, by letters, since a session keeps one per format:
#   v  what was meant instead of           w  what was shown
#   i  remainders within, by key or name   m  keys the rendering has not, with their values
#   n  keys or names the rendering has and the document had not, with what was shown
#   o  the order of keys or names, where it is another
#   r  entries the rendering has not: [name of the entry before, or null, [entries]]
Kept = dict[str, Json]


def remainder(shown: Json, original: Json, identities: Identities, place: Place = ()) -> Kept | None:
    """What must be kept to restore the document from its rendering; None when nothing is."""
    if is_same(shown, original):
        return None
    if isinstance(shown, dict) and isinstance(original, dict):
        return _object_remainder(shown, original, identities, place)
    if isinstance(shown, list) and isinstance(original, list):
        return _list_remainder(shown, original, identities, place)
    return {"v": original, "w": shown}


def _object_remainder(
    shown: dict[str, Json], original: dict[str, Json], identities: Identities, place: Place
) -> Kept:
    kept: Kept = {}
    within: dict[str, Json] = {}
    for key, value in original.items():
        if key in shown and (inner := remainder(shown[key], value, identities, (*place, key))) is not None:
            within[key] = inner
    _put(kept, "i", within)
    _put(kept, "m", {key: value for key, value in original.items() if key not in shown})
    _put(kept, "n", {key: value for key, value in shown.items() if key not in original})
    if list(original) != _usual_order(shown, kept):
        kept["o"] = list(original)
    return kept


def _list_remainder(shown: list[Json], original: list[Json], identities: Identities, place: Place) -> Kept:
    kept: Kept = {}
    shown_by_name = dict(entries_by_name(shown, place, identities))
    within: dict[str, Json] = {}
    order: list[Json] = []
    raw: list[Json] = []
    before: str | None = None
    for name, entry in entries_by_name(original, place, identities):
        if name in shown_by_name:
            inner = remainder(shown_by_name[name], entry, identities, (*place, name))
            if inner is not None:
                within[name] = inner
            order.append(name)
            before = name
        elif raw and isinstance(last := raw[-1], list) and last[0] == before:
            assert isinstance(last[1], list)
            last[1].append(entry)
        else:
            raw.append([before, [entry]])
    _put(kept, "i", within)
    _put(kept, "r", raw)
    _put(kept, "n", {name: entry for name, entry in shown_by_name.items() if name not in order})
    if order != [name for name in shown_by_name if name in order]:
        kept["o"] = order
    return kept


def _put(kept: Kept, letter: str, value: dict[str, Json] | list[Json]) -> None:
    if value:
        kept[letter] = value


def _usual_order(shown: dict[str, Json], kept: Kept) -> list[str]:
    hidden, missing = _object(kept, "n"), _object(kept, "m")
    return [key for key in shown if key not in hidden] + list(missing)


def restore(
    shown: Json, kept: Json, identities: Identities, *, passing: Collection[Place] = (), place: Place = ()
) -> Json:
    """The document restored over a later rendering. What was kept for `passing` places is left out."""
    if not isinstance(kept, dict) or not kept or is_covered(passing, place):
        return shown
    if "v" in kept:
        return kept["v"] if is_same(shown, kept.get("w")) else shown
    if isinstance(shown, dict):
        return _restore_object(shown, kept, identities, passing, place)
    if isinstance(shown, list):
        return _restore_list(shown, kept, identities, passing, place)
    return shown


def _restore_object(
    shown: dict[str, Json], kept: Kept, identities: Identities, passing: Collection[Place], place: Place
) -> Json:
    within, missing, hidden = _object(kept, "i"), _object(kept, "m"), _object(kept, "n")
    result: dict[str, Json] = {}
    for key, value in shown.items():
        if key in hidden and is_same(value, hidden[key]):
            continue
        inner = within.get(key)
        result[key] = restore(value, inner, identities, passing=passing, place=(*place, key))
    for key, value in missing.items():
        result.setdefault(key, value)
    order = kept.get("o")
    if not isinstance(order, list):
        return result
    first = {key: result[key] for key in order if isinstance(key, str) and key in result}
    return {**first, **result}


def _restore_list(
    shown: list[Json], kept: Kept, identities: Identities, passing: Collection[Place], place: Place
) -> Json:
    within, hidden = _object(kept, "i"), _object(kept, "n")
    result: dict[str, Json] = {}
    for name, entry in entries_by_name(shown, place, identities):
        if name in hidden and is_same(entry, hidden[name]):
            continue
        inner = within.get(name)
        result[name] = restore(entry, inner, identities, passing=passing, place=(*place, name))
    order = kept.get("o")
    if isinstance(order, list):
        first = {name: result[name] for name in order if isinstance(name, str) and name in result}
        result = {**first, **result}
    after: dict[str | None, list[Json]] = {}
    for item in _list(kept, "r"):
        if isinstance(item, list) and len(item) == 2 and isinstance(item[1], list):
            follows = item[0] if isinstance(item[0], str) and item[0] in result else None
            after.setdefault(follows, []).extend(item[1])
    entries = list(after.get(None, ()))
    for name, entry in result.items():
        entries.append(entry)
        entries.extend(after.get(name, ()))
    return entries


def _object(kept: Kept, letter: str) -> dict[str, Json]:
    part = kept.get(letter)
    return part if isinstance(part, dict) else {}


def _list(kept: Kept, letter: str) -> list[Json]:
    part = kept.get(letter)
    return part if isinstance(part, list) else []


def losses(kept: Json, place: Place = ()) -> Iterator[tuple[Place, Json]]:
    """Every place in a remainder, with what would be lost without it."""
    if not isinstance(kept, dict):
        return
    if "v" in kept:
        yield place, kept["v"]
        return
    for key, value in _object(kept, "m").items():
        yield (*place, key), value
    for item in _list(kept, "r"):
        if isinstance(item, list) and len(item) == 2 and isinstance(item[1], list):
            for entry in item[1]:
                yield place, entry
    for key, inner in _object(kept, "i").items():
        yield from losses(inner, (*place, key))


# ── kept in the store ────────────────────────────────────────────────────────────────────────────────────


def render_with_remainder(
    state: State, rules: Format, facts: SyncFacts | None = None, path: str | None = None
) -> Document:
    """The session in a format as of its last event: as it was imported, with all changes since.

    `facts`: its present sync status, which replaces the imported one. `path`: the project's path on this device,
    which replaces the imported one as soon as something has happened.
    """
    kept = _kept(state, rules)
    untouched = kept is not None and kept.get("at") == state.updated_at
    document = rules.render(state)
    if kept is not None:
        passing = () if untouched else rules.passing
        restored = restore(document, kept.get("keep"), rules.identities, passing=passing)
        document = restored if isinstance(restored, dict) else document
    if path is not None and not (untouched and kept is not None and not kept.get("edited")):
        document = rules.with_path(document, path)
    return document if facts is None else rules.with_sync(document, facts)


def remainder_event(
    state: State, rules: Format, document: Document, *, always: bool = False, edited: bool = False
) -> ExtraKept | None:
    """The event to record so that `render_with_remainder` gives this document; None if it does already.

    `always`: record it even then, as the imported version. `edited`: it is our own document, changed on this device,
    so its path says nothing about other devices.
    """
    rest = remainder(rules.render(state), document, rules.identities)
    known = _kept(state, rules)
    if rest is None and not always and (known is None or known.get("keep") is None):
        return None
    if known is not None and known.get("keep") == rest and known.get("at") == state.updated_at:
        return None
    stored = {"at": state.updated_at, "keep": rest} | ({"edited": True} if edited else {})
    value = json.dumps(stored, ensure_ascii=False, separators=(",", ":"))
    return ExtraKept(name=rules.name, value=value)


def _kept(state: State, rules: Format) -> dict[str, Json] | None:
    text = state.extra.get(rules.name)
    if not isinstance(text, str):
        return None
    try:
        value = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return None
    return value if isinstance(value, dict) else None
