"""Hooks on a store whose server comes and goes: they never wait for it; nothing they hand over is lost or doubled."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from holdfast import Keeper
from holdfast.core.errors import Refused, Unreachable
from holdfast.keeper import hook_process
from holdfast.store.address import PostgresAddress
from holdfast.store.postgres import admin as postgres_admin
from holdfast.workspace import server_outage, spool
from tests.postgres.failing_proxy import ANSWERED, SENT, Cutter
from tests.postgres.machines import LONGEST, Desk
from tests.postgres.team import Team
from tests.support.postgres.fixtures import prepared
from tests.support.postgres.server import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PAYLOADS = 20


@pytest.fixture(scope="module")
def own() -> Iterator[Server]:
    """A server that may be stopped."""
    with Server() as server:
        prepared(server, "team")
        yield server


@pytest.fixture
def team(own: Server) -> Team:
    if not own.running:
        own.start()
    return Team(own, own.url("team"))


@pytest.fixture
def desk(team: Team, tmp_path: Path) -> Desk:
    desk = Desk(tmp_path, team.url())
    desk.connect()
    return desk


@pytest.fixture
def line(own: Server) -> Iterator[Cutter]:
    with Cutter(own) as line:
        yield line


def _every(*numbers: int) -> list[str]:
    return sorted(f"make {number}" for number in (numbers or range(PAYLOADS)))


class _Writing:
    """For `cut_when`: the answer that it is committed (0), or what is sent or answered so far into the writing."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._begun = False
        self._count = 0

    def __call__(self, direction: str, data: bytes) -> bool:
        self._begun = self._begun or (direction == SENT and b"begin_writing" in data)
        self._count += self._begun
        if self._number:
            return self._count == self._number
        return self._begun and direction == ANSWERED and b"COMMIT\0" in data


class _Answering:
    """For `freeze_when`: the server has answered so often."""

    def __init__(self, left: int) -> None:
        self._left = left

    def __call__(self, direction: str, _: bytes) -> bool:
        self._left -= direction == ANSWERED
        return self._left < 0


def _forget_that_it_is_away(desk: Desk) -> None:
    """As if a while had passed."""
    (desk.home / server_outage.NAME).unlink(missing_ok=True)


def _soon(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + LONGEST
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_what_is_handed_over_while_the_server_is_away_arrives_once(own: Server, desk: Desk) -> None:
    """Hooks that wait for an answer get none, at once; the next command after the server is back takes in all."""
    own.stop()
    assert desk.hook("ask", "SessionStart", source="startup") == ""
    assert desk.hook("ask", "UserPromptSubmit", prompt="Add OAuth", prompt_id="p1") == ""
    for number in range(PAYLOADS):
        desk.ran(number, through="user" if number % 2 else "project")
        if number % 5 == 0:  # heard through both configurations
            desk.ran(number, through="project" if number % 2 else "user")
    assert desk.waiting() == 2 + PAYLOADS + 4
    for _ in range(2):
        with desk.keeper() as keeper, pytest.raises(Unreachable):
            keeper.session()
    assert desk.waiting() == 2 + PAYLOADS + 4
    own.start()
    assert desk.commands() == _every()
    assert (desk.waiting(), desk.unread()) == (0, [])
    assert len(desk.errors()) == 1
    with desk.keeper() as keeper:
        assert keeper.session().document().goal == "Add OAuth"


def test_hooks_answer_again_when_the_server_is_back(own: Server, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The briefing comes as soon as the server was heard again, and the next absence is noted anew."""
    with desk.keeper() as keeper:
        keeper.start("Add OAuth")
    _forget_that_it_is_away(desk)
    own.stop()
    assert desk.hook("ask", "SessionStart", source="startup") == ""
    assert server_outage.is_away(str(desk.home), desk.url)
    assert not server_outage.is_away(str(desk.home), desk.url + "&application_name=other")
    own.start()
    _forget_that_it_is_away(desk)
    monkeypatch.setattr(server_outage, "HOOK_PATIENCE", LONGEST)
    said = hook_process.answer_hook(
        str(desk.home), "claude.user.1.1", store=desk.url,
        payload=b'{"session_id": "t", "hook_event_name": "SessionStart", "source": "startup", "cwd": "%s"}'
        % str(desk.project).encode(),
    )  # fmt: skip
    assert said is not None
    assert "Add OAuth" in said.stdout
    assert not (desk.home / server_outage.NAME).exists()
    assert desk.waiting() == 0


def test_payloads_for_a_server_were_drained_into_a_local_store(own: Server, desk: Desk) -> None:
    """Handed over while the server is away, they wait for it, whatever store other processes use meanwhile."""
    own.stop()
    desk.ran(0)
    with Keeper.open(str(desk.project), home=str(desk.home)) as local:
        assert local.history(all_projects=True) == []
        assert desk.waiting() == 1
        check = next(check for check in local.doctor()[0] if check.name == "spool")
    assert f"waits for {PostgresAddress(desk.url).url}" in check.detail
    own.start()
    assert desk.commands() == _every(0)
    assert (desk.waiting(), desk.unread()) == (0, [])


def test_a_silent_server_holds_nobody_up(desk: Desk, team: Team, line: Cutter) -> None:
    """Nothing is answered, nothing printed, and one line in the log tells of it, however many hooks there were."""
    with desk.keeper() as keeper:
        keeper.start("Add OAuth")
    desk.url = team.url(line)
    desk.connect()
    line.freeze()
    for _ in range(3):
        assert desk.hook("ask", "SessionStart", source="startup") == ""
        desk.hook("status", "Status", model={"id": "m"}, workspace={"project_dir": str(desk.project)})
    assert desk.waiting() == 3
    assert len(desk.errors()) <= 1
    line.thaw()
    desk.commands()
    assert (desk.waiting(), desk.unread()) == (0, [])


def test_a_server_falls_silent_in_the_middle(
    desk: Desk, team: Team, line: Cutter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is in a hurry leaves it at that, wherever it was; nothing is put aside, and it is all there later."""
    monkeypatch.setattr(server_outage, "BACKGROUND_PATIENCE", 0.5)
    desk.url = team.url(line)
    desk.connect()
    with desk.keeper() as keeper:
        keeper.start("Add OAuth")
    for number in range(3):
        desk.ran(number)
    for answers in (1, 3, 9):
        line.freeze_when(_Answering(answers))
        hook_process.drain_spool(str(desk.home), store=desk.url)
        assert line.happened.is_set()
        assert server_outage.is_away(str(desk.home), desk.url)
        line.thaw()
        _forget_that_it_is_away(desk)
    hook_process.drain_spool(str(desk.home), store=desk.url)
    assert desk.commands() == _every(0, 1, 2)
    assert (desk.waiting(), desk.unread()) == (0, [])


@pytest.mark.parametrize("number", [0, 2, 6])
def test_killed_while_taking_in(desk: Desk, team: Team, line: Cutter, number: int) -> None:
    """Whether it was committed or not, nobody lived to hear of it: what waits still is taken in once."""
    with desk.keeper() as keeper:
        keeper.start("Add OAuth")
    desk.url = team.url(line)
    desk.connect()
    for item in range(PAYLOADS):
        desk.ran(item)
    line.freeze_when(_Writing(number), after=False)
    with desk.drain() as draining:
        assert line.happened.wait(LONGEST)
        draining.kill()
    assert desk.waiting() == PAYLOADS
    line.cut()
    line.thaw()
    assert desk.commands() == _every()
    assert (desk.waiting(), desk.unread()) == (0, [])


@pytest.mark.parametrize("after", [True, False])
def test_cut_off_anywhere_while_taking_in(desk: Desk, team: Team, line: Cutter, after: bool) -> None:
    """The outcome is looked for; what was not recorded waits for the next one."""
    with desk.keeper() as keeper:
        keeper.start("Add OAuth")
    desk.url = team.url(line)
    desk.connect()
    expected = []
    for number in (0, 1, 2, 3, 5, 8, 12, 17, 23, 30, 38, 47, 57):
        desk.ran(number)
        expected.append(number)
        line.cut_when(_Writing(number), after=after)
        hook_process.drain_spool(str(desk.home), store=desk.url)
        _forget_that_it_is_away(desk)
        happened = line.happened.wait(0.2)
        line.spare()
        hook_process.drain_spool(str(desk.home), store=desk.url)
        if not happened:
            break
    assert 1 < number < 57
    assert desk.commands() == _every(*expected)
    assert (desk.waiting(), desk.unread()) == (0, [])


def test_processes_do_not_pile_up(desk: Desk, team: Team, line: Cutter) -> None:
    """While the server says nothing, one process tries and one waits; the others see that and leave."""
    desk.url = team.url(line)
    desk.connect()
    desk.ran(0)
    line.freeze()
    processes = [desk.drain() for _ in range(8)]
    try:
        _soon(lambda: sum(process.poll() is None for process in processes) <= 2)
        line.thaw()
        assert [process.wait(LONGEST) for process in processes] == [0] * 8
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert desk.commands() == _every(0)


def test_two_machines_take_in_at_once(team: Team, tmp_path: Path) -> None:
    """Each what its own agents left, and what both heard of is recorded once."""
    desks = [Desk(tmp_path, team.url(), name) for name in ("desk", "laptop")]
    for desk in desks:
        desk.connect()
        desk.hook("tell", "UserPromptSubmit", f"talk-{desk.name}", prompt=f"At the {desk.name}", prompt_id="p")
        for number in range(5):
            desk.ran(number + 10 * desks.index(desk), f"talk-{desk.name}")
    together = threading.Barrier(2)

    def take_in(desk: Desk) -> None:
        together.wait()
        hook_process.drain_spool(str(desk.home), store=desk.url)

    threads = [threading.Thread(target=take_in, args=(desk,)) for desk in desks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [desk.waiting() for desk in desks] == [0, 0]
    assert desks[0].commands() == desks[1].commands() == _every(0, 1, 2, 3, 4, 10, 11, 12, 13, 14)
    desks[1].ran(0, "talk-desk")  # the same conversation, told of on the other machine
    assert desks[0].commands() == desks[1].commands() == _every(0, 1, 2, 3, 4, 10, 11, 12, 13, 14)
    with desks[0].keeper() as here, desks[1].keeper() as there:
        assert here.session().document().goal == "At the desk"
        assert there.session().document().goal == "At the laptop"


def test_what_the_database_refuses_waits(own: Server, desk: Desk, team: Team) -> None:
    """A person who was dismissed, and is admitted again: nothing was put aside meanwhile."""
    with desk.keeper() as keeper:
        keeper.start("Add OAuth")
    admin = PostgresAddress(f"{own.url(team.name)}&vault={team.vault}")
    desk.ran(0)
    with postgres_admin.connected(admin, "dismiss") as own_line:
        vault = postgres_admin.make_vault(own_line, team.vault)
        postgres_admin.dismiss_from_vault(own_line, vault, team.person)
    with desk.keeper() as keeper, pytest.raises(Refused):
        keeper.session()
    assert (desk.waiting(), desk.unread()) == (1, [])
    with postgres_admin.connected(admin, "admit") as own_line:
        postgres_admin.admit_to_vault(own_line, vault, team.person)
    assert desk.commands() == _every(0)


def test_nothing_in_the_way_of_a_hook_opens_the_store(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A payload that needs no answer is handed over though the address leads nowhere, and nobody looks it up."""
    desk.url = "postgresql://ada@does-not-exist.invalid/team"
    (desk.home / "hooks" / "store").write_text(desk.url)
    monkeypatch.setattr(psycopg, "connect", None)
    for number in range(2):
        desk.ran(number)
    assert len(spool.list_entries(str(desk.home))) == 2
    assert desk.errors() == []
