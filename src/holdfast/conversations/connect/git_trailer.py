"""The optional commit trailer: a `commit-msg` hook of git that names the session a commit was made in.

`connect git` installs the hook where git looks for it (`core.hooksPath`, else the repository's own directory). An
existing hook is renamed, runs first, and decides: Holdfast's part never stops a commit. `disconnect git` renames it
back, so everything is as it was, to the byte.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from holdfast.conversations.adapters.base import Scope
from holdfast.conversations.connect.apply import ConnectResult, TouchedFile
from holdfast.conversations.connect.file_plan import missing_directories
from holdfast.conversations.connect.registry import DIRECTORY, Connections
from holdfast.conversations.hooks import install, script
from holdfast.core import limits, view
from holdfast.core.decode import decodable
from holdfast.core.errors import Conflict, HoldfastError, Refused
from holdfast.machine import files
from holdfast.machine.git.history import TRAILER, GitHistory
from holdfast.machine.locks import locked
from holdfast.sessions.history import current_session

if TYPE_CHECKING:
    from holdfast.workspace.agent_dirs import AgentDirs
    from holdfast.workspace.workspace import Workspace

NAME: Final = "git"
_HOOK: Final = "commit-msg"
_BEFORE: Final = ".before-holdfast"
_MARK: Final = "# holdfast: adds the trailer Holdfast-Session to commit messages; holdfast disconnect git removes it."
_MEMORY: Final = "git-trailers"  # next to the registry of agents
_MAX_MESSAGE: Final = limits.MIB


class _Installed(msgspec.Struct, kw_only=True):
    """An installed hook: its path, and the directories created for it."""

    path: str
    scope: Scope
    project: str | None = None
    made: list[str] = []


class _Place(NamedTuple):
    """Where git looks for hooks: for this repository, or for all of the person's."""

    directory: str
    scope: Scope
    # Nothing outside it is written.
    within: str | None


# ── connecting ───────────────────────────────────────────────────────────────────────────────────────────


def connect(ws: Workspace, places: AgentDirs, scope: Scope | None) -> ConnectResult:
    """Let git name the session in commits made here. Safe to repeat."""
    where = _place(ws)
    if scope is not None and scope != where.scope:
        if where.scope == "user":
            raise Refused(
                f"core.hooksPath is {where.directory}, which holds the hooks of all your repositories",
                hint="Connect git for all of them: holdfast connect git --scope user",
            )
        raise Refused(
            "git has no hooks that run in every repository, unless your core.hooksPath names a directory for them",
            hint="Connect git in this project: holdfast connect git --scope project",
        )
    ws.home.prepare()
    connections = Connections(ws.home.path)
    path = os.path.join(where.directory, _HOOK)
    with locked(connections.lock, purpose="connect"):
        content = _text(ws.home.path)
        hook = _read_hook(path)
        if hook is not None and not _is_ours(hook) and os.path.lexists(path + _BEFORE):
            raise Conflict(
                f"{files.display_path(path + _BEFORE)} already exists, and is not a hook that Holdfast renamed",
                hint="Look at both hooks, and move one away.", file=path,
            )  # fmt: skip
        own = ws.address.path == ws.home.store
        install.note_store(ws.home.path, None if own else ws.address.secret)
        install.install(ws.home.path, system=places.system)
        project = ws.place.root if where.scope == "project" else None
        if hook == content:
            return ConnectResult(NAME, where.scope, [TouchedFile(path, "unchanged")], project=project)
        made = missing_directories(path)
        known = _remembered(ws.home.path)
        if not any(installed.path == path for installed in known):
            installed = _Installed(path=path, scope=where.scope, project=project, made=made)
            _remember(ws.home.path, [*known, installed])
        os.makedirs(where.directory, exist_ok=True)
        moved = hook is not None and not _is_ours(hook)
        if moved:
            files.rename(path, path + _BEFORE, within=where.within)
        files.write_atomic(path, content, within=where.within, mode=0o755)
        notes = [f"The existing hook runs first, as {files.display_path(path + _BEFORE)}."] if moved else []
        if _is_in_work_tree(ws, path):
            notes.append("It is in the work tree: leave it out of your commits.")
        return ConnectResult(
            NAME, where.scope, [TouchedFile(path, "created" if hook is None else "edited")], notes=tuple(notes),
            project=project,
        )  # fmt: skip


def disconnect(ws: Workspace) -> ConnectResult:
    """Remove the hook from this repository, and from the directory for all of the person's."""
    home = ws.home.path
    paths = {installed.path for installed in _remembered(home) if installed.project in (None, ws.place.root)}
    with contextlib.suppress(HoldfastError):  # no repository: only remembered hooks can be removed
        paths.add(os.path.join(_place(ws).directory, _HOOK))
    return _remove_all(home, sorted(paths))


def disconnect_all(home: str) -> ConnectResult:
    """Remove every remembered hook."""
    done = _remove_all(home, [installed.path for installed in _remembered(home)])
    files.remove_file(_record_path(home))
    return done


def _remove_all(home: str, paths: list[str]) -> ConnectResult:
    connections = Connections(home)
    if not connections.are_there and not any(_is_ours(_read_hook(path) or b"") for path in paths):
        return ConnectResult(NAME, "project", [])
    touched: list[TouchedFile] = []
    with locked(connections.lock, purpose="disconnect"):
        known = _remembered(home)
        for path in paths:
            recorded = next((installed for installed in known if installed.path == path), None)
            touched += _remove(path, [] if recorded is None else recorded.made)
        _remember(home, [installed for installed in known if installed.path not in paths])
    return ConnectResult(NAME, "project", touched)


def _remove(path: str, made: list[str]) -> list[TouchedFile]:
    hook, before = _read_hook(path), path + _BEFORE
    moved = os.path.lexists(before)
    touched: list[TouchedFile] = []
    if hook is not None and not _is_ours(hook):
        if not moved:
            return []
        # Somebody replaced our hook: theirs stays, and so does the renamed one.
        return [TouchedFile(path, "unchanged")]
    if moved:
        os.replace(before, path)
        touched.append(TouchedFile(path, "restored"))
    elif hook is not None:
        files.remove_file(path)
        touched.append(TouchedFile(path, "removed"))
    for directory in reversed(made):
        with contextlib.suppress(OSError):
            os.rmdir(directory)
    return touched


def _place(ws: Workspace) -> _Place:
    git = GitHistory(ws.place.root)
    if not ws.place.git or not git.has_work_tree():
        raise Refused(
            f"{files.display_path(ws.place.root)} is not a git repository with a work tree",
            hint="Run it in the project whose commits are to name their session.",
        )
    own, personal = git.hooks_path()
    if own is None and personal is not None:
        return _Place(os.path.abspath(os.path.expanduser(personal)), "user", None)
    root, common = ws.place.root, ws.place.common_dir or ""
    if own is None:
        return _Place(os.path.join(common, "hooks"), "project", common)
    directory = os.path.normpath(os.path.join(root, os.path.expanduser(own)))
    for within in (root, common):
        # A repository may set the directory of its hooks, but not one outside of it.
        if os.path.realpath(directory).startswith(os.path.realpath(within) + os.sep):
            return _Place(directory, "project", within)
    raise Refused(
        f"the repository's core.hooksPath leads outside of it: {files.display_path(directory)}",
        hint="Set core.hooksPath to a directory of the repository, or in your own configuration.",
    )


def _is_in_work_tree(ws: Workspace, path: str) -> bool:
    root, git = os.path.realpath(ws.place.root), os.path.realpath(ws.place.common_dir or "")
    real = os.path.realpath(path)
    return real.startswith(root + os.sep) and not real.startswith(git + os.sep)


def _read_hook(path: str) -> bytes | None:
    """The content of a hook; None if there is none. Links are followed."""
    if not os.path.lexists(path):
        return None
    return (
        files.read_limited(path, limits.MAX_PROJECT_AGENT_SETTINGS_SIZE, subject="the hook")
        if os.path.exists(path)
        else b""
    )


def _is_ours(text: bytes) -> bool:
    return _MARK.encode() in text[:500]


def _text(home: str) -> bytes:
    made = install.installation(home)
    python = script.quote(made.python.replace("\\", "/"))
    asking = script.quote(os.path.join(home, script.DIRECTORY, script.ASK_SCRIPT).replace("\\", "/"))
    return f"""#!/bin/sh
{_MARK}
if [ -x "$0{_BEFORE}" ]; then "$0{_BEFORE}" "$@" || exit $?; fi
if [ -x {python} ] && [ -f {asking} ]; then {python} -I -S {asking} trailer "$1" </dev/null >/dev/null 2>&1; fi
exit 0
""".encode()


# ── what is remembered ───────────────────────────────────────────────────────────────────────────────────


def _record_path(home: str) -> str:
    return os.path.join(home, DIRECTORY, _MEMORY)


def _remembered(home: str) -> list[_Installed]:
    try:
        data = files.read_limited(_record_path(home), limits.MAX_SETTINGS_SIZE, subject="the record of git hooks")
        return msgspec.json.decode(data, type=decodable(list[_Installed]))
    except (FileNotFoundError, HoldfastError, msgspec.MsgspecError):
        return []  # hooks are also recognised by their content


def _remember(home: str, installed: list[_Installed]) -> None:
    if installed:
        files.write_atomic(_record_path(home), msgspec.json.encode(installed) + b"\n")
    else:
        files.remove_file(_record_path(home))


# ── in a commit ──────────────────────────────────────────────────────────────────────────────────────────


def add_trailer(ws: Workspace, path: str) -> None:
    """Add the trailer with the current session to a commit's message, if the session is in progress and the message
    is not empty: an empty message still aborts the commit.
    """
    session = current_session(ws)
    if session is None or view.status_of(ws.state(session)) != "in_progress":
        return
    message = files.read_limited(path, _MAX_MESSAGE, subject="the commit's message")
    lines = [line for line in message.splitlines() if line.strip() and not line.startswith(b"#")]
    if lines:
        GitHistory(ws.place.root).add_trailer(os.path.abspath(path), f"{TRAILER}: {session}")
