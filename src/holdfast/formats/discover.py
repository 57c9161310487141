"""Find session files in directories and read their documents; what cannot be recognised is reported, not fatal.

The files of one contract feature are one document, named by their directory. In a directory, files at the formats'
own paths count at any depth, and others that may be session files. Links are not followed; version control, packages
of other programs, files that Holdfast set aside and incomplete writes are skipped.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from holdfast.core.canonical import Json
from holdfast.core.errors import Damaged, Failed, HoldfastError, Invalid, NotFound
from holdfast.formats import detect, registry
from holdfast.formats.base import Format, FormatNote
from holdfast.formats.detect import CONTRACT_HOME, format_at, has_session_name, may_be_collected
from holdfast.formats.recovery.identify import is_foreign
from holdfast.formats.text.nodes import NotADocument as NoDocument
from holdfast.formats.text.read import LIMIT, ReadDocument, read, read_json, read_text, read_toml, read_yaml
from holdfast.machine.files import PREFIX, display_path, explain, read_limited

_BOM: Final = b"\xef\xbb\xbf"
# Kinds of file that list sessions and are not sessions.
_LISTS: Final = frozenset({"contract-registry", "craft-index"})
_WHAT: Final = "a session file"
_ANOTHER: Final = "Name a file that holds a session."


class _ForeignDocument(Invalid):
    """A document in none of the four formats."""


class SourceDocument(NamedTuple):
    """A document with its format."""

    path: str
    rules: Format
    value: Json
    notes: list[FormatNote]
    # Its kind of file, if it was recognised by that.
    kind: str = ""


class UnreadFile(NamedTuple):
    """A file without a document of the four formats, and why; with its value if it could be read."""

    path: str
    error: HoldfastError
    value: Json = None


def find_sources(paths: Sequence[str], name: str | None = None) -> Iterator[SourceDocument | UnreadFile]:
    """Every document in these files and directories, once each. `name`: the format they have."""
    for path in paths:  # all of them before the first is read
        if path != "-" and not os.path.lexists(path):
            raise NotFound(
                f"{display_path(path)} does not exist", hint="Check the path.", operation="read", file=path
            )
    for path in paths:
        if path == "-" or not os.path.isdir(path):
            yield _with_advice(_source(path, name))
            continue
        documents = list(map(_with_advice, _in_directory(path, name)))
        if not documents and len(paths) == 1:
            raise no_session_file(path)
        yield from documents or [UnreadFile(path, no_session_file(path))]


def _with_advice(item: SourceDocument | UnreadFile) -> SourceDocument | UnreadFile:
    """Add a hint to a file in none of the formats."""
    if isinstance(item, UnreadFile) and isinstance(item.error, _ForeignDocument):
        from holdfast.formats.unknown.keys import recognises

        salvage = "holdfast import --salvage takes what it can recognise."
        item.error.hint = salvage if recognises(item.value) else _ANOTHER
    return item


def no_session_file(path: str) -> NotFound:
    """The error for a directory without session files."""
    return NotFound(
        f"there is no session file in {display_path(path)}", hint=detect.LOOKED_FOR, operation="read", file=path
    )


def error_reason(error: HoldfastError, path: str) -> str:
    """What is wrong with a file, without its name."""
    if isinstance(error, NoDocument):
        return error.why if error.line is None else f"line {error.line}: {error.why}"
    where = _where(path)
    message = error.message.removeprefix(f"{_WHAT}: ").removeprefix(f"{os.path.basename(where)}, ")
    for named, replacement in (
        (f"{where}: ", ""),
        (f"{where} is ", "it is "),
        (f"cannot read {where}: ", "it cannot be read: "),
    ):
        if message.startswith(named):
            return replacement + message[len(named) :]
    return message


def _in_directory(path: str, name: str | None) -> Iterator[SourceDocument | UnreadFile]:
    walked = find_session_files(path)
    features: set[str] = set()
    placed = [file for file, (_, kind) in walked.placed if kind not in _LISTS]
    items: list[tuple[str, SourceDocument | UnreadFile]] = []
    for file in [*placed, *walked.loose]:
        feature = _feature_of(file)
        if feature is not None and feature in features:
            continue
        if feature is not None:
            features.add(feature)
        item = _source(file, name)
        if feature is not None:
            item = item._replace(path=_shown_as(item, os.path.dirname(file)))
        items.append((file, item))
    suspect = among_sessions(path, [file for file, item in items if isinstance(item, SourceDocument)])
    for file, item in items:
        # Of files elsewhere, only those that are, or were, recognisable session files.
        if file in placed or (
            item.kind not in _LISTS
            if isinstance(item, SourceDocument)
            else _may_be_session(file, item, suspect=not walked.placed and suspect(file))
        ):
            yield item
    for folder, error in walked.unreadable:
        yield UnreadFile(folder, explain(error, "read", folder))


def _may_be_session(file: str, item: UnreadFile, *, suspect: bool) -> bool:
    """May an unreadable file have been a session file? One without permission may.

    `suspect`: it is among session files, so it may be unless it is clearly something else.
    """
    if not isinstance(item.error, NoDocument) or file.endswith(".jsonl"):
        return isinstance(item.error, Failed)
    with suppress(HoldfastError):
        raw = read_limited(file, LIMIT, subject=_WHAT)
        return detect.has_session_signs(raw) or (suspect and not is_foreign(raw, file))
    return suspect


def single_source(path: str, name: str | None = None) -> SourceDocument:
    """The only document at a path. Raises if there is none, more than one, or an unreadable one."""
    documents = list(find_sources([path], name))
    if len(documents) > 1:
        raise Invalid(
            f"there are {len(documents)} session files in {display_path(path)}", hint="Name one of them.", file=path
        )
    if isinstance(documents[0], UnreadFile):
        raise documents[0].error
    return documents[0]


def _source(path: str, name: str | None) -> SourceDocument | UnreadFile:
    value: Json = None
    try:
        feature = _feature_of(path)
        if feature is not None and name in (None, "contract") and _is_contracts(path, feature, name):
            from holdfast.formats.mirror.contract.feature_files import read_feature_document

            return SourceDocument(path, registry.format_named("contract"), read_feature_document(feature), [])
        document = read_document(read_limited(path, LIMIT, subject=_WHAT), path)
        value = document.value
        if name is not None:
            return SourceDocument(path, _requested_format(name, value, path), value, document.notes)
        recognised = detect.recognise(value, path)
        if recognised is None:
            why = detect.why_foreign(value) or "it is in none of the four formats"
            raise _ForeignDocument(f"{_where(path)}: {why}", file=path)
        return SourceDocument(path, recognised[0], value, document.notes, recognised[1])
    except NoDocument as error:
        error.hint = error.hint or _advice(error, path)
        return UnreadFile(path, error)
    except Damaged as error:
        # A broken contract file is input here, not our own data.
        folder = os.path.dirname(path)
        message = error.message.removeprefix(display_path(os.path.abspath(folder)) + os.sep)
        return UnreadFile(path, Invalid(message, hint=error.hint, operation="read", file=error.file))
    except HoldfastError as error:
        return UnreadFile(path, error, value)


def _requested_format(name: str, value: Json, path: str) -> Format:
    """The requested format, unless the document clearly has another one."""
    rules = registry.format_named(name)
    if not isinstance(value, dict) or rules.detects(value) is not None:
        return rules
    for other in detect.rank_by_likelihood(value):
        if registry.format_named(other).detects(value) is not None:
            raise Invalid(
                f"{_where(path)}: it is a document in the format {other}, not {name}",
                hint=f"Use --format {other}, or leave --format out.",
                operation="read",
                file=path,
            )
    return rules


def _where(path: str) -> str:
    return "standard input" if path == "-" else display_path(path)


def _advice(error: NoDocument, path: str) -> str:
    if path.endswith(".jsonl"):
        return "Name the directory of its feature."
    if error.why == "it is empty" or path == "-":
        return _ANOTHER
    return "holdfast recover shows what can still be read of it."


def read_document(raw: bytes, path: str) -> ReadDocument:
    """Read by the file's name, else by the first characters. Anything without syntax is notes."""
    ending = os.path.splitext(path)[1].lower()
    if ending in (".json", ".yaml", ".yml", ".jsonl"):
        return read(raw, path)
    if ending in (".md", ".markdown"):
        return _notes(raw, path)
    begins = raw.removeprefix(_BOM).lstrip()[:1]
    if (begins in (b"{", b"[", b"") or b"\0" in raw[:4]) and ending != ".toml":  # zeros: UTF-16
        return read_json(raw, path)
    try:
        document = read_toml(raw, path) if ending == ".toml" else read_yaml(raw, path)
    except NoDocument:
        if detect.has_session_signs(raw):
            raise  # a broken session file
        return _notes(raw, path)
    return document if isinstance(document.value, (dict, list)) else _notes(raw, path)


def _notes(raw: bytes, path: str) -> ReadDocument:
    from holdfast.formats.unknown.markdown import outline

    text, notes = read_text(raw, path)
    return ReadDocument(outline(text), lambda _: None, notes)


def _shown_as(item: SourceDocument | UnreadFile, folder: str) -> str:
    """The path to show: a feature's directory, or the one of its files that is broken."""
    if isinstance(item, SourceDocument):
        return folder if not item.kind else item.path
    file = os.path.basename(item.error.file or "")
    return os.path.join(folder, file) if file in detect.FEATURE_FILES else folder


def _is_contracts(path: str, feature: str, name: str | None) -> bool:
    """Is this a contract file, not just one with such a name? Asked before its directory is locked."""
    if name == "contract" or detect.format_at(os.path.abspath(path)) is not None:
        return True
    file = os.path.join(feature, "state.yaml") if path.endswith(".jsonl") else path
    with suppress(HoldfastError):
        value = read_document(read_limited(file, LIMIT, subject=_WHAT), file).value
        return registry.format_named("contract").detects(value) is not None
    return False


def _feature_of(path: str) -> str | None:
    """The feature directory of a contract file."""
    folder, name = os.path.split(os.path.abspath(path))
    if name in ("state.yaml", "implementation-plan.yaml", "history.jsonl"):
        return folder if os.path.exists(os.path.join(folder, "state.yaml")) or name != "history.jsonl" else None
    return None


# ── in a directory ───────────────────────────────────────────────────────────────────────────────────────

_PASSED_OVER: Final = frozenset((".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", ".tox"))
MAX_ENTRIES: Final = 200_000  # entries, in case a home directory is named by mistake


class SessionFiles(NamedTuple):
    """The session files of a directory: paths as the person would write them, sorted."""

    # At a format's own path, with format and kind.
    placed: list[tuple[str, tuple[str, str]]]
    # With a name that a session file may have.
    loose: list[str]
    # Directories that could not be read.
    unreadable: list[tuple[str, OSError]]
    # The contract's own directories, and the directories of features in them.
    homes: list[str]
    features: list[str]


def find_session_files(root: str) -> SessionFiles:
    result = SessionFiles([], [], [], [], [])
    below: list[str] = []
    collected: list[str] = []
    root_path = os.path.abspath(root)
    entries_left = MAX_ENTRIES
    # The path to show, and the absolute one for detection.
    folders = [(root, root_path)]
    while folders and entries_left > 0:
        folder, absolute = folders.pop()
        try:
            with os.scandir(folder) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            result.unreadable.append((folder, error))
            continue
        entries_left -= len(listed)
        contract = CONTRACT_HOME in (os.path.basename(absolute), os.path.basename(os.path.dirname(absolute)))
        if contract:
            (result.homes if os.path.basename(absolute) == CONTRACT_HOME else result.features).append(folder)
        inner: list[tuple[str, str]] = []
        for entry in listed:
            name = entry.name
            if _is_set_aside(name) or (contract and name.startswith(".")):
                continue
            if entry.is_dir(follow_symlinks=False):
                # Directories in a feature's directory are its own, not other projects.
                if name not in _PASSED_OVER and not (contract and os.path.basename(absolute) != CONTRACT_HOME):
                    inner.append((entry.path, os.path.join(absolute, name)))
            elif may_be_collected(name) and entry.is_file(follow_symlinks=False):
                owner = format_at(f"{absolute}/{name}")
                if owner is not None:
                    result.placed.append((entry.path, owner))
                elif has_session_name(name):
                    (result.loose if absolute == root_path else below).append(entry.path)
                elif absolute == root_path:
                    collected.append(entry.path)
        folders.extend(reversed(inner))
    if not result.placed:
        # A collection of documents rather than a project.
        result.loose.extend([*collected, *below])
    return result


def among_sessions(root: str, sessions: Iterable[str]) -> Callable[[str], bool]:
    """A test whether an unreadable file may have been a session file, if none is at a format's own path.

    Files in the named directory and next to session files may; not every broken file of a whole tree.
    """
    folders = {os.path.abspath(root), *(os.path.dirname(os.path.abspath(path)) for path in sessions)}
    return lambda path: os.path.dirname(os.path.abspath(path)) in folders


def refuse_link_loop(path: str) -> None:
    """Raise when a named path is a link that leads to itself."""
    if path != "-" and os.path.islink(path):
        try:
            os.stat(path)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise explain(error, "read", path) from error


def _is_set_aside(name: str) -> bool:
    return ".rejected-" in name or name.startswith(PREFIX)
