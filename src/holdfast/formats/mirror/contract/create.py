"""Making a feature: all of it or nothing.

Its directory is built under a name beginning with a dot, synced, and renamed into place; only then does the registry
name it. Whoever dies half-way leaves either a dotted directory, which is removed, or one that carries its entry,
which is completed: `settle` does both, and everybody who looks calls it.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Mapping as AnyMapping
from collections.abc import Sequence
from typing import Final

import msgspec

from holdfast.core.canonical import Json
from holdfast.core.decode import decodable
from holdfast.core.errors import Busy, Conflict, Damaged, HoldfastError, Invalid
from holdfast.formats.mirror.contract import layout, registry, yaml_files
from holdfast.formats.mirror.contract.layout import Feature
from holdfast.formats.mirror.contract.yaml_files import Mapping
from holdfast.machine.files import PREFIX, SUFFIX, sync_directory, write_atomic
from holdfast.machine.locks import locked
from holdfast.machine.os_errors import WINDOWS, explain

PATIENCE: Final = 60.0  # dozens of processes may each create a feature at the same moment
_TEMPORARY: Final = ".creating-"
_OWN: Final = frozenset({"state.yaml", "implementation-plan.yaml", "history.jsonl", ".unregistered"})
_README: Final = b"""\
# Sessions

This directory holds the state of work that AI agents do in this project, one directory per feature.

- `active-features.yaml` lists the features and whether they are active, paused or completed.
- `<feature>/implementation-plan.yaml` is the plan: phases, tasks, and how far each task is.
- `<feature>/state.yaml` says what is being worked on right now, and by which model.
- `<feature>/history.jsonl` records every step, one JSON object per line. Lines are only ever added.
- `<feature>/artifacts/` holds what the work produced.

The files may be read and edited by people and programs; `holdfast doctor` checks them, and restores from history
what was lost or damaged. Names that begin with a dot are locks and temporary files.
"""


def create(
    root: str, document: Mapping, *, history: Sequence[AnyMapping[str, Json]] = (), known: bool = False
) -> Feature:
    """Make the feature that a composite document (`state`, `plan`, `entry`) describes, with its first history.

    Raises `Conflict` when there is one of this id already; `known` allows that the registry names it, for one whose
    directory was lost.
    """
    state, plan, entry = (_part(document, name) for name in ("state", "plan", "entry"))
    feature_id = state.get("feature_id")
    if not isinstance(feature_id, str):
        raise Invalid("the document names no feature", operation="create", file=root)
    with layout.concerning("create", feature_id=feature_id, file=os.path.join(root, feature_id)):
        feature = layout.feature(root, feature_id)
        entry = {**entry, "feature_id": feature_id}
        contents = {
            "implementation-plan.yaml": yaml_files.written(plan),
            "history.jsonl": b"".join(msgspec.json.encode(line) + b"\n" for line in history),
            "state.yaml": yaml_files.written(state),
            ".unregistered": msgspec.json.encode(entry),
        }
        layout.made(root)
        with locked(layout.creating_lock(root), patience=PATIENCE, what=f"creating {feature_id}"):
            _settle(root)
            _refuse_duplicate(root, feature, known=known)
            furnish(root)
            _build(root, feature, contents)
            _register(root, feature, entry)
    return feature


def settle(root: str) -> list[str]:
    """Complete or undo what creators that died left behind; sentences say what was done.

    Costs one look at the directory when there is nothing to do. A creator still at work is left alone.
    """
    if not layout.is_there(root) or not _unsettled(root):
        return []
    with layout.concerning("create", file=root):
        try:
            with locked(layout.creating_lock(root), patience=PATIENCE, what="settling"):
                return _settle(root)
        except Busy:
            return []


def _part(document: Mapping, name: str) -> Mapping:
    part = document.get(name)
    if not isinstance(part, dict):
        raise Invalid(f"the document has no {name}", operation="create")
    return part


def _refuse_duplicate(root: str, feature: Feature, *, known: bool) -> None:
    there = os.path.lexists(feature.path)
    if there or (registry.entry(root, feature.id) is not None and not known):
        where = "a directory" if there else "an entry in the registry"
        raise Conflict(
            f"there is {where} of feature {feature.id} already",
            hint="Go on with that one, or choose another slug.",
            file=feature.path if there else layout.registry(root),
        )


def furnish(root: str) -> None:
    """What stands beside the features, where it is missing. To be called with the lock of creators held."""
    if not os.path.lexists(layout.readme(root)):
        write_atomic(layout.readme(root), _README)


# ── building ─────────────────────────────────────────────────────────────────────────────────────────────


def _build(root: str, feature: Feature, contents: dict[str, bytes]) -> None:
    temporary = Feature(feature.id, os.path.join(root, f"{_TEMPORARY}{os.urandom(8).hex()}"))
    try:
        os.mkdir(temporary.path, 0o700)
        if not WINDOWS:
            os.chmod(temporary.path, 0o700)  # whatever the umask
        os.mkdir(temporary.artifacts, 0o700)
        for name, content in contents.items():
            write_atomic(os.path.join(temporary.path, name), content)
        os.rename(temporary.path, feature.path)
        sync_directory(root)
    except BaseException as error:
        _remove(temporary.path)
        if not isinstance(error, OSError):
            raise
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            raise Conflict(
                f"there is a directory of feature {feature.id} already", hint="Somebody made it just now."
            ) from error
        raise explain(error, "make", feature.path) from error


def _register(root: str, feature: Feature, entry: Mapping) -> None:
    try:
        registry.put(root, entry)
    except HoldfastError:
        _undo(root, feature)
        raise
    _registered(feature)


def _registered(feature: Feature) -> None:
    try:
        os.unlink(feature.unregistered)
        sync_directory(feature.path)
    except OSError as error:
        raise explain(error, "remove", feature.unregistered) from error


def _undo(root: str, feature: Feature) -> None:
    """Take the directory away again, unless somebody has used it since: then it is registered by the next."""
    if _is_untouched(feature.path):
        temporary = os.path.join(root, f"{_TEMPORARY}{os.urandom(8).hex()}")
        with contextlib.suppress(OSError):
            os.rename(feature.path, temporary)
            _remove(temporary)


def _is_untouched(path: str) -> bool:
    with contextlib.suppress(OSError):
        inside = set(os.listdir(path))
        return inside <= _OWN | {"artifacts"} and not os.listdir(os.path.join(path, "artifacts"))
    return False


# ── settling ─────────────────────────────────────────────────────────────────────────────────────────────


def _unsettled(root: str) -> bool:
    return bool(_temporaries(root)) or any(os.path.lexists(feature.unregistered) for feature in layout.features(root))


def _temporaries(root: str) -> list[str]:
    try:
        with os.scandir(root) as found:
            return sorted(
                entry.path
                for entry in found
                if entry.name.startswith(_TEMPORARY) and entry.is_dir(follow_symlinks=False)
            )
    except OSError as error:
        raise explain(error, "list", root) from error


def _settle(root: str) -> list[str]:
    removed = [path for path in _temporaries(root) if _remove(path)]
    said = ["A feature whose creation was cut short: what there was of it is removed."] * len(removed)
    for feature in layout.features(root):
        if not os.path.lexists(feature.unregistered):
            continue
        entry = _kept_entry(feature)
        try:
            if registry.entry(root, feature.id) is None and entry is not None:
                registry.put(root, entry)
                said.append(f"Feature {feature.id} was made but not yet listed: it is now.")
        except (Conflict, Damaged) as error:  # somebody else's to solve: the next who looks tries again
            said.append(f"Feature {feature.id} was made but cannot be listed: {error.message}.")
            continue
        _registered(feature)
    return said


def _kept_entry(feature: Feature) -> Mapping | None:
    raw = yaml_files.raw_of(feature.unregistered)
    try:
        entry = msgspec.json.decode(raw or b"", type=decodable(dict[str, Json]))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None  # not ours; restoring adds what the registry lacks
    return {**entry, "feature_id": feature.id}


def _remove(path: str) -> bool:
    """Remove what a creator made, by its names alone: what anybody else put there stays."""
    with contextlib.suppress(OSError):
        for name in os.listdir(path):
            if name in _OWN or (name.startswith(PREFIX) and name.endswith(SUFFIX)):
                os.unlink(os.path.join(path, name))
    with contextlib.suppress(OSError):
        os.rmdir(os.path.join(path, "artifacts"))
    with contextlib.suppress(OSError):
        os.rmdir(path)
        return True
    return False
