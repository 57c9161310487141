"""Check that the files of the contract's features, each valid by itself, fit together."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Final

from holdfast.core.canonical import Json
from holdfast.core.errors import HoldfastError
from holdfast.core.text import shorten
from holdfast.formats import registry
from holdfast.formats.base import Document, Problem, Severity
from holdfast.formats.contract.fields import is_feature_id
from holdfast.formats.document_paths import format_place
from holdfast.formats.mirror.contract import layout
from holdfast.formats.mirror.contract.layout import Feature
from holdfast.formats.text.json import LIMIT
from holdfast.formats.text.nodes import NotADocument
from holdfast.formats.text.read import ReadDocument, read, read_lines
from holdfast.formats.validate import LINES_LIMIT, MAX_PROBLEMS, FileProblem, FileVerdict
from holdfast.machine.files import read_limited

_MISSING: Final = "is missing: holdfast doctor --repair restores it"
_PARTS: Final = {"contract-state": "state", "contract-plan": "plan"}


def add_contradictions(verdicts: Mapping[str, FileVerdict], features: Mapping[str, list[tuple[str, str]]]) -> None:
    """Add contradictions between files to their verdicts. Unreadable files are left out."""
    check = getattr(registry.format_named("contract"), "problems_together", None)
    if check is None:
        return
    listed = {file: kind for files in features.values() for file, kind in files}
    homes = {os.path.dirname(file): file for file, kind in listed.items() if kind == "contract-registry"}
    registries = {home: (file, _document(file)) for home, file in homes.items()}
    for home, (file, value) in registries.items():
        _check_listed(verdicts[file], home, value, {os.path.basename(folder) for folder in features})
    for folder, files in features.items():
        parts: dict[str, tuple[str, Json]] = {}
        numbers: list[int] = []
        for file, kind in files:
            if kind == "contract-history":
                if len(verdicts[file].problems) >= MAX_PROBLEMS:
                    continue  # it was not read to its end
                numbers, lines = _check_history(file)
                parts["history"] = (file, lines)
            elif kind in _PARTS:
                parts[_PARTS[kind]] = (file, _document(file))
        if "state" not in parts:
            continue
        document: Document = {name: value for name, (_, value) in parts.items() if value is not None}
        owner, index = registries.get(os.path.dirname(folder)), None
        if owner is not None:
            index = _entry(owner[1], os.path.basename(folder))
            if index is not None:
                document["entry"] = _entries(owner[1])[index]
        problems: list[Problem] = [*_check_directory_name(folder, document), *check(document)]
        for problem in problems:
            name, rest = str(problem.place[0]), problem.place[1:]
            if name == "entry" and owner is not None and index is not None:
                _add(verdicts[owner[0]], Problem(("active_features", index, *rest), *problem[1:]))
            elif name == "history" and name in parts and isinstance(rest[0], int):
                _add(verdicts[parts[name][0]], Problem(rest[1:], *problem[1:]), numbers[rest[0]])
            elif name in parts:
                _add(verdicts[parts[name][0]], Problem(rest, *problem[1:]))


def _check_directory_name(folder: str, document: Document) -> Iterator[Problem]:
    """The feature id in the files must be the name of their directory."""
    name = os.path.basename(os.path.abspath(folder))
    state = document.get("state")
    stated = state.get("feature_id") if isinstance(state, dict) else None
    if (
        isinstance(stated, str)
        and stated != name
        and os.path.basename(os.path.dirname(os.path.abspath(folder))) == layout.NAME
    ):
        yield Problem(
            ("state", "feature_id"), f"must be {shorten(name, 60)}, like the directory, is {shorten(stated, 60)}"
        )


def find_missing(homes: list[str], features: list[str]) -> list[FileVerdict]:
    """Missing files of the layout, and directories without a feature id as name."""
    verdicts: list[FileVerdict] = []
    for folder in features:
        name = os.path.basename(os.path.abspath(folder))
        feature = Feature(name, folder)
        if not is_feature_id(name):
            verdicts.append(
                _about(folder, f"must be named by the feature's id, such as add-login-2026-11-15: {name!a}")
            )
        elif not layout.was_deleted(feature):
            required = (feature.state, feature.plan, feature.history)
            verdicts += [_about(path, _MISSING) for path in required if not os.path.lexists(path)]
            if not os.path.lexists(feature.artifacts):
                verdicts.append(
                    _about(feature.artifacts, f"{_MISSING} (git does not keep empty directories)", "warning")
                )
    for home in homes:
        used = any(os.path.dirname(folder) == home for folder in features)
        if used and not os.path.lexists(layout.registry(home)):
            verdicts.append(_about(layout.registry(home), _MISSING))
        if used and not os.path.lexists(layout.readme(home)):
            verdicts.append(_about(layout.readme(home), _MISSING, "warning"))
    return verdicts


def _check_listed(verdict: FileVerdict, home: str, value: Json, features: set[str]) -> None:
    """Every feature must be listed; a listed one should be here, or may be on another branch."""
    entries = [entry for entry in _entries(value) if isinstance(entry, dict)]
    for number, entry in enumerate(entries):
        name = entry.get("feature_id")
        if isinstance(name, str) and name and not os.path.isdir(os.path.join(home, name)):
            message = f"has no directory here: {shorten(name, 60)}"
            _add(verdict, Problem(("active_features", number), message, "warning"))
    known = {entry.get("feature_id") for entry in entries}
    for name in sorted(features - known) if isinstance(value, dict) else ():
        if is_feature_id(name) and os.path.isdir(os.path.join(home, name)):
            _add(verdict, Problem(("active_features",), f"does not list {shorten(name, 60)}, which is here"))


def _about(path: str, why: str, severity: Severity = "error") -> FileVerdict:
    return FileVerdict(path, "contract", severity != "error", [FileProblem("$", why, severity)])


def _add(verdict: FileVerdict, problem: Problem, line: int | None = None) -> None:
    message = problem.message if line is None else f"line {line}: {problem.message}"
    verdict.problems.append(FileProblem(format_place(problem.place), message, problem.severity, line))
    verdict.valid = verdict.valid and problem.severity != "error"


def _document(file: str) -> Json:
    try:
        return read(read_limited(file, LIMIT, subject="the session file"), file).value
    except (NotADocument, HoldfastError):
        return None  # its own verdict has the error


def _check_history(file: str) -> tuple[list[int], list[Json]]:
    """Numbers and times of the readable lines: whole lines may take gigabytes."""
    try:
        raw = read_limited(file, LINES_LIMIT, subject="the history")
    except HoldfastError:
        return [], []
    numbers: list[int] = []
    lines: list[Json] = []
    for number, line in read_lines(raw, file):
        at = line.value.get("timestamp") if isinstance(line, ReadDocument) and isinstance(line.value, dict) else None
        if isinstance(at, str):
            numbers.append(number)
            lines.append({"timestamp": at})
    return numbers, lines


def _entries(registry_value: Json) -> list[Json]:
    entries = registry_value.get("active_features") if isinstance(registry_value, dict) else None
    return entries if isinstance(entries, list) else []


def _entry(registry_value: Json, feature_id: str) -> int | None:
    for index, entry in enumerate(_entries(registry_value)):
        if isinstance(entry, dict) and entry.get("feature_id") == feature_id:
            return index
    return None
