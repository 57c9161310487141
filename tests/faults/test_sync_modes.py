"""F13 and F14 for sync: what is created is private, and nothing planted is followed."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.harness.sync_sandbox import BACKGROUND, EMAIL, SYNC_CASES, SyncSandbox
from tests.faults.harness.verb_checks import assert_no_traceback
from tests.support.scale import scale

TRIED = SYNC_CASES if scale(0, 1, 1) else SYNC_CASES[1:6]


# The most open and the most closed; the one between, with `make torture`.
UMASKS = (0o000, 0o022, 0o077)[:: scale(2, 1, 1)]


@pytest.fixture(params=UMASKS, ids=[f"{umask:03o}" for umask in UMASKS])
def sandbox_with_umask(request: pytest.FixtureRequest) -> Iterator[SyncSandbox]:
    """A sandbox whose commands all run with this umask."""
    old = os.umask(request.param)
    try:
        with SyncSandbox() as sandbox:
            yield sandbox
    finally:
        os.umask(old)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[SyncSandbox]:
    with SyncSandbox() as made:
        yield made


def wrong_modes(*places: str, file: int = 0o600, folder: int = 0o700) -> list[str]:
    """Files with another mode than they should have."""
    wrong = []
    for path in (path for place in places for path in (Path(place), *Path(place).rglob("*"))):
        if not path.exists():
            continue
        mode = stat.S_IMODE(path.lstat().st_mode)
        if mode != (folder if path.is_dir() else file):
            wrong.append(f"{path} is {mode:04o}")
    return wrong


def test_every_file_of_sync_is_private(sandbox_with_umask: SyncSandbox) -> None:
    """Keys, remotes, people, markers, locks and the folder made for them, whatever the umask."""
    for sync_case in TRIED:
        sandbox_with_umask.restore_stage(sync_case.stage)
        argv = sync_case.argv(sandbox_with_umask)
        assert sandbox_with_umask.at(sync_case.device, *argv).code == 0, sync_case.name
        assert wrong_modes(*sandbox_with_umask.homes.values(), sandbox_with_umask.remote) == [], sync_case.name
    sandbox_with_umask.restore_stage("busy")
    assert sandbox_with_umask.at("a", call=[*BACKGROUND, sandbox_with_umask.home]).code == 0
    assert os.path.exists(os.path.join(sandbox_with_umask.home, "sync.last"))
    leave_request = ["holdfast.sync.background", "_leave_request", sandbox_with_umask.home]
    assert sandbox_with_umask.at("a", call=leave_request).code == 0
    assert os.path.exists(os.path.join(sandbox_with_umask.home, "sync.wanted"))
    assert wrong_modes(*sandbox_with_umask.homes.values(), sandbox_with_umask.remote) == []

    # A folder keeps its own mode: shared with a team, or private.
    for root, file in ((0o700, 0o600), (0o770, 0o660), (0o755, 0o644)):
        sandbox_with_umask.restore_stage("recorded")
        os.mkdir(sandbox_with_umask.remote)
        os.chmod(sandbox_with_umask.remote, root)
        sandbox_with_umask.run_json("a", "remote", "add", "home", sandbox_with_umask.url)
        sandbox_with_umask.sync("a")
        assert wrong_modes(sandbox_with_umask.remote, file=file, folder=root) == []
        assert wrong_modes(sandbox_with_umask.home) == []


# ── planted ──────────────────────────────────────────────────────────────────────────────────────────────

PRECIOUS = b"precious\n"
NAMES = ("device.json", "remotes.json", "people.json", "sync.wanted", "sync.last", "sync.lock", "device.lock",
         "remotes")  # fmt: skip
AT_REMOTE = ("vault", "h", "k", "m", "p")


def _link(path: str, victim: str) -> None:
    os.symlink(victim, path)


def _dangling(path: str, victim: str) -> None:
    os.symlink(f"{victim}-new", path)


def _hard(path: str, victim: str) -> None:
    os.link(victim, path)


def _to_folder(path: str, victim: str) -> None:
    os.symlink(os.path.join(os.path.dirname(victim), "folder"), path)


def _fifo(path: str, victim: str) -> None:
    os.mkfifo(path)


KINDS: dict[str, Callable[[str, str], None]] = {
    "a link": _link, "a dangling link": _dangling, "a hard link": _hard, "a link to a folder": _to_folder,
    "a fifo": _fifo,
}  # fmt: skip


def cases(names: tuple[str, ...]) -> list[tuple[str, str]]:
    """Every kind at every name; or one kind per name, in turn."""
    every = [(name, kind) for name in names for kind in KINDS]
    return every if scale(0, 1, 1) else every[:: len(KINDS) + 1]


def plant(sandbox: SyncSandbox, path: str, how: Callable[[str, str], None]) -> Callable[[], None]:
    """Put it there, in place of an existing file; returns the check that its target is untouched."""
    victims = os.path.join(sandbox.root, "victims")
    os.makedirs(os.path.join(victims, "folder"))
    victim = os.path.join(victims, "precious")
    Path(victim).write_bytes(PRECIOUS)
    os.chmod(victim, 0o640)
    if os.path.lexists(path):
        os.rename(path, f"{path}-before")
    how(path, victim)
    os.utime(path, (0, 0), follow_symlinks=False)  # not a recent sync
    before = os.listdir(victims)

    def untouched() -> None:
        assert Path(victim).read_bytes() == PRECIOUS
        assert stat.S_IMODE(os.stat(victim).st_mode) == 0o640
        assert os.listdir(victims) == before, "something was made where a link leads to"
        assert os.listdir(os.path.join(victims, "folder")) == [], "something was written through a link"

    return untouched


def sync_commands(sandbox: SyncSandbox) -> list[tuple[str, ...]]:
    session = sandbox.session("b")
    return [
        ("remote", "list"), ("device", "show"), ("device", "rename", "else"), ("people", "add", EMAIL, "age1x"),
        ("sync",), ("remote", "add", "other", f"folder:{sandbox.root}/other"), ("device", "recovery-code"),
        ("share", session, "--with", EMAIL), ("accept",), ("device", "list"), ("remote", "remove", "home"),
    ]  # fmt: skip


@pytest.mark.parametrize(("name", "kind"), cases(NAMES))
def test_sync_never_follows_what_is_planted_in_the_home(sandbox: SyncSandbox, name: str, kind: str) -> None:
    """Commands are refused with a message."""
    sandbox.restore_stage("met")
    argvs = sync_commands(sandbox)
    untouched = plant(sandbox, os.path.join(sandbox.home, name), KINDS[kind])
    for argv in argvs:
        answer = sandbox.at("a", *argv)
        assert_no_traceback(answer)
        assert 0 <= answer.code <= 7, (argv, answer)
        untouched()
    assert sandbox.at("a", call=[*BACKGROUND, sandbox.home]).code == 0
    assert sandbox.at("a", "status").code == 0
    untouched()


@pytest.mark.parametrize(("name", "kind"), cases(AT_REMOTE))
def test_sync_never_follows_what_is_planted_in_the_remote(sandbox: SyncSandbox, name: str, kind: str) -> None:
    """With the link removed, sync works again."""
    sandbox.restore_stage("busy")
    path = os.path.join(sandbox.remote, name)
    untouched = plant(sandbox, path, KINDS[kind])
    for argv in (("sync",), ("device", "list"), ("device", "recovery-code")):
        answer = sandbox.at("a", *argv)
        assert_no_traceback(answer)
        untouched()
    os.unlink(path)
    if os.path.lexists(f"{path}-before"):
        os.rename(f"{path}-before", path)
    sandbox.sync("aba")
    assert sandbox.log("a") == sandbox.log("b")


def test_remote_add_never_follows_what_is_planted_in_the_remote(sandbox: SyncSandbox) -> None:
    """It is refused with a message, or leaves it alone."""
    for name, kind in cases(AT_REMOTE):
        sandbox.restore_stage("recorded")
        os.mkdir(sandbox.remote, 0o700)
        untouched = plant(sandbox, os.path.join(sandbox.remote, name), KINDS[kind])
        answer = sandbox.at("a", "remote", "add", "home", sandbox.url)
        assert_no_traceback(answer)
        assert answer.code in (0, 1, 4, 6), (name, kind, answer)
        untouched()
