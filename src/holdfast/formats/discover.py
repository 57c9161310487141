"""Find session documents in files and directories; what cannot be recognised is named, not fatal.

The files of one contract feature are one document, named by their directory. A directory is walked as `validate`
walks it.
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
from holdfast.formats.detect import CONTRACT_HOME, may_be_meant, named_like, placed
from holdfast.formats.recovery.identify import is_foreign
from holdfast.formats.text.nodes import NotADocument as NoDocument
from holdfast.formats.text.read import LIMIT, ReadDocument, read, read_json, read_text, read_toml, read_yaml
from holdfast.machine.files import PREFIX, display_path, explain, read_limited

_BOM: Final = b"\xef\xbb\xbf"
# Kinds of file that list sessions and are none.
_NOT_SESSIONS: Final = frozenset({"contract-registry", "craft-index"})
_WHAT: Final = "a session file"
_ANOTHER: Final = "Name a file that holds a session."


class _Foreign(Invalid):
    """A document of none of the four formats."""


class SourceDocument(NamedTuple):
    """A document, and which format it is in."""

    path: str
    rules: Format
    value: Json
    notes: list[FormatNote]
    # Its kind of file, where it was recognised by that.
    kind: str = ""


class UnreadFile(NamedTuple):
    """A file that is not a document of the four formats, and why; with what it holds, if it could be read at all."""

    path: str
    error: HoldfastError
    value: Json = None


def sources(paths: Sequence[str], name: str | None = None) -> Iterator[SourceDocument | UnreadFile]:
    """Every document in these files and directories, each once. `name` says which format they are in."""
    for path in paths:  # before anything is done with the first
        if path != "-" and not os.path.lexists(path):
            raise NotFound(
                f"{display_path(path)} does not exist", hint="Check the path.", operation="read", file=path
            )
    for path in paths:
        if path == "-" or not os.path.isdir(path):
            yield _advised(_source(path, name))
            continue
        found = list(map(_advised, _in_directory(path, name)))
        if not found and len(paths) == 1:
            raise none_in(path)
        yield from found or [UnreadFile(path, none_in(path))]


def _advised(one: SourceDocument | UnreadFile) -> SourceDocument | UnreadFile:
    """Say what to do with a file of none of the formats. Not for every file of a directory: most are not meant."""
    if isinstance(one, UnreadFile) and isinstance(one.error, _Foreign):
        from holdfast.formats.unknown.keys import recognises

        salvage = "holdfast import --salvage takes what it can recognise."
        one.error.hint = salvage if recognises(one.value) else _ANOTHER
    return one


def none_in(path: str) -> NotFound:
    """A directory in which there is nothing to be read."""
    return NotFound(
        f"there is no session file in {display_path(path)}", hint=detect.LOOKED_FOR, operation="read", file=path
    )


def reason(error: HoldfastError, path: str) -> str:
    """What is wrong with a file, for a line that has named it already."""
    if isinstance(error, NoDocument):
        return error.why if error.line is None else f"line {error.line}: {error.why}"
    where = _where(path)
    said = error.message.removeprefix(f"{_WHAT}: ").removeprefix(f"{os.path.basename(where)}, ")
    for named, instead in (
        (f"{where}: ", ""),
        (f"{where} is ", "it is "),
        (f"cannot read {where}: ", "it cannot be read: "),
    ):
        if said.startswith(named):
            return instead + said[len(named) :]
    return said


def _in_directory(path: str, name: str | None) -> Iterator[SourceDocument | UnreadFile]:
    walked = find_session_files(path)
    features: set[str] = set()
    placed = [file for file, (_, kind) in walked.placed if kind not in _NOT_SESSIONS]
    found: list[tuple[str, SourceDocument | UnreadFile]] = []
    for file in [*placed, *walked.loose]:
        feature = _feature_of(file)
        if feature is not None and feature in features:
            continue
        if feature is not None:
            features.add(feature)
        one = _source(file, name)
        if feature is not None:
            one = one._replace(path=_shown_as(one, os.path.dirname(file)))
        found.append((file, one))
    asked = suspicious(path, [file for file, one in found if isinstance(one, SourceDocument)])
    for file, one in found:
        # Among files that lie about anywhere, only what is recognised is meant, or was before it broke.
        if file in placed or (
            one.kind not in _NOT_SESSIONS
            if isinstance(one, SourceDocument)
            else _was_meant(file, one, asked=not walked.placed and asked(file))
        ):
            yield one
    for folder, error in walked.closed:
        yield UnreadFile(folder, explain(error, "read", folder))


def _was_meant(file: str, one: UnreadFile, *, asked: bool) -> bool:
    """Was a file that could not be read a session's, as far as can be seen? What is closed may be.

    `asked`: it is where sessions are, so it may be unless it is plainly something else.
    """
    if not isinstance(one.error, NoDocument) or file.endswith(".jsonl"):
        return isinstance(one.error, Failed)
    with suppress(HoldfastError):
        raw = read_limited(file, LIMIT, what=_WHAT)
        return detect.shows_signs(raw) or (asked and not is_foreign(raw, file))
    return asked


def single_source(path: str, name: str | None = None) -> SourceDocument:
    """The one document at a path. Raises what is wrong with it."""
    found = list(sources([path], name))
    if len(found) > 1:
        raise Invalid(
            f"there are {len(found)} session files in {display_path(path)}", hint="Name one of them.", file=path
        )
    if isinstance(found[0], UnreadFile):
        raise found[0].error
    return found[0]


def _source(path: str, name: str | None) -> SourceDocument | UnreadFile:
    value: Json = None
    try:
        feature = _feature_of(path)
        if feature is not None and name in (None, "contract") and _is_contracts(path, feature, name):
            from holdfast.formats.mirror.contract.feature_files import gathered

            return SourceDocument(path, registry.named("contract"), gathered(feature), [])
        document = read_document(read_limited(path, LIMIT, what=_WHAT), path)
        value = document.value
        if name is not None:
            return SourceDocument(path, _asked_for(name, value, path), value, document.notes)
        found = detect.recognised(value, path)
        if found is None:
            why = detect.foreign(value) or "it is none of the four formats"
            raise _Foreign(f"{_where(path)}: {why}", file=path)
        return SourceDocument(path, found[0], value, document.notes, found[1])
    except NoDocument as error:
        error.hint = error.hint or _advice(error, path)
        return UnreadFile(path, error)
    except Damaged as error:
        # A broken file of the contract. Here it is what somebody hands us, not what we store.
        folder = os.path.dirname(path)
        message = error.message.removeprefix(display_path(os.path.abspath(folder)) + os.sep)
        return UnreadFile(path, Invalid(message, hint=error.hint, operation="read", file=error.file))
    except HoldfastError as error:
        return UnreadFile(path, error, value)


def _asked_for(name: str, value: Json, path: str) -> Format:
    """The format that was named, unless the document is plainly of another: read as this one it would tell lies."""
    rules = registry.named(name)
    if not isinstance(value, dict) or rules.detects(value) is not None:
        return rules
    for other in detect.likely(value):
        if registry.named(other).detects(value) is not None:
            raise Invalid(
                f"{_where(path)}: it is a document of the format {other}, not {name}",
                hint=f"Say {other}, or let it be recognised.",
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
    """By the file's name; where that says nothing, by how the text begins. What has no syntax to break is notes."""
    ending = os.path.splitext(path)[1].lower()
    if ending in (".json", ".yaml", ".yml", ".jsonl"):
        return read(raw, path)
    if ending in (".md", ".markdown"):
        return _notes(raw, path)
    begins = raw.removeprefix(_BOM).lstrip()[:1]
    if (begins in (b"{", b"[", b"") or b"\0" in raw[:4]) and ending != ".toml":  # zeros are UTF-16
        return read_json(raw, path)
    try:
        found = read_toml(raw, path) if ending == ".toml" else read_yaml(raw, path)
    except NoDocument:
        if detect.shows_signs(raw):
            raise  # a session file that broke
        return _notes(raw, path)
    return found if isinstance(found.value, (dict, list)) else _notes(raw, path)


def _notes(raw: bytes, path: str) -> ReadDocument:
    from holdfast.formats.unknown.markdown import outline

    text, notes = read_text(raw, path)
    return ReadDocument(outline(text), lambda _: None, notes)


def _shown_as(one: SourceDocument | UnreadFile, folder: str) -> str:
    """A feature goes by its directory; where one of its files is to blame, by that."""
    if isinstance(one, SourceDocument):
        return folder if not one.kind else one.path
    file = os.path.basename(one.error.file or "")
    return os.path.join(folder, file) if file in detect.FEATURE_FILES else folder


def _is_contracts(path: str, feature: str, name: str | None) -> bool:
    """Is a file the contract's, and not only called like one of its? Asked before its directory is locked."""
    if name == "contract" or detect.placed(os.path.abspath(path)) is not None:
        return True
    file = os.path.join(feature, "state.yaml") if path.endswith(".jsonl") else path
    with suppress(HoldfastError):
        value = read_document(read_limited(file, LIMIT, what=_WHAT), file).value
        return registry.named("contract").detects(value) is not None
    return False


def _feature_of(path: str) -> str | None:
    """The feature directory a file of the contract lies in."""
    folder, name = os.path.split(os.path.abspath(path))
    if name in ("state.yaml", "implementation-plan.yaml", "history.jsonl"):
        return folder if os.path.exists(os.path.join(folder, "state.yaml")) or name != "history.jsonl" else None
    return None


# ── in a directory ───────────────────────────────────────────────────────────────────────────────────────

_PASSED_OVER: Final = frozenset((".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", ".tox"))
MOST: Final = 200_000  # entries; a home directory named by mistake should end


class Walked(NamedTuple):
    """What was found: paths as the person would write them, sorted."""

    # At a place of a format, with the format and the kind of file.
    placed: list[tuple[str, tuple[str, str]]]
    # Of a name that a session file may have.
    loose: list[str]
    # Directories that could not be looked into.
    closed: list[tuple[str, OSError]]
    # The contract's own directories, and the directories of features in them.
    homes: list[str]
    features: list[str]


def find_session_files(root: str) -> Walked:
    found = Walked([], [], [], [], [])
    below: list[str] = []
    collected: list[str] = []
    top = os.path.abspath(root)
    left = MOST
    # The path to show, and the absolute one, by which places are recognised.
    folders = [(root, top)]
    while folders and left > 0:
        here, absolute = folders.pop()
        try:
            with os.scandir(here) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            found.closed.append((here, error))
            continue
        left -= len(listed)
        contract = CONTRACT_HOME in (os.path.basename(absolute), os.path.basename(os.path.dirname(absolute)))
        if contract:
            (found.homes if os.path.basename(absolute) == CONTRACT_HOME else found.features).append(here)
        inner: list[tuple[str, str]] = []
        for entry in listed:
            name = entry.name
            if _set_aside(name) or (contract and name.startswith(".")):
                continue
            if entry.is_dir(follow_symlinks=False):
                # What stands in a feature's directory is the feature's own, not another project.
                if name not in _PASSED_OVER and not (contract and os.path.basename(absolute) != CONTRACT_HOME):
                    inner.append((entry.path, os.path.join(absolute, name)))
            elif may_be_meant(name) and entry.is_file(follow_symlinks=False):
                owner = placed(f"{absolute}/{name}")
                if owner is not None:
                    found.placed.append((entry.path, owner))
                elif named_like(name):
                    (found.loose if absolute == top else below).append(entry.path)
                elif absolute == top:
                    collected.append(entry.path)
        folders.extend(reversed(inner))
    if not found.placed:
        # A directory of documents that somebody collected, rather than a project.
        found.loose.extend([*collected, *below])
    return found


def suspicious(root: str, sessions: Iterable[str]) -> Callable[[str], bool]:
    """Of files that cannot be read, where nothing has a place of its own: which may have been sessions?

    Those in the directory that was named, and those that lie among sessions; not every broken file of a whole tree.
    """
    folders = {os.path.abspath(root), *(os.path.dirname(os.path.abspath(path)) for path in sessions)}
    return lambda path: os.path.dirname(os.path.abspath(path)) in folders


def refuse_circle(path: str) -> None:
    """Raise when a path that was named is a link that leads nowhere but to itself, whoever wants to read it."""
    if path != "-" and os.path.islink(path):
        try:
            os.stat(path)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise explain(error, "read", path) from error


def _set_aside(name: str) -> bool:
    return ".rejected-" in name or name.startswith(PREFIX)
