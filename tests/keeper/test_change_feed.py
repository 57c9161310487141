"""ChangeFeed: whoever runs for long hears of every change, whoever made it and however, and stops at once."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Keeper
from holdfast.keeper import change_feed
from holdfast.keeper.change_feed import ChangeFeed, Changes
from holdfast.workspace import spool

DEADLINE = 10.0


class Listener:
    """Keeps what it is told, and waits for what a test expects."""

    def __init__(self) -> None:
        self.changes: list[Changes] = []
        self._told = threading.Condition()

    def __call__(self, change: Changes) -> None:
        with self._told:
            self.changes.append(change)
            self._told.notify_all()

    def until(self, fits: Callable[[list[Changes]], bool]) -> list[Changes]:
        with self._told:
            assert self._told.wait_for(lambda: fits(self.changes), timeout=DEADLINE), self.changes
            return list(self.changes)

    def of(self, session: str) -> list[Changes]:
        return self.until(lambda changes: any(session in change.sessions for change in changes))

    def beyond(self) -> list[Changes]:
        return self.until(lambda changes: any(change.beyond for change in changes))


class Ground:
    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.project = root / "project"
        self.project.mkdir()

    def open(self) -> Keeper:
        return Keeper.open(str(self.project), home=str(self.home))

    def mirrored(self, name: str) -> Path:
        """Another project, with a mirror."""
        path = self.project.parent / name
        path.mkdir()
        with Keeper.open(str(path), home=str(self.home)) as keeper:
            keeper.mirrors.switch_on("orchestrator")
        return path


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


@pytest.fixture
def keeper(ground: Ground) -> Iterator[Keeper]:
    with ground.open() as keeper:
        yield keeper


@pytest.fixture(params=[True, False], ids=["told", "looking"])
def installed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With notifications of the system, and without."""
    if not request.param:
        monkeypatch.setitem(sys.modules, "watchfiles._rust_notify", None)


@pytest.mark.usefixtures("installed")
def test_events_are_told_with_their_session_and_place(ground: Ground, keeper: Keeper) -> None:
    """What was there before is not told; what comes is, up to the place that was told with it."""
    first = keeper.start("Build the shop")
    second = Keeper.start(keeper, "Paint it", replace=True)
    listener = Listener()
    with ChangeFeed(ground.open, listener) as following:
        assert following.place == keeper.store().latest_place()
        second.note("blue")
        told = listener.of(second.id)
        assert {session for change in told for session in change.sessions} == {second.id}
        assert told[-1].place == following.place == keeper.store().latest_place()
        assert first.id not in told[-1].sessions


@pytest.mark.usefixtures("installed")
def test_a_store_that_is_not_there_yet_is_followed_once_it_is(ground: Ground) -> None:
    """ChangeFeed makes nothing by itself; the first session of a new home is told."""
    listener = Listener()
    with ChangeFeed(ground.open, listener) as following:
        assert following.place == 0
        time.sleep(0.1)
        assert not ground.home.exists()
        with ground.open() as keeper:
            session = keeper.start("Build the shop")
        listener.of(session.id)


def test_several_follow_in_one_process_and_hear_their_own_process_too(ground: Ground, keeper: Keeper) -> None:
    """What one of them does through another connection, while it is told something, is told to all."""
    session = keeper.start("Build the shop")
    answered = threading.Event()

    def answer(change: Changes) -> None:
        one(change)
        if not answered.is_set():
            answered.set()
            with ground.open() as own:
                own.session(session.id).note("heard")

    one, other = Listener(), Listener()
    with ChangeFeed(ground.open, answer), ChangeFeed(ground.open, other):
        session.note("hello")
        for listener in (one, other):
            listener.until(lambda changes: bool(changes) and changes[-1].place == keeper.store().latest_place())
    assert [note.text for note in session.document().notes] == ["hello", "heard"]


def test_changes_beyond_events_are_told_as_such(ground: Ground, keeper: Keeper) -> None:
    """A pointer that moves, something kept under a name, a list of remotes: no session's events, yet a change."""
    session = keeper.start("Build the shop")
    steps: list[Callable[[], object]] = [
        lambda: _transact(keeper, "current", None),
        lambda: _transact(keeper, "current", session.id),
        lambda: _transact(keeper, "vault/1/cursor", b"1"),
        lambda: _transact(keeper, "vault/1/cursor", b"2"),
        lambda: _transact(keeper, "vault/1/cursor", None),
        lambda: (ground.home / "remotes.json").write_text("{}"),
    ]
    for step in steps:
        listener = Listener()
        with ChangeFeed(ground.open, listener):
            step()
            assert [change.sessions for change in listener.beyond()] == [frozenset()]


def _transact(keeper: Keeper, name: str, value: str | bytes | None) -> None:
    with keeper.store().transaction() as transaction:
        if name == "current":
            assert not isinstance(value, bytes)
            transaction.set_current(keeper.place.root, value)
        else:
            assert not isinstance(value, str)
            transaction.remember(name, value)


def test_a_pointer_that_moves_together_with_events_is_told_with_them(ground: Ground, keeper: Keeper) -> None:
    """Starting a session does both at once: neither hides the other."""
    keeper.start("Build the shop")
    listener = Listener()
    with ChangeFeed(ground.open, listener):
        session = keeper.start("Paint it", replace=True)
        told = listener.of(session.id)
    assert any(change.beyond for change in told)


@pytest.mark.usefixtures("installed")
def test_payloads_of_hooks_are_taken_in_and_told(ground: Ground, keeper: Keeper) -> None:
    """The spool is not there at first; what hooks leave becomes events though nobody runs a command."""
    keeper.start("Build the shop")
    listener = Listener()
    with ChangeFeed(ground.open, listener):
        said = {"session_id": "talk-1", "cwd": str(ground.project), "hook_event_name": "UserPromptSubmit"}
        payload = json.dumps({**said, "prompt": "Add OAuth"}).encode()
        spool.add_payload(str(ground.home), "claude", "user", 1, payload)
        listener.until(lambda changes: any(change.sessions for change in changes))
        assert not spool.has_entries(str(ground.home))


def test_mirrored_files_of_every_work_tree_are_taken_in(ground: Ground) -> None:
    """Of projects that the follower is not in, of a mirror switched on later, and of a folder that was made again."""
    early = ground.mirrored("early")
    listener = Listener()
    with ChangeFeed(ground.open, listener):
        for place in (early, ground.mirrored("late")):
            with Keeper.open(str(place), home=str(ground.home)) as keeper:
                session = keeper.start("Build it", scope=place.name)
            listener.of(session.id)
            file = place / ".claude" / "orchestrator-session.json"
            if place == early:  # another directory under the same name
                os.rename(place / ".claude", place / "aside")
                os.mkdir(place / ".claude")
                os.rename(place / "aside" / file.name, file)
            file.write_text(file.read_text().replace("Build it", "Sell it"))
            _goal_becomes(ground, session.id, "Sell it")


def test_what_happens_between_absorbing_and_telling_reaches_the_mirrored_files(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = ground.mirrored("early")
    with Keeper.open(str(place), home=str(ground.home)) as keeper:
        session = keeper.start("Build it").id
    file = place / ".claude" / "orchestrator-session.json"
    absorb, goals = change_feed._collect, ["Sell it"]

    def then_somebody_edits(*of: Any) -> None:
        absorb(*of)
        if goals:
            with ground.open() as other:
                other.session(session).edit(goal=goals.pop())

    monkeypatch.setattr(change_feed, "_collect", then_somebody_edits)
    with ChangeFeed(ground.open, Listener()):
        _until(lambda: "Sell it" in file.read_text())


def _goal_becomes(ground: Ground, session: str, goal: str) -> None:
    """Looked up without the keeper, which would take the edit in by itself."""
    store = sqlite3.connect(f"file:{ground.home / 'store.db'}?mode=ro", uri=True)
    try:
        _until(lambda: store.execute("SELECT goal FROM sessions WHERE id = ?", (session,)).fetchone() == (goal,))
    finally:
        store.close()


def _until(true: Callable[[], bool]) -> None:
    until = time.monotonic() + DEADLINE
    while not true():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_damaged_store_is_told_of_once_it_is_repaired(ground: Ground, keeper: Keeper) -> None:
    """While it cannot be read nothing is told, and nothing is lost: after the repair everything is told."""
    session = keeper.start("Build the shop")
    keeper.close()
    sound = (ground.home / "store.db").read_bytes()
    (ground.home / "store.db").write_bytes(b"")
    listener = Listener()
    with ChangeFeed(ground.open, listener) as following:
        assert following.place == 0
        time.sleep(0.1)
        assert listener.changes == []
        (ground.home / "sound").write_bytes(sound)
        os.replace(ground.home / "sound", ground.home / "store.db")
        listener.of(session.id)
        with ground.open() as again:
            again.session(session.id).note("sound again")
            latest = again.store().latest_place()
        listener.until(lambda changes: changes[-1].place == latest)


def test_a_store_that_is_replaced_is_told_whole(ground: Ground, keeper: Keeper) -> None:
    """A repair puts another file in its place: all of it may be different now, and what comes after is told too."""
    session = keeper.start("Build the shop")
    listener = Listener()
    with ChangeFeed(ground.open, listener):
        time.sleep(0.1)
        keeper.close()
        copy = ground.home / "copy"
        with sqlite3.connect(ground.home / "store.db") as source, sqlite3.connect(copy) as target:
            source.backup(target)
        os.replace(copy, ground.home / "store.db")
        told = listener.of(session.id)
        assert any(change.beyond for change in told)
        with ground.open() as again:
            again.session(session.id).note("after that")
            latest = again.store().latest_place()
        listener.until(lambda changes: changes[-1].place == latest)


def test_it_stops_at_once(ground: Ground, keeper: Keeper) -> None:
    """Whether it waits or was about to look: its thread is gone when the block is left."""
    keeper.start("Build the shop")
    for pause in (0.0, 0.2):
        with ChangeFeed(ground.open, Listener()) as following:
            time.sleep(pause)
        assert not following._thread.is_alive()


def test_nothing_is_missed_when_other_processes_write_all_the_time(ground: Ground, keeper: Keeper) -> None:
    """Every place is covered exactly once, in order, though several changes may be told as one."""
    session = keeper.start("Build the shop")
    listener = Listener()
    writing = (
        "import sys\nfrom holdfast import Keeper\n"
        "with Keeper.open(sys.argv[1], home=sys.argv[2]) as keeper:\n"
        "    for number in range(40):\n"
        "        keeper.session(sys.argv[3]).note(str(number))\n"
    )
    with ChangeFeed(ground.open, listener):
        command = [sys.executable, "-c", writing, str(ground.project), str(ground.home), session.id]
        writers = [subprocess.Popen(command) for _ in range(2)]
        assert [writer.wait(60) for writer in writers] == [0, 0]
        latest = keeper.store().latest_place()
        told = listener.until(lambda changes: bool(changes) and changes[-1].place == latest)
    places = [change.place for change in told]
    assert places == sorted(set(places))
    assert len(session.document().notes) == 80
