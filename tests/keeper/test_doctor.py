"""The doctor's checks of a home: clock, disk, agents, errors, git; a check that fails never stops the others."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.keeper import doctor
from holdfast.keeper.doctor import repair, run_checks
from holdfast.keeper.keeper import Keeper
from holdfast.machine.wall import Wall
from holdfast.workspace.followers import Check

NAMES = [
    "home", "store", "sqlite", "file", "chain", "state", "listing", "search", "erasure", "aside", "copies", "clocks",
    "modes", "temporaries", "starts", "clock", "space", "writer", "settings", "errors", "agents", "git",
    "mirrors", "contract", "hooks", "spool", "capture", "keys", "remotes",
]  # fmt: skip


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[Keeper]:
    (tmp_path / "project").mkdir()
    with Keeper.open(str(tmp_path / "project"), home=str(tmp_path / "home"), actor="anna") as keeper:
        yield keeper


def checks_by_name(keeper: Keeper) -> dict[str, Check]:
    checks = run_checks(keeper)
    assert [check.name for check in checks] == NAMES
    return {check.name: check for check in checks}


def failing(keeper: Keeper) -> dict[str, str]:
    return {name: check.status for name, check in checks_by_name(keeper).items() if check.status != "ok"}


def test_doctor_reports_a_sound_home(keeper: Keeper) -> None:
    """Before the first session, after it, and after a repair with nothing to do."""
    assert failing(keeper) == {}
    assert not os.path.exists(keeper.home.path)
    keeper.start("Build the shop")
    assert failing(keeper) == {}
    assert repair(keeper) == []
    assert failing(keeper) == {}
    assert keeper.session().note("goes on").document().notes


def test_doctor_warns_of_agents_whose_process_has_ended(keeper: Keeper) -> None:
    """It names the agent and how to continue."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    keeper.start("Build the shop").agent("painter", type="worker", pid=process.pid)
    assert failing(keeper) == {}
    process.communicate(b"\n")
    check = checks_by_name(keeper)["agents"]
    assert (check.status, check.fix) == ("warning", "holdfast resume")
    assert "painter" in check.detail


def test_doctor_warns_of_a_wrong_clock(tmp_path: Path) -> None:
    """A clock that says 1970."""
    with Keeper.open(str(tmp_path), home=str(tmp_path / "home"), actor="a", wall=Wall(lambda: 0)) as keeper:
        assert failing(keeper) == {"clock": "warning"}


@pytest.mark.parametrize(
    ("mib", "status"), [(500, "ok"), (100, "ok"), (99, "warning"), (10, "warning"), (9, "failed")]
)
def test_doctor_warns_when_disk_space_runs_out(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch, mib: int, status: str
) -> None:
    """Less than 100 MiB is a warning, less than 10 a failed check."""
    monkeypatch.setattr("holdfast.machine.disk.free_space", lambda path: mib << 20)
    assert checks_by_name(keeper)["space"].status == status


def test_doctor_warns_of_a_home_on_a_network_drive(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the reason."""
    keeper.start("Build the shop")
    monkeypatch.setattr("holdfast.machine.disk.unsuitable_reason", lambda path: "it is on a network file system")
    assert failing(keeper) == {"home": "warning"}


def test_doctor_shows_unexpected_errors_for_a_week(keeper: Keeper) -> None:
    """The end of the error log, without entries older than a week."""
    keeper.start("Build the shop")
    log = Path(keeper.home.path) / "errors.log"
    log.touch(mode=0o600)
    assert failing(keeper) == {}
    log.write_text("first\n" + "KeyError in fold.py:7 apply\n" * 9)
    check = checks_by_name(keeper)["errors"]
    assert check.status == "warning"
    assert "KeyError in fold.py:7 apply" in check.detail
    assert "first" not in check.detail
    os.utime(log, (1_700_000_000, 1_700_000_000))
    assert failing(keeper) == {}


def test_doctor_warns_without_git(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no failure."""
    monkeypatch.setenv("PATH", "/nowhere")
    assert failing(keeper) == {"git": "warning"}


def test_doctor_fails_on_an_old_sqlite(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """One with the WAL-reset bug."""
    monkeypatch.setattr("holdfast.store.sqlite.connection.sqlite_version", lambda: "3.40.1")
    assert failing(keeper) == {"sqlite": "failed"}


def test_doctor_fails_on_a_home_that_is_a_file(tmp_path: Path) -> None:
    """Failed checks, no exception, and a repair does not touch it."""
    (tmp_path / "home").write_text("mine")
    with Keeper.open(str(tmp_path), home=str(tmp_path / "home"), actor="a") as keeper:
        assert checks_by_name(keeper)["home"].status == "failed"
        repair(keeper)
    assert (tmp_path / "home").read_text() == "mine"


@pytest.mark.parametrize("name", [name for name, _ in doctor._CHECKS])
def test_check_that_raises_is_a_failed_check(keeper: Keeper, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """All other checks are made."""

    def broken(*_: object) -> Check:
        raise RuntimeError(name)

    looks = tuple((item, broken if item == name else checks_by_name) for item, checks_by_name in doctor._CHECKS)
    monkeypatch.setattr(doctor, "_CHECKS", looks)
    assert failing(keeper) == {name: "failed"}


def test_doctor_checks_a_store_outside_the_home(tmp_path: Path) -> None:
    """A store given by its URL is checked and repaired at its place."""
    (tmp_path / "apart").mkdir()
    url = f"sqlite:///{tmp_path / 'apart' / 'my.db'}"
    with Keeper.open(str(tmp_path), home=str(tmp_path / "home"), store=url, actor="a") as keeper:
        keeper.start("Build the shop")
        os.chmod(tmp_path / "apart" / "my.db", 0o644)
        assert failing(keeper) == {"modes": "warning"}
        assert len(repair(keeper)) >= 1
        assert failing(keeper) == {}
    assert (tmp_path / "apart" / "my.db").stat().st_mode & 0o777 == 0o600
