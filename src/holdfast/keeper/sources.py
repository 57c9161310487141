"""Session documents in files and directories, each read and recognised; what cannot be is told, not fatal.

The files of one contract feature are one document. A directory is walked as `validate` walks it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from holdfast.core.canonical import Json
from holdfast.core.errors import HoldfastError, Invalid, NotFound
from holdfast.formats import finding, registry
from holdfast.formats.interface import Format, Note
from holdfast.formats.reading import LIMIT, Read, read, read_json, read_yaml
from holdfast.keeper.session_files import session_files
from holdfast.machine.files import explain, read_limited, shown

_BOM: Final = b"\xef\xbb\xbf"
# Kinds of file that list sessions and are none.
_NOT_SESSIONS: Final = frozenset({"contract-registry", "craft-index"})


class Source(NamedTuple):
    """A document, and which format it is in."""

    path: str
    rules: Format
    value: Json
    notes: list[Note]
    # Its kind of file, where it was recognised by that.
    kind: str = ""


class Unread(NamedTuple):
    """A file that is no document of the four formats, and why; with what it holds, if it could be read at all."""

    path: str
    error: HoldfastError
    value: Json = None


def sources(paths: Sequence[str], name: str | None = None) -> Iterator[Source | Unread]:
    """Every document in these files and directories, each once. `name` says which format they are in."""
    for path in paths:
        if path != "-" and not os.path.lexists(path):
            raise NotFound(f"{shown(path)} is not there", file=path)
        if path == "-" or not os.path.isdir(path):
            yield _source(path, name)
            continue
        found = list(_in_directory(path, name))
        if not found:
            raise NotFound(f"there is no session file in {shown(path)}", file=path)
        yield from found


def _in_directory(path: str, name: str | None) -> Iterator[Source | Unread]:
    walked = session_files(path)
    features: set[str] = set()
    placed = [file for file, (_, kind) in walked.placed if kind not in _NOT_SESSIONS]
    for file in [*placed, *walked.loose]:
        feature = _feature_of(file)
        if feature is not None and feature in features:
            continue
        if feature is not None:
            features.add(feature)
        one = _source(file, name)
        # Among files that lie about anywhere, only what is recognised is meant.
        if file in placed or (isinstance(one, Source) and one.kind not in _NOT_SESSIONS):
            yield one
    for folder, error in walked.closed:
        yield Unread(folder, explain(error, "read", folder))


def one_source(path: str, name: str | None = None) -> Source:
    """The one document at a path. Raises what is wrong with it."""
    found = list(sources([path], name))
    if len(found) > 1:
        raise Invalid(f"there are {len(found)} session files in {shown(path)}", hint="Name one of them.", file=path)
    if isinstance(found[0], Unread):
        raise found[0].error
    return found[0]


def _source(path: str, name: str | None) -> Source | Unread:
    value: Json = None
    try:
        feature = _feature_of(path)
        if feature is not None and name in (None, "contract"):
            from holdfast.mirror.contract.gathering import gathered

            return Source(path, registry.named("contract"), gathered(feature), [])
        document = _read(read_limited(path, LIMIT, what="a session file"), path)
        value = document.value
        if name is not None:
            return Source(path, registry.named(name), value, document.notes)
        found = finding.recognised(value, path)
        if found is None:
            why = finding.foreign(value) or "it is none of the four formats"
            raise Invalid(
                f"{shown(path)}: {why}",
                hint="holdfast import --salvage takes what it can recognise.",
                file=path,
            )
        return Source(path, found[0], value, document.notes, found[1])
    except HoldfastError as error:
        return Unread(path, error, value)


def _read(raw: bytes, path: str) -> Read:
    """By the file's name; where that says nothing, by how the text begins."""
    if os.path.splitext(path)[1].lower() in (".json", ".yaml", ".yml", ".jsonl"):
        return read(raw, path)
    return read_json(raw, path) if raw.removeprefix(_BOM).lstrip()[:1] in (b"{", b"[", b"") else read_yaml(raw, path)


def _feature_of(path: str) -> str | None:
    """The feature directory a file of the contract lies in."""
    folder, name = os.path.split(os.path.abspath(path))
    if name in ("state.yaml", "implementation-plan.yaml", "history.jsonl"):
        return folder if os.path.exists(os.path.join(folder, "state.yaml")) or name != "history.jsonl" else None
    return None
