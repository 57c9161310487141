"""Hooks with a store on a server: unreachable or silent, with shared sessions, with files and commits."""

from __future__ import annotations

import subprocess
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from holdfast import Keeper
from holdfast.core.errors import Refused, Unreachable
from holdfast.core.events import SessionEdited
from holdfast.keeper import hook_process
from holdfast.sessions.changes.compare import compare_due
from holdfast.store.address import PostgresAddress
from holdfast.store.postgres import PostgresStore
from holdfast.store.postgres import admin as postgres_admin
from holdfast.workspace import server_outage, spool
from tests.postgres.failing_proxy import ANSWERED, SENT, FailingProxy
from tests.postgres.machines import TIMEOUT, Machine
from tests.postgres.team import Team
from tests.support.postgres.fixtures import prepared
from tests.support.postgres.server import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.postgres.server import Server

# ── outages ──────────────────────────────────────────────────────────────────────────────────────────────


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
def machine(team: Team, tmp_path: Path) -> Machine:
    machine = Machine(tmp_path, team.url())
    machine.connect()
    return machine


@pytest.fixture
def line(own: Server) -> Iterator[FailingProxy]:
    with FailingProxy(own) as line:
        yield line


def _commands(*numbers: int) -> list[str]:
    return sorted(f"make {number}" for number in (numbers or range(PAYLOADS)))


class _WhileWriting:
    """For `cut_when`: the answer to the commit (0), or the nth message of the writing transaction."""

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


class _AfterAnswers:
    """For `freeze_when`: the server has answered so often."""

    def __init__(self, left: int) -> None:
        self._left = left

    def __call__(self, direction: str, _: bytes) -> bool:
        self._left -= direction == ANSWERED
        return self._left < 0


def _forget_outage(machine: Machine) -> None:
    """As if a while had passed."""
    (machine.home / server_outage.NAME).unlink(missing_ok=True)


def _wait_until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + TIMEOUT
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_payloads_handed_over_during_an_outage_arrive_once(own: Server, machine: Machine) -> None:
    """Hooks that expect an answer get none, at once; the next command after the outage records all."""
    own.stop()
    assert machine.hook("ask", "SessionStart", source="startup") == ""
    assert machine.hook("ask", "UserPromptSubmit", prompt="Add OAuth", prompt_id="p1") == ""
    for number in range(PAYLOADS):
        machine.report_command(number, through="user" if number % 2 else "project")
        if number % 5 == 0:  # sent through both configurations
            machine.report_command(number, through="project" if number % 2 else "user")
    assert machine.waiting() == 2 + PAYLOADS + 4
    for _ in range(2):
        with machine.keeper() as keeper, pytest.raises(Unreachable):
            keeper.session()
    assert machine.waiting() == 2 + PAYLOADS + 4
    own.start()
    assert machine.commands() == _commands()
    assert (machine.waiting(), machine.unread()) == (0, [])
    assert len(machine.errors()) == 1
    with machine.keeper() as keeper:
        assert keeper.session().document().goal == "Add OAuth"


def test_hooks_answer_again_when_the_server_is_back(
    own: Server, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the outage is forgotten."""
    with machine.keeper() as keeper:
        keeper.start("Add OAuth")
    _forget_outage(machine)
    own.stop()
    assert machine.hook("ask", "SessionStart", source="startup") == ""
    assert server_outage.is_away(str(machine.home), machine.url)
    assert not server_outage.is_away(str(machine.home), machine.url + "&application_name=other")
    own.start()
    _forget_outage(machine)
    monkeypatch.setattr(server_outage, "HOOK_PATIENCE", TIMEOUT)
    reply = hook_process.answer_hook(
        str(machine.home), "claude.user.1.1", store=machine.url,
        payload=b'{"session_id": "t", "hook_event_name": "SessionStart", "source": "startup", "cwd": "%s"}'
        % str(machine.project).encode(),
    )  # fmt: skip
    assert reply is not None
    assert "Add OAuth" in reply.stdout
    assert not (machine.home / server_outage.NAME).exists()
    assert machine.waiting() == 0


def test_payloads_for_a_server_were_drained_into_a_local_store(own: Server, machine: Machine) -> None:
    """They wait for the server, whatever store other processes use meanwhile."""
    own.stop()
    machine.report_command(0)
    with Keeper.open(str(machine.project), home=str(machine.home)) as local:
        assert local.history(all_projects=True) == []
        assert machine.waiting() == 1
        check = next(check for check in local.doctor()[0] if check.name == "spool")
    assert f"waits for {PostgresAddress(machine.url).url}" in check.detail
    own.start()
    assert machine.commands() == _commands(0)
    assert (machine.waiting(), machine.unread()) == (0, [])


def test_hooks_do_not_wait_for_a_silent_server(machine: Machine, team: Team, line: FailingProxy) -> None:
    """No answer, no output, and at most one line in the log, however many hooks there were."""
    with machine.keeper() as keeper:
        keeper.start("Add OAuth")
    machine.url = team.url(line)
    machine.connect()
    line.freeze()
    for _ in range(3):
        assert machine.hook("ask", "SessionStart", source="startup") == ""
        machine.hook("status", "Status", model={"id": "m"}, workspace={"project_dir": str(machine.project)})
    assert machine.waiting() == 3
    assert len(machine.errors()) <= 1
    line.thaw()
    machine.commands()
    assert (machine.waiting(), machine.unread()) == (0, [])


def test_drain_is_given_up_when_the_server_falls_silent(
    machine: Machine, team: Team, line: FailingProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At any point; nothing is set aside, and everything is recorded later."""
    monkeypatch.setattr(server_outage, "BACKGROUND_PATIENCE", 0.5)
    machine.url = team.url(line)
    machine.connect()
    with machine.keeper() as keeper:
        keeper.start("Add OAuth")
    for number in range(3):
        machine.report_command(number)
    for answers in (1, 3, 9):
        line.freeze_when(_AfterAnswers(answers))
        hook_process.drain_spool(str(machine.home), store=machine.url)
        assert line.triggered.is_set()
        assert server_outage.is_away(str(machine.home), machine.url)
        line.thaw()
        _forget_outage(machine)
    hook_process.drain_spool(str(machine.home), store=machine.url)
    assert machine.commands() == _commands(0, 1, 2)
    assert (machine.waiting(), machine.unread()) == (0, [])


@pytest.mark.parametrize("number", [0, 2, 6])
def test_drain_continues_after_a_kill(machine: Machine, team: Team, line: FailingProxy, number: int) -> None:
    """Whether it was committed or not: each payload is recorded once."""
    with machine.keeper() as keeper:
        keeper.start("Add OAuth")
    machine.url = team.url(line)
    machine.connect()
    for item in range(PAYLOADS):
        machine.report_command(item)
    line.freeze_when(_WhileWriting(number), after=False)
    with machine.drain() as draining:
        assert line.triggered.wait(TIMEOUT)
        draining.kill()
    assert machine.waiting() == PAYLOADS
    line.cut()
    line.thaw()
    assert machine.commands() == _commands()
    assert (machine.waiting(), machine.unread()) == (0, [])


@pytest.mark.parametrize("after", [True, False])
def test_drain_continues_after_a_lost_connection(
    machine: Machine, team: Team, line: FailingProxy, after: bool
) -> None:
    """The result is looked up; what was not recorded waits for the next drain."""
    with machine.keeper() as keeper:
        keeper.start("Add OAuth")
    machine.url = team.url(line)
    machine.connect()
    expected = []
    for number in (0, 1, 2, 3, 5, 8, 12, 17, 23, 30, 38, 47, 57):
        machine.report_command(number)
        expected.append(number)
        line.cut_when(_WhileWriting(number), after=after)
        hook_process.drain_spool(str(machine.home), store=machine.url)
        _forget_outage(machine)
        happened = line.triggered.wait(0.2)
        line.clear_trigger()
        hook_process.drain_spool(str(machine.home), store=machine.url)
        if not happened:
            break
    assert 1 < number < 57
    assert machine.commands() == _commands(*expected)
    assert (machine.waiting(), machine.unread()) == (0, [])


def test_at_most_two_drains_wait_for_a_silent_server(machine: Machine, team: Team, line: FailingProxy) -> None:
    """One tries and one waits; the others see that and exit."""
    machine.url = team.url(line)
    machine.connect()
    machine.report_command(0)
    line.freeze()
    processes = [machine.drain() for _ in range(8)]
    try:
        _wait_until(lambda: sum(process.poll() is None for process in processes) <= 2)
        line.thaw()
        assert [process.wait(TIMEOUT) for process in processes] == [0] * 8
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert machine.commands() == _commands(0)


def test_concurrent_drains_of_two_machines_record_each_command_once(team: Team, tmp_path: Path) -> None:
    """Including a conversation that both machines send."""
    machines = [Machine(tmp_path, team.url(), name) for name in ("desk", "laptop")]
    for machine in machines:
        machine.connect()
        machine.hook(
            "tell", "UserPromptSubmit", f"talk-{machine.name}", prompt=f"At the {machine.name}", prompt_id="p"
        )
        for number in range(5):
            machine.report_command(number + 10 * machines.index(machine), f"talk-{machine.name}")
    barrier = threading.Barrier(2)

    def drain(machine: Machine) -> None:
        barrier.wait()
        hook_process.drain_spool(str(machine.home), store=machine.url)

    threads = [threading.Thread(target=drain, args=(machine,)) for machine in machines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [machine.waiting() for machine in machines] == [0, 0]
    assert machines[0].commands() == machines[1].commands() == _commands(0, 1, 2, 3, 4, 10, 11, 12, 13, 14)
    machines[1].report_command(0, "talk-desk")  # the same conversation, sent from the other machine
    assert machines[0].commands() == machines[1].commands() == _commands(0, 1, 2, 3, 4, 10, 11, 12, 13, 14)
    with machines[0].keeper() as here, machines[1].keeper() as there:
        assert here.session().document().goal == "At the desk"
        assert there.session().document().goal == "At the laptop"


def test_payloads_wait_while_their_member_is_dismissed(own: Server, machine: Machine, team: Team) -> None:
    """Nothing is set aside until the member is admitted again."""
    with machine.keeper() as keeper:
        keeper.start("Add OAuth")
    admin = PostgresAddress(f"{own.url(team.name)}&vault={team.vault}")
    machine.report_command(0)
    with postgres_admin.connected(admin, "dismiss") as own_line:
        vault = postgres_admin.make_vault(own_line, team.vault)
        postgres_admin.dismiss_from_vault(own_line, vault, team.person)
    with machine.keeper() as keeper, pytest.raises(Refused):
        keeper.session()
    assert (machine.waiting(), machine.unread()) == (1, [])
    with postgres_admin.connected(admin, "admit") as own_line:
        postgres_admin.admit_to_vault(own_line, vault, team.person)
    assert machine.commands() == _commands(0)


def test_hook_without_an_answer_never_opens_the_store(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The payload is handed over although the address does not exist."""
    machine.url = "postgresql://ada@does-not-exist.invalid/team"
    (machine.home / "hooks" / "store").write_text(machine.url)
    monkeypatch.setattr(psycopg, "connect", None)
    for number in range(2):
        machine.report_command(number)
    assert len(spool.list_entries(str(machine.home))) == 2
    assert machine.errors() == []


# ── shared sessions ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("writes", [False, True])
def test_conversation_linked_by_another_member_starts_an_own_session(
    postgres: Server, database: str, tmp_path: Path, writes: bool
) -> None:
    """A member can name any conversation in a session they share: nothing is recorded there, refused or set aside."""
    team, other = Team(postgres, database), Team(postgres, database)
    admin = PostgresAddress(f"{postgres.url(team.name)}&vault={team.vault}")
    with postgres_admin.connected(admin, "admit") as own:
        postgres_admin.admit_to_vault(own, postgres_admin.make_vault(own, team.vault), other.person)
    ada = Machine(tmp_path, team.url(), "ada")
    ben = Machine(tmp_path, other.url().replace(other.vault, team.vault), "ben")
    for machine in (ada, ben):
        machine.connect()
    ada.hook("tell", "UserPromptSubmit", prompt="Build the shop", prompt_id="p1")
    ada.report_command(0)
    with ada.keeper() as keeper:
        session = keeper.session().id
        store = keeper.store()
        assert isinstance(store, PostgresStore)
        store.team.share(session, other.person, writes)
    with ben.keeper() as keeper:
        assert keeper.history(all_projects=True)[0].id == session
    for number in (1, 2):
        ben.report_command(number)  # a conversation of the same id
    assert ben.commands() == ["make 0", "make 1", "make 2"]
    assert (ben.waiting(), ben.unread(), ben.errors()) == (0, [], [])
    with ben.keeper() as keeper:
        goals = {row.id: row.goal for row in keeper.history(limit=None, all_projects=True)}
        assert len(set(goals) - {session}) == 1
    assert ada.commands() == ["make 0"]


def test_new_conversation_of_the_owner_does_not_join_a_session_that_a_member_resumed(
    postgres: Server, database: str, tmp_path: Path
) -> None:
    """Nor does the owner's command act on a branch that the member set; the owner's own resume counts."""
    team, other = Team(postgres, database), Team(postgres, database)
    admin = PostgresAddress(f"{postgres.url(team.name)}&vault={team.vault}")
    with postgres_admin.connected(admin, "admit") as own:
        postgres_admin.admit_to_vault(own, postgres_admin.make_vault(own, team.vault), other.person)
    ada = Machine(tmp_path, team.url(), "ada")
    ben = Machine(tmp_path, other.url().replace(other.vault, team.vault), "ben")
    ada.connect()
    ada.hook("tell", "UserPromptSubmit", prompt="Build the shop", prompt_id="p1")
    with ada.keeper() as keeper:
        session = keeper.session().id
        store = keeper.store()
        assert isinstance(store, PostgresStore)
        store.team.share(session, other.person, True)
    with ben.keeper() as keeper:
        keeper.session(session).resume(force=True)
        keeper.recorder.record(session, lambda _: [SessionEdited(branch="precious")])
    ada.hook("tell", "UserPromptSubmit", "talk-2", prompt="Private", prompt_id="p2")
    with ada.keeper() as keeper:
        goals = {row.goal: row.id for row in keeper.history(limit=None)}
        assert set(goals) == {"Build the shop", "Private"}
        with pytest.raises(Refused, match="not by one of your devices"):
            keeper.session(session).stop(discard=True)
        keeper.session(goals["Private"]).complete()
        keeper.session(session).resume()
    ada.hook("tell", "UserPromptSubmit", "talk-3", prompt="Joins", prompt_id="p3")
    with ada.keeper() as keeper:
        assert {native.id for native in keeper.session(session).document().native} == {"talk-1", "talk-3"}


# ── files and commits ────────────────────────────────────────────────────────────────────────────────────


def test_file_and_commit_of_a_command_are_recorded_on_a_server(
    postgres: Server, database: str, tmp_path: Path
) -> None:
    ada = Machine(tmp_path, Team(postgres, database).url(), "ada")
    ada.connect()
    git = ["git", "-C", str(ada.project), "-c", "user.name=A", "-c", "user.email=a@b"]

    def run(*words: str) -> None:
        subprocess.run([*git, *words], check=True, capture_output=True, timeout=TIMEOUT)
        time.sleep(0.03)

    run("init", "-q")
    (ada.project / "cart.py").write_text("total = 1\n")
    run("add", ".")
    run("commit", "-qm", "Begin")
    ada.hook("tell", "UserPromptSubmit", prompt="Fix the cart", prompt_id="p1")
    with ada.keeper() as keeper:
        keeper.collect()
        compare_due(keeper)
    (ada.project / "cart.py").write_text("total = 2\n")
    run("commit", "-qam", "Fix the total")
    ada.hook("tell", "PostToolUse", tool_name="Bash", tool_use_id="u", tool_input={"command": "git commit -am Fix"})
    ada.hook("tell", "Stop", last_assistant_message="Done")
    with ada.keeper() as keeper:
        keeper.compare()
        session = keeper.session().document()
        answers = keeper.why("cart.py:1").sessions
    assert [(file.path, file.by) for file in session.files] == [("cart.py", "command")]
    assert [(commit.subject, commit.conversation) for commit in session.commits] == [("Fix the total", "talk-1")]
    assert [(answer.id, answer.certainty) for answer in answers] == [(session.id, "certain")]
    assert (ada.waiting(), ada.errors()) == (0, [])
