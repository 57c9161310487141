"""Write the scripts in the home for hooks and the MCP server, with the interpreter and packages that run now."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from importlib.util import find_spec

from holdfast.conversations.connect import mcp_entry
from holdfast.conversations.hooks import script
from holdfast.conversations.ingest.drain import hook_store
from holdfast.core.errors import Failed, HoldfastError
from holdfast.machine import files
from holdfast.workspace import spool
from holdfast.workspace.home import Home

_NEEDED = ("holdfast", "msgspec", "apsw", "platformdirs", "psycopg", "psycopg_pool")
_PAYLOAD = b'{"hook_event_name": "Trial"}'
_TRIAL_TIMEOUT = 10.0
_TRIAL = f"{files.PREFIX}trial-"
_SHELL = "/bin/sh"
_EXECUTABLE = (script.SCRIPT, mcp_entry.SCRIPT)
_MCP_LIBRARY = "mcp"  # of the extra


def installation(home: str) -> script.ScriptSetup:
    """The interpreter and packages that run now."""
    paths: dict[str, None] = {}
    package = ""
    for name in _NEEDED:
        spec = find_spec(name)
        if spec is not None and spec.origin is not None:
            own = os.path.dirname(spec.origin) if spec.submodule_search_locations else spec.origin
            paths[os.path.dirname(os.path.abspath(own))] = None
            package = package or os.path.join(os.path.abspath(own), "cli", "hooking.py")
    if not sys.executable:
        raise Failed("the path of the running Python is unknown", hint="Run holdfast with a Python of its own.")
    home_files = Home(home)
    store = hook_store(home_files)
    url = "" if store.path == home_files.store else store.url
    return script.ScriptSetup(home, os.path.abspath(sys.executable), tuple(paths), package, url)


def mcp_is_installed() -> bool:
    """Whether the MCP server would start: its extra is installed. Nothing of it is loaded."""
    spec = find_spec(_MCP_LIBRARY)
    return spec is not None and spec.origin is not None


def scripts(home: str, *, by_dd: bool, system: str) -> dict[str, bytes]:
    """The content of the scripts, by name."""
    setup = installation(home)
    store = os.path.join(home, script.DIRECTORY, script.STORE)
    texts = {script.ASK_SCRIPT: script.ask_script(setup), mcp_entry.PYTHON: mcp_entry.serving_python(setup, store)}
    if system == "win32":
        texts[script.WINDOWS_SCRIPT] = script.windows_script(setup)
    else:
        texts[mcp_entry.SCRIPT] = mcp_entry.serving_script(setup)
        texts[script.SCRIPT] = script.hook_script(setup, by_dd=by_dd)
    return {name: text.encode() for name, text in texts.items()}


def install(home: str, *, system: str) -> bool:
    """Make sure that the scripts are there and current; returns whether anything had to be written."""
    directory = os.path.join(home, script.DIRECTORY)
    files.make_private_dir(directory)
    files.make_private_dir(os.path.join(home, spool.DIRECTORY))
    _clear_trials(home)
    if is_current(home, system=system):
        return False
    contents = scripts(home, by_dd=system == "win32" or _dd_syncs(home), system=system)
    for name, content in contents.items():
        path = os.path.join(directory, name)
        files.write_atomic(path, content)
        if name in _EXECUTABLE:
            os.chmod(path, 0o700)
    return True


def note_store(home: str, url: str | None) -> None:
    """Note the store for hooks: agents do not have the variables of the shell that connected them."""
    path = os.path.join(home, script.DIRECTORY, script.STORE)
    if url is not None:
        files.make_private_dir(os.path.dirname(path))
        if os.path.isfile(path) and not os.path.islink(path):
            os.chmod(path, 0o600)  # a file that is replaced keeps its mode, and this one may hold a password
        files.write_atomic(path, url.encode())
    elif os.path.lexists(path):
        os.unlink(path)


def is_current(home: str, *, system: str) -> bool:
    """Whether the scripts are what would be written now, by either way of spooling payloads."""
    directory = os.path.join(home, script.DIRECTORY)
    for by_dd in (True, False):
        contents = scripts(home, by_dd=by_dd, system=system)
        if all(_has_content(os.path.join(directory, name), content) for name, content in contents.items()):
            return all(os.access(os.path.join(directory, name), os.X_OK) for name in _EXECUTABLE if name in contents)
    return False


def missing(home: str, *, system: str) -> list[str]:
    """The paths of the scripts that are missing."""
    paths = (os.path.join(home, script.DIRECTORY, name) for name in scripts(home, by_dd=True, system=system))
    return [path for path in paths if not os.path.lexists(path)]


def _has_content(path: str, content: bytes) -> bool:
    try:
        # Whatever was planted there is neither waited for nor trusted: it is replaced, or refused with an error.
        return files.read_limited(path, len(content), subject="the hook script") == content
    except HoldfastError:
        return False


def _dd_syncs(home: str) -> bool:
    """Try the script once in a separate directory: not every system's `dd` can sync."""
    place = os.path.join(home, f"{_TRIAL}{os.urandom(8).hex()}")
    hooks, waiting = os.path.join(place, script.DIRECTORY), os.path.join(place, spool.DIRECTORY)
    files.make_private_dir(hooks)
    try:
        setup = installation(home)
        trial = script.ScriptSetup(place, setup.python, setup.paths, setup.package)
        for name, text in ((script.SCRIPT, script.hook_script(trial)), (script.ASK_SCRIPT, script.ask_script(trial))):
            files.write_atomic(os.path.join(hooks, name), text.encode(), durable=False)
        process = subprocess.run(  # noqa: S603 (our own script, no shell line)
            [_SHELL, os.path.join(hooks, script.SCRIPT), "claude", "tell", "user"],
            input=_PAYLOAD, capture_output=True, timeout=_TRIAL_TIMEOUT, check=False, cwd=place,
            env={name: value for name, value in os.environ.items() if name != "HOLDFAST_STORE"},
        )  # fmt: skip
        payloads = [_read(os.path.join(waiting, name)) for name in os.listdir(waiting)]
    except (OSError, subprocess.SubprocessError):
        return False
    else:
        return payloads == [_PAYLOAD] and not process.returncode and not process.stdout and not process.stderr
    finally:
        _clear(place)


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(len(_PAYLOAD) + 1)


def _clear_trials(home: str) -> None:
    """Remove trials of processes that were killed: no other process is here at the same time."""
    with contextlib.suppress(OSError):
        for name in os.listdir(home):
            if name.startswith(_TRIAL):
                _clear(os.path.join(home, name))


def _clear(place: str) -> None:
    for above, _, names in os.walk(place, topdown=False):
        for name in names:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(above, name))
        with contextlib.suppress(OSError):
            os.rmdir(above)


def remove(home: str) -> bool:
    """Remove the scripts; other files in the directory stay."""
    directory = os.path.join(home, script.DIRECTORY)
    exists = os.path.isdir(directory) and not os.path.islink(directory)
    _clear_trials(home)
    leftovers = files.temporaries(directory) if exists else []  # of a process that was killed while it wrote
    own = (script.SCRIPT, script.WINDOWS_SCRIPT, script.ASK_SCRIPT, script.STORE, mcp_entry.SCRIPT, mcp_entry.PYTHON)
    for name in (*own, *leftovers):
        files.remove_file(os.path.join(directory, name))
    files.remove_directory(directory)
    return exists
