"""The doctor of a store on a server: what is said of it while it is there, and while it is away."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.cli.main import main
from holdfast.keeper import doctor, store_checks
from holdfast.store.address import PostgresAddress
from holdfast.store.postgres import admin, members
from holdfast.workspace.followers import NOT_OPENED
from tests.postgres.failing_proxy import Cutter
from tests.postgres.machines import Desk
from tests.postgres.team import Team
from tests.support.postgres.server import Server

if TYPE_CHECKING:
    from holdfast.workspace.followers import Check


@pytest.fixture
def team(postgres: Server, database: str, line: Cutter) -> Team:
    return Team(postgres, database, line=line)


@pytest.fixture
def desk(team: Team, tmp_path: Path) -> Desk:
    desk = Desk(tmp_path, team.url())
    desk.connect()
    return desk


def _examined(desk: Desk) -> dict[str, Check]:
    with desk.keeper() as keeper:
        return {check.name: check for check in doctor.examine(keeper)}


def test_a_sound_store(desk: Desk, team: Team) -> None:
    """It opens, everything in it fits together, and it is said what it is and who one is there."""
    with desk.keeper() as keeper:
        keeper.start("Build the shop").note("blue")
    found = _examined(desk)
    assert {check.name for check in found.values() if check.status != "ok"} == set()
    assert f"vault {team.vault}, as {team.person}" in found["server"].detail
    assert "sqlite" not in found


def test_who_is_above_the_rules_is_warned(desk: Desk, team: Team, postgres: Server) -> None:
    """A superuser sees everybody's sessions: that is no way to work."""
    desk.url = f"{postgres.url(team.name)}&vault={team.vault}"
    with admin.connected(PostgresAddress(desk.url), "admit") as own:
        admin.admit_to_vault(own, admin.make_vault(own, team.vault), "postgres")
    found = _examined(desk)
    assert found["server"].status == "warning"
    assert "postgres is a superuser" in found["server"].detail


@pytest.mark.parametrize(
    ("encrypted", "proven", "said"),
    [(False, False, "can be read on the way"), (True, False, "need not prove who it is"), (True, True, "PostgreSQL")],
)
def test_the_way_to_a_server_elsewhere(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, encrypted: bool, proven: bool, said: str
) -> None:
    """Open to others, or to one who poses as the server: a warning."""
    real = members.server_info

    def elsewhere(store: Any) -> members.ServerInfo:
        return real(store)._replace(local=False, encrypted=encrypted, proven=proven)

    monkeypatch.setattr(members, "server_info", elsewhere)
    found = _examined(desk)["server"]
    assert said in found.detail
    assert found.status == ("ok" if proven else "warning")


def test_an_outage_is_nothing_to_report(desk: Desk, line: Cutter) -> None:
    """Hooks noted that the server was away; they kept what they heard, and there is nothing to be done about it."""
    with desk.keeper() as keeper:
        keeper.start("Build the shop")
    line.refuse()
    desk.hook("ask", "SessionStart", source="startup")
    assert len(desk.errors()) == 1
    found = _examined(desk)["capture"]
    assert (found.status, found.fix) == ("ok", None)
    assert "kept" in found.detail


def test_a_server_that_goes_away_while_it_is_looked_at(
    desk: Desk, line: Cutter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was not looked at to the end is not called sound."""
    with desk.keeper() as keeper:
        keeper.start("Build the shop")
    real = store_checks.server

    def then_gone(store: Any) -> list[Check]:
        found = list(real(store))
        line.refuse()
        return found

    monkeypatch.setattr(store_checks, "server", then_gone)
    found = _examined(desk)
    assert found["file"].status == "failed"
    assert "the check broke off: the server cannot be reached" in found["file"].detail
    assert {found[name].status for name in ("chain", "state", "listing", "search")} == {"warning"}
    assert found["agents"].status == "failed"


def test_a_server_that_is_away_fails_its_check_alone(
    desk: Desk, line: Cutter, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Everything else is looked at; other commands end with 7 and do nothing, and nothing is lost by it."""
    with desk.keeper() as keeper:
        keeper.start("Build the shop")
        keeper.mirrors.switch_on("orchestrator")
    monkeypatch.setenv("HOLDFAST_HOME", str(desk.home))
    monkeypatch.setenv("HOLDFAST_STORE", desk.url)
    monkeypatch.chdir(desk.project)
    line.refuse()
    desk.ran(0)
    assert main(["doctor", "--json"]) == 6
    checks = {item["name"]: item for item in json.loads(capsys.readouterr().out)["checks"]}
    assert [check["name"] for check in checks.values() if check["status"] == "failed"] == ["store"]
    assert checks["mirrors"]["status"] == "warning"
    hints = [name for name, check in checks.items() if check["fix"] and "server is back" in check["fix"]]
    assert hints == ["store"]
    blind = {name for name, check in checks.items() if check["detail"] == NOT_OPENED}
    assert blind >= {"file", "chain", "state", "listing", "search", "writer", "agents", "mirrors"}
    assert all(checks[name]["status"] == "warning" for name in blind)
    assert checks["git"]["status"] == "ok"
    for words in (["status"], ["note", "lost?"], ["history"]):
        assert main(words) == 7
        told = capsys.readouterr()
        assert "the server cannot be reached" in told.err
        assert "run the command again when the server is back" in told.err
    assert desk.waiting() == 1
    line.accept()
    assert main(["status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["session"]["commands"]["total"] == 1
    assert desk.waiting() == 0
    with desk.keeper() as keeper:
        assert keeper.session().document().notes == []
    assert main(["doctor"]) == 0
