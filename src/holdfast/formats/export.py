"""Export a session as a document, to a file or, for contract, as a directory with the whole layout."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.core import view
from holdfast.core.canonical import Json
from holdfast.core.errors import Conflict, NotFound
from holdfast.core.lifecycle import FINISHED
from holdfast.formats.base import Document, Format, FormatNote
from holdfast.formats.contract import ContractFormat
from holdfast.formats.mirror.contract import feature_dirs, layout
from holdfast.formats.mirror.contract.yaml_files import Mapping
from holdfast.formats.remainder import render_with_remainder
from holdfast.machine import files
from holdfast.sessions.work_trees import path_here

if TYPE_CHECKING:
    from holdfast.core.state import State
    from holdfast.workspace.workspace import Workspace


def write_layout(path: str, document: Mapping, lines: Sequence[dict[str, Json]] = ()) -> list[str]:
    """Create the feature in the directory at `path`; `lines` are added to the document's history."""
    others = document.get("history")
    lines_given = [line for line in others if isinstance(line, dict)] if isinstance(others, list) else []
    feature = feature_dirs.create(path, _with_all_parts(document), history=[*lines_given, *lines])
    return [feature.state, feature.plan, feature.history, layout.registry(path)]


def _with_all_parts(document: Mapping) -> Mapping:
    """The document with plan and entry added if missing: the layout needs all three."""
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


def export_document(ws: Workspace, state: State, rules: Format) -> tuple[Document, list[FormatNote]]:
    """The session's document, with notes."""
    notes: list[FormatNote] = []
    status = view.status_of(state)
    if rules.name == "timer" and status in FINISHED:
        notes.append(FormatNote(("status",), f"the timer format has no status {status}: shown as before its end"))
    if isinstance(rules, ContractFormat) and (renamed := rules.model_note(state)) is not None:
        notes.append(FormatNote(("state", "current_state", "model_in_use"), renamed))
    path = path_here(ws, state) if rules.located else None
    return render_with_remainder(state, rules, ws.sync_facts(state), path), notes


def is_layout(path: str | None, rules: Format) -> bool:
    """Would this be written as several files? True for contract directories."""
    named = path is not None and path != "-" and not path.lower().endswith((".yaml", ".yml"))
    return rules.name == "contract" and named


def write_document(path: str, document: Document, rules: Format) -> list[str]:
    """Write a document to a file, or a contract document as a directory. Returns the paths written."""
    above = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(above):
        where = files.display_path(os.path.dirname(path.rstrip("/")) or above)
        raise NotFound(
            f"there is no directory {where}",
            hint="Create it first, or name another path.",
            operation="write",
            file=path,
        )
    if is_layout(path, rules):
        return write_layout(path, document)
    if os.path.isdir(path):
        raise Conflict(f"{files.display_path(path)} is a directory", hint="Name the file to write.", file=path)
    files.write_atomic(path, rules.write(document))
    return [path]
