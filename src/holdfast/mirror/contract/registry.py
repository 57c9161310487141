"""`active-features.yaml`: which features there are, since when, last active when, and whether they go on.

Many processes and many people's branches write it. Entries are changed under a lock, one by one, by their feature
id; everybody else's entries, keys and comments stay as they are, and nobody's time goes backwards.
"""

from __future__ import annotations

from typing import Final

from holdfast.core.canonical import Json
from holdfast.core.errors import Damaged, Invalid, Refused
from holdfast.core.times import millis
from holdfast.machine.trouble import shown
from holdfast.mirror.contract import documents, layout
from holdfast.mirror.contract.documents import Document, Mapping
from holdfast.mirror.locks import locked

LIST: Final = "active_features"
# Dozens of processes may each want to add an entry at the same moment.
PATIENCE: Final = 30.0
_ENDED: Final = "completed"


def entries(root: str) -> list[Mapping]:
    """Every entry, in the file's order; none when there is no registry yet."""
    with layout.concerning("read", file=layout.registry(root)):
        found = _load(root) if layout.is_there(root) else None
        return [] if found is None else listed(found, layout.registry(root))


def entry(root: str, feature_id: str) -> Mapping | None:
    return next((one for one in entries(root) if one.get("feature_id") == feature_id), None)


def put(root: str, entry: Mapping) -> None:
    """Add an entry, or bring the one of this feature up to date. What the entry does not name stays."""
    feature_id = entry.get("feature_id")
    if not isinstance(feature_id, str):
        raise Invalid("an entry of the registry needs a feature_id")
    path = layout.registry(root)
    with layout.concerning("update", feature_id=feature_id, file=path):
        layout.checked_id(feature_id)
        layout.need(root)
        with locked(layout.registry_lock(root), patience=PATIENCE, what=f"registering {feature_id}"):
            found = _load(root)
            known = [] if found is None else listed(found, path)
            at = next((n for n, one in enumerate(known) if one.get("feature_id") == feature_id), None)
            old = None if at is None else known[at]
            new = entry if old is None else _moved(old, entry)
            if new == old:
                return
            changed = [*known, new] if at is None else [*known[:at], new, *known[at + 1 :]]
            documents.save(path, {**(found.value if found else {}), LIST: [*changed]}, found)


def listed(found: Document, path: str) -> list[Mapping]:
    """The entries of a registry; raises `Damaged` when it is none."""
    value = found.value.get(LIST)
    if value is None and (not found.value or LIST in found.value):
        return []
    if isinstance(value, list):
        known = [one for one in value if isinstance(one, dict) and isinstance(one.get("feature_id"), str)]
        if len(known) == len(value):
            return known
    raise Damaged(
        f"{shown(path)} is no list of features",
        hint="holdfast doctor --repair sets it aside and makes it anew.",
        operation="read",
        file=path,
    )


def later(one: Json, other: Json) -> Json:
    """Of two times as files write them, the later; what is no time counts as long past."""
    return one if _moment(one) > _moment(other) else other


def _moment(written: Json) -> int:
    try:
        return millis(written) if isinstance(written, str) else -(2**62)
    except Invalid:
        return -(2**62)


def _load(root: str) -> Document | None:
    return documents.load(layout.registry(root))


def _moved(old: Mapping, new: Mapping) -> Mapping:
    was, will = old.get("status"), new.get("status", old.get("status"))
    if was == _ENDED and will != _ENDED:
        raise Refused(
            f"feature {old['feature_id']} is completed in the registry and cannot be {will} again",
            hint="Going on means a new feature.",
        )
    made = {**old, **new}
    if "last_active" in made:
        made["last_active"] = later(old.get("last_active"), new.get("last_active"))
    return made
