"""Feature directories: created whole or not at all, and erased when their session is deleted.

A directory is built under a name that begins with a dot, synced, and renamed into place; only then does the registry
list it. A creator that is killed leaves a dotted directory, which is removed, or one that carries its registry
entry, which is completed: `settle` does both, and everybody who reads the registry calls it.

Erasing removes what Holdfast wrote and keeps what others wrote. Only here do lines leave a history: somebody asked
for it, and Holdfast's lines hold whole events. Every step can be repeated, so the next caller finishes what a killed
one began.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
from collections.abc import Mapping as AnyMapping
from collections.abc import Sequence
from typing import Final

import msgspec

from holdfast.core.canonical import Json
from holdfast.core.decode import decodable
from holdfast.core.errors import Busy, Conflict, Damaged, HoldfastError, Invalid
from holdfast.core.events import EVENT_TYPES
from holdfast.formats.contract.fields import OWN
from holdfast.formats.mirror.contract import history, layout, registry, yaml_files
from holdfast.formats.mirror.contract.layout import Feature
from holdfast.formats.mirror.contract.yaml_files import Mapping
from holdfast.machine import files
from holdfast.machine.files import PREFIX, SUFFIX, sync_directory, write_atomic
from holdfast.machine.locks import locked
from holdfast.machine.os_errors import WINDOWS, explain
from holdfast.machine.private_paths import open_private

PATIENCE: Final = 60.0  # dozens of processes may each create a feature at the same moment
_TEMPORARY: Final = ".creating-"
_OWN_NAMES: Final = frozenset({"state.yaml", "implementation-plan.yaml", "history.jsonl", ".unregistered"})
_MARK: Final = f'"{OWN}"'.encode()
# How a line of ours begins: one cut off by a crash may lack the mark, but contains words of the session.
_BEGUN: Final = re.compile(rb'\{"timestamp":"[^"]{0,40}","command":"([a-z_.]+)"')
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

_objects = msgspec.json.Decoder(decodable(dict[str, Json]))


def create(
    root: str, document: Mapping, *, history: Sequence[AnyMapping[str, Json]] = (), known: bool = False
) -> Feature:
    """Create the feature of a composite document (`state`, `plan`, `entry`), with its first history.

    Raises `Conflict` if there is one with this id already; `known` allows an entry in the registry, for a feature
    whose directory was lost.
    """
    state, plan, entry = (_part(document, name) for name in ("state", "plan", "entry"))
    feature_id = state.get("feature_id")
    if not isinstance(feature_id, str):
        raise Invalid("the document names no feature", operation="create", file=root)
    with layout.error_context("create", feature_id=feature_id, file=os.path.join(root, feature_id)):
        feature = layout.feature(root, feature_id)
        entry = {**entry, "feature_id": feature_id}
        contents = {
            "implementation-plan.yaml": yaml_files.render(plan),
            "history.jsonl": b"".join(msgspec.json.encode(line) + b"\n" for line in history),
            "state.yaml": yaml_files.render(state),
            ".unregistered": msgspec.json.encode(entry),
        }
        layout.create_root(root)
        with locked(layout.creating_lock(root), patience=PATIENCE, purpose=f"creating {feature_id}"):
            _finish_creations(root)
            _refuse_duplicate(root, feature, known=known)
            write_readme(root)
            _build(root, feature, contents)
            _list_in_registry(root, feature, entry)
    return feature


def finish_interrupted(root: str) -> list[str]:
    """Complete or undo what creators that died left behind; returns sentences about it.

    Costs one look at the directory if there is nothing to do. A creator still at work is left alone.
    """
    if not layout.root_exists(root) or not _has_unfinished(root):
        return []
    with layout.error_context("create", file=root):
        try:
            with locked(layout.creating_lock(root), patience=PATIENCE, purpose="finishing creations"):
                return _finish_creations(root)
        except Busy:
            return []


def _part(document: Mapping, name: str) -> Mapping:
    part = document.get(name)
    if not isinstance(part, dict):
        raise Invalid(f"the document has no {name}", operation="create")
    return part


def _refuse_duplicate(root: str, feature: Feature, *, known: bool) -> None:
    exists = os.path.lexists(feature.path)
    if exists or (registry.entry(root, feature.id) is not None and not known):
        where = "a directory" if exists else "an entry in the registry"
        raise Conflict(
            f"there is {where} of feature {feature.id} already",
            hint="Use that one, or choose another slug.",
            file=feature.path if exists else layout.registry(root),
        )


def write_readme(root: str) -> None:
    """Create what belongs next to the features, if it is missing. Call it with the creators' lock held."""
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
                f"there is a directory of feature {feature.id} already", hint="Somebody created it just now."
            ) from error
        raise explain(error, "make", feature.path) from error


def _list_in_registry(root: str, feature: Feature, entry: Mapping) -> None:
    try:
        registry.put(root, entry)
    except HoldfastError:
        _undo_creation(root, feature)
        raise
    _clear_unregistered_mark(feature)


def _clear_unregistered_mark(feature: Feature) -> None:
    try:
        os.unlink(feature.unregistered)
        sync_directory(feature.path)
    except OSError as error:
        raise explain(error, "remove", feature.unregistered) from error


def _undo_creation(root: str, feature: Feature) -> None:
    """Remove the directory again, unless somebody has used it since: then the next process registers it."""
    if _is_untouched(feature.path):
        temporary = os.path.join(root, f"{_TEMPORARY}{os.urandom(8).hex()}")
        with contextlib.suppress(OSError):
            os.rename(feature.path, temporary)
            _remove(temporary)


def _is_untouched(path: str) -> bool:
    with contextlib.suppress(OSError):
        inside = set(os.listdir(path))
        return inside <= _OWN_NAMES | {"artifacts"} and not os.listdir(os.path.join(path, "artifacts"))
    return False


# ── finishing ────────────────────────────────────────────────────────────────────────────────────────────


def _has_unfinished(root: str) -> bool:
    return bool(_temporaries(root)) or any(os.path.lexists(feature.unregistered) for feature in layout.features(root))


def _temporaries(root: str) -> list[str]:
    try:
        with os.scandir(root) as entries:
            return sorted(
                entry.path
                for entry in entries
                if entry.name.startswith(_TEMPORARY) and entry.is_dir(follow_symlinks=False)
            )
    except OSError as error:
        raise explain(error, "list", root) from error


def _finish_creations(root: str) -> list[str]:
    removed = [path for path in _temporaries(root) if _remove(path)]
    sentences = ["Removed what was left of a feature whose creation was cut short."] * len(removed)
    for feature in layout.features(root):
        if not os.path.lexists(feature.unregistered):
            continue
        entry = _kept_entry(feature)
        try:
            if registry.entry(root, feature.id) is None and entry is not None:
                registry.put(root, entry)
                sentences.append(f"Feature {feature.id} was created but not listed: it is now.")
        except (Conflict, Damaged) as error:  # for somebody else to solve; the next process tries again
            sentences.append(f"Feature {feature.id} was created but cannot be listed: {error.message}.")
            continue
        _clear_unregistered_mark(feature)
    return sentences


def _kept_entry(feature: Feature) -> Mapping | None:
    raw = yaml_files.read_raw(feature.unregistered)
    try:
        entry = msgspec.json.decode(raw or b"", type=decodable(dict[str, Json]))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None  # not ours; `restore` adds what the registry lacks
    return {**entry, "feature_id": feature.id}


def _remove(path: str) -> bool:
    """Remove what a creator made, by name; everything else stays."""
    with contextlib.suppress(OSError):
        for name in os.listdir(path):
            if name in _OWN_NAMES or (name.startswith(PREFIX) and name.endswith(SUFFIX)):
                os.unlink(os.path.join(path, name))
    with contextlib.suppress(OSError):
        os.rmdir(os.path.join(path, "artifacts"))
    with contextlib.suppress(OSError):
        os.rmdir(path)
        return True
    return False


# ── erasing ──────────────────────────────────────────────────────────────────────────────────────────────


def erase(feature: Feature) -> bool:
    """Remove Holdfast's lines, and the directory if it contains nothing else; True if it was removed.

    State and plan are removed before, by the caller, who knows whether they are ours.
    """
    if not os.path.isdir(feature.path) or os.path.islink(feature.path):
        return True
    with layout.error_context("delete", feature_id=feature.id, file=feature.path):
        try:
            with locked(feature.lock, purpose=f"deleting {feature.id}"):
                with locked(history.lock_of(feature.history), purpose="deleting lines of history"):
                    _erase_lines(feature)
                if _has_only_leftovers(feature):
                    return _remove_directory(feature)
            if not (os.path.lexists(feature.state) or os.path.lexists(feature.plan)):
                _mark_deleted(feature)
        except OSError as error:
            raise explain(error, "remove", feature.path) from error
    return False


def lines_of_others(raw: bytes) -> bytes:
    """The lines of a history that Holdfast did not write, unchanged."""
    foreign = bytearray()  # not a list of lines: there may be millions
    for line in io.BytesIO(raw):
        if line.strip() and not _is_own(line):
            foreign += line
    return bytes(foreign)


def _is_own(line: bytes) -> bool:
    try:
        return OWN in _objects.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        begun = _BEGUN.match(line)
        return _MARK in line or (begun is not None and begun[1].decode() in EVENT_TYPES)


def _is_object(line: bytes) -> bool:
    with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return isinstance(_objects.decode(line), dict)
    return False


def _erase_lines(feature: Feature) -> None:
    raw = _read_history(feature.history)
    if raw is not None:
        foreign = lines_of_others(raw)
        if not foreign:
            _remove_file(feature, feature.history)
        elif foreign != raw:
            _replace(feature.history, raw, foreign)
    for path in files.temporaries(feature.path):
        # Left by a killed writer. It may contain lines that others wrote meanwhile.
        if not any(_is_object(line) for line in io.BytesIO(lines_of_others(_read_history(path) or b""))):
            os.unlink(path)


def _replace(path: str, raw: bytes, content: bytes) -> None:
    late: list[bytes] = []

    def displaced(path: str) -> None:
        old = _read_history(path) or b""
        late.append(lines_of_others(old[len(raw) :] if old.startswith(raw) else b""))

    write_atomic(path, content, displaced=displaced)
    _append(path, b"".join(late))


def _remove_file(feature: Feature, path: str) -> None:
    """Renamed first: a program without locks may have appended to it just now."""
    aside = os.path.join(feature.path, files.temporary_name())
    os.rename(path, aside)
    late = lines_of_others(_read_history(aside) or b"")
    if late:
        _append(feature.history, late)
    os.unlink(aside)
    sync_directory(feature.path)


def _append(path: str, lines: bytes) -> None:
    if not lines:
        return
    fd = open_private(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(fd, lines)
        os.fsync(fd)
    finally:
        os.close(fd)


def _read_history(path: str) -> bytes | None:
    if not os.path.lexists(path):
        return None
    return files.read_limited(path, history.MAX_SIZE, subject="a history")


def _has_only_leftovers(feature: Feature) -> bool:
    """Whether the directory contains only dot files and no artifact."""
    inside = [name for name in os.listdir(feature.path) if not name.startswith(".")]
    return not inside or (
        inside == ["artifacts"] and not os.path.islink(feature.artifacts) and not os.listdir(feature.artifacts)
    )


def _remove_directory(feature: Feature) -> bool:
    locks = {feature.lock, history.lock_of(feature.history), feature.unregistered, feature.deleted}
    with contextlib.suppress(OSError):
        if os.path.isdir(feature.artifacts):
            os.rmdir(feature.artifacts)
        for path in locks:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        os.rmdir(feature.path)
        sync_directory(os.path.dirname(feature.path))
        return True
    return False  # somebody else keeps something there


def _mark_deleted(feature: Feature) -> None:
    """Mark the rest as deleted, so that it is not taken for a feature that lost its files."""
    if not os.path.lexists(feature.deleted):
        write_atomic(feature.deleted, b"")
