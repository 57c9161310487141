"""A home with data to damage, the doctor's report on it, and what survives of it."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from holdfast.cli.main import main
from holdfast.core.envelope import Event, make_event
from holdfast.core.events import AliasGiven, DeviceJoined, NoteAdded, ProjectFacts, SessionStarted
from holdfast.core.fold import fold
from holdfast.keeper.keeper import Keeper
from holdfast.machine.wall import Wall
from holdfast.store.interface import Draft
from holdfast.store.sqlite import SqliteStore

AT = 1_900_000_000_000
LATER = "f" * 20
PAGE = 4096


class FilledHome(NamedTuple):
    """A home with known data, and all of its events."""

    home: Path
    project: Path
    main: str
    other: str
    events: dict[str, Event]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> FilledHome:
    """Three sessions of two writers: snapshots, aliases, keys, overflow pages, a tree of several levels."""
    root = tmp_path_factory.mktemp("template")
    home, project = root / "home", root / "project"
    project.mkdir()
    wall = Wall(lambda: AT * 1_000_000)
    with Keeper.open(str(project), home=str(home), actor="anna", device="laptop", wall=wall) as keeper:
        first = keeper.start("Build the shop").id
        keeper.start("Paint the shop", replace=True, continues=first)
        other = keeper.session().id
        store = keeper.store()
        with store.transaction() as transaction:
            for number in range(150):
                note = NoteAdded(text=f"note {number} about blue paint")
                transaction.record(first, Draft(note, AT + number, "anna"))
            transaction.record(first, Draft(NoteAdded(text="long " * 4000), AT + 200, "anna"))
            transaction.record(first, Draft(AliasGiven(format="craft", id="alias-one"), AT + 201, "anna"))
            transaction.record(first, Draft(NoteAdded(text="from a hook"), AT + 202, "anna", "hook:1"))
            for number in range(40):
                transaction.record(other, Draft(NoteAdded(text=f"other {number}"), AT + number, "anna"))
    other_writer = SqliteStore(str(home / "store.db"), writer=lambda: LATER, wall=lambda: AT * 1000)
    with other_writer.transaction() as transaction:
        transaction.record(first, Draft(DeviceJoined(device="desk"), AT + 300, "ben"))
        for number in range(20):
            transaction.record(first, Draft(NoteAdded(text=f"desk {number}"), AT + 301 + number, "ben"))
        third = "33333333-2222-4333-8444-555555555555"
        transaction.record(
            third, Draft(SessionStarted(goal="Third", device="desk", project=project_facts()), AT, "ben")
        )
    with other_writer.transaction() as transaction:
        transaction.record(first, Draft(NoteAdded(text="the last word"), AT + 500, "ben"))
        duplicate = make_event(
            session=first, writer="b" * 20, seq=1, prev=None, clock=AT * 1000 + 10**9, at=AT, actor="ben",
            type="note.added", version=1, data=b'{"text":"from a hook"}', salt=bytes(16), key="hook:1",
        )  # fmt: skip
        assert transaction.receive([duplicate]) == 1
    events = {event.hash: event for session in other_writer.sessions() for event in other_writer.events(session)}
    other_writer.close()
    return FilledHome(home, project, first, other, events)


def project_facts() -> ProjectFacts:
    return ProjectFacts(id="third", name="third", path="/third")


@pytest.fixture
def filled(template: FilledHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FilledHome:
    """A copy of the template for one test."""
    copy = tmp_path / "home"
    shutil.copytree(template.home, copy, copy_function=shutil.copy2)
    monkeypatch.setenv("HOLDFAST_HOME", str(copy))
    monkeypatch.delenv("HOLDFAST_STORE", raising=False)
    return template._replace(home=copy)


class DoctorReport(NamedTuple):
    code: int
    checks: dict[str, dict[str, str]]
    repaired: list[str]

    def wrong(self) -> set[str]:
        """The checks that are not ok; the copied home and events with future times are the test's own doing."""
        return {name for name, check in self.checks.items() if check["status"] != "ok"} - {"writer", "clock"}

    def failed(self) -> set[str]:
        return {name for name, check in self.checks.items() if check["status"] == "failed"}


def doctor(filled: FilledHome, capsys: pytest.CaptureFixture[str], *more: str) -> DoctorReport:
    capsys.readouterr()
    code = main(["doctor", "--json", "--project", str(filled.project), *more])
    document = json.loads(capsys.readouterr().out)
    assert document["holdfast"] == 1
    checks = {check["name"]: check for check in document["checks"]}
    for check in checks.values():
        assert set(check) == {"name", "status", "detail", "fix"}
        assert check["detail"]
        assert "Error:" not in check["detail"], check
    assert code == (6 if any(check["status"] == "failed" for check in checks.values()) else 0)
    return DoctorReport(code, checks, document.get("repaired", []))


def survivors(filled: FilledHome) -> dict[str, Event]:
    """The events that are left, after checking that they are sound and that recording works."""
    store = SqliteStore(str(filled.home / "store.db"), writer=lambda: "e" * 20, wall=lambda: AT * 1000, create=False)
    events_by_hash: dict[str, Event] = {}
    for session in store.sessions():
        events = list(store.events(session))
        assert store.state(session) == fold(events, session)
        events_by_hash.update((event.hash, event) for event in events)
    for key, event in events_by_hash.items():
        assert filled.events.get(key) == event, "a surviving event differs from its original"
    with store.transaction() as transaction:
        assert transaction.record(filled.main, Draft(NoteAdded(text="goes on"), AT + 900, "anna")) is not None
    assert [damage for damage in store.check() if damage.check != "aside"] == []
    store.close()
    return events_by_hash


@pytest.fixture
def killed(filled: FilledHome, tmp_path: Path) -> FilledHome:
    """The home after a kill: the last five transactions are only in the journal."""
    live = SqliteStore(str(filled.home / "store.db"), writer=lambda: "d" * 20, wall=lambda: AT * 1000 + 9)
    events = dict(filled.events)
    for number in range(5):
        with live.transaction() as transaction:
            note = NoteAdded(text=f"unsaved {number}")
            made = transaction.record(filled.main, Draft(note, AT + 600 + number, "caro"))
            assert made is not None
            events[made.hash] = made
    copy = tmp_path / "killed"
    shutil.copytree(filled.home, copy)
    live.close()
    os.environ["HOLDFAST_HOME"] = str(copy)  # the monkeypatch of `filled` restores it
    return filled._replace(home=copy, events=events)
