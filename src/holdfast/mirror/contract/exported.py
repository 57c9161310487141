"""A contract document written as the whole layout, into a directory that has no feature of that id yet."""

from __future__ import annotations

import os
from collections.abc import Sequence

from holdfast.core.canonical import Json
from holdfast.mirror.contract import creating, layout
from holdfast.mirror.contract.documents import Mapping


def put_layout(path: str, document: Mapping, lines: Sequence[dict[str, Json]] = ()) -> list[str]:
    """Make the feature in the directory at `path`; `lines` are its history beside what the document has."""
    others = document.get("history")
    told = [line for line in others if isinstance(line, dict)] if isinstance(others, list) else []
    feature = creating.create(path, _whole(document), history=[*told, *lines])
    return [feature.state, feature.plan, feature.history, layout.registry(path)]


def _whole(document: Mapping) -> Mapping:
    """With a plan and an entry, whatever the document lacks: the layout has all three."""
    state = document.get("state")
    state = state if isinstance(state, dict) else {}
    now = state.get("current_state")
    now = now if isinstance(now, dict) else {}
    feature_id, began = state.get("feature_id"), now.get("started_at")
    plan: Json = document.get("plan")
    if not isinstance(plan, dict):
        name = os.path.basename(str(feature_id))
        plan = {"feature": {"id": feature_id, "name": name, "description": "", "created_at": began}, "phases": []}
    entry = document.get("entry")
    if not isinstance(entry, dict):
        entry = {
            "feature_id": feature_id, "started_at": began, "last_active": now.get("last_updated"), "status": "active",
        }  # fmt: skip
    return {**document, "plan": plan, "entry": entry}
