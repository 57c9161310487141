"""ChangeFeed on a server: what others record is told over a line, which real networks cut, freeze and lose."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast.keeper import change_feed
from holdfast.keeper.change_feed import ChangeFeed, state_fingerprint
from holdfast.store.address import PostgresAddress
from holdfast.store.postgres import admin as postgres_admin
from tests.postgres.failing_proxy import Cutter
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
def line(own: Server) -> Iterator[Cutter]:
    with Cutter(own) as line:
        yield line


@pytest.fixture
def team(own: Server) -> Team:
    return Team(own, own.url("team"))


@pytest.fixture
def here(team: Team, line: Cutter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Who follows: on a line that can be cut. Nobody looks by themselves: what is heard was told."""
    monkeypatch.setattr(change_feed, "LOOK_INTERVAL", 600.0)
    machine = Machine(tmp_path, team.url(line), "here")
    with machine.keeper() as keeper:
        keeper.home.prepare()
    return machine


@pytest.fixture
def there(team: Team, tmp_path: Path) -> Machine:
    """Somebody at another machine."""
    return Machine(tmp_path, team.url(), "there")


def _expect_change(there: Machine, listener: Listener, goal: str) -> None:
    """Something is recorded there, and heard of here."""
    with there.keeper() as keeper:
        session = keeper.start(goal, replace=True)
    listener.of(session.id)


def test_change_feed_reports_what_others_record(here: Machine, there: Machine) -> None:
    """Whose session it is, and each time; of what is said here too."""
    listener = Listener()
    with ChangeFeed(here.open, listener):
        _expect_change(there, listener, "One")
        _expect_change(here, listener, "Two")
        _expect_change(there, listener, "Three")


def _cut(line: Cutter, _: Server) -> None:
    line.cut()


def _refused(line: Cutter, _: Server) -> None:
    line.refuse()
    line.accept()


def _restarted(_: Cutter, own: Server) -> None:
    own.restart()


def _frozen(line: Cutter, _: Server) -> None:
    line.freeze()
    line.thaw()


@pytest.mark.parametrize("fault", [_cut, _refused, _restarted, _frozen])
def test_change_feed_reconnects_after_a_lost_connection(
    here: Machine, there: Machine, line: Cutter, own: Server, fault: Callable[[Cutter, Server], None]
) -> None:
    """Also when there was silence for a while; what was recorded meanwhile is told when it is back."""
    listener = Listener()
    with ChangeFeed(here.open, listener):
        _expect_change(there, listener, "Before")
        fault(line, own)
        _expect_change(there, listener, "After")
        _expect_change(there, listener, "And on")


def test_change_feed_reports_later_what_was_recorded_during_an_outage(
    here: Machine, there: Machine, line: Cutter
) -> None:
    """The network is gone without a word, and comes back as another one: the old line never says anything again."""
    listener = Listener()
    with ChangeFeed(here.open, listener):
        _expect_change(there, listener, "Before")
        line.freeze()
        with there.keeper() as keeper:
            session = keeper.start("In the dark", replace=True)
        line.cut()
        line.thaw()
        listener.of(session.id)


def test_change_feed_reports_nothing_that_is_not_visible(
    here: Machine, there: Machine, team: Team, own: Server, tmp_path: Path
) -> None:
    """Somebody else's session in the same vault and one in another vault: no page is drawn anew for them."""
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
