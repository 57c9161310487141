"""Restore what is missing or damaged in an `.ai-session/` directory, from history alone.

This needs no store: it works in a fresh clone, or on a machine that never ran Holdfast. What cannot be understood is
set aside under another name, never deleted. What cannot be read, or waits for a person's decision, is left alone and
reported. History itself is never changed.
"""

from __future__ import annotations

import contextlib
import os
import re
import textwrap
from collections.abc import Callable
from functools import partial
from typing import Final

from holdfast.core.errors import HoldfastError, Invalid
from holdfast.core.times import HOUR
from holdfast.formats.contract import FORMAT
from holdfast.formats.contract.fields import REGISTRY
from holdfast.formats.mirror.contract import feature_dirs, layout, rebuild, registry, yaml_files
from holdfast.formats.mirror.contract.check import (
    RESTORABLE,
    Fault,
    error_of,
    feature_faults,
    lacks_readme,
    registry_fault,
)
from holdfast.formats.mirror.contract.layout import Feature, count
from holdfast.formats.mirror.contract.rebuild import FromHistory, overlay_entry, rebuild_feature
from holdfast.formats.mirror.contract.yaml_files import Mapping
from holdfast.formats.text import read
from holdfast.machine.files import temporaries, write_atomic
from holdfast.machine.locks import locked
from holdfast.machine.private_paths import open_private
from holdfast.machine.wall import Wall

_ITEM: Final = re.compile(r"^(?=[ \t]*-[ \t]+[\w\"'])", re.MULTILINE)
# Files that contradict each other are repaired one after the other.
_ROUNDS: Final = 3


def restore(root: str, *, now: int | None = None) -> list[str]:
    """Repair what can be, feature by feature; returns sentences about what was and was not repaired."""
    if not layout.root_exists(root):
        return []
    moment = Wall().now() if now is None else now
    sentences: list[str] = [] if _merging(root) else feature_dirs.finish_interrupted(root)
    for feature in layout.undeleted_features(root):
        sentences += _guarded(partial(_restore_feature, root, feature, moment), feature.id)
    sentences += _guarded(partial(_restore_registry, root, moment), os.path.basename(layout.registry(root)))
    sentences += _guarded(partial(_restore_readme, root), "README.md")
    sentences += _guarded(partial(_sweep, root, moment), "temporary files")
    return sentences + ([] if _merging(root) else feature_dirs.finish_interrupted(root))


def _guarded(step: Callable[[], list[str]], name: str) -> list[str]:
    """Run one step, so that its failure does not stop the others."""
    try:
        return step()
    except HoldfastError as error:
        return [f"{name} could not be restored: {error.message}."]


def _merging(root: str) -> bool:
    fault = registry_fault(root)
    return fault is not None and fault.kind != "missing"


def _sweep(root: str, now: int) -> list[str]:
    """Remove what killed writers left: temporary files so old that no writer can still use them."""
    old: list[str] = []
    for folder in (root, *(feature.path for feature in layout.features(root))):
        for path in temporaries(folder):
            with contextlib.suppress(OSError):
                if os.lstat(path).st_mtime_ns // 1_000_000 < now - HOUR:
                    os.unlink(path)
                    old.append(path)
    return [f"{count(len(old), 'temporary file')} that killed processes left behind: removed."] if old else []


def _restore_feature(root: str, feature: Feature, now: int) -> list[str]:
    if not feature_faults(root, feature):
        return []
    sentences: list[str] = []
    with locked(feature.lock, purpose=f"restoring {feature.id}"):
        for _ in range(_ROUNDS):
            faults_now = feature_faults(root, feature)  # again: another process may have been quicker
            restorable = [fault for fault in faults_now if fault.kind in RESTORABLE]
            if not restorable:
                break
            sentences += [
                _repair(feature, fault, partial(rebuild_feature, root, feature), now) for fault in restorable
            ]
    return sentences + [
        f"Left alone: {fault.sentence(root)}." for fault in faults_now if fault.kind not in RESTORABLE
    ]


def _repair(feature: Feature, fault: Fault, rebuild_files: Callable[[], FromHistory], now: int) -> str:
    if fault.kind == "folder":
        layout.make_artifacts(feature)
        return f"{feature.id}/artifacts was missing: restored."
    if fault.path == feature.history:
        os.close(open_private(fault.path, os.O_WRONLY | os.O_CREAT))
        return f"{feature.id}/history.jsonl was missing: created an empty one."
    rebuilt = rebuild_files()  # before the damaged one is set aside: some of it may be readable
    aside = yaml_files.set_aside(fault.path, now) if fault.kind == "damaged" else None
    value = rebuilt.state if fault.path == feature.state else rebuilt.plan
    write_atomic(fault.path, yaml_files.render_missing(fault.path, value))
    kept_aside = f" The damaged one is kept as {os.path.basename(aside)}." if aside else ""
    return f"{feature.id}/{os.path.basename(fault.path)} was {fault.kind}: restored {rebuilt.source}.{kept_aside}"


def _restore_readme(root: str) -> list[str]:
    if not lacks_readme(root):
        return []
    with locked(layout.creating_lock(root), patience=feature_dirs.PATIENCE, purpose="restoring README.md"):
        feature_dirs.write_readme(root)
    return ["README.md was missing: restored."]


# ── the registry ─────────────────────────────────────────────────────────────────────────────────────────


def _restore_registry(root: str, now: int) -> list[str]:
    fault = registry_fault(root)
    if fault is not None and fault.kind not in RESTORABLE:
        return [f"Left alone: {fault.sentence(root)}."]
    sentences: list[str] = []
    if fault is not None:
        with locked(layout.registry_lock(root), patience=registry.PATIENCE, purpose="restoring the registry"):
            sentences = _rebuild_registry(root, now)
    known = {entry.get("feature_id") for entry in registry.entries(root)}
    for feature in layout.undeleted_features(root):
        if feature.id not in known:
            registry.put(root, _entry(root, feature))
            sentences.append(f"{feature.id} was not listed in the registry: it is now.")
    return sentences


def _rebuild_registry(root: str, now: int) -> list[str]:
    fault = registry_fault(root)
    if fault is None or fault.kind not in RESTORABLE:
        return []
    path = layout.registry(root)
    raw = yaml_files.read_raw(path) or b""
    file = _parsed(raw, path)
    saved = salvage_entries(raw.decode("utf-8", "replace")) if file is None else _listed(file.value)
    names = [str(entry["feature_id"]) for entry in saved]
    features = {feature.id: feature for feature in layout.undeleted_features(root)}
    entries: dict[str, Mapping] = {}
    for name, entry in zip(names, saved, strict=True):
        # An entry that is valid and listed once stays; others are rebuilt, if possible from their directory.
        if names.count(name) == 1 and file is not None and _is_entry(entry):
            entries[name] = entry
        elif name not in entries:
            entries[name] = overlay_entry(rebuild.rebuild_from_history(name, lambda: iter(()), entry).entry, entry)
            if name in features:
                entries[name] = {**entries[name], **_entry(root, features[name])}
    entries = {
        **entries,
        **{name: _entry(root, feature) for name, feature in features.items() if name not in entries},
    }
    aside = yaml_files.set_aside(path, now) if fault.kind == "damaged" else None
    value: Mapping = {**(file.value if file else {}), registry.LIST: [*entries.values()]}
    write_atomic(path, yaml_files.render_missing(path, value))
    kept_aside = f" The damaged one is kept as {os.path.basename(aside)}." if aside else ""
    return [f"{os.path.basename(path)} was {fault.kind}: rebuilt with {count(len(entries), 'feature')}.{kept_aside}"]


def _entry(root: str, feature: Feature) -> Mapping:
    """The feature's entry by its history; times by its state, which may be later than its last line."""
    entry = rebuild_feature(root, feature).entry
    try:
        state = yaml_files.load(feature.state)
    except HoldfastError:  # unmerged, or unreadable
        return entry
    now = state.value.get("current_state") if state is not None else None
    if not isinstance(now, dict):
        return entry
    return {**entry, "last_active": registry.later_time(now.get("last_updated"), entry.get("last_active"))}


def _parsed(raw: bytes, path: str) -> yaml_files.YamlFile | None:
    try:
        return yaml_files.parse(raw, path)
    except HoldfastError:
        return None


def _listed(value: Mapping) -> list[Mapping]:
    entries = value.get(registry.LIST)
    return [
        entry
        for entry in (entries if isinstance(entries, list) else [])
        if isinstance(entry, dict) and layout.is_id(str(entry.get("feature_id")))
    ]


def _is_entry(entry: Mapping) -> bool:
    return error_of(FORMAT.problems({registry.LIST: [entry]}, REGISTRY)) is None


def salvage_entries(text: str) -> list[Mapping]:
    """The entries of a damaged registry that can be read one by one."""
    entries: list[Mapping] = []
    for part in _ITEM.split(text):
        lines = textwrap.dedent(part).splitlines()
        for size in range(len(lines), max(0, len(lines) - 8), -1):
            entry = _read_entry("\n".join(lines[:size]))
            if entry is not None:
                entries.append(entry)
                break
    return entries


def _read_entry(text: str) -> Mapping | None:
    try:
        value = read.read_yaml(text.encode(), "").value
    except Invalid:
        return None
    entry = value[0] if isinstance(value, list) and len(value) == 1 else None
    if not isinstance(entry, dict) or not _is_entry(entry):
        return None
    return entry if layout.is_id(str(entry["feature_id"])) else None
