"""Taking a feature away because its session was deleted: whatever Holdfast wrote of it goes, what others wrote stays.

This is the one time that lines leave a history: erasing is somebody's explicit wish, and Holdfast's lines hold whole
events. Every step can be done again, so whoever dies half-way is followed by the next who looks.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from typing import Final

import msgspec

from holdfast.core.canonical import Json
from holdfast.core.decode import decodable
from holdfast.core.events import EVENT_TYPES
from holdfast.formats.contract.fields import OWN
from holdfast.formats.mirror.contract import history, layout
from holdfast.formats.mirror.contract.layout import Feature
from holdfast.machine import files
from holdfast.machine.files import sync_directory, write_atomic
from holdfast.machine.locks import locked
from holdfast.machine.os_errors import explain
from holdfast.machine.private_paths import open_private

_MARK: Final = f'"{OWN}"'.encode()
# How a line of ours begins: what a crash cut off has no mark yet, but words of the session.
_BEGUN: Final = re.compile(rb'\{"timestamp":"[^"]{0,40}","command":"([a-z_.]+)"')

_objects = msgspec.json.Decoder(decodable(dict[str, Json]))


def erase(feature: Feature) -> bool:
    """Remove Holdfast's lines, and the directory if nothing of anybody else's is in it; True when it is gone.

    State and plan are removed before, by whoever knows whether they are ours.
    """
    if not os.path.isdir(feature.path) or os.path.islink(feature.path):
        return True
    with layout.concerning("delete", feature_id=feature.id, file=feature.path):
        try:
            with locked(feature.lock, what=f"deleting {feature.id}"):
                with locked(history.lock_of(feature.history), what="deleting lines of history"):
                    _erase_lines(feature)
                if _is_bare(feature):
                    return _removed(feature)
            if not (os.path.lexists(feature.state) or os.path.lexists(feature.plan)):
                _mark(feature)
        except OSError as error:
            raise explain(error, "remove", feature.path) from error
    return False


def others(raw: bytes) -> bytes:
    """The lines of a history that Holdfast did not write, as they stand."""
    kept = bytearray()  # not a list of lines: there may be millions
    for line in io.BytesIO(raw):
        if line.strip() and not _is_own(line):
            kept += line
    return bytes(kept)


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
    raw = _read(feature.history)
    if raw is not None:
        kept = others(raw)
        if not kept:
            _remove(feature, feature.history)
        elif kept != raw:
            _replace(feature.history, raw, kept)
    for path in files.temporaries(feature.path):
        # Of a writer that was killed. Lines of others may be in it, from the very moment that this was.
        if not any(_is_object(line) for line in io.BytesIO(others(_read(path) or b""))):
            os.unlink(path)


def _replace(path: str, raw: bytes, kept: bytes) -> None:
    late: list[bytes] = []

    def displaced(old: str) -> None:
        stood = _read(old) or b""
        late.append(others(stood[len(raw) :] if stood.startswith(raw) else b""))

    write_atomic(path, kept, displaced=displaced)
    _append(path, b"".join(late))


def _remove(feature: Feature, path: str) -> None:
    """Under another name first: somebody who knows no lock may have added to it just now."""
    aside = os.path.join(feature.path, files.temporary_name())
    os.rename(path, aside)
    late = others(_read(aside) or b"")
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


def _read(path: str) -> bytes | None:
    if not os.path.lexists(path):
        return None
    return files.read_limited(path, history.LIMIT, what="a history")


def _is_bare(feature: Feature) -> bool:
    """Is nothing in the directory but what begins with a dot, and no artifact?"""
    inside = [name for name in os.listdir(feature.path) if not name.startswith(".")]
    return not inside or (
        inside == ["artifacts"] and not os.path.islink(feature.artifacts) and not os.listdir(feature.artifacts)
    )


def _removed(feature: Feature) -> bool:
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
    return False  # somebody keeps something there


def _mark(feature: Feature) -> None:
    """What is left is not to be taken for a feature that lost its files."""
    if not os.path.lexists(feature.deleted):
        write_atomic(feature.deleted, b"")
