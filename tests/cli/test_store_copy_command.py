"""`store copy`: everything into another store and back, on a real server, with progress and interruption."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

if os.name != "posix":
    pytest.skip("only POSIX systems run the server", allow_module_level=True)

from holdfast.cli.commands import store as store_commands
from holdfast.cli.main import main
from holdfast.cli.paint import Paint
from holdfast.store import store_copy as store_copy_module
from holdfast.store.interface import CopyResult, Store
from holdfast.store.store_copy import Progress
from tests.cli.team_server import Member, Town
from tests.support.command_line import checked
from tests.support.postgres.fixtures import made_once, postgres
from tests.support.postgres.server import Server

__all__ = ["made_once", "postgres"]


@pytest.fixture(scope="module")
def town(postgres: Server) -> Iterator[Town]:
    town = Town(postgres)
    assert main(["store", "init", town.owner, "--admit", town.ada, "--quiet"]) == 0
    yield town
    town.close()


@pytest.fixture
def member(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], town: Town) -> Member:
    return Member(tmp_path, monkeypatch, capsys, town)


def test_store_copy_to_a_server_and_back_keeps_everything_once(member: Member, tmp_path: Path) -> None:
    """The work tree keeps its session, and what is recorded on the server comes back."""
    session = member.session("start", "Build the shop")["id"]
    member.session("note", "blue")
    server = member.town.url(member.town.ada)
    done = member.document("store", "copy", "home", server)
    assert done["copied"] == {
        "from": f"sqlite:///{member.home}/store.db", "to": server, "sessions": 1, "events": 2,
    }  # fmt: skip
    assert done["verified"] == 1
    assert member.document("store", "copy", "home", server)["copied"]["events"] == 0
    member.at(server)
    assert member.session("status")["id"] == session
    member.session("note", "green")
    member.at(None)
    assert "green" not in member("show", session).out
    back = member("store", "copy", server, "home")
    assert (back.code, back.err.splitlines()[-1]) == (0, "To use it: unset HOLDFAST_STORE")
    assert re.match(r"Copied \d events; 1 session compared, the same in both", back.out)
    assert "green" in member("show", session).out
    other = f"sqlite:///{tmp_path}/other.db"
    assert (
        member.document("store", "copy", server, other)["copied"]["events"] > 3
    )  # the server's writer recorded its position
    member.at(other)
    assert member.session("status")["id"] == session


def test_store_copy_reports_progress(member: Member, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line per step; a bar on a terminal, removed at the end; nothing with --quiet."""
    member.session("start", "Build the shop")
    others = (f"sqlite:///{tmp_path}/{name}.db" for name in "abc")
    output = member("store", "copy", "home", next(others)).err.splitlines()
    assert output[:3] == [
        "checking 1 session of the source", "copying their events", "comparing 1 session with the copy",
    ]  # fmt: skip
    assert output[3].startswith("To use it: export HOLDFAST_STORE=sqlite:///")
    assert member("store", "copy", "home", next(others), "--quiet") == (0, "", "")
    monkeypatch.setattr(store_commands, "paint_for", lambda *_, **__: Paint(60, tty=True))
    drawn = member("store", "copy", "home", next(others)).err
    assert "100%  copying their events" in drawn
    assert drawn.rpartition("\r\x1b[2K")[2].startswith("To use it")


def test_store_copy_reminds_of_connected_agents(member: Member, tmp_path: Path) -> None:
    """Their hooks know the store that they were connected with."""
    member.session("start", "Build the shop")
    assert member("connect", "claude", "--no-mcp").code == 0
    assert "holdfast connect claude" in member("store", "copy", "home", f"sqlite:///{tmp_path}/other.db").err


def test_store_copy_refuses_impossible_sources_and_targets(member: Member, tmp_path: Path, town: Town) -> None:
    """None, itself, and files that are no stores; nothing is created."""
    server = town.url(town.ada)
    member.refused(3, "store", "copy", "home", server)
    assert not member.home.exists()
    member.session("start", "Build the shop")
    member.refused(4, "store", "copy", "home", "home")
    member.refused(4, "store", "copy", "home", f"sqlite:///{member.home}/store.db")
    member.refused(4, "store", "copy", "home", "mysql://db/work")
    member.refused(2, "store", "copy", "home")
    assert "store init" in member.refused(3, "store", "copy", "home", town.server.url("postgres"))["hint"]
    assert "store admit" in member.refused(1, "store", "copy", "home", town.url(town.ben))["hint"]
    assert not list(tmp_path.glob("*.db"))


def test_store_copy_names_sessions_that_it_leaves_out(member: Member, tmp_path: Path, town: Town) -> None:
    """So do backup and restore, and the exit code shows it."""
    assert main(["--store", town.owner, "store", "admit", town.eve, "--quiet"]) == 0
    member.be(town.eve)
    theirs = member.session("start", "Paint \x1b[31mthe shop")["id"]
    assert member("store", "share", theirs, town.ada).code == 0
    server, there = town.url(town.ada), town.url(town.eve)
    member.be(town.ada)
    mine = member.session("start", "Build the shop", "--replace")["id"]
    copied, kept = f"sqlite:///{tmp_path}/copied.db", str(tmp_path / "kept")
    assert member.document("store", "copy", server, copied)["left_out"] == []
    member.at(copied)
    for session in (mine, theirs):
        assert member("resume", session).code == 0
        member.session("note", "at home")
    assert member.document("backup", kept)["left_out"] == []
    member.be(town.eve)
    assert member("store", "unshare", theirs, town.ada).code == 0
    member.be(town.ada)
    for words in (("store", "copy", copied, server), ("restore", kept)):
        done = checked(member(*words, "--json").out)
        (left,) = done["left_out"]
        assert left["session"] == theirs == done["error"]["session"]
        assert "does not share it with you" in left["reason"]
        assert "everything else was " in done["error"]["message"]
        for quiet in ((), ("--quiet",)):
            result = member(*words, *quiet)
            assert result.code == 1
            assert f"left out {theirs}  Paint" in result.err
            assert "\x1b" not in result.err
    assert "at home" in member("show", mine).out
    member.be(town.eve)
    assert member("store", "share", theirs, town.ada, "--read-only").code == 0
    with town.server.connect(town.name) as line:
        line.execute("SET session_replication_role = replica")
        line.execute(
            "UPDATE holdfast.events SET data = '{}' WHERE seq = 1 AND session ="
            " (SELECT ref FROM holdfast.sessions WHERE id = %s)",
            (theirs,),
        )
    assert member.refused(6, "store", "copy", there, f"sqlite:///{tmp_path}/eves.db")["session"] == theirs
    member.be(town.ada)
    result = member("backup", str(tmp_path / "without"))
    assert result.code == 1
    assert "its owner repairs it" in result.err
    assert "1 session could not be backed up; everything else was backed up" in result.err
    member.at(f"sqlite:///{tmp_path}/fresh.db")
    assert member.document("restore", str(tmp_path / "without"))["left_out"] == []
    assert "at home" in member("show", mine).out
    assert member("show", theirs).code == 3


def test_store_copy_continues_after_an_interrupt(
    member: Member, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says that nothing is lost; the same command completes the copy."""
    for number in range(3):
        member.session("start", f"Shop {number}", "--replace")
    other = f"sqlite:///{tmp_path}/other.db"
    whole, portion = store_copy_module.copy, store_copy_module.PORTION

    def copy_until_interrupted(*stores: Store, on_progress: Callable[[Progress], None]) -> CopyResult:
        def interrupt(progress: Progress) -> None:
            on_progress(progress)
            if progress.doing == "copying":
                raise KeyboardInterrupt

        return whole(*stores, on_progress=interrupt)

    monkeypatch.setattr(store_copy_module, "PORTION", 2)
    monkeypatch.setattr(store_copy_module, "copy", copy_until_interrupted)
    result = member("store", "copy", "home", other)
    assert result.code == 130
    assert "continues from there" in result.err
    monkeypatch.setattr(store_copy_module, "copy", whole)
    monkeypatch.setattr(store_copy_module, "PORTION", portion)
    done = member.document("store", "copy", "home", other)
    assert done["verified"] == 3
    assert 0 < done["copied"]["events"] < member.document("store", "show")["store"]["events"]
