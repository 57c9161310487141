"""Migrate documents of an older or looser version to the version Holdfast writes.

Nothing is edited in place. The new document is made and checked first: it must be valid and give the same session.
Only then does it take the old one's name, in one step; the old file stays next to it as FILE.before-TIME, and `undo`
brings it back.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.core.errors import Failed, HoldfastError, Invalid, NotFound, Refused, Usage
from holdfast.core.times import file_stamp
from holdfast.formats.base import Document, Format, FormatNote, ImportContext
from holdfast.formats.convert import state_of
from holdfast.formats.discover import SourceDocument, find_sources
from holdfast.formats.entries import is_same
from holdfast.formats.import_context import import_context
from holdfast.formats.text.read import LIMIT
from holdfast.machine import files
from holdfast.machine.files import free_name
from holdfast.machine.os_errors import display_path

if TYPE_CHECKING:
    from holdfast.core.canonical import Json
    from holdfast.workspace.workspace import Workspace

# The version key of each format; timer has none.
_VERSIONS: Final = {"orchestrator": "schema_version", "craft": "schema_version", "contract": "version"}
_KEPT: Final = re.compile(r"(?P<path>.+)\.before-(?P<stamp>\d{8}T\d{6}Z)(?:-\d+)?\Z")
# The files of a contract document, by its parts.
_PARTS: Final = {"state": "state.yaml", "plan": "implementation-plan.yaml"}


class Migrated(NamedTuple):
    """The result for one file: `migrated`, `current` (nothing to do), `refused`, or `brought back`."""

    path: str
    format: str | None
    version: str | None
    result: str
    kept: str | None
    notes: list[FormatNote]
    error: HoldfastError | None = None


def migrate(ws: Workspace, path: str) -> list[Migrated]:
    """Migrate every document at a path: a file, a feature's directory, or a whole project."""
    if path == "-":
        raise Usage("migrate rewrites files; standard input is not a file", hint="Name the file.")
    context = import_context(ws)
    results: list[Migrated] = []
    for source in find_sources([path]):
        if isinstance(source, SourceDocument):
            results += _migrate_file(source, context, ws.now())
        else:
            results.append(Migrated(source.path, None, None, "refused", None, [], source.error))
    return results


def undo(path: str) -> list[Migrated]:
    """Undo the last migration of the files at a path. The migrated ones are kept under another name."""
    latest: dict[str, tuple[str, str]] = {}
    for item in _files_at(path):
        match = _KEPT.match(item)
        if match is not None and (os.path.isdir(path) or match["path"] == path):
            latest[match["path"]] = (match[0], match["stamp"])
    if not latest:
        raise NotFound(
            f"nothing at {display_path(path)} was migrated",
            hint="migrate keeps what it replaced as FILE.before-TIME; there is none.",
            file=path,
        )
    results: list[Migrated] = []
    for name, (backup, moment) in sorted(latest.items()):
        _refuse_link(name)
        old = files.read_limited(backup, LIMIT, subject="the file before its migration")
        aside = free_name(f"{name}.after-{moment}")
        if os.path.lexists(name):
            _copy(name, aside)
        files.write_atomic(name, old)
        os.unlink(backup)
        results.append(Migrated(name, None, None, "brought back", aside if os.path.lexists(aside) else None, []))
    return results


def _files_at(path: str) -> list[str]:
    """Every file in a directory at any depth, or next to a file; oldest migration first."""
    if os.path.isdir(path):
        return sorted(os.path.join(at, name) for at, _, names in os.walk(path) for name in names)
    folder = os.path.dirname(path)
    try:
        return sorted(os.path.join(folder, name) for name in os.listdir(folder or "."))
    except OSError as error:
        raise files.explain(error, "read", path) from error


def _migrate_file(source: SourceDocument, context: ImportContext, now: int) -> list[Migrated]:
    rules = source.rules
    version = version_of(source.value, rules)
    try:
        document, notes = rules.repair(source.value, context)
        new = _texts(source, document)
        if not new:
            return [Migrated(source.path, rules.name, version, "current", None, [])]
        _check(document, rules, context)
        for path in new:
            _refuse_link(path)
        return [
            Migrated(path, rules.name, version, "migrated", _replace_file(path, data, now), [*source.notes, *notes])
            for path, data in new.items()
        ]
    except HoldfastError as error:
        return [Migrated(source.path, rules.name, version, "refused", None, source.notes, error)]


def version_of(value: Json, rules: Format) -> str | None:
    """The version in a document; None without one."""
    key = _VERSIONS.get(rules.name)
    holder = value.get("state", value) if isinstance(value, dict) else None
    named = holder.get(key) if key is not None and isinstance(holder, dict) else None
    return None if named is None else str(named)


def _texts(source: SourceDocument, document: Document) -> dict[str, bytes]:
    """The files that must change, with their new content."""
    if source.rules.name != "contract" or not isinstance(source.value, dict) or "state" not in source.value:
        return {} if is_same(document, source.value) else {source.path: source.rules.write(document)}
    from holdfast.formats.text.yaml import render_yaml

    folder = source.path if os.path.isdir(source.path) else os.path.dirname(source.path)
    changed: dict[str, bytes] = {}
    for part, name in _PARTS.items():
        if part in source.value and not is_same(document.get(part), source.value[part]):
            path = os.path.join(folder, name)
            over = files.read_limited(path, LIMIT, subject=name).decode("utf-8-sig", "replace")
            changed[path] = render_yaml(document[part], over=over).encode()
    return changed


def _check(document: Document, rules: Format, context: ImportContext) -> None:
    """Raise unless the new document is valid and gives a session."""
    wrong = [
        problem
        for kind, value in rules.files(document)
        for problem in rules.problems(value, kind)
        if problem.severity == "error"
    ]
    if wrong:
        raise Invalid(f"the migrated document would not be valid: {wrong[0].message}")
    state = state_of(document, rules, context)
    if state.clashes or state.not_applied:
        raise Failed("the migrated document would not give the same session")


def _replace_file(path: str, data: bytes, now: int) -> str:
    backup = free_name(f"{path}.before-{file_stamp(now)}")
    _copy(path, backup)
    try:
        files.write_atomic(path, data)
    except HoldfastError:
        os.unlink(backup)  # the old file is still in place
        raise
    return backup


def _refuse_link(path: str) -> None:
    """Refuse a link, before anything is written."""
    if os.path.islink(path):
        raise Refused(
            f"{display_path(path)} is a symbolic link, and files are migrated in place",
            hint=f"Migrate its target: holdfast migrate {display_path(os.path.realpath(path))}",
            operation="write",
            file=path,
        )


def _copy(path: str, other: str) -> None:
    """Write a copy to disk before the original is changed."""
    files.write_atomic(other, files.read_limited(path, LIMIT, subject="the old file"))
