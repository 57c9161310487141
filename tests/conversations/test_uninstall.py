"""Uninstalling removes all traces from agents' settings, in every project; recorded data stays."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from holdfast.conversations.adapters.index import NAMES
from holdfast.conversations.connect.apply import connect
from holdfast.conversations.connect.disconnect import uninstall
from holdfast.keeper.keeper import Keeper
from holdfast.workspace import spool
from holdfast.workspace.agent_dirs import AgentDirs


class Machine:
    def __init__(self, root: Path) -> None:
        self.root, self.me, self.home = root, root / "me", root / "home"
        self.me.mkdir()
        self.keeper = self.at("first")

    def at(self, project: str) -> Keeper:
        path = self.root / project
        path.mkdir(exist_ok=True)
        return Keeper.open(str(path), home=str(self.home))

    def places(self, project: str = "first") -> AgentDirs:
        return AgentDirs(str(self.me), str(self.root / project), {"PATH": ""}, sys.platform)

    def traces(self) -> list[Path]:
        """Everything outside Holdfast's home."""
        return sorted(path for path in self.root.rglob("*") if self.home not in (path, *path.parents))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_uninstall_removes_all_connections(machine: Machine) -> None:
    """Of the user and two projects, with script, receipts and spool."""
    machine.keeper.start("something to keep")
    second = machine.at("second")
    machine.at("third")
    before = machine.traces()
    connect(machine.keeper, machine.places(), NAMES[2:])
    connect(machine.keeper, machine.places(), ["claude"], "project")
    connect(second, machine.places("second"), ["codex"], "project")
    done = uninstall(machine.keeper, machine.places("third"))
    assert done.problems == []
    assert {connected.agent for connected in done.connections} == set(NAMES)
    assert machine.traces() == before
    left = {path.name for path in machine.home.iterdir()}
    assert "store.db" in left
    assert not {"hooks", "connections", "spool"} & left
    assert [row.goal for row in machine.keeper.history()] == ["something to keep"]
    again = uninstall(machine.keeper, machine.places())
    assert (again.connections, again.removed, again.problems) == ([], [], [])


def test_uninstall_removes_hooks_without_receipts(machine: Machine) -> None:
    """In the user's settings."""
    connect(machine.keeper, machine.places(), NAMES)
    for path in (machine.home / "connections").iterdir():
        path.unlink()
    done = uninstall(machine.keeper, machine.places())
    assert done.problems == []
    assert not any(b"hooks/hook" in path.read_bytes() for path in machine.traces() if path.is_file())


def test_uninstall_continues_when_one_file_fails(machine: Machine) -> None:
    """Broken settings are named, and keep their script."""
    connect(machine.keeper, machine.places(), ["claude", "codex"])
    settings = machine.me / ".claude" / "settings.json"
    whole = settings.read_bytes()
    settings.write_bytes(whole[:-20])
    done = uninstall(machine.keeper, machine.places())
    assert len(done.problems) == 1
    assert "settings.json" in done.problems[0].message
    assert [connected.agent for connected in done.connections] == ["codex"]
    assert (machine.home / "hooks" / "hook").exists()
    settings.write_bytes(whole)
    assert uninstall(machine.keeper, machine.places()).problems == []
    assert machine.traces() == [machine.root / "first", machine.me]


def test_uninstall_drains_the_spool_first(machine: Machine) -> None:
    """Unreadable payloads are left for inspection."""
    connect(machine.keeper, machine.places(), ["claude"])
    path = spool.add_payload(str(machine.home), "claude", "user", 1, b"no JSON at all")
    spool.quarantine(str(machine.home), spool.list_entries(str(machine.home))[0])
    assert not Path(path).exists()
    uninstall(machine.keeper, machine.places())
    assert len(spool.list_unread(str(machine.home))) == 1


def test_uninstall_removes_the_status_cache(machine: Machine) -> None:
    connect(machine.keeper, machine.places(), ["claude"])
    session = machine.keeper.start("something to keep").id
    for name in ("glances", "opened"):
        (machine.home / name).mkdir()
        (machine.home / name / "one.json").write_text("{}")
    assert uninstall(machine.keeper, machine.places()).problems == []
    assert not {"glances", "opened", "hooks", "connections", "spool"} & {path.name for path in machine.home.iterdir()}
    assert machine.keeper.session().id == session
