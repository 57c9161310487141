"""The id of an installation: one per home, created on demand, and not inherited by a copy."""

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


def create_in_process(home: Path) -> str:
    installation = Home(str(home)).installation(make=True)
    assert installation is not None
    return installation


def test_installation_id_is_created_once_on_demand(tmp_path: Path) -> None:
    """Reading creates nothing; the file is private."""
    home = tmp_path / "home"
    assert Home(str(home)).installation(make=False) is None
    assert not home.exists()
    first = create_in_process(home)
    assert create_in_process(home) == first
    assert Home(str(home)).installation(make=False) == first
    assert {stat.S_IMODE(path.stat().st_mode) for path in home.iterdir()} == {0o600}
    assert json.loads((home / "installation.json").read_text())["id"] == first


def test_copied_home_gets_another_installation_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the same machine and another; the original keeps its id."""
    home, copy = tmp_path / "home", tmp_path / "copy"
    first = create_in_process(home)
    shutil.copytree(home, copy)
    assert Home(str(copy)).installation(make=False) is None
    assert create_in_process(copy) not in (first, None)
    assert create_in_process(home) == first
    monkeypatch.setattr(host, "machine_id", lambda: "0" * 32)
    assert create_in_process(home) != first


@pytest.mark.parametrize("text", ["", "{", "[]", '{"id": 7}', '{"id": "", "machine": "", "home": 0}', "\xff"])
def test_unreadable_installation_id_is_replaced(tmp_path: Path, text: str) -> None:
    """A new id costs nothing; a doubtful one could be somebody else's."""
    home = tmp_path / "home"
    first = create_in_process(home)
    (home / "installation.json").write_text(text, encoding="latin-1")
    assert Home(str(home)).installation(make=False) is None
    again = create_in_process(home)
    assert again != first
    assert create_in_process(home) == again


def test_malformed_installation_id_is_not_used(tmp_path: Path) -> None:
    """It is sent to a server unchanged."""
    home = tmp_path / "home"
    create_in_process(home)
    kept = json.loads((home / "installation.json").read_text())
    (home / "installation.json").write_text(json.dumps(kept | {"id": "'; drop"}))
    assert Home(str(home)).installation(make=False) is None


def test_concurrent_processes_create_one_installation_id(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(lambda _: create_in_process(home), range(16)))) == 1


def test_each_store_has_its_own_writer(tmp_path: Path) -> None:
    """The home's own, another file, a server; the password does not matter."""
    home = tmp_path / "home"
    own = SqliteAddress(str(home / "store.db"))
    server = address("postgresql://ada:hunter2@db/team")
    writers = {Home(str(home)).writer(item) for item in (own, SqliteAddress(str(tmp_path / "x.db")), server)}
    assert len(writers) == 3
    assert Home(str(home)).writer(address("postgresql://ada@db/team")) == Home(str(home)).writer(server)
    assert Home(str(home)).renew(server) not in writers
    assert (home / "writer.json").exists()
    assert not any(b"hunter2" in path.read_bytes() for path in home.iterdir())
