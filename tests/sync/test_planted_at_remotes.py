"""One planted object stops nobody's sync, at any kind of remote and at any level of it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import pytest

from holdfast.sync.remotes.base import RemoteStore, RemoteUnreadable
from holdfast.sync.remotes.folder import FolderRemote
from holdfast.sync.remotes.git import GitRemote
from holdfast.sync.remotes.git_objects import REF
from holdfast.sync.remotes.s3 import S3Remote
from tests.support.vault_devices import Device, join, settle
from tests.sync.seaweed import seaweed

# At every level, including what each device lists: with the vault's own tag.
LEVELS = ("", "h/", "k/", "m/{tag}/", "p/{tag}/")


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "no-gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


class Place(NamedTuple):
    """A remote as two devices open it, and a way to plant something in it without Holdfast."""

    opened: Callable[[str], RemoteStore]
    plant: Callable[[str], None]


def _folder(tmp_path: Path) -> Place:
    where = tmp_path / "remote"
    where.mkdir()

    def plant(level: str) -> None:
        below = where / level
        below.mkdir(exist_ok=True, parents=True)
        (below / "a\tb").write_bytes(b"junk")
        (below / "link").symlink_to("/etc/passwd")
        (below / "loop").symlink_to(".")
        os.mkfifo(below / "pipe")
        (below / "x" / "y").mkdir(parents=True)
        (below / "x" / "y" / "z").write_bytes(b"junk")

    return Place(lambda _: FolderRemote(str(where)), plant)


def git(where: Path, *args: str, stdin: bytes = b"") -> bytes:
    identity = {
        "GIT_AUTHOR_NAME": "x",
        "GIT_AUTHOR_EMAIL": "x",
        "GIT_COMMITTER_NAME": "x",
        "GIT_COMMITTER_EMAIL": "x",
    }
    done = subprocess.run(
        ["git", *args], cwd=where, check=True, capture_output=True, input=stdin, env={**os.environ, **identity}
    )
    return done.stdout


def _replaced(where: Path, tree: bytes, way: list[str], change: Callable[[bytes], bytes]) -> bytes:
    """The id of this tree with another entry at the end of the path."""
    raw = git(where, "cat-file", "tree", tree.decode())
    if way:
        name = f"{way[0]}_".encode()
        mark = b"40000 " + name + b"\0"
        start = raw.index(mark) + len(mark)
        below = _replaced(where, raw[start : start + 20].hex().encode(), way[1:], change)
        raw = raw[:start] + bytes.fromhex(below.decode()) + raw[start + 20 :]
    else:
        raw = change(raw)
    return git(where, "hash-object", "-t", "tree", "-w", "--literally", "--stdin", stdin=raw).strip()


def _git(tmp_path: Path) -> Place:
    where = tmp_path / "remote.git"
    where.mkdir()
    git(where, "init", "-q", "--bare")

    def plant(level: str) -> None:
        junk = bytes.fromhex(git(where, "hash-object", "-w", "--stdin", stdin=b"junk").decode().strip())
        bomb = git(where, "mktree", stdin=b"100644 blob %b\ta\n" % junk.hex().encode()).strip()
        for _ in range(9):
            lines = b"".join(b"040000 tree %b\t%d_\n" % (bomb, number) for number in range(10))
            bomb = git(where, "mktree", stdin=lines).strip()
        more = b"40000 z_\0" + bytes.fromhex(bomb.decode())
        more += b"".join(b"100644 " + name + b"\0" + junk for name in (b".git", b"..", b"a\tb", b"\xff"))
        way = [part for part in level.split("/") if part]
        root = _replaced(where, git(where, "rev-parse", f"{REF}^{{tree}}").strip(), way, lambda raw: raw + more)
        tip = git(where, "commit-tree", "-m", "x", "-p", REF, root.decode()).strip()
        git(where, "update-ref", REF, tip.decode())

    return Place(lambda name: GitRemote.open(f"git:{where}", str(tmp_path / name), create=True), plant)


def _s3(_: Path) -> Place:
    import httpx
    import obstore

    server = seaweed()
    url = server.fresh()

    def plant(level: str) -> None:
        remote = S3Remote.open(url, server.environ)
        place = remote._place
        for name in ("a\tb", "\x1b]0;x", "x/y"):
            address = f"{place.endpoint}/{place.bucket}/{quote(f'{place.prefix}/{level}{name}')}?x-id="
            signed = obstore.sign(remote._client_for(address), "PUT", "x", timedelta(minutes=5))
            assert httpx.put(signed, content=b"junk", trust_env=False).is_success

    return Place(lambda _: S3Remote.open(url, server.environ), plant)


@pytest.fixture(params=[_folder, _git, _s3], ids=["folder", "git", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if os.name == "nt" and request.param is _folder:
        pytest.skip("Windows has no such links and pipes")
    made: Place = request.param(tmp_path)
    return made


@pytest.fixture
def devices(place: Place, tmp_path: Path) -> Iterator[list[Device]]:
    made = [Device(str(tmp_path), name, place.opened(name)) for name in ("anna", "ben")]
    made[0].create_vault()
    join(*made)
    made[0].start("s1")
    settle(made)
    yield made
    for device in made:
        device.close()
        device.remote.close()


def test_sync_goes_on_when_something_is_planted_at_every_level(
    place: Place, devices: list[Device], request: pytest.FixtureRequest
) -> None:
    """It is ignored, and the devices' events reach each other.

    Where it could have hidden other objects it is reported by name, in characters that are harmless to a terminal.
    """
    anna, ben = devices
    tag = anna.vault().tag
    for level in LEVELS:
        place.plant(level.format(tag=tag))
    anna.note("s1", "anna")
    ben.note("s1", "ben")
    rejected = [refused.pack for refused in anna.sync().rejected]
    assert rejected or "folder" in request.node.name
    assert all(name.isprintable() for name in rejected)
    settle([ben, anna], rounds=1)
    assert set(anna.notes("s1")) == set(ben.notes("s1")) == {"anna", "ben"}


def test_unreadable_git_ref_is_restored_only_on_command(tmp_path: Path) -> None:
    """Every sync reports it and changes nothing until then."""
    place = _git(tmp_path)
    where = tmp_path / "remote.git"
    devices = [Device(str(tmp_path), name, place.opened(name)) for name in ("anna", "ben")]
    anna, ben = devices
    anna.create_vault()
    join(*devices)
    anna.start("s1")
    settle(devices)
    planted = git(where, "hash-object", "-w", "--stdin", stdin=b"junk").decode().strip()
    git(where, "update-ref", REF, planted)
    for device in devices:
        with pytest.raises(RemoteUnreadable, match="names a blob"):
            device.sync()
    assert git(where, "rev-parse", REF).decode().strip() == planted
    ben.note("s1", "after")
    for device in devices:
        device.sync(put_back=True)
    settle(devices)
    assert anna.notes("s1") == ben.notes("s1") == ["after"]
    for device in devices:
        device.close()
