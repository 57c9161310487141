"""`store copy`: everything into another store and back, on a real server; what is said meanwhile; being stopped."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

if os.name != "posix":
    pytest.skip("only POSIX systems run the server", allow_module_level=True)

from team_server import Member, Town

sys.path.insert(0, str(Path(__file__).parents[1] / "postgres"))

from databases import made_once, postgres
from server import Server

from holdfast.cli.commands import store_copy
from holdfast.cli.main import main
from holdfast.cli.paint import Paint
from holdfast.store import copying
from holdfast.store.copying import Progress
from holdfast.store.interface import Store

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


def test_moving_house_and_back(member: Member, tmp_path: Path) -> None:
    """The work tree is at the same session on the server; what is recorded there comes back; each thing once."""
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
    assert (back.code, back.err.splitlines()[-1]) == (0, "To go on there: unset HOLDFAST_STORE")
    assert re.match(r"Copied \d events; 1 session compared, the same in both", back.out)
    assert "green" in member("show", session).out
    other = f"sqlite:///{tmp_path}/other.db"
    assert (
        member.document("store", "copy", server, other)["copied"]["events"] > 3
    )  # the server's writer said where it is
    member.at(other)
    assert member.session("status")["id"] == session


def test_what_is_said_meanwhile(member: Member, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line for each step; on a terminal a bar that is taken away at the end; with --quiet nothing."""
    member.session("start", "Build the shop")
    others = (f"sqlite:///{tmp_path}/{name}.db" for name in "abc")
    told = member("store", "copy", "home", next(others)).err.splitlines()
    assert told[:3] == [
        "checking 1 session of the source", "copying their events", "comparing 1 session with the copy",
    ]  # fmt: skip
    assert told[3].startswith("To go on there: export HOLDFAST_STORE=sqlite:///")
    assert member("store", "copy", "home", next(others), "--quiet") == (0, "", "")
    monkeypatch.setattr(store_copy, "terminal", lambda *_, **__: Paint(60, tty=True))
    drawn = member("store", "copy", "home", next(others)).err
    assert "100%  copying their events" in drawn
    assert drawn.rpartition("\r\x1b[2K")[2].startswith("To go on there")


def test_connected_agents_are_thought_of(member: Member, tmp_path: Path) -> None:
    """Their hooks know the store that was in use when they were connected."""
    member.session("start", "Build the shop")
    assert member("connect", "claude", "--no-mcp").code == 0
    assert "holdfast connect claude" in member("store", "copy", "home", f"sqlite:///{tmp_path}/other.db").err


def test_what_cannot_be_copied(member: Member, tmp_path: Path, town: Town) -> None:
    """Nothing, into itself, from or into what is no store: each is said, and nothing is made."""
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


def test_stopped_by_the_person(member: Member, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says that nothing is lost; the same command goes on, and ends with everything there."""
    for number in range(3):
        member.session("start", f"Shop {number}", "--replace")
    other = f"sqlite:///{tmp_path}/other.db"
    whole, portion = copying.copy, copying.PORTION

    def stopped(*stores: Store, told: Callable[[Progress], None]) -> copying.Copied:
        def telling(far: Progress) -> None:
            told(far)
            if far.doing == "copying":
                raise KeyboardInterrupt

        return whole(*stores, told=telling)

    monkeypatch.setattr(copying, "PORTION", 2)
    monkeypatch.setattr(copying, "copy", stopped)
    said = member("store", "copy", "home", other)
    assert said.code == 130
    assert "goes on from there" in said.err
    monkeypatch.setattr(copying, "copy", whole)
    monkeypatch.setattr(copying, "PORTION", portion)
    done = member.document("store", "copy", "home", other)
    assert done["verified"] == 3
    assert 0 < done["copied"]["events"] < member.document("store", "show")["store"]["events"]
