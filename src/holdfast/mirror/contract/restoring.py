"""What is missing or damaged in an `.ai-session/` directory, and bringing it back from history alone.

No store is needed: a fresh clone, or a machine that never ran Holdfast before, restores as well. What cannot be
understood is set aside under its own name, never deleted; what cannot be read, or waits for a person to finish a
merge, is left as it is and said. History itself is never written to.
"""

from __future__ import annotations

import contextlib
import os
import re
import textwrap
from collections.abc import Callable
from functools import partial
from typing import Final, Literal, NamedTuple

from holdfast.core.errors import Conflict, Damaged, HoldfastError, Invalid
from holdfast.core.times import HOUR
from holdfast.formats import reading
from holdfast.machine.files import temporaries
from holdfast.machine.private import open_private
from holdfast.machine.wall import Wall
from holdfast.mirror.contract import creating, documents, history, inferring, layout, registry
from holdfast.mirror.contract.documents import Document, Mapping
from holdfast.mirror.contract.inferring import Told
from holdfast.mirror.contract.layout import Feature, count
from holdfast.mirror.locks import locked
from holdfast.store.interface import Finding

CHECK: Final = "contract"
_ITEM: Final = re.compile(r"^(?=[ \t]*-[ \t]+[\w\"'])", re.MULTILINE)
_ENTRY: Final = ("feature_id", "started_at", "last_active", "status")

# What can be wrong with a file: the first two are put right, the others left alone.
Kind = Literal["missing", "damaged", "unreadable", "unmerged"]
MENDED: Final = frozenset({"missing", "damaged"})


class _Fault(NamedTuple):
    path: str
    kind: Kind
    why: str

    def sentence(self, root: str) -> str:
        name = os.path.relpath(self.path, root)
        return f"{name} is missing" if self.kind == "missing" else f"{name} is {self.kind}: {self.why}"


# ── looking ──────────────────────────────────────────────────────────────────────────────────────────────


def examine(root: str) -> list[Finding]:
    """Everything that `restore` would put right, or could not. Changes nothing."""
    with layout.concerning("read", file=root):
        if not layout.is_there(root):
            return []
        found = [
            Finding(CHECK, fault.sentence(root), feature.id)
            for feature in layout.kept(root)
            for fault in _faults(feature)
        ]
        fault = _registry_fault(root)
        if fault is not None:
            return [*found, Finding(CHECK, fault.sentence(root))]
        named = {one.get("feature_id") for one in registry.entries(root)}
        unlisted = [one.id for one in layout.kept(root) if one.id not in named]
        return found + [Finding(CHECK, f"{one} is not listed in the registry", one) for one in unlisted]


def _faults(feature: Feature) -> list[_Fault]:
    looked = (
        _fault(feature.state, lambda found: _is_state(found, feature.id)),
        _fault(feature.plan, _is_plan),
        None if os.path.lexists(feature.history) else _Fault(feature.history, "missing", ""),
    )
    return [fault for fault in looked if fault is not None]


def _registry_fault(root: str) -> _Fault | None:
    path = layout.registry(root)
    fault = _fault(path, lambda found: registry.listed(found, path) is not None)
    return None if fault is not None and fault.kind == "missing" and not layout.kept(root) else fault


def _fault(path: str, is_sound: Callable[[Document], bool]) -> _Fault | None:
    try:
        found = documents.load(path)
        if found is None:
            return _Fault(path, "missing", "")
        return None if is_sound(found) else _Fault(path, "damaged", "it is not what its name says")
    except Damaged as error:
        return _Fault(path, "damaged", error.message)
    except Conflict as error:
        return _Fault(path, "unmerged", error.message)
    except HoldfastError as error:
        return _Fault(path, "unreadable", error.message)


def _is_state(found: Document, feature_id: str) -> bool:
    now = found.value.get("current_state")
    return found.value.get("feature_id", feature_id) == feature_id and isinstance(now, dict) and "started_at" in now


def _is_plan(found: Document) -> bool:
    return isinstance(found.value.get("feature"), dict) and isinstance(found.value.get("phases", []), list)


# ── restoring ────────────────────────────────────────────────────────────────────────────────────────────


def restore(root: str, *, now: int | None = None) -> list[str]:
    """Put right what can be, feature by feature; sentences say what was done and what could not be."""
    if not layout.is_there(root):
        return []
    moment = Wall().now() if now is None else now
    said: list[str] = [] if _merging(root) else creating.settle(root)
    for feature in layout.kept(root):
        said += _guarded(partial(_restore_feature, root, feature, moment), feature.id)
    said += _guarded(partial(_restore_registry, root, moment), os.path.basename(layout.registry(root)))
    said += _guarded(partial(_sweep, root, moment), "temporary files")
    return said + ([] if _merging(root) else creating.settle(root))


def _guarded(step: Callable[[], list[str]], what: str) -> list[str]:
    """One that cannot be restored must not keep the others from it."""
    try:
        return step()
    except HoldfastError as error:
        return [f"{what} could not be restored: {error.message}."]


def _merging(root: str) -> bool:
    fault = _registry_fault(root)
    return fault is not None and fault.kind != "missing"


def _sweep(root: str, now: int) -> list[str]:
    """Remove what killed writers left: temporary files so old that no writer can still be at them."""
    old: list[str] = []
    for folder in (root, *(one.path for one in layout.features(root))):
        for path in temporaries(folder):
            with contextlib.suppress(OSError):
                if os.lstat(path).st_mtime_ns // 1_000_000 < now - HOUR:
                    os.unlink(path)
                    old.append(path)
    return [f"{count(len(old), 'temporary file')} that killed processes left behind: removed."] if old else []


def _restore_feature(root: str, feature: Feature, now: int) -> list[str]:
    if not _faults(feature):
        return []
    with locked(feature.lock, what=f"restoring {feature.id}"):
        said: list[str] = []
        for fault in _faults(feature):  # again: another process may have been quicker
            if fault.kind not in MENDED:
                said.append(f"Left alone: {fault.sentence(root)}.")
            elif fault.path == feature.history:
                os.close(open_private(fault.path, os.O_WRONLY | os.O_CREAT))
                said.append(f"{feature.id}/history.jsonl was missing: there is an empty one now.")
            else:
                said.append(_mend(feature, fault, rebuilt(root, feature), now))
        return said


def _mend(feature: Feature, fault: _Fault, told: Told, now: int) -> str:
    aside = documents.set_aside(fault.path, now) if fault.kind == "damaged" else None
    documents.save(fault.path, told.state if fault.path == feature.state else told.plan, None)
    kept = f" The damaged one is kept as {os.path.basename(aside)}." if aside else ""
    return f"{feature.id}/{os.path.basename(fault.path)} was {fault.kind}: restored {told.source}.{kept}"


def rebuilt(root: str, feature: Feature) -> Told:
    """What the feature's files must have said, by its history and whatever else is left."""
    lines: list[Mapping] = []
    if os.path.lexists(feature.history):
        lines = [line for _, line in history.read(feature.history) if not isinstance(line, Invalid)]
    return inferring.told(feature.id, lines, {} if lines else _hints(root, feature))


def _hints(root: str, feature: Feature) -> Mapping:
    """When it began and was last active, by files that are whole."""
    found: Mapping = {}
    with contextlib.suppress(HoldfastError):  # it may be damaged too
        found = registry.entry(root, feature.id) or found
    for path, key, name in ((feature.plan, "feature", "created_at"), (feature.state, "current_state", "started_at")):
        try:
            document = documents.load(path)
        except HoldfastError:
            continue
        part = document.value.get(key) if document is not None else None
        if isinstance(part, dict):
            found = {"started_at": part.get(name), "last_active": part.get("last_updated"), **found}
    return found


# ── the registry ─────────────────────────────────────────────────────────────────────────────────────────


def _restore_registry(root: str, now: int) -> list[str]:
    fault = _registry_fault(root)
    if fault is not None and fault.kind not in MENDED:
        return [f"Left alone: {fault.sentence(root)}."]
    said: list[str] = []
    if fault is not None:
        with locked(layout.registry_lock(root), patience=registry.PATIENCE, what="restoring the registry"):
            said = _remake(root, now)
    known = {one.get("feature_id") for one in registry.entries(root)}
    for feature in layout.kept(root):
        if feature.id not in known:
            registry.put(root, _entry(root, feature))
            said.append(f"{feature.id} was not listed in the registry: it is now.")
    return said


def _remake(root: str, now: int) -> list[str]:
    fault = _registry_fault(root)
    if fault is None or fault.kind not in MENDED:
        return []
    path = layout.registry(root)
    raw = documents.raw_of(path) or b""
    saved = _salvaged(raw.decode("utf-8", "replace"))
    # Those whose directory is there are known better by it than by a damaged list.
    made = {one.id: _entry(root, one) for one in layout.kept(root)}
    entries = {**{str(one["feature_id"]): one for one in saved}, **made}
    aside = documents.set_aside(path, now) if fault.kind == "damaged" else None
    documents.save(path, {registry.LIST: [*entries.values()]}, None)
    kept = f" The damaged one is kept as {os.path.basename(aside)}." if aside else ""
    return [f"{os.path.basename(path)} was {fault.kind}: made anew with {count(len(entries), 'feature')}.{kept}"]


def _entry(root: str, feature: Feature) -> Mapping:
    """The feature's entry by its history; times by its state, which may be later than its last line."""
    entry = rebuilt(root, feature).entry
    state = documents.load(feature.state)
    now = state.value.get("current_state") if state is not None else None
    if not isinstance(now, dict):
        return entry
    return {**entry, "last_active": registry.later(now.get("last_updated"), entry.get("last_active"))}


def _salvaged(text: str) -> list[Mapping]:
    """The entries of a damaged registry that can be read one by one."""
    found: list[Mapping] = []
    for part in _ITEM.split(text):
        lines = textwrap.dedent(part).splitlines()
        for size in range(len(lines), max(0, len(lines) - 8), -1):
            entry = _read_entry("\n".join(lines[:size]))
            if entry is not None:
                found.append(entry)
                break
    return found


def _read_entry(text: str) -> Mapping | None:
    try:
        value = reading.read_yaml(text.encode(), "").value
    except Invalid:
        return None
    entry = value[0] if isinstance(value, list) and len(value) == 1 else None
    if not isinstance(entry, dict) or not all(isinstance(entry.get(key), str) for key in _ENTRY):
        return None
    return entry if layout.is_id(str(entry["feature_id"])) else None
