"""The id of an installation: one for each home, made when it is needed, and never taken along by a copy."""

from __future__ import annotations

import json
import shutil
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast.machine import host
from holdfast.store.address import SqliteAddress, address
from holdfast.workspace.home import Home


def made(home: Path) -> str:
    found = Home(str(home)).installation(make=True)
    assert found is not None
    return found


def test_it_is_made_once_and_only_when_wanted(tmp_path: Path) -> None:
    """Looking makes nothing; what was made is private and stays."""
    home = tmp_path / "home"
    assert Home(str(home)).installation(make=False) is None
    assert not home.exists()
    first = made(home)
    assert made(home) == first
    assert Home(str(home)).installation(make=False) == first
    assert {stat.S_IMODE(path.stat().st_mode) for path in home.iterdir()} == {0o600}
    assert json.loads((home / "installation.json").read_text())["id"] == first


def test_a_copied_home_is_another_installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the same machine and on another one; the first stays what it is."""
    home, copy = tmp_path / "home", tmp_path / "copy"
    first = made(home)
    shutil.copytree(home, copy)
    assert Home(str(copy)).installation(make=False) is None
    assert made(copy) not in (first, None)
    assert made(home) == first
    monkeypatch.setattr(host, "machine_id", lambda: "0" * 32)
    assert made(home) != first


@pytest.mark.parametrize("text", ["", "{", "[]", '{"id": 7}', '{"id": "", "machine": "", "home": 0}', "\xff"])
def test_what_cannot_be_read_is_made_anew(tmp_path: Path, text: str) -> None:
    """A new id costs nothing; a doubtful one could be somebody else's."""
    home = tmp_path / "home"
    first = made(home)
    (home / "installation.json").write_text(text, encoding="latin-1")
    assert Home(str(home)).installation(make=False) is None
    again = made(home)
    assert again != first
    assert made(home) == again


def test_an_id_that_could_be_anything_is_none(tmp_path: Path) -> None:
    """It goes to a server as it stands here."""
    home = tmp_path / "home"
    made(home)
    kept = json.loads((home / "installation.json").read_text())
    (home / "installation.json").write_text(json.dumps(kept | {"id": "'; drop"}))
    assert Home(str(home)).installation(make=False) is None


def test_many_that_make_it_at_once_make_one(tmp_path: Path) -> None:
    """Each asks as a process of its own would."""
    home = tmp_path / "home"
    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(lambda _: made(home), range(16)))) == 1


def test_each_store_has_a_writer_of_its_own(tmp_path: Path) -> None:
    """The home's own, another file, a server: and the password has no part in it."""
    home = tmp_path / "home"
    own = SqliteAddress(str(home / "store.db"))
    server = address("postgresql://ada:hunter2@db/team")
    found = {Home(str(home)).writer(item) for item in (own, SqliteAddress(str(tmp_path / "x.db")), server)}
    assert len(found) == 3
    assert Home(str(home)).writer(address("postgresql://ada@db/team")) == Home(str(home)).writer(server)
    assert Home(str(home)).renew(server) not in found
    assert (home / "writer.json").exists()
    assert not any(b"hunter2" in path.read_bytes() for path in home.iterdir())
