"""`validate`: check files strictly against the formats' specifications, or only for what an import would refuse.

Text with a NUL or of excessive length is allowed by every schema, but not in events. In a field that is only kept in
the remainder it is no problem.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import Final, Literal, NamedTuple

import msgspec

from holdfast.core import limits
from holdfast.core.canonical import Json, canonical_json
from holdfast.core.errors import HoldfastError, Invalid, NotFound
from holdfast.core.events import TYPE_OF, EventData, ExtraKept, ProjectFacts
from holdfast.core.secrets.patterns import redact_document
from holdfast.core.text import MAX_TEXT_LENGTH, check_text
from holdfast.core.times import format_time
from holdfast.formats import detect, registry
from holdfast.formats.base import Document, Format, ImportContext, Place, Problem, Severity
from holdfast.formats.discover import among_sessions, find_session_files, refuse_link_loop
from holdfast.formats.document_paths import format_place
from holdfast.formats.text.json import LIMIT, parse_plain
from holdfast.formats.text.nodes import NotADocument
from holdfast.machine.files import display_path, read_limited
from holdfast.machine.os_errors import explain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.formats.text.read import ReadDocument


LINES_LIMIT: Final = limits.MAX_HISTORY_SIZE
MAX_PROBLEMS: Final = 1_000  # reported per file

_FLAGS: Final = (
    os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
)  # fmt: skip
_READ_SIZE: Final = 1 << 16
# Contract files that make a session by themselves.
_SESSION_PARTS: Final = {"contract-state": "state", "contract-plan": "plan"}
# The state used to try a history line, which does not make a session by itself.
_EXAMPLE_STATE: Final[dict[str, Json]] = {
    "version": "1.0", "feature_id": "any-2000-01-01",
    "current_state": {
        "active_task": None, "model_in_use": "sonnet", "started_at": "2000-01-01T00:00:00Z",
        "last_updated": "2000-01-01T00:00:00Z",
    },
}  # fmt: skip


def import_problems(value: Json, rules: Format, context: ImportContext) -> list[Problem]:
    """Why an import would refuse this document; empty when it would not."""
    try:
        document, _ = redact_document(rules.repair(value, context).document)
        assert isinstance(document, dict)
        events = rules.changes(None, document, None, context)
    except HoldfastError as error:
        return [Problem((), error.message)]
    problems: list[Problem] = []
    reported: set[str] = set()
    for _, data in events:
        for wrong, message in _invalid_texts(data):
            if wrong not in reported:
                reported.add(wrong)
                problems += _locate(document, wrong, message)
    return sorted(set(problems), key=lambda problem: tuple(map(str, problem.place)))


def has_unstorable_text(value: Json) -> bool:
    """Does it have text that no event may hold? A quick check for long lists."""
    return any(_is_bad(text) for _, text in _texts(value, ()))


def _invalid_texts(data: EventData) -> Iterator[tuple[str, str]]:
    """Each text that the event must not hold, and why; an empty text for other errors."""
    if type(data) is ExtraKept:
        return
    valid = True
    for name in TYPE_OF[type(data)].text_fields:
        texts = getattr(data, name)
        for wrong in (texts,) if isinstance(texts, str) else texts if isinstance(texts, tuple) else ():
            try:
                check_text(wrong, "the text", empty=True)
            except HoldfastError as error:
                valid = False
                yield wrong, error.message
    if valid:
        try:
            canonical_json(msgspec.to_builtins(data))
        except HoldfastError as error:
            yield "", error.message


def _locate(document: Document, text: str, message: str) -> list[Problem]:
    """The places of a text; for one composed of others, the places of the bad ones."""
    if not text:
        return [Problem((), message)]
    bad = [(place, name) for place, name in _texts(document, ()) if _is_bad(name)]
    places = [place for place, name in bad if name == text] or [place for place, name in bad if name in text]
    return [Problem(place, message.replace("the text ", "", 1)) for place in places] or [Problem((), message)]


def _is_bad(text: str) -> bool:
    return "\0" in text or len(text) > MAX_TEXT_LENGTH


def _texts(value: Json, place: Place) -> Iterator[tuple[Place, str]]:
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _texts(inner, (*place, key))
    elif isinstance(value, list):
        for position, inner in enumerate(value):
            yield from _texts(inner, (*place, position))


class FileProblem(msgspec.Struct):
    """A problem as reported: JSON path, message, severity, and line if known.

    The other fields are those of every error.
    """

    path: str
    message: str
    severity: Severity
    line: int | None = None
    operation: Literal["read"] = "read"
    file: str = ""
    feature_id: str | None = None
    details: str = ""
    timestamp: str = ""


class FileVerdict(msgspec.Struct):
    """The verdict on one file. `format` is None if it is in none of the four."""

    path: str
    format: str | None
    valid: bool
    problems: list[FileProblem]


class _BrokenFile(NamedTuple):
    """An unreadable file that does not show what it was."""

    path: str
    raw: bytes


class Validator:
    """Checks files. It needs time and zone, because repairs read local times."""

    def __init__(
        self, *, format_name: str | None, lenient: bool, now: int, offset: Callable[[int], timedelta]
    ) -> None:
        self._only = registry.format_named(format_name) if format_name is not None else None
        self._lenient = lenient
        self._now = now
        self._offset = offset

    def check(self, paths: Iterable[str]) -> list[FileVerdict]:
        """Check the named files, and all session files in named directories. Raises `NotFound`."""
        named = list(paths)
        for path in named:
            if path != "-" and not os.path.lexists(path):
                raise NotFound(
                    f"{display_path(path)} does not exist", hint="Check the path.", operation="read", file=path
                )
            refuse_link_loop(path)
        verdicts = [verdict for path in named for verdict in self._check_directory(path)]
        for verdict in verdicts:
            feature = detect.feature_at(os.path.abspath(verdict.path)) if verdict.format == "contract" else None
            for problem in verdict.problems:
                problem.file, problem.details, problem.timestamp = (
                    verdict.path,
                    problem.message,
                    format_time(self._now),
                )
                problem.feature_id = problem.feature_id or feature
        return verdicts

    def _check_directory(self, path: str) -> list[FileVerdict]:
        if path == "-" or not os.path.isdir(path):
            return [self._check_named_file(path)]
        walked = find_session_files(path)
        verdicts = [_unreadable(folder, explain(error, "read", folder)) for folder, error in walked.unreadable]
        features: dict[str, list[tuple[str, str]]] = {}
        for file, (format_name, kind) in walked.placed:
            if self._only is not None and self._only.name != format_name:
                continue
            if format_name == "contract":
                features.setdefault(os.path.dirname(file), []).append((file, kind))
            else:
                verdicts.append(self._check_known_path(file, format_name, kind))
        verdicts += self._check_features(features)
        if not self._lenient and self._only in (None, registry.format_named("contract")):
            from holdfast.formats.validate_features import find_missing

            verdicts += find_missing(walked.homes, walked.features)
        loose = [self._check_if_recognised(file) for file in walked.loose]
        suspect = among_sessions(
            path, [item.path for item in loose if isinstance(item, FileVerdict) and item.format is not None]
        )
        for item in loose:
            if isinstance(item, FileVerdict):
                verdicts.append(item)
            elif item is not None and not walked.placed and suspect(item.path) and not _is_foreign(item):
                verdicts.append(self._full_check(item.raw, item.path))
        if not verdicts:
            noun = "session file" if self._only is None else f"{self._only.name} file"
            raise NotFound(
                f"there is no {noun} in {display_path(path)}",
                hint=detect.LOOKED_FOR,
                operation="read",
                file=path,
            )
        return verdicts

    # ── one file ─────────────────────────────────────────────────────────────────────────────────────────

    def _check_known_path(self, path: str, format_name: str, kind: str) -> FileVerdict:
        try:
            raw = _read_walked_file(path)
        except OSError as error:
            return _unreadable(path, explain(error, "read", path), format_name)
        if parse_plain(raw) is not None and registry.format_named(format_name).is_sound(raw, kind):
            return FileVerdict(path, format_name, True, [])
        return self._full_check(raw, path)

    def _check_if_recognised(self, path: str) -> FileVerdict | _BrokenFile | None:
        """Check a file that is a session file only if it looks like one; a broken one may be, by its directory."""
        try:
            raw = _read_walked_file(path)
        except OSError as error:
            return _unreadable(path, explain(error, "read", path))
        value = parse_plain(raw)
        if isinstance(value, dict):
            is_likely = registry.format_named(detect.rank_by_likelihood(value)[0])
            kind = is_likely.detects(value)
            if kind is not None and self._only in (None, is_likely) and is_likely.is_sound(raw, kind):
                return FileVerdict(path, is_likely.name, True, [])
        read = None if path.endswith(".jsonl") else _read_or_error(raw, path)
        if isinstance(read, NotADocument) or read is None:
            if detect.has_session_signs(raw):
                return self._full_check(raw, path)
            return None if read is None else _BrokenFile(path, raw)
        known = detect.recognise(read.value, os.path.abspath(path))
        return None if known is None or self._only not in (None, known[0]) else self._check_document(read, path)

    def _check_named_file(self, path: str) -> FileVerdict:
        try:
            raw = read_limited(path, LINES_LIMIT if path.endswith(".jsonl") else LIMIT, subject="a session file")
        except NotFound:
            raise
        except HoldfastError as error:
            return _unreadable(path, error)
        place = detect.format_at(os.path.abspath(path))
        if place is not None and self._only is None and parse_plain(raw) is not None:
            owner, kind = registry.format_named(place[0]), place[1]
            if owner.is_sound(raw, kind):
                return FileVerdict(path, owner.name, True, [])
        return self._full_check(raw, path)

    def _full_check(self, raw: bytes, path: str) -> FileVerdict:
        if path.endswith(".jsonl"):
            return self._check_lines(raw, path)
        read = _read_or_error(raw, path)
        if isinstance(read, NotADocument):
            place = detect.format_at(os.path.abspath(path))
            owner = self._only.name if self._only is not None else place[0] if place is not None else None
            return FileVerdict(path, owner, False, [FileProblem("$", read.why, "error", read.line)])
        return self._check_document(read, path)

    def _check_document(self, read: ReadDocument, path: str) -> FileVerdict:
        known = self._recognise(read.value, path)
        if known is None:
            from holdfast.formats.unknown.keys import recognises

            why = detect.why_foreign(read.value) or "it is in none of the four formats"
            if recognises(read.value):
                why += "; holdfast import --salvage imports what it can recognise"
            return FileVerdict(path, None, False, [FileProblem("$", why, "error", read.line(()))])
        owner, kind = known
        problems = [] if self._lenient else owner.problems(read.value, kind)
        if all(problem.severity != "error" for problem in problems):
            problems = [*problems, *self._import_problems(read.value, owner, kind)]
        reported = [_file_problem(problem, read.line) for problem in problems[:MAX_PROBLEMS]]
        if owner.name == "contract":
            for problem, line in zip(problems, reported, strict=False):
                line.feature_id = feature_in(read.value, problem.place)
        if not self._lenient:
            reported += [FileProblem("$", note.message, "warning") for note in read.notes]
        return _verdict(path, owner, reported)

    def _recognise(self, value: Json, path: str) -> tuple[Format, str] | None:
        if self._only is None:
            return detect.recognise(value, os.path.abspath(path))
        place = detect.format_at(os.path.abspath(path))
        if place is not None and place[0] == self._only.name:
            return self._only, place[1]
        return self._only, self._only.detects(value) or self._only.kinds[0]

    def _import_problems(self, value: Json, owner: Format, kind: str) -> list[Problem]:
        """Problems of an import; only tried with what makes a session by itself."""
        if owner.name != "contract":
            return import_problems(value, owner, self._context) if kind == owner.kinds[0] else []
        if kind == "contract-history":
            document: Json = {"state": _EXAMPLE_STATE, "history": [value]}
        elif kind in _SESSION_PARTS:
            document = {_SESSION_PARTS[kind]: value}
        else:
            return self._entry_import_problems(value, owner)
        # Places are relative to the part, or the line.
        steps = 2 if kind == "contract-history" else 1
        return [
            Problem(problem.place[steps:], problem.message)
            for problem in import_problems(document, owner, self._context)
        ]

    def _entry_import_problems(self, value: Json, owner: Format) -> list[Problem]:
        """Problems of importing each entry of a registry with its feature."""
        entries = value.get("active_features") if isinstance(value, dict) else None
        if not isinstance(entries, list):
            return [Problem((), "must be an object that lists active_features")]
        problems: list[Problem] = []
        for number, entry in enumerate(entries[:MAX_PROBLEMS]):
            named = entry.get("feature_id") if isinstance(entry, dict) else None
            document: Json = {"state": {**_EXAMPLE_STATE, "feature_id": named}, "entry": entry}
            problems += [
                Problem(("active_features", number, *problem.place[1:]), problem.message)
                for problem in import_problems(document, owner, self._context)
            ]
        return problems

    @property
    def _context(self) -> ImportContext:
        folder = os.getcwd()
        project = ProjectFacts(id="project", name=os.path.basename(folder) or "project", path=folder)
        return ImportContext(project, "device", self._now, self._offset)

    def _check_lines(self, raw: bytes, path: str) -> FileVerdict:
        from holdfast.formats.text.read import read_lines

        owner = self._only or registry.format_named("contract")
        kind = next((name for name in owner.kinds if name.endswith("-history")), owner.kinds[0])
        reported: list[FileProblem] = []
        for number, read in read_lines(raw, path):
            if isinstance(read, Invalid):
                reported.append(
                    FileProblem("$", f"line {number}: {getattr(read, 'why', read.message)}", "error", number)
                )
            else:
                problems = [] if self._lenient else owner.problems(read.value, kind)
                reported += [
                    FileProblem(
                        format_place(problem.place), f"line {number}: {problem.message}", problem.severity, number
                    )
                    for problem in problems or self._line_import_problems(read.value, owner, kind)
                ]
            if len(reported) >= MAX_PROBLEMS:
                break
        return _verdict(path, owner, reported)

    def _line_import_problems(self, value: Json, owner: Format, kind: str) -> list[Problem]:
        return self._import_problems(value, owner, kind) if has_unstorable_text(value) else []

    # ── the contract's features ──────────────────────────────────────────────────────────────────────────

    def _check_features(self, features: dict[str, list[tuple[str, str]]]) -> Iterator[FileVerdict]:
        if not features:
            return
        from holdfast.formats.validate_features import add_contradictions

        verdicts = {
            file: self._check_known_path(file, "contract", kind)
            for files in features.values()
            for file, kind in files
        }
        if not self._lenient:
            add_contradictions(verdicts, features)
        yield from verdicts.values()


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────────


def _read_walked_file(path: str) -> bytes:
    """A file's content, in one call for most: `user_input.read_limited` takes six, for each of thousands of files."""
    fd = os.open(path, _FLAGS)
    try:
        raw = os.read(fd, _READ_SIZE)
        if len(raw) < _READ_SIZE:
            return raw
        parts = [raw]
        bytes_left = LINES_LIMIT if path.endswith(".jsonl") else LIMIT
        while bytes_left >= 0 and (part := os.read(fd, 1 << 20)):
            parts.append(part)
            bytes_left -= len(part)
        return b"".join(parts)
    finally:
        os.close(fd)


def _is_foreign(file: _BrokenFile) -> bool:
    from holdfast.formats.recovery.identify import is_foreign

    return is_foreign(file.raw, file.path)


# ── reporting ────────────────────────────────────────────────────────────────────────────────────────────


def _read_or_error(raw: bytes, path: str) -> ReadDocument | NotADocument:
    from holdfast.formats.discover import read_document

    try:
        return read_document(raw, path)
    except NotADocument as error:
        return error


def feature_in(value: Json, place: Place) -> str | None:
    """The feature id that a contract file has for a place."""
    from holdfast.formats.contract.fields import as_list, as_object
    from holdfast.formats.contract.fields import as_text as word

    document = as_object(value)
    match place:
        case ("active_features", int(number), *_):
            document = as_object(as_list(document.get("active_features"))[number])
    return word(document.get("feature_id")) or word(as_object(document.get("feature")).get("id"))


def _file_problem(problem: Problem, line: Callable[[Place], int | None]) -> FileProblem:
    return FileProblem(format_place(problem.place), problem.message, problem.severity, line(problem.place))


def _verdict(path: str, owner: Format, problems: list[FileProblem]) -> FileVerdict:
    return FileVerdict(path, owner.name, all(problem.severity != "error" for problem in problems), problems)


def _unreadable(path: str, error: HoldfastError, format_name: str | None = None) -> FileVerdict:
    from holdfast.formats.discover import error_reason

    return FileVerdict(path, format_name, False, [FileProblem("$", error_reason(error, path), "error")])
