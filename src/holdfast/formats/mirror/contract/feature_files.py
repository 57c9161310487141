"""The files of one feature, read as one document and brought up to date: state, plan, history, registry entry.

State and plan are written under one lock, then history, then the registry. Whatever the clock says, no time in these
files goes backwards. A file that cannot be used stops an update before anything is written; `restore` repairs it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from collections.abc import Mapping as AnyMapping
from contextlib import nullcontext
from functools import partial
from typing import NamedTuple

from holdfast.core import limits
from holdfast.core.canonical import Json
from holdfast.core.errors import HoldfastError, Invalid, NotFound
from holdfast.formats.contract.fields import OWN
from holdfast.formats.mirror.contract import history, layout, registry, yaml_files
from holdfast.formats.mirror.contract.layout import Feature
from holdfast.formats.mirror.contract.yaml_files import Mapping, YamlFile
from holdfast.machine.locks import PATIENCE, locked


def read_feature_document(folder: str, *, leave_no_trace: bool = False) -> dict[str, Json]:
    """The composite document of a feature's directory. Raises `Invalid` if one of its files is not YAML.

    With `leave_no_trace` no lock file is created: for callers that only look at other people's files.
    """
    root, feature_id = os.path.split(folder)
    feature = layout.Feature(feature_id, folder)
    document_parts: dict[str, Json] = {}
    unlocked = leave_no_trace and not os.path.lexists(feature.lock)
    with nullcontext() if unlocked else locked(feature.lock, shared=True, purpose=f"reading {feature_id}"):
        for name, path in (("state", feature.state), ("plan", feature.plan)):
            document = yaml_files.load(path)
            if document is not None:
                document_parts[name] = document.value
        lines = read_foreign_lines(feature.history)
    if not document_parts:
        raise Invalid(f"there is neither state nor plan in {feature_id}", operation="read", file=folder)
    entry = entry_of(root, feature_id)
    if entry is not None:
        document_parts["entry"] = entry
    if lines:
        document_parts["history"] = lines
    return document_parts


def entry_of(root: str, feature_id: str) -> dict[str, Json] | None:
    """A feature's entry in the registry, if that can be read: its own files are useful without it."""
    try:
        return registry.entry(root, feature_id)
    except HoldfastError:
        return None


def read_foreign_lines(path: str) -> list[Json]:
    """Lines of other programs, up to the size of a document. Holdfast's own are events that the log has.

    The file only grows, so these lines stay the same; the doctor says where they end.
    """
    lines: list[Json] = []
    bytes_left = limits.MAX_DOCUMENT_SIZE
    for _, line in history.read(path) if os.path.lexists(path) else ():
        if isinstance(line, dict) and OWN not in line:
            bytes_left -= history.size_of(line)
            if bytes_left < 0:
                break
            lines.append(line)
    return lines


# ── reading and updating the files ───────────────────────────────────────────────────────────────────────


class FeatureFiles(NamedTuple):
    """The content of a feature's two files; None for a missing one."""

    state: YamlFile | None
    plan: YamlFile | None


def read(root: str, feature_id: str) -> FeatureFiles:
    """State and plan from the same moment, not one from before and one from after an update."""
    feature = layout.feature(root, feature_id)
    with layout.error_context("read", feature_id=feature_id, file=feature.path):
        layout.require_root(root)
        _require_directory(feature)
        with locked(feature.lock, shared=True, purpose=f"reading {feature_id}"):
            return FeatureFiles(yaml_files.load(feature.state), yaml_files.load(feature.plan))


def update(
    root: str,
    document: Mapping,
    lines: Sequence[AnyMapping[str, Json]] = (),
    *,
    patience: float = PATIENCE,
    displaced: Callable[[str, str], None] | None = None,
) -> None:
    """Write a feature's files from the composite document (`state`, `plan`, `entry`), and append to its history.

    `displaced` gets the path, and where to find what was there at the moment of replacing.
    """
    state, plan, entry = (document.get(name) for name in ("state", "plan", "entry"))
    if not (isinstance(state, dict) and isinstance(plan, dict) and isinstance(entry, dict)):
        raise Invalid("the document needs state, plan and entry", operation="update", file=root)
    feature = layout.feature(root, str(state.get("feature_id")))
    with layout.error_context("update", feature_id=feature.id, file=feature.path):
        layout.require_root(root)
        _require_directory(feature)
        with locked(feature.lock, patience=patience, purpose=f"updating {feature.id}"):
            # Neither is written if the other cannot be.
            yaml_files.load(feature.state), yaml_files.load(feature.plan)
            # History first: state and plan can be restored from it, not the other way round.
            history.append(feature.history, lines)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(feature.deleted)  # started again
            layout.make_artifacts(feature)
            _write(feature.plan, plan, displaced)
            _write(feature.state, state, displaced)
        registry.put(root, {**entry, "feature_id": feature.id}, displaced)


def _require_directory(feature: Feature) -> None:
    if not os.path.isdir(feature.path) or os.path.islink(feature.path):
        raise NotFound(f"there is no directory of feature {feature.id}", hint="Name another feature.")


def _write(path: str, value: Mapping, displaced: Callable[[str, str], None] | None) -> None:
    def over(raw: bytes | None) -> bytes | None:
        if raw is None:
            return yaml_files.render_missing(path, value)
        old = yaml_files.parse(raw, path)
        made = _with_others_keys(old.value, _not_earlier(value, old))
        return None if old.value == made else yaml_files.render(made, old)

    # Since the caller looked at it, lines were appended to the history and synced to disk.
    yaml_files.rewrite(path, over, None if displaced is None else partial(displaced, path), report_current=True)


def _with_others_keys(old: Mapping, new: Mapping) -> Mapping:
    """Omission never removes: what others added to the file stays."""
    merged = {**{key: value for key, value in old.items() if not key.startswith(OWN)}, **new}
    for key, value in new.items():
        before = old.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            merged[key] = _with_others_keys(before, value)
    return merged


def _not_earlier(state: Mapping, old: YamlFile) -> Mapping:
    now, earlier = state.get("current_state"), old.value.get("current_state")
    if not isinstance(now, dict) or not isinstance(earlier, dict):
        return state
    return {
        **state,
        "current_state": {
            **now,
            "last_updated": registry.later_time(earlier.get("last_updated"), now.get("last_updated")),
        },
    }
