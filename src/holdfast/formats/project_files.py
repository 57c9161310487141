"""Session files in a project that no mirror keeps: named wherever people look, and continued with a resume.

A program of one of the four formats may have been at work here before Holdfast, or without it. What the store knows
already, and what is not there, costs one `stat` per place; only what is there is read. A file that cannot be read is
answered with commands that work on that very file.
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
    from holdfast.formats.recover import Rescue
    from holdfast.workspace.workspace import Workspace

# Formats that keep one session, in one file.
SINGLE: Final = {
    "orchestrator": (".claude", "orchestrator-session.json"),
    "timer": (".claude", "session-state.json"),
}
# Formats that keep many, each under its own id: a file, or a directory.
MANY: Final = {"craft": (".craft", "cache", "orchestration-sessions"), "contract": (".ai-session",)}
_LARGE: Final = 1 << 20  # bytes: whoever only looks need not wait for more to be read
_MOST: Final = 100  # of one directory
_MOST_LOOKED_AT: Final = 10
_MOST_NAMED: Final = 3
_MOST_COMPARED: Final = 3  # with the log, to see whether they tell more


class ProjectFile:
    """A session file, as it is."""

    def __init__(self, name: str, path: str, changed: int) -> None:
        self.format = name
        self.path = path
        # When it was changed last: as it says itself, else as its file does. Milliseconds.
        self.changed = changed
        self.goal: str | None = None
        self.status = ""
        self.rules: Format | None = None
        self.document: Json = None
        # The session of the store that it tells more of.
        self.known: str | None = None
        # Why it cannot be gone on with: damaged, or of a version or shape that Holdfast does not know.
        self.error: HoldfastError | None = None
        # It is of a version that Holdfast does not support.
        self.newer = False
        # Whether `recover` finds anything in it.
        self.recoverable = False
        # It is of none of the formats: somebody keeps something else there.
        self.foreign = False
        # No other file here holds an unfinished session that was worked on later: `continue` goes on with this one.
        self.latest = True

    @property
    def typed(self) -> str:
        """Its path as a person would type it in the directory they are in."""
        from shlex import quote

        short = os.path.relpath(self.path)
        return quote(self.path if short.startswith(os.pardir) else short)

    @property
    def unfinished(self) -> bool:
        from holdfast.core.lifecycle import FINISHED

        return self.error is None and not self.foreign and self.status not in FINISHED


def files(ws: Workspace, *, at_work: bool, thorough: bool = False) -> list[ProjectFile]:
    """Those that the store does not know, or not all of, latest first.

    `at_work`: there is a current session, so that nothing is missing though a mirror set a file aside. `thorough`:
    however large they are.
    """
    root = ws.place.root
    standing = [name for name, steps in (SINGLE | MANY).items() if os.path.lexists(os.path.join(root, *steps))]
    mirrored = _mirrored(ws) if standing or not at_work else set()
    found: list[ProjectFile] = []
    for name in standing:
        if name not in mirrored:
            found += (_single if name in SINGLE else _many)(ws, name, thorough=thorough)
    for name in mirrored & SINGLE.keys() if not at_work else ():
        found += _set_aside(ws, name)
    ordered = sorted(found, key=lambda file: file.changed, reverse=True)
    for file in [file for file in ordered if file.unfinished][1:]:
        file.latest = False
    return ordered


def notes(ws: Workspace, *, at_work: bool, foreign: bool = False) -> list[str]:
    """What every surface says: a sentence for each of the latest files; for those of no format only if `foreign`."""
    found = [file for file in files(ws, at_work=at_work) if foreign or not file.foreign]
    said = [sentence(ws, file) for file in found[:_MOST_NAMED]]
    if len(found) > _MOST_NAMED:
        said.append(f"There are {len(found) - _MOST_NAMED} more session files here that are not in the log.")
    return said


def sentence(ws: Workspace, file: ProjectFile) -> str:
    """What there is to say of a file, and what to do."""
    said, ways = description(file), options(ws, file)
    return f"{said}. {ways[0]}" if len(ways) == 1 else "\n  ".join([f"{said}. Either:", *ways])


def description(file: ProjectFile) -> str:
    path = file.typed
    if file.error is not None:
        return _problem(file.error, path)
    if file.foreign:
        return f"{path} is none of the four formats"
    what = f"{path} holds a session that is not in the log"
    if file.known is not None:
        what = f"{path} tells more of session {file.known[:8]} than the log"
    return f"{what}: {_goal(file)!r}, {file.status.replace('_', ' ')}, of {_day(file)}" if file.status else what


def options(ws: Workspace, file: ProjectFile) -> list[str]:
    """What can be done about a file: commands that work on this very one."""
    path = file.typed
    if file.foreign:
        return [f"To take over what can be recognised: holdfast import --salvage {path}"]
    if file.error is None:
        latest = session_history.latest_unfinished(ws) if file.unfinished else None
        last = file.unfinished and file.latest and (latest is None or ws.state(latest).updated_at <= file.changed)
        go_on = "holdfast continue --yes" if last and doubt(ws, file) else "holdfast continue"
        return [f"To go on with it: {go_on}" if last else f"To take it in: holdfast import {path}"]
    recover = [f"holdfast recover {path} --start (goes on with what can be read of it)"] if file.recoverable else []
    kept = "the file is kept" if ".rejected-" in path else "the file is kept under another name"
    afresh = f"holdfast start GOAL --replace (starts afresh; {kept})"
    if file.format in MANY:
        afresh = "holdfast start GOAL (starts afresh; the file stays as it is)"
    return [
        *recover,
        afresh,
        "holdfast history (shows earlier sessions)",
    ]


def answer(ws: Workspace, file: ProjectFile) -> HoldfastError:
    """The error with which `continue` and `resume` answer a file that cannot be gone on with."""
    from holdfast.core.errors import Damaged, Invalid

    assert file.error is not None
    hint = "\n".join(options(ws, file))
    for kind in (Damaged, Invalid):
        if isinstance(file.error, kind):
            return kind(_problem(file.error, file.typed), hint=hint, file=file.typed)
    return file.error


def is_tracked(ws: Workspace, path: str, *, unknown: bool = True) -> bool:
    """Whether git has this file: then anybody who could commit may have written it, and the next commit takes it.

    `unknown` is the answer where git cannot be asked: who is about to trust a file had better ask.
    """
    if not ws.place.git:
        return False
    from holdfast.core.errors import HoldfastError
    from holdfast.machine.git.reader import GitReader

    try:
        return GitReader(ws.place.root).tracks(os.path.relpath(path, ws.place.root))
    except HoldfastError:
        return unknown


def doubt(ws: Workspace, file: ProjectFile) -> str | None:
    """Why a session file is gone on with only after a yes: anybody may have put it there."""
    if is_tracked(ws, file.path):
        return "git tracks the file: whoever could commit here may have written it"
    latest = _latest_change(ws)
    return "it is older than the latest session here" if latest is not None and file.changed < latest else None


def _latest_change(ws: Workspace) -> int | None:
    """When a session of this project was last worked on, finished ones too; None without any."""
    from holdfast.core.times import parse_time

    return max(
        (parse_time(row.updated_at) for row in session_history.history(ws, limit=None, aliases=False)), default=None
    )


def import_file(ws: Workspace, file: ProjectFile) -> str:
    """Import the session of a file. Whoever goes on with it switches the mirror on after that."""
    from holdfast.formats.document_paths import note_words
    from holdfast.formats.import_ import import_document

    assert file.rules is not None
    taken = import_document(ws, file.document, file.rules, of_project=True)
    ws.notices += [f"{file.typed}: {note_words(note)}." for note in taken.notes]
    return taken.session


def set_unreadable_aside(ws: Workspace) -> list[str]:
    """Give files that cannot be gone on with another name, because somebody starts afresh; a sentence for each."""
    told = []
    for file in files(ws, at_work=True, thorough=True):
        place = os.path.join(ws.place.root, *SINGLE.get(file.format, ("",)))
        if file.error is None or file.path != place:
            continue
        aside = set_aside(ws, file.path)
        named = os.path.relpath(file.path, ws.place.root)
        told.append(f"{named} cannot be gone on with, and was kept as {os.path.basename(aside)}.")
    return told


def set_aside(ws: Workspace, path: str) -> str:
    """Give a file of the project another name; which one."""
    from holdfast.core.times import file_stamp
    from holdfast.machine.files import free_name, rename

    aside = free_name(f"{path}.rejected-{file_stamp(ws.now())}")
    rename(path, aside, within=ws.place.root)
    return aside


# ── looking ──────────────────────────────────────────────────────────────────────────────────────────────


def _mirrored(ws: Workspace) -> set[str]:
    return {layout.name for layout in mirrors_of(ws).formats()} if os.path.isdir(ws.home.mirrors) else set()


def _single(ws: Workspace, name: str, *, thorough: bool) -> Iterator[ProjectFile]:
    from holdfast.core.errors import HoldfastError
    from holdfast.formats.mirror import fingerprint
    from holdfast.formats.mirror.locked_tree import refuse_links

    path = os.path.join(ws.place.root, *SINGLE[name])
    try:
        refuse_links(ws.place.root, "/".join(SINGLE[name]))
        seen = fingerprint.take(path, 0)
    except HoldfastError:
        return  # a link, or no file: nothing that is followed
    if seen is None or (mirrors_of(ws).stored.exists() and _is_ours(ws, path, seen.size)):
        return
    file = ProjectFile(name, path, seen.changed // 1_000_000)
    if thorough or seen.size <= _LARGE:
        yield from _examined(ws, file)
    else:
        yield file


def _is_ours(ws: Workspace, path: str, size: int) -> bool:
    """Whether it is as a mirror left it that was switched off since."""
    from holdfast.formats.mirror import fingerprint

    if size > fingerprint.MAX_SIZE:
        return False
    return mirrors_of(ws).stored.knows(ws.place.main, fingerprint.hash_of(fingerprint.read(path)))


def _set_aside(ws: Workspace, name: str) -> Iterator[ProjectFile]:
    """The file that a mirror could not read and moved away, until somebody works on a session here: whoever has
    started afresh since, or had a session that was restored, has no question about it any more.
    """
    rejected = mirrors_of(ws).stored.tree(ws.place.root).rejected.get(name, [])
    if not rejected:
        return
    last = rejected[-1]
    path = os.path.join(ws.place.root, *last.aside.split("/"))
    since = _latest_change(ws)
    if os.path.isfile(path) and not os.path.islink(path) and (since is None or since < last.at):
        yield from (file for file in _examined(ws, ProjectFile(name, path, last.at)) if file.error is not None)


def _examined(ws: Workspace, file: ProjectFile) -> Iterator[ProjectFile]:
    """The file with what it says; nothing where the log has all of that."""
    from holdfast.core.errors import Damaged, HoldfastError, Invalid
    from holdfast.formats.recover import recover

    try:
        (rescue,) = recover(ws, file.path)
    except HoldfastError as error:
        file.error = error
        yield file
        return
    if rescue.known is not None and rescue.more is None:
        return
    file.rules, file.document, file.known = rescue.rules, rescue.document, rescue.known
    file.recoverable, file.newer = rescue.has_content and rescue.error is None, rescue.version is not None
    if rescue.contents is not None:
        file.goal, file.status = rescue.contents.goal, rescue.contents.status
    if rescue.version is not None or rescue.error is not None:
        file.error = Invalid((rescue.version or rescue.error or Invalid("")).message)
    elif not rescue.whole:
        file.error = Damaged(_damage(rescue))
    elif rescue.rules is None:
        file.foreign = True
    elif rescue.contents is not None:
        file.changed = rescue.contents.updated_at
    yield file


def _damage(rescue: Rescue) -> str:
    if not rescue.has_content:
        return "nothing in it can be read"
    if rescue.lost_from is None:
        return "parts of it cannot be read"
    return f"it cannot be read from byte {rescue.lost_from:,} (line {rescue.lost_line or 1:,}) on"


def _many(ws: Workspace, name: str, *, thorough: bool) -> Iterator[ProjectFile]:
    """Of many sessions under ids of their own, those that the store does not know, and the latest of the others whose
    files tell more than it does.
    """
    from holdfast.core.errors import HoldfastError
    from holdfast.formats.mirror.locked_tree import refuse_links

    folder, store = os.path.join(ws.place.root, *MANY[name]), ws.existing_store()
    try:
        refuse_links(ws.place.root, "/".join((*MANY[name], "-")))
    except HoldfastError:
        return
    compared = 0
    for changed, path in _entries(folder, name)[: _MOST if thorough else _MOST_LOOKED_AT]:
        alias = os.path.basename(os.path.dirname(path) if name == "contract" else path).removesuffix(".json")
        known = [] if store is None else store.find(alias)
        if store is not None and known:
            state = store.state(known[0]) if len(known) == 1 and compared < _MOST_COMPARED else None
            if state is not None and not state.deleted and changed // 1_000_000 > state.updated_at:
                compared += 1
                yield from _telling_more(ws, name, path)
            continue
        if thorough or _size(path, name) <= _LARGE:
            file = _one_of_many(ws, name, path)
        else:
            file = ProjectFile(name, path, changed // 1_000_000)
        if file is not None:
            yield file


def _telling_more(ws: Workspace, name: str, path: str) -> Iterator[ProjectFile]:
    """A file of a session that the store knows, where it tells more than that, and no mirror left it so."""
    size = _size(path, name)
    if size > _LARGE or (mirrors_of(ws).stored.exists() and _is_ours(ws, path, size)):
        return
    found = _examined(ws, ProjectFile(name, path, os.stat(path).st_mtime_ns // 1_000_000))
    yield from (file for file in found if file.known is not None and file.error is None)


def _size(path: str, name: str) -> int:
    """How much would have to be read: of a feature, its history is the most."""
    try:
        history = os.path.join(os.path.dirname(path), "history.jsonl")
        more = os.stat(history).st_size if name == "contract" and os.path.lexists(history) else 0
        return os.stat(path).st_size + more
    except OSError:
        return 0


def _one_of_many(ws: Workspace, name: str, path: str) -> ProjectFile | None:
    """None for what is read and is no session: `doctor` and `validate` name what is wrong with it."""
    from holdfast.core.errors import HoldfastError
    from holdfast.formats import registry
    from holdfast.formats.convert import state_of
    from holdfast.formats.import_context import import_context
    from holdfast.formats.mirror.contract.feature_files import gathered
    from holdfast.formats.recover import contents_of
    from holdfast.formats.text.read import LIMIT, read
    from holdfast.machine.files import read_limited

    here, rules = import_context(ws), registry.named(name)
    try:
        if name == "contract":
            value: Json = gathered(os.path.dirname(path), leave_no_trace=True)
        else:
            value = read(read_limited(path, LIMIT, what="a session file"), path).value
        if rules.detects(value) is None and name != "contract":
            return None
        document = rules.tidy(value, here).document
        said = contents_of(state_of(document, rules, here))
    except HoldfastError:
        return _unreadable(ws, name, path)
    store = ws.existing_store()
    if store is not None and store.find(rules.alias(document)):  # under a name of its own
        return next(_telling_more(ws, name, path), None)
    file = ProjectFile(name, path, said.updated_at)
    file.rules, file.document, file.goal, file.status = rules, value, said.goal, said.status
    return file


def _unreadable(ws: Workspace, name: str, path: str) -> ProjectFile | None:
    """Of the files of a session, the one that is damaged or of a newer version."""
    from holdfast.core.errors import Damaged

    plan = os.path.join(os.path.dirname(path), "implementation-plan.yaml")
    for part in (path, plan) if name == "contract" else (path,):
        if not os.path.isfile(part) or os.path.islink(part):
            continue
        for file in _examined(ws, ProjectFile(name, part, os.stat(part).st_mtime_ns // 1_000_000)):
            if isinstance(file.error, Damaged) or file.newer:
                return file
    return None


def _entries(folder: str, name: str) -> list[tuple[int, str]]:
    """The files of a directory that may be sessions, with when they were changed, latest first; no links."""
    found: list[tuple[int, str]] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith(".") or entry.name == "index.json" or len(found) >= _MOST * 10:
                    continue
                path = os.path.join(entry.path, "state.yaml") if name == "contract" else entry.path
                meant = entry.is_dir(follow_symlinks=False) if name == "contract" else entry.name.endswith(".json")
                if meant and os.path.isfile(path) and not os.path.islink(path):
                    found.append((os.stat(path).st_mtime_ns, path))
    except OSError:
        return []
    return sorted(found, reverse=True)


# ── saying ───────────────────────────────────────────────────────────────────────────────────────────────


def _problem(error: HoldfastError, path: str) -> str:
    from holdfast.core.errors import Damaged, Invalid

    if isinstance(error, Damaged):
        return f"{path} is damaged: {error.message}"
    return f"{path} cannot be gone on with: {error.message}" if isinstance(error, Invalid) else error.message


def _goal(file: ProjectFile) -> str:
    from holdfast.core.text import shorten

    return shorten(file.goal or "", 60)


def _day(file: ProjectFile) -> str:
    from holdfast.core.times import format_time

    return format_time(file.changed)[:10]
