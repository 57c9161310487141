"""The change feed on a server: connections that are cut, frozen and lost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast.keeper import change_feed
from holdfast.keeper.change_feed import ChangeFeed, state_fingerprint
from holdfast.store.address import PostgresAddress
from holdfast.store.postgres import admin as postgres_admin
from tests.postgres.failing_proxy import FailingProxy
from tests.postgres.machines import Listener, Machine
from tests.postgres.team import Team
from tests.support.postgres.fixtures import prepared
from tests.support.postgres.server import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(scope="module")
def own() -> Iterator[Server]:
    """A server that may be restarted."""
    with Server() as server:
        prepared(server, "team")
        yield server


@pytest.fixture
def line(own: Server) -> Iterator[FailingProxy]:
    with FailingProxy(own) as line:
        yield line


@pytest.fixture
def team(own: Server) -> Team:
    return Team(own, own.url("team"))


@pytest.fixture
def here(team: Team, line: FailingProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """The machine with the feed, on a connection that can be cut. Polling is disabled: every change comes as a
    notification.
    """
    monkeypatch.setattr(change_feed, "LOOK_INTERVAL", 600.0)
    machine = Machine(tmp_path, team.url(line), "here")
    with machine.keeper() as keeper:
        keeper.home.prepare()
    return machine


@pytest.fixture
def there(team: Team, tmp_path: Path) -> Machine:
    """Another machine."""
    return Machine(tmp_path, team.url(), "there")


def _expect_change(there: Machine, listener: Listener, goal: str) -> None:
    """Record something there, and wait until it is reported here."""
    with there.keeper() as keeper:
        session = keeper.start(goal, replace=True)
    listener.of(session.id)


def test_change_feed_reports_what_others_record(here: Machine, there: Machine) -> None:
    """Each time, with the session; local changes too."""
    listener = Listener()
    with ChangeFeed(here.open, listener):
        _expect_change(there, listener, "One")
        _expect_change(here, listener, "Two")
        _expect_change(there, listener, "Three")


def _cut(line: FailingProxy, _: Server) -> None:
    line.cut()


def _refused(line: FailingProxy, _: Server) -> None:
    line.refuse()
    line.accept()


def _restarted(_: FailingProxy, own: Server) -> None:
    own.restart()


def _frozen(line: FailingProxy, _: Server) -> None:
    line.freeze()
    line.thaw()


@pytest.mark.parametrize("fault", [_cut, _refused, _restarted, _frozen])
def test_change_feed_reconnects_after_a_lost_connection(
    here: Machine, there: Machine, line: FailingProxy, own: Server, fault: Callable[[FailingProxy, Server], None]
) -> None:
    """What was recorded meanwhile is reported after the reconnect."""
    listener = Listener()
    with ChangeFeed(here.open, listener):
        _expect_change(there, listener, "Before")
        fault(line, own)
        _expect_change(there, listener, "After")
        _expect_change(there, listener, "And on")


def test_change_feed_reports_later_what_was_recorded_during_an_outage(
    here: Machine, there: Machine, line: FailingProxy
) -> None:
    """The old connection never answers again."""
    listener = Listener()
    with ChangeFeed(here.open, listener):
        _expect_change(there, listener, "Before")
        line.freeze()
        with there.keeper() as keeper:
            session = keeper.start("In the dark", replace=True)
        line.cut()
        line.thaw()
        listener.of(session.id)


def test_change_feed_ignores_invisible_sessions(
    here: Machine, there: Machine, team: Team, own: Server, tmp_path: Path
) -> None:
    """Another member's session in the same vault, and one in another vault."""
    other = Team(own, own.url("team"))
    with postgres_admin.connected(PostgresAddress(f"{own.url(team.name)}&vault={team.vault}"), "admit") as admin:
        postgres_admin.admit_to_vault(admin, postgres_admin.make_vault(admin, team.vault), other.person)
    colleague = Machine(tmp_path, other.url().replace(other.vault, team.vault), "colleague")
    outsider = Machine(tmp_path, other.url(), "stranger")
    listener = Listener()
    with ChangeFeed(here.open, listener), here.keeper() as looking:
        _expect_change(there, listener, "Ours")
        with there.keeper() as keeper:
            place = keeper.store().latest_place()
        listener.until(lambda changes: changes[-1].place >= place)
        before, known = state_fingerprint(looking), list(listener.changes)
        for machine in (colleague, outsider):
            with machine.keeper() as keeper:
                keeper.start("Theirs").note("Not for you")
        assert state_fingerprint(looking) == before
        assert [row.goal for row in looking.history(all_projects=True)] == ["Ours"]
        with there.keeper() as keeper:
            keeper.session().note("For you")
            session = keeper.session().id
        changes = listener.until(lambda changes: len(changes) > len(known))
    assert [(set(change.sessions), change.other_changes) for change in changes[len(known) :]] == [({session}, False)]
