"""ChangeFeed reports every change to a long-running process, whoever made it, and stops at once."""

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
    """Collects the reported changes, and waits for those that a test expects."""

    def __init__(self) -> None:
        self.changes: list[Changes] = []
        self._condition = threading.Condition()

    def __call__(self, change: Changes) -> None:
        with self._condition:
            self.changes.append(change)
            self._condition.notify_all()

    def until(self, fits: Callable[[list[Changes]], bool]) -> list[Changes]:
        with self._condition:
            assert self._condition.wait_for(lambda: fits(self.changes), timeout=DEADLINE), self.changes
            return list(self.changes)

    def of(self, session: str) -> list[Changes]:
        return self.until(lambda changes: any(session in change.sessions for change in changes))

    def beyond(self) -> list[Changes]:
        return self.until(lambda changes: any(change.other_changes for change in changes))


class Environment:
    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.project = root / "project"
        self.project.mkdir()

    def open(self) -> Keeper:
        return Keeper.open(str(self.project), home=str(self.home))

    def mirrored(self, name: str) -> Path:
        """Creates another project with a mirror."""
        path = self.project.parent / name
        path.mkdir()
        with Keeper.open(str(path), home=str(self.home)) as keeper:
            keeper.mirrors.switch_on("orchestrator")
        return path


@pytest.fixture
def env(tmp_path: Path) -> Environment:
    return Environment(tmp_path)


@pytest.fixture
def keeper(env: Environment) -> Iterator[Keeper]:
    with env.open() as keeper:
        yield keeper


@pytest.fixture(params=[True, False], ids=["told", "looking"])
def installed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With and without notifications of the operating system."""
    if not request.param:
        monkeypatch.setitem(sys.modules, "watchfiles._rust_notify", None)


@pytest.mark.usefixtures("installed")
def test_change_feed_reports_session_and_place_of_events(env: Environment, keeper: Keeper) -> None:
    """Only new events, up to the reported place."""
    first = keeper.start("Build the shop")
    second = Keeper.start(keeper, "Paint it", replace=True)
    listener = Listener()
    with ChangeFeed(env.open, listener) as following:
        assert following.place == keeper.store().latest_place()
        second.note("blue")
        changes = listener.of(second.id)
        assert {session for change in changes for session in change.sessions} == {second.id}
        assert changes[-1].place == following.place == keeper.store().latest_place()
        assert first.id not in changes[-1].sessions


@pytest.mark.usefixtures("installed")
def test_change_feed_follows_a_store_that_is_created_later(env: Environment) -> None:
    """It does not create one, and reports the first session of a new home."""
    listener = Listener()
    with ChangeFeed(env.open, listener) as following:
        assert following.place == 0
        time.sleep(0.1)
        assert not env.home.exists()
        with env.open() as keeper:
            session = keeper.start("Build the shop")
        listener.of(session.id)


def test_several_change_feeds_in_one_process_report_its_own_changes(env: Environment, keeper: Keeper) -> None:
    """Also a change that one of them makes through another connection while it handles a report."""
    session = keeper.start("Build the shop")
    answered = threading.Event()

    def answer(change: Changes) -> None:
        one(change)
        if not answered.is_set():
            answered.set()
            with env.open() as own:
                own.session(session.id).note("heard")

    one, other = Listener(), Listener()
    with ChangeFeed(env.open, answer), ChangeFeed(env.open, other):
        session.note("hello")
        for listener in (one, other):
            listener.until(lambda changes: bool(changes) and changes[-1].place == keeper.store().latest_place())
    assert [note.text for note in session.document().notes] == ["hello", "heard"]


def test_change_feed_reports_changes_without_events(env: Environment, keeper: Keeper) -> None:
    """A current session, a local value, the list of remotes."""
    session = keeper.start("Build the shop")
    steps: list[Callable[[], object]] = [
        lambda: _transact(keeper, "current", None),
        lambda: _transact(keeper, "current", session.id),
        lambda: _transact(keeper, "vault/1/cursor", b"1"),
        lambda: _transact(keeper, "vault/1/cursor", b"2"),
        lambda: _transact(keeper, "vault/1/cursor", None),
        lambda: (env.home / "remotes.json").write_text("{}"),
    ]
    for step in steps:
        listener = Listener()
        with ChangeFeed(env.open, listener):
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


def test_change_feed_reports_a_new_current_session_together_with_events(env: Environment, keeper: Keeper) -> None:
    """Starting a session changes both, and neither hides the other."""
    keeper.start("Build the shop")
    listener = Listener()
    with ChangeFeed(env.open, listener):
        session = keeper.start("Paint it", replace=True)
        changes = listener.of(session.id)
    assert any(change.other_changes for change in changes)


@pytest.mark.usefixtures("installed")
def test_change_feed_drains_payloads_of_hooks(env: Environment, keeper: Keeper) -> None:
    """The spool is created later; payloads become events without any command."""
    keeper.start("Build the shop")
    listener = Listener()
    with ChangeFeed(env.open, listener):
        fields = {"session_id": "talk-1", "cwd": str(env.project), "hook_event_name": "UserPromptSubmit"}
        payload = json.dumps({**fields, "prompt": "Add OAuth"}).encode()
        spool.add_payload(str(env.home), "claude", "user", 1, payload)
        listener.until(lambda changes: any(change.sessions for change in changes))
        assert not spool.has_entries(str(env.home))


def test_change_feed_reads_back_mirrored_files_of_every_work_tree(env: Environment) -> None:
    """Of other projects, of a mirror that is switched on later, and of a recreated directory."""
    early = env.mirrored("early")
    listener = Listener()
    with ChangeFeed(env.open, listener):
        for place in (early, env.mirrored("late")):
            with Keeper.open(str(place), home=str(env.home)) as keeper:
                session = keeper.start("Build it", scope=place.name)
            listener.of(session.id)
            file = place / ".claude" / "orchestrator-session.json"
            if place == early:  # another directory under the same name
                os.rename(place / ".claude", place / "aside")
                os.mkdir(place / ".claude")
                os.rename(place / "aside" / file.name, file)
            file.write_text(file.read_text().replace("Build it", "Sell it"))
            _goal_becomes(env, session.id, "Sell it")


def test_changes_between_collecting_and_reporting_reach_the_mirrored_files(
    env: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = env.mirrored("early")
    with Keeper.open(str(place), home=str(env.home)) as keeper:
        session = keeper.start("Build it").id
    file = place / ".claude" / "orchestrator-session.json"
    absorb, goals = change_feed._collect, ["Sell it"]

    def then_somebody_edits(*of: Any) -> None:
        absorb(*of)
        if goals:
            with env.open() as other:
                other.session(session).edit(goal=goals.pop())

    monkeypatch.setattr(change_feed, "_collect", then_somebody_edits)
    with ChangeFeed(env.open, Listener()):
        _until(lambda: "Sell it" in file.read_text())


def _goal_becomes(env: Environment, session: str, goal: str) -> None:
    """Reads the store without a keeper, which would read the edit back itself."""
    store = sqlite3.connect(f"file:{env.home / 'store.db'}?mode=ro", uri=True)
    try:
        _until(lambda: store.execute("SELECT goal FROM sessions WHERE id = ?", (session,)).fetchone() == (goal,))
    finally:
        store.close()


def _until(true: Callable[[], bool]) -> None:
    until = time.monotonic() + DEADLINE
    while not true():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_change_feed_reports_a_damaged_store_once_it_is_repaired(env: Environment, keeper: Keeper) -> None:
    """Nothing is reported while it cannot be read, and everything after the repair."""
    session = keeper.start("Build the shop")
    keeper.close()
    sound = (env.home / "store.db").read_bytes()
    (env.home / "store.db").write_bytes(b"")
    listener = Listener()
    with ChangeFeed(env.open, listener) as following:
        assert following.place == 0
        time.sleep(0.1)
        assert listener.changes == []
        (env.home / "sound").write_bytes(sound)
        os.replace(env.home / "sound", env.home / "store.db")
        listener.of(session.id)
        with env.open() as again:
            again.session(session.id).note("sound again")
            latest = again.store().latest_place()
        listener.until(lambda changes: changes[-1].place == latest)


def test_change_feed_reports_every_session_of_a_replaced_store(env: Environment, keeper: Keeper) -> None:
    """A repair replaces the file, so that any session may differ; later changes are reported too."""
    session = keeper.start("Build the shop")
    listener = Listener()
    with ChangeFeed(env.open, listener):
        time.sleep(0.1)
        keeper.close()
        copy = env.home / "copy"
        with sqlite3.connect(env.home / "store.db") as source, sqlite3.connect(copy) as target:
            source.backup(target)
        os.replace(copy, env.home / "store.db")
        changes = listener.of(session.id)
        assert any(change.other_changes for change in changes)
        with env.open() as again:
            again.session(session.id).note("after that")
            latest = again.store().latest_place()
        listener.until(lambda changes: changes[-1].place == latest)


def test_change_feed_stops_at_once(env: Environment, keeper: Keeper) -> None:
    """Its thread has ended when the block is left, whether it was waiting or about to look."""
    keeper.start("Build the shop")
    for pause in (0.0, 0.2):
        with ChangeFeed(env.open, Listener()) as following:
            time.sleep(pause)
        assert not following._thread.is_alive()


def test_change_feed_misses_nothing_while_other_processes_write(env: Environment, keeper: Keeper) -> None:
    """Every place is covered exactly once and in order; one report may cover several changes."""
    session = keeper.start("Build the shop")
    listener = Listener()
    writing = (
        "import sys\nfrom holdfast import Keeper\n"
        "with Keeper.open(sys.argv[1], home=sys.argv[2]) as keeper:\n"
        "    for number in range(40):\n"
        "        keeper.session(sys.argv[3]).note(str(number))\n"
    )
    with ChangeFeed(env.open, listener):
        command = [sys.executable, "-c", writing, str(env.project), str(env.home), session.id]
        writers = [subprocess.Popen(command) for _ in range(2)]
        assert [writer.wait(60) for writer in writers] == [0, 0]
        latest = keeper.store().latest_place()
        changes = listener.until(lambda changes: bool(changes) and changes[-1].place == latest)
    places = [change.place for change in changes]
    assert places == sorted(set(places))
    assert len(session.document().notes) == 80
