"""F13 and F14 for what travels: what is made is its owner's alone, and nothing planted is followed."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.harness.travel import BACKGROUND, EMAIL, TRIPS, Travel
from tests.faults.harness.trials import decent
from tests.support.scale import scale

TRIED = TRIPS if scale(0, 1, 1) else TRIPS[1:6]


# The widest and the closest; what is between, with `make torture`.
UMASKS = (0o000, 0o022, 0o077)[:: scale(2, 1, 1)]


@pytest.fixture(params=UMASKS, ids=[f"{umask:03o}" for umask in UMASKS])
def under(request: pytest.FixtureRequest) -> Iterator[Travel]:
    """A room whose commands all run with this umask."""
    old = os.umask(request.param)
    try:
        with Travel() as room:
            yield room
    finally:
        os.umask(old)


@pytest.fixture(scope="module")
def room() -> Iterator[Travel]:
    with Travel() as made:
        yield made


def wide(*places: str, file: int = 0o600, folder: int = 0o700) -> list[str]:
    """What has another mode than it should."""
    found = []
    for path in (path for place in places for path in (Path(place), *Path(place).rglob("*"))):
        if not path.exists():
            continue
        mode = stat.S_IMODE(path.lstat().st_mode)
        if mode != (folder if path.is_dir() else file):
            found.append(f"{path} is {mode:04o}")
    return found


def test_every_file_of_travel_is_private(under: Travel) -> None:
    """Keys, remotes, people, marks, locks and the folder made for them: 0600 and 0700, whatever the umask."""
    for trip in TRIED:
        under.reach(trip.stage)
        argv = trip.argv(under)
        assert under.at(trip.device, *argv).code == 0, trip.name
        assert wide(*under.homes.values(), under.remote) == [], trip.name
    under.reach("busy")
    assert under.at("a", call=[*BACKGROUND, under.home]).code == 0
    assert os.path.exists(os.path.join(under.home, "sync.last"))
    assert under.at("a", call=["holdfast.sync.background", "_mark", under.home]).code == 0
    assert os.path.exists(os.path.join(under.home, "sync.wanted"))
    assert wide(*under.homes.values(), under.remote) == []

    # A folder that a team shares stays one that the team can read, and a private one private.
    for root, file in ((0o700, 0o600), (0o770, 0o660), (0o755, 0o644)):
        under.reach("recorded")
        os.mkdir(under.remote)
        os.chmod(under.remote, root)
        under.done("a", "remote", "add", "home", under.url)
        under.sync("a")
        assert wide(under.remote, file=file, folder=root) == []
        assert wide(under.home) == []


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
    """Every kind of thing at every name; or at each name one, in turn."""
    every = [(name, kind) for name in names for kind in KINDS]
    return every if scale(0, 1, 1) else every[:: len(KINDS) + 1]


def plant(room: Travel, path: str, how: Callable[[str, str], None]) -> Callable[[], None]:
    """Put it there, in place of what was; gives the check that what it leads to is as it was."""
    victims = os.path.join(room.root, "victims")
    os.makedirs(os.path.join(victims, "folder"))
    victim = os.path.join(victims, "precious")
    Path(victim).write_bytes(PRECIOUS)
    os.chmod(victim, 0o640)
    if os.path.lexists(path):
        os.rename(path, f"{path}-before")
    how(path, victim)
    os.utime(path, (0, 0), follow_symlinks=False)  # nobody synced a moment ago
    there = os.listdir(victims)

    def untouched() -> None:
        assert Path(victim).read_bytes() == PRECIOUS
        assert stat.S_IMODE(os.stat(victim).st_mode) == 0o640
        assert os.listdir(victims) == there, "something was made where a link leads to"
        assert os.listdir(os.path.join(victims, "folder")) == [], "something was written through a link"

    return untouched


def everything(room: Travel) -> list[tuple[str, ...]]:
    session = room.session("b")
    return [
        ("remote", "list"), ("device", "show"), ("device", "rename", "else"), ("people", "add", EMAIL, "age1x"),
        ("sync",), ("remote", "add", "other", f"folder:{room.root}/other"), ("device", "recovery-code"),
        ("share", session, "--with", EMAIL), ("accept",), ("device", "list"), ("remote", "remove", "home"),
    ]  # fmt: skip


@pytest.mark.parametrize(("name", "kind"), cases(NAMES))
def test_planted_in_the_home(room: Travel, name: str, kind: str) -> None:
    """Whatever is planted where keys, remotes, people, marks and locks are kept: refused in words, never followed."""
    room.reach("met")
    argvs = everything(room)
    untouched = plant(room, os.path.join(room.home, name), KINDS[kind])
    for argv in argvs:
        answer = room.at("a", *argv)
        decent(answer)
        assert 0 <= answer.code <= 7, (argv, answer)
        untouched()
    assert room.at("a", call=[*BACKGROUND, room.home]).code == 0
    assert room.at("a", "status").code == 0
    untouched()


@pytest.mark.parametrize(("name", "kind"), cases(AT_REMOTE))
def test_planted_in_a_folder(room: Travel, name: str, kind: str) -> None:
    """Whoever can write to the folder can make nobody write or read elsewhere; with the link gone, it goes on."""
    room.reach("busy")
    path = os.path.join(room.remote, name)
    untouched = plant(room, path, KINDS[kind])
    for argv in (("sync",), ("device", "list"), ("device", "recovery-code")):
        answer = room.at("a", *argv)
        decent(answer)
        untouched()
    os.unlink(path)
    if os.path.lexists(f"{path}-before"):
        os.rename(f"{path}-before", path)
    room.sync("aba")
    assert room.log("a") == room.log("b")


def test_planted_before_a_vault_is_founded(room: Travel) -> None:
    """A folder with something planted in it: founding is refused in words, or keeps clear of it."""
    for name, kind in cases(AT_REMOTE):
        room.reach("recorded")
        os.mkdir(room.remote, 0o700)
        untouched = plant(room, os.path.join(room.remote, name), KINDS[kind])
        answer = room.at("a", "remote", "add", "home", room.url)
        decent(answer)
        assert answer.code in (0, 1, 4, 6), (name, kind, answer)
        untouched()
