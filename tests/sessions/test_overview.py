"""The overview: every unfinished session, and what in it needs the person."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import Keeper
from holdfast.core.events import ConflictDetected, WaitingStarted
from holdfast.core.times import MINUTE
from holdfast.keeper.session import SessionHandle
from holdfast.machine.wall import Wall
from holdfast.sessions import overview
from holdfast.store.sqlite import SqliteStore
from holdfast.workspace.home import default_home


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("shop", "it's a desk"):
        (tmp_path / name).mkdir()
    return tmp_path.resolve()


@pytest.fixture
def keeper(root: Path) -> Iterator[Keeper]:
    with Keeper.open(str(root / "shop"), home=str(root / "home")) as keeper:
        yield keeper


def attention(session: SessionHandle) -> tuple[str, ...]:
    return overview.session_card(session.keeper, session.id).attention


def started(keeper: Keeper, name: str) -> SessionHandle:
    """Starts a session in a project of its own, since starting a second one in a project ends the first."""
    place = Path(keeper.place.root).parent / name
    place.mkdir(exist_ok=True)
    made = keeper.at(str(place)).start(name)
    return keeper.session(made.id)


def test_overview_is_empty_without_a_store(keeper: Keeper, root: Path) -> None:
    """And none is created."""
    assert overview.current_cards(keeper) == []
    assert not (root / "home").exists()


def test_overview_shows_unfinished_sessions_of_all_projects(keeper: Keeper, root: Path) -> None:
    """Not finished, archived or deleted ones; the latest event first."""
    names = ["one", "done", "given up", "put away", "deleted", "last"]
    made = {name: started(keeper, name) for name in names}
    made["done"].complete()
    made["given up"].abort()
    keeper.archive(made["put away"].id)
    keeper.delete(made["deleted"].id, force=True)
    made["one"].note("again")
    assert [card.session.goal for card in overview.current_cards(keeper)] == ["one", "last"]
    with Keeper.open(str(root), home=str(root / "home")) as outside:
        assert [card.session.goal for card in overview.current_cards(outside)] == ["one", "last"]


def test_overview_begins_with_sessions_that_need_attention(keeper: Keeper) -> None:
    """Before more recent ones; within a session the most urgent item first."""
    waits = keeper.start("Waits")
    keeper.recorder.record(waits.id, lambda _: [ConflictDetected(field="goal", value="Rest", stood="Waits")])
    keeper.recorder.record(waits.id, lambda _: [WaitingStarted(id="1", for_="permission", text="Run \x1b[1mrm\n-r?")])
    waits.measure_context(190_000, window=200_000)
    waits.agent("a-1", type="coder", pid=None).fail("it\nbroke", category="permanent")
    started(keeper, "Does not")
    cards = overview.current_cards(keeper)
    assert [card.session.goal for card in cards] == ["Waits", "Does not"]
    assert cards[0].attention == (
        "Waits for permission: Run \\x1b[1mrm -r?",
        "Devices disagree on goal",
        "Agent a-1 failed: it broke",
        "The context is 95% full: compress it",
    )
    assert cards[1].attention == ()


def test_overview_reports_agents_whose_process_ended(keeper: Keeper) -> None:
    """Only as of now, since the past cannot be checked."""
    session = keeper.start("Build the shop")
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    session.agent("a-1", type="coder", pid=child.pid)
    assert overview.session_card(keeper, session.id).lost == frozenset()
    moment = keeper.now()
    child.communicate(b"\n")
    card = overview.session_card(keeper, session.id)
    assert (card.lost, card.attention) == (frozenset({"a-1"}), ("Agent a-1 ended without finishing",))
    assert overview.session_card(keeper, session.id, at=moment).lost == frozenset()


def test_overview_counts_items_when_there_are_many_of_a_kind(keeper: Keeper) -> None:
    """Three by name, the rest as a number."""
    session = keeper.start("Build the shop")
    for number in range(5):
        session.agent(f"a-{number}", type="coder", pid=None).fail("no", category="permanent")
    assert attention(session)[-2:] == ("Agent a-2 failed: no", "2 more agents failed")


def test_overview_shows_reminders_while_work_goes_on(keeper: Keeper) -> None:
    """The strongest one, neither during a pause nor after a break."""
    start = keeper.now() - 300 * MINUTE
    session = keeper.start("Build the shop", at=start)
    shown = {}
    for minute in range(4, 89, 4):
        session.note("still at it", at=start + minute * MINUTE)
        shown[minute] = overview.session_card(keeper, session.id, at=start + minute * MINUTE).attention
    assert [shown[minute] for minute in (36, 44, 56, 64)] == [
        (), ("Time for a break",), ("Time for a break",), ("A break is due",),
    ]  # fmt: skip
    session.pause(at=start + 89 * MINUTE)
    assert overview.session_card(keeper, session.id, at=start + 90 * MINUTE).attention == ()
    session.resume(at=start + 91 * MINUTE)
    session.note("on and on", at=start + 93 * MINUTE)
    reached = overview.session_card(keeper, session.id, at=start + 93 * MINUTE).attention
    assert reached == ("The working-time limit was reached",)
    session.note("after a break", at=start + 130 * MINUTE)
    assert overview.session_card(keeper, session.id, at=start + 132 * MINUTE).attention == ()


def test_overview_shows_the_error_that_stopped_a_session(keeper: Keeper) -> None:
    """Until the session continues."""
    session = keeper.start("Build the shop")
    session.fail("the disk is full")
    assert attention(session) == ("Stopped by an error: the disk is full",)
    session.resume()
    assert attention(session) == ()


def test_resume_command_can_be_pasted_into_a_shell(keeper: Keeper, root: Path) -> None:
    """Whatever the directory is called; without a directory it is the command alone."""
    with Keeper.open(str(root / "it's a desk"), home=str(root / "home")) as other:
        session = other.start("Tidy up")
    card = overview.session_card(keeper, session.id)
    place = str(root / "it's a desk")
    assert (card.here, card.places) == (True, (place,))
    home = f"HOLDFAST_HOME={root / 'home'}"
    assert shlex.split(card.resume) == ["cd", place, "&&", home, "holdfast", "resume", session.id[:8]]
    shutil.rmtree(place)
    card = overview.session_card(keeper, session.id)
    assert (card.here, card.resume) == (False, f"{home} holdfast resume {session.id[:8]}")


def test_resume_command_names_a_home_or_store_other_than_the_default(root: Path) -> None:
    for home, store, variables in (
        (default_home(), None, []),
        (str(root / "my home"), None, [f"HOLDFAST_HOME={root / 'my home'}"]),
        (default_home(), f"sqlite://{root}/o'ther.db", [f"HOLDFAST_STORE=sqlite:///{root}/o'ther.db"]),
        (str(root / "odd\nhome"), None, []),
    ):
        with Keeper.open(str(root / "shop"), home=home, store=store) as keeper:
            session = keeper.start("Build the shop", replace=True)
            words = shlex.split(overview.session_card(keeper, session.id).resume)
        assert words == ["cd", str(root / "shop"), "&&", *variables, "holdfast", "resume", session.id[:8]]


def test_overview_loads_only_unfinished_sessions(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them once."""
    for number in range(10):
        keeper.start(str(number)).complete()
    due = {started(keeper, str(number)).id for number in range(3)}
    loaded: list[str] = []
    state = SqliteStore.state

    def counting(self: SqliteStore, session: str) -> object:
        loaded.append(session)
        return state(self, session)

    monkeypatch.setattr(SqliteStore, "state", counting)
    assert {card.session.id for card in overview.current_cards(keeper)} == due
    assert sorted(loaded) == sorted(due)


def test_overview_reuses_cards_when_nothing_changed(tmp_path: Path) -> None:
    """With a memo, only changed sessions are loaded, and the overview is the same."""
    clock = [1_800_000_000_000_000_000]
    with Keeper.open(str(tmp_path), home=str(tmp_path / "home"), wall=Wall(read=lambda: clock[0])) as keeper:
        one = keeper.start("One").id
        two = keeper.start("Two", replace=True).id
        keeper.unarchive(one)
        memo = overview.SessionCards()
        first = {card.session.id: card for card in overview.current_cards(keeper, memo=memo)}
        assert set(first) == {one, two}
        keeper.session(two).note("Something happened")
        again = {card.session.id: card for card in overview.current_cards(keeper, memo=memo)}
        assert again[two] is not first[two]
        assert [note.text for note in again[two].session.notes] == ["Something happened"]
        assert again[one] is first[one]
        clock[0] += 60 * 10**9
        later = {card.session.id: card for card in overview.current_cards(keeper, memo=memo)}
        assert later[one] is not first[one]  # time passes and processes end without an event
