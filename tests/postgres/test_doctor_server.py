"""The doctor of a store on a server: its report while the server is there, and while it is unreachable."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.cli.main import main
from holdfast.keeper import doctor, store_checks
from holdfast.store.address import PostgresAddress
from holdfast.store.interface import StoreInfo
from holdfast.store.postgres import admin, members
from holdfast.workspace.followers import NOT_OPENED
from tests.postgres.failing_proxy import FailingProxy
from tests.postgres.machines import Machine
from tests.postgres.team import Team
from tests.support.postgres.server import Server

if TYPE_CHECKING:
    from holdfast.workspace.followers import Check


@pytest.fixture
def team(postgres: Server, database: str, line: FailingProxy) -> Team:
    return Team(postgres, database, line=line)


@pytest.fixture
def machine(team: Team, tmp_path: Path) -> Machine:
    machine = Machine(tmp_path, team.url())
    machine.connect()
    return machine


def _checks(machine: Machine) -> dict[str, Check]:
    with machine.keeper() as keeper:
        return {check.name: check for check in doctor.run_checks(keeper)}


def test_doctor_reports_a_sound_server_store(machine: Machine, team: Team) -> None:
    """It names the vault and the role."""
    with machine.keeper() as keeper:
        keeper.start("Build the shop").note("blue")
    checks = _checks(machine)
    assert {check.name for check in checks.values() if check.status != "ok"} == set()
    assert f"vault {team.vault}, as {team.person}" in checks["server"].detail
    assert "sqlite" not in checks


def test_doctor_warns_a_superuser(machine: Machine, team: Team, postgres: Server) -> None:
    """Superusers see all sessions."""
    machine.url = f"{postgres.url(team.name)}&vault={team.vault}"
    with admin.connected(PostgresAddress(machine.url), "admit") as own:
        admin.admit_to_vault(own, admin.make_vault(own, team.vault), "postgres")
    checks = _checks(machine)
    assert checks["server"].status == "warning"
    assert "postgres is a superuser" in checks["server"].detail


@pytest.mark.parametrize(
    ("encrypted", "proven", "detail"),
    [(False, False, "can be read on the way"), (True, False, "identity is not checked"), (True, True, "PostgreSQL")],
)
def test_doctor_warns_of_an_unprotected_connection(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, encrypted: bool, proven: bool, detail: str
) -> None:
    """Not encrypted, or to a server that need not prove its identity."""
    real = members.server_info

    def elsewhere(store: Any) -> StoreInfo:
        return real(store)._replace(local=False, encrypted=encrypted, proven=proven)

    monkeypatch.setattr(members, "server_info", elsewhere)
    check = _checks(machine)["server"]
    assert detail in check.detail
    assert check.status == ("ok" if proven else "warning")


def test_doctor_reports_no_problem_after_an_outage(machine: Machine, line: FailingProxy) -> None:
    """Hooks kept their payloads: nothing has to be done."""
    with machine.keeper() as keeper:
        keeper.start("Build the shop")
    line.refuse()
    machine.hook("ask", "SessionStart", source="startup")
    assert len(machine.errors()) == 1
    check = _checks(machine)["capture"]
    assert (check.status, check.fix) == ("ok", None)
    assert "kept" in check.detail


def test_doctor_reports_a_check_interrupted_by_an_outage(
    machine: Machine, line: FailingProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unfinished check does not count as ok."""
    with machine.keeper() as keeper:
        keeper.start("Build the shop")
    real = store_checks.check_server

    def then_unreachable(store: Any) -> list[Check]:
        checks = list(real(store))
        line.refuse()
        return checks

    monkeypatch.setattr(store_checks, "check_server", then_unreachable)
    checks = _checks(machine)
    assert checks["file"].status == "failed"
    assert "the check failed: the server cannot be reached" in checks["file"].detail
    assert {checks[name].status for name in ("chain", "state", "listing", "search")} == {"warning"}
    assert checks["agents"].status == "failed"


def test_doctor_fails_only_the_store_check_when_the_server_is_unreachable(
    machine: Machine, line: FailingProxy, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Other commands end with exit code 7 and do nothing, and no payload is lost."""
    with machine.keeper() as keeper:
        keeper.start("Build the shop")
        keeper.mirrors.switch_on("orchestrator")
    monkeypatch.setenv("HOLDFAST_HOME", str(machine.home))
    monkeypatch.setenv("HOLDFAST_STORE", machine.url)
    monkeypatch.chdir(machine.project)
    line.refuse()
    machine.report_command(0)
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
        output = capsys.readouterr()
        assert "the server cannot be reached" in output.err
        assert "run the command again when the server is back" in output.err
    assert machine.waiting() == 1
    line.accept()
    assert main(["status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["session"]["commands"]["total"] == 1
    assert machine.waiting() == 0
    with machine.keeper() as keeper:
        assert keeper.session().document().notes == []
    assert main(["doctor"]) == 0
