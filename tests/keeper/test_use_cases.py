"""Everything that commands do, a program can do with the keeper, a session or an agent."""

from __future__ import annotations

import re
from operator import attrgetter
from pathlib import Path

import pytest

from holdfast import AgentDirs, AgentHandle, Invalid, Keeper, SessionHandle
from holdfast.cli.declaration import Command
from holdfast.cli.table import COMMANDS
from holdfast.formats.mirror.mirrors import Mirrors
from holdfast.keeper.topics import AgentPrograms, Config, Documents, People, Remotes, Stores, VaultDevices

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "library.md").read_text(encoding="utf-8")

# Surfaces, and what they need of the terminal.
SURFACES = {"watch", "ui", "mcp", "hook", "statusline", "tour", "completion", "help"}

CLASSES = {
    "keeper": Keeper, "session": SessionHandle, "agent": AgentHandle, "keeper.documents": Documents,
    "keeper.agents": AgentPrograms, "keeper.devices": VaultDevices, "keeper.remotes": Remotes,
    "keeper.people": People, "keeper.stores": Stores, "keeper.config": Config, "keeper.mirrors": Mirrors,
}  # fmt: skip

USE_CASES = {
    "start": "keeper.start",
    "continue": "keeper.latest_unfinished session.take_up",
    "history": "keeper.history", "log": "keeper.events", "stats": "keeper.hours", "why": "keeper.why",
    "project list": "keeper.projects", "project reconnect": "keeper.reconnect_project",
    "archive": "keeper.archive", "unarchive": "keeper.unarchive", "delete": "keeper.delete",
    "sync": "keeper.sync", "doctor": "keeper.doctor", "backup": "keeper.backup", "restore": "keeper.restore",
    **dict.fromkeys(
        ("status", "show", "timeline", "budget", "agent list", "task list", "plan show", "conversation list"),
        "session.document",
    ),
    **{name: f"session.{name}" for name in (
        "pause", "resume", "save", "stop", "abort", "fail", "edit", "note", "message", "away", "worked", "briefing",
        "decide", "compress", "hill", "run", "report", "export", "conflicts", "resolve", "fork", "share", "revoke",
    )},
    "file": "session.changed", "context": "session.measure_context", "redact": "session.preview_sync",
    "plan import": "session.import_plan", "conversation move": "session.take_conversation",
    "task add": "session.add_task", "task start": "session.start_task", "task done": "session.finish_task",
    "task block": "session.block_task", "task reopen": "session.reopen_task", "task drop": "session.drop_task",
    "agent add": "session.add_agent", "agent start": "session.agent",
    **{f"agent {name}": f"agent.{name}" for name in (
        "progress", "done", "fail", "retry", "pause", "resume", "abort",
    )},
    "validate": "keeper.documents.validate keeper.documents.schema", "convert": "keeper.documents.convert",
    "import": "keeper.documents.import_files", "recover": "keeper.documents.recover keeper.documents.start_recovered",
    "migrate": "keeper.documents.migrate", "cycle": "keeper.documents.cycle",
    "contract acknowledge": "keeper.documents.acknowledge_contract",
    "contract verify": "keeper.documents.verify_contract", "contract summary": "keeper.documents.contract_summary",
    "mirror on": "keeper.mirrors.switch_on", "mirror off": "keeper.mirrors.switch_off",
    "mirror status": "keeper.mirrors.status",
    "agents": "keeper.agents.list", "connect": "keeper.agents.connect", "disconnect": "keeper.agents.disconnect",
    "uninstall": "keeper.agents.uninstall", "backfill": "keeper.agents.backfill",
    "init": "keeper.agents.connect keeper.mirrors.switch_on keeper.agents.backfill",
    "device show": "keeper.devices.keys", "device recovery-code": "keeper.devices.recovery_code",
    **{f"device {name}": f"keeper.devices.{name}" for name in ("list", "rename", "approve", "remove", "admit")},
    **{f"remote {name}": f"keeper.remotes.{name}" for name in ("add", "list", "confirm", "remove")},
    **{f"people {name}": f"keeper.people.{name}" for name in ("add", "list")},
    "accept": "keeper.people.offers keeper.people.accept",
    "store init": "keeper.stores.create",
    **{f"store {name}": f"keeper.stores.{name}" for name in (
        "show", "admit", "dismiss", "share", "unshare", "copy", "partition",
    )},
    **{f"config {name}": f"keeper.config.{name}" for name in ("get", "set", "unset", "list")},
}  # fmt: skip


def names(commands: tuple[Command, ...]) -> set[str]:
    return {
        f"{command.name} {verb.name}" if verb else command.name
        for command in commands
        for verb in command.verbs or (None,)
    }


def test_every_command_has_a_use_case_in_the_library() -> None:
    """A new command gets a method of the keeper, a session or an agent, and a line here."""
    assert names(COMMANDS) - SURFACES == set(USE_CASES)


@pytest.mark.parametrize("method", sorted({method for methods in USE_CASES.values() for method in methods.split()}))
def test_use_case_is_a_method_that_the_guide_names(method: str) -> None:
    """With its keeper, in the row of its topic, or among the verbs of a session or an agent."""
    owner, _, name = method.rpartition(".")
    assert callable(getattr(CLASSES[owner], name))
    where = [line for line in GUIDE.splitlines() if owner in ("keeper", "session", "agent") or f"`{owner}`" in line]
    called = re.compile(rf"`{re.escape(method) if owner == 'keeper' else name}\b")
    assert any(called.search(line) for line in where), f"{method} is missing in docs/guides/library.md"


def test_everything_that_a_keeper_shows_is_in_the_guide(tmp_path: Path) -> None:
    """`dir` lists what programs may use; what is there for use cases is not in it."""
    with Keeper.open(str(tmp_path), home=str(tmp_path / "home")) as keeper:
        shown = set(dir(keeper))
    assert {name for name in shown if f"eeper.{name}" not in GUIDE} == {"close"}
    assert not shown & {"recorder", "transaction", "followers", "place"}


def test_topics_act_on_the_project_of_their_keeper(tmp_path: Path) -> None:
    """Settings, projects, devices, documents, the store and the agents of one home, without any command."""
    (tmp_path / "plan.md").write_text("- [ ] Write the tests\n")
    dirs = AgentDirs(str(tmp_path), str(tmp_path))
    home = str(tmp_path / "home")
    with Keeper.open(str(tmp_path), home=home, device="here", agent_dirs=dirs) as keeper:
        for owner, topic in CLASSES.items():
            if owner.startswith("keeper."):
                assert isinstance(attrgetter(owner.partition(".")[2])(keeper), topic)
        session = keeper.start("G").import_plan(str(tmp_path / "plan.md"))
        document, _ = session.export("orchestrator", str(tmp_path / "session.json"))
        assert document["goal"] == "G"
        assert [verdict.valid for verdict in keeper.documents.validate([str(tmp_path / "session.json")])] == [True]
        assert keeper.documents.convert(str(tmp_path / "session.json"), "timer").document
        assert [imported.session for imported in keeper.documents.import_files([str(tmp_path / "session.json")])] == [
            session.id
        ]
        assert [project.paths for project in keeper.projects()] == [[str(tmp_path)]]
        assert keeper.stores.show().sessions == 1
        assert (keeper.remotes.list(), keeper.people.list()) == ([], [])
        assert session.preview_sync().events == len(keeper.events(session.id))
        assert not any(setup.connected for setup in keeper.agents.list())
        assert keeper.agents.backfill() is not None
        keeper.config.set("history.limit", 7)
    with Keeper.open(str(tmp_path), home=home) as keeper:
        assert keeper.config.list()["history.limit"] == keeper.config.get("history.limit") == 7
        keeper.config.unset("history.limit")
        with pytest.raises(Invalid, match="where agent programs keep their files"):
            keeper.agents.list()
