"""Session files in a project that no mirror maintains: reported on every surface, and continued on request.

Another program may have used one of the four formats here before Holdfast, or without it. Files that are missing or
known to the store cost one `stat` each; only others are read. For a file that cannot be read, the answer has commands
for that very file.
"""

from __future__ import annotations

import os

from holdfast.formats.mirror.follower import mirrors_of
from holdfast.sessions import history as session_history

TYPE_CHECKING = False
if TYPE_CHECKING:  # `status` loads this module
    from collections.abc import Iterator
    from typing import Final

    from holdfast.core.canonical import Json
    from holdfast.core.errors import HoldfastError
    from holdfast.formats.base import Format
    from holdfast.formats.recover_files import RecoveredFile
    from holdfast.workspace.workspace import Workspace

# Formats with one session in one file.
SINGLE: Final = {
    "orchestrator": (".claude", "orchestrator-session.json"),
    "timer": (".claude", "session-state.json"),
}
# Formats with many sessions, each under its own id as a file or a directory.
MANY: Final = {"craft": (".craft", "cache", "orchestration-sessions"), "contract": (".ai-session",)}
_LARGE_SIZE: Final = 1 << 20  # bytes; larger files are read only when needed
_MAX_FILES: Final = 100  # of one directory
_MAX_READ: Final = 10
_MAX_NAMED: Final = 3
_MAX_COMPARED: Final = 3  # compared with the log


class ProjectFile:
    """A session file in the project."""

    def __init__(self, name: str, path: str, changed: int) -> None:
        self.format = name
        self.path = path
        # When it was last changed, by its own field or else its mtime, in milliseconds.
        self.changed = changed
        self.goal: str | None = None
        self.status = ""
        self.rules: Format | None = None
        self.document: Json = None
        # The session in the store about which it has more.
        self.known: str | None = None
        # Why it cannot be continued: damaged, or an unsupported version or shape.
        self.error: HoldfastError | None = None
        # Is its version newer than the supported one?
        self.newer = False
        # Can `recover` get anything from it?
        self.recoverable = False
        # Is it in none of the formats?
        self.foreign = False
        # Is it the latest unfinished session file, which `continue` continues?
        self.latest = True

    @property
    def shell_path(self) -> str:
        """Its path as a person would type it here."""
        from shlex import quote

        short = os.path.relpath(self.path)
        return quote(self.path if short.startswith(os.pardir) else short)

    @property
    def unfinished(self) -> bool:
        from holdfast.core.lifecycle import FINISHED

        return self.error is None and not self.foreign and self.status not in FINISHED


def find_files(ws: Workspace, *, at_work: bool, thorough: bool = False) -> list[ProjectFile]:
    """Session files of which the store does not have everything, latest first.

    `at_work`: there is a current session, so files that a mirror set aside are no concern. `thorough`: whatever their
    size.
    """
    root = ws.place.root
    present = [name for name, steps in (SINGLE | MANY).items() if os.path.lexists(os.path.join(root, *steps))]
    mirrored = _mirrored_formats(ws) if present or not at_work else set()
    listed: list[ProjectFile] = []
    for name in present:
        if name not in mirrored:
            listed += (_find_single if name in SINGLE else _find_many)(ws, name, thorough=thorough)
    for name in mirrored & SINGLE.keys() if not at_work else ():
        listed += _find_set_aside(ws, name)
    ordered = sorted(listed, key=lambda file: file.changed, reverse=True)
    for file in [file for file in ordered if file.unfinished][1:]:
        file.latest = False
    return ordered


def notes(ws: Workspace, *, at_work: bool, foreign: bool = False) -> list[str]:
    """A sentence for each of the latest files, for every surface; for those in no format only if `foreign`."""
    listed = [file for file in find_files(ws, at_work=at_work) if foreign or not file.foreign]
    sentences = [describe_with_options(ws, file) for file in listed[:_MAX_NAMED]]
    if len(listed) > _MAX_NAMED:
        sentences.append(f"There are {len(listed) - _MAX_NAMED} more session files here that are not in the log.")
    return sentences


def describe_with_options(ws: Workspace, file: ProjectFile) -> str:
    """A description of a file and what to do about it."""
    about, commands = description(file), options(ws, file)
    return f"{about}. {commands[0]}" if len(commands) == 1 else "\n  ".join([f"{about}. Either:", *commands])


def description(file: ProjectFile) -> str:
    path = file.shell_path
    if file.error is not None:
        return _problem(file.error, path)
    if file.foreign:
        return f"{path} is in none of the four formats"
    text = f"{path} holds a session that is not in the log"
    if file.known is not None:
        text = f"{path} has more of session {file.known[:8]} than the log"
    return f"{text}: {_goal(file)!r}, {file.status.replace('_', ' ')}, of {_day(file)}" if file.status else text


def options(ws: Workspace, file: ProjectFile) -> list[str]:
    """Commands for this very file."""
    path = file.shell_path
    if file.foreign:
        return [f"To import what can be recognised: holdfast import --salvage {path}"]
    if file.error is None:
        latest = session_history.latest_unfinished(ws) if file.unfinished else None
        last = file.unfinished and file.latest and (latest is None or ws.state(latest).updated_at <= file.changed)
        command = "holdfast continue --yes" if last and confirmation_reason(ws, file) else "holdfast continue"
        return [f"To continue it: {command}" if last else f"To import it: holdfast import {path}"]
    recover = [f"holdfast recover {path} --start (continues with what can be read)"] if file.recoverable else []
    file_stays = "the file is kept" if ".rejected-" in path else "the file is kept under another name"
    start_over = f"holdfast start GOAL --replace (starts over; {file_stays})"
    if file.format in MANY:
        start_over = "holdfast start GOAL (starts over; the file stays as it is)"
    return [
        *recover,
        start_over,
        "holdfast history (shows earlier sessions)",
    ]


def cannot_continue(ws: Workspace, file: ProjectFile) -> HoldfastError:
    """The error of `continue` and `resume` for a file that cannot be continued."""
    from holdfast.core.errors import Damaged, Invalid

    assert file.error is not None
    hint = "\n".join(options(ws, file))
    for kind in (Damaged, Invalid):
        if isinstance(file.error, kind):
            return kind(_problem(file.error, file.shell_path), hint=hint, file=file.shell_path)
    return file.error


def is_tracked(ws: Workspace, path: str, *, unknown: bool = True) -> bool:
    """Does git track this file? Then anybody who can commit may have written it, and the next commit includes it.

    `unknown` is the answer if git cannot be asked.
    """
    if not ws.place.git:
        return False
    from holdfast.core.errors import HoldfastError
    from holdfast.machine.git.reader import GitReader

    try:
        return GitReader(ws.place.root).tracks(os.path.relpath(path, ws.place.root))
    except HoldfastError:
        return unknown


def confirmation_reason(ws: Workspace, file: ProjectFile) -> str | None:
    """Why a session file is continued only after confirmation: anybody may have put it there."""
    if is_tracked(ws, file.path):
        return "git tracks the file: anybody who can commit here may have written it"
    latest = _latest_change(ws)
    return "it is older than the latest session here" if latest is not None and file.changed < latest else None


def _latest_change(ws: Workspace) -> int | None:
    """When a session of this project, finished or not, was last changed; None without any."""
    from holdfast.core.times import parse_time

    return max(
        (parse_time(row.updated_at) for row in session_history.history(ws, limit=None, aliases=False)), default=None
    )


def import_file(ws: Workspace, file: ProjectFile) -> str:
    """Import the session of a file."""
    from holdfast.formats.document_paths import note_words
    from holdfast.formats.import_ import import_document

    assert file.rules is not None
    taken = import_document(ws, file.document, file.rules, of_project=True)
    for note in taken.notes:
        ws.note(f"{file.shell_path}: {note_words(note)}.")
    return taken.session


def set_unreadable_aside(ws: Workspace) -> list[str]:
    """Rename files that cannot be continued, before a new start; a sentence for each."""
    sentences = []
    for file in find_files(ws, at_work=True, thorough=True):
        place = os.path.join(ws.place.root, *SINGLE.get(file.format, ("",)))
        if file.error is None or file.path != place:
            continue
        aside = set_aside(ws, file.path)
        named = os.path.relpath(file.path, ws.place.root)
        sentences.append(f"{named} cannot be continued and was kept as {os.path.basename(aside)}.")
    return sentences


def set_aside(ws: Workspace, path: str) -> str:
    """Rename a file of the project; returns the new name."""
    from holdfast.core.times import file_stamp
    from holdfast.machine.files import free_name, rename

    aside = free_name(f"{path}.rejected-{file_stamp(ws.now())}")
    rename(path, aside, within=ws.place.root)
    return aside


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────────


def _mirrored_formats(ws: Workspace) -> set[str]:
    return {layout.name for layout in mirrors_of(ws).formats()} if os.path.isdir(ws.home.mirrors) else set()


def _find_single(ws: Workspace, name: str, *, thorough: bool) -> Iterator[ProjectFile]:
    from holdfast.core.errors import HoldfastError
    from holdfast.formats.mirror import fingerprint
    from holdfast.formats.mirror.locked_tree import refuse_links

    path = os.path.join(ws.place.root, *SINGLE[name])
    try:
        refuse_links(ws.place.root, "/".join(SINGLE[name]))
        disk_print = fingerprint.take(path, 0)
    except HoldfastError:
        return  # a link or not a file
    if disk_print is None or (mirrors_of(ws).stored.exists() and _is_ours(ws, path, disk_print.size)):
        return
    file = ProjectFile(name, path, disk_print.changed // 1_000_000)
    if thorough or disk_print.size <= _LARGE_SIZE:
        yield from _examine(ws, file)
    else:
        yield file


def _is_ours(ws: Workspace, path: str, size: int) -> bool:
    """Is it unchanged since a mirror, switched off by now, wrote it?"""
    from holdfast.formats.mirror import fingerprint

    if size > fingerprint.MAX_SIZE:
        return False
    return mirrors_of(ws).stored.was_written(ws.place.main, fingerprint.hash_of(fingerprint.read(path)))


def _find_set_aside(ws: Workspace, name: str) -> Iterator[ProjectFile]:
    """The file that a mirror could not read and renamed. It is reported until a session is worked on here: after a
    new start or a restored session it is no concern any more.
    """
    rejected = mirrors_of(ws).stored.tree(ws.place.root).rejected.get(name, [])
    if not rejected:
        return
    last = rejected[-1]
    path = os.path.join(ws.place.root, *last.aside.split("/"))
    since = _latest_change(ws)
    if os.path.isfile(path) and not os.path.islink(path) and (since is None or since < last.at):
        yield from (file for file in _examine(ws, ProjectFile(name, path, last.at)) if file.error is not None)


def _examine(ws: Workspace, file: ProjectFile) -> Iterator[ProjectFile]:
    """The file with its contents; nothing if the log has all of it."""
    from holdfast.core.errors import Damaged, HoldfastError, Invalid
    from holdfast.formats.recover_files import recover

    try:
        (recovered,) = recover(ws, file.path)
    except HoldfastError as error:
        file.error = error
        yield file
        return
    if recovered.known is not None and recovered.more is None:
        return
    file.rules, file.document, file.known = recovered.rules, recovered.document, recovered.known
    file.recoverable, file.newer = recovered.has_content and recovered.error is None, recovered.version is not None
    if recovered.contents is not None:
        file.goal, file.status = recovered.contents.goal, recovered.contents.status
    if recovered.version is not None or recovered.error is not None:
        file.error = Invalid((recovered.version or recovered.error or Invalid("")).message)
    elif not recovered.whole:
        file.error = Damaged(_damage(recovered))
    elif recovered.rules is None:
        file.foreign = True
    elif recovered.contents is not None:
        file.changed = recovered.contents.updated_at
    yield file


def _damage(recovered: RecoveredFile) -> str:
    if not recovered.has_content:
        return "nothing in it can be read"
    if recovered.lost_from is None:
        return "parts of it cannot be read"
    return f"it cannot be read from byte {recovered.lost_from:,} (line {recovered.lost_line or 1:,}) on"


def _find_many(ws: Workspace, name: str, *, thorough: bool) -> Iterator[ProjectFile]:
    """Sessions under their own ids that the store does not know, and the latest of the others whose files have more
    than the store.
    """
    from holdfast.core.errors import HoldfastError
    from holdfast.formats.mirror.locked_tree import refuse_links

    folder, store = os.path.join(ws.place.root, *MANY[name]), ws.existing_store()
    try:
        refuse_links(ws.place.root, "/".join((*MANY[name], "-")))
    except HoldfastError:
        return
    compared = 0
    for changed, path in _entries(folder, name)[: _MAX_FILES if thorough else _MAX_READ]:
        alias = os.path.basename(os.path.dirname(path) if name == "contract" else path).removesuffix(".json")
        known = [] if store is None else store.find(alias)
        if store is not None and known:
            state = store.state(known[0]) if len(known) == 1 and compared < _MAX_COMPARED else None
            if state is not None and not state.deleted and changed // 1_000_000 > state.updated_at:
                compared += 1
                yield from _find_if_newer(ws, name, path)
            continue
        if thorough or _size(path, name) <= _LARGE_SIZE:
            file = _read_one_of_many(ws, name, path)
        else:
            file = ProjectFile(name, path, changed // 1_000_000)
        if file is not None:
            yield file


def _find_if_newer(ws: Workspace, name: str, path: str) -> Iterator[ProjectFile]:
    """The file of a known session, if it has more than the store and no mirror wrote it so."""
    size = _size(path, name)
    if size > _LARGE_SIZE or (mirrors_of(ws).stored.exists() and _is_ours(ws, path, size)):
        return
    examined = _examine(ws, ProjectFile(name, path, os.stat(path).st_mtime_ns // 1_000_000))
    yield from (file for file in examined if file.known is not None and file.error is None)


def _size(path: str, name: str) -> int:
    """The bytes to read; for a feature, including its history."""
    try:
        history = os.path.join(os.path.dirname(path), "history.jsonl")
        history_size = os.stat(history).st_size if name == "contract" and os.path.lexists(history) else 0
        return os.stat(path).st_size + history_size
    except OSError:
        return 0


def _read_one_of_many(ws: Workspace, name: str, path: str) -> ProjectFile | None:
    """None for a readable file that is not a session; `doctor` and `validate` report it."""
    from holdfast.core.errors import HoldfastError
    from holdfast.formats import registry
    from holdfast.formats.convert import state_of
    from holdfast.formats.import_context import import_context
    from holdfast.formats.mirror.contract.feature_files import read_feature_document
    from holdfast.formats.recover_files import contents_of
    from holdfast.formats.text.read import LIMIT, read
    from holdfast.machine.files import read_limited

    context, rules = import_context(ws), registry.format_named(name)
    try:
        if name == "contract":
            value: Json = read_feature_document(os.path.dirname(path), leave_no_trace=True)
        else:
            value = read(read_limited(path, LIMIT, subject="a session file"), path).value
        if rules.detects(value) is None and name != "contract":
            return None
        document = rules.repair(value, context).document
        contents = contents_of(state_of(document, rules, context))
    except HoldfastError:
        return _unreadable(ws, name, path)
    store = ws.existing_store()
    if store is not None and store.find(rules.alias(document)):  # under another file name
        return next(_find_if_newer(ws, name, path), None)
    file = ProjectFile(name, path, contents.updated_at)
    file.rules, file.document, file.goal, file.status = rules, value, contents.goal, contents.status
    return file


def _unreadable(ws: Workspace, name: str, path: str) -> ProjectFile | None:
    """The file of a session that is damaged or of a newer version."""
    from holdfast.core.errors import Damaged

    plan = os.path.join(os.path.dirname(path), "implementation-plan.yaml")
    for part in (path, plan) if name == "contract" else (path,):
        if not os.path.isfile(part) or os.path.islink(part):
            continue
        for file in _examine(ws, ProjectFile(name, part, os.stat(part).st_mtime_ns // 1_000_000)):
            if isinstance(file.error, Damaged) or file.newer:
                return file
    return None


def _entries(folder: str, name: str) -> list[tuple[int, str]]:
    """Files of a directory that may be sessions, with their mtime, latest first; no links."""
    listed: list[tuple[int, str]] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith(".") or entry.name == "index.json" or len(listed) >= _MAX_FILES * 10:
                    continue
                path = os.path.join(entry.path, "state.yaml") if name == "contract" else entry.path
                is_candidate = (
                    entry.is_dir(follow_symlinks=False) if name == "contract" else entry.name.endswith(".json")
                )
                if is_candidate and os.path.isfile(path) and not os.path.islink(path):
                    listed.append((os.stat(path).st_mtime_ns, path))
    except OSError:
        return []
    return sorted(listed, reverse=True)


# ── text ─────────────────────────────────────────────────────────────────────────────────────────────────


def _problem(error: HoldfastError, path: str) -> str:
    from holdfast.core.errors import Damaged, Invalid

    if isinstance(error, Damaged):
        return f"{path} is damaged: {error.message}"
    return f"{path} cannot be continued: {error.message}" if isinstance(error, Invalid) else error.message


def _goal(file: ProjectFile) -> str:
    from holdfast.core.text import shorten

    return shorten(file.goal or "", 60)


def _day(file: ProjectFile) -> str:
    from holdfast.core.times import format_time

    return format_time(file.changed)[:10]
