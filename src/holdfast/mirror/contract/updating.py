"""A feature's files read and brought up to date: state and plan under one lock, then history, then the registry.

Whatever the clock says, no time in these files goes backwards. A file that cannot be used stops the update before
anything is written; `restoring` puts it right.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from collections.abc import Mapping as AnyMapping
from typing import NamedTuple

from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid, NotFound
from holdfast.formats.contract.documents import OWN
from holdfast.mirror.contract import documents, history, layout, registry
from holdfast.mirror.contract.documents import Document, Mapping
from holdfast.mirror.contract.layout import Feature
from holdfast.mirror.locks import PATIENCE, locked


class Files(NamedTuple):
    """What a feature's two files say; None for one that is missing."""

    state: Document | None
    plan: Document | None


def read(root: str, feature_id: str) -> Files:
    """State and plan as they belong together: not one of before and one of after an update."""
    feature = layout.feature(root, feature_id)
    with layout.concerning("read", feature_id=feature_id, file=feature.path):
        layout.need(root)
        _need(feature)
        with locked(feature.lock, shared=True, what=f"reading {feature_id}"):
            return Files(documents.load(feature.state), documents.load(feature.plan))


def update(
    root: str,
    document: Mapping,
    lines: Sequence[AnyMapping[str, Json]] = (),
    *,
    patience: float = PATIENCE,
    displaced: Callable[[str, str], None] | None = None,
) -> None:
    """Write a feature's files as the composite document (`state`, `plan`, `entry`) has them; add to its history.

    `displaced` is told, with the path, where to find what stood there in the moment it was replaced.
    """
    state, plan, entry = (document.get(name) for name in ("state", "plan", "entry"))
    if not (isinstance(state, dict) and isinstance(plan, dict) and isinstance(entry, dict)):
        raise Invalid("the document needs state, plan and entry", operation="update", file=root)
    feature = layout.feature(root, str(state.get("feature_id")))
    with layout.concerning("update", feature_id=feature.id, file=feature.path):
        layout.need(root)
        _need(feature)
        with locked(feature.lock, patience=patience, what=f"updating {feature.id}"):
            old, old_plan = documents.load(feature.state), documents.load(feature.plan)
            # History first: state and plan can be restored from it, never the other way round.
            history.append(feature.history, lines)
            _write(feature.plan, plan, old_plan, displaced)
            _write(feature.state, _not_earlier(state, old), old, displaced)
        registry.put(root, {**entry, "feature_id": feature.id})


def _need(feature: Feature) -> None:
    if not os.path.isdir(feature.path) or os.path.islink(feature.path):
        raise NotFound(f"there is no directory of feature {feature.id}", hint="Name another feature.")


def _write(path: str, value: Mapping, old: Document | None, displaced: Callable[[str, str], None] | None) -> None:
    made = value if old is None else _with_kept(old.value, value)
    if old is not None and old.value == made:
        return

    def look(stood: str) -> None:
        # What we read a moment ago is no news.
        if displaced is not None and old is not None and documents.raw_of(stood) != old.text.encode():
            displaced(path, stood)

    documents.save(path, made, old, look)


def _with_kept(old: Mapping, new: Mapping) -> Mapping:
    """Omission never removes: what others added to the file, and this version does not name, stays."""
    made = {**{key: value for key, value in old.items() if not key.startswith(OWN)}, **new}
    for key, value in new.items():
        before = old.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            made[key] = _with_kept(before, value)
    return made


def _not_earlier(state: Mapping, old: Document | None) -> Mapping:
    now, was = state.get("current_state"), old and old.value.get("current_state")
    if not isinstance(now, dict) or not isinstance(was, dict):
        return state
    return {
        **state,
        "current_state": {**now, "last_updated": registry.later(was.get("last_updated"), now.get("last_updated"))},
    }
