"""Hooks in settings that do not work: of a deleted home, or of a project connected by somebody else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.conversations.adapters.index import NAMES
from holdfast.conversations.connect import detect
from holdfast.conversations.connect.disconnect import uninstall
from holdfast.core.errors import Conflict
from holdfast.keeper.keeper import Keeper
from holdfast.workspace import spool
from holdfast.workspace.agent_dirs import AgentDirs
from holdfast.workspace.followers import Check
from tests.support.connect_setup import ConnectSetup

if sys.platform == "win32":
    pytest.skip("command lines that every person's shell understands are POSIX's", allow_module_level=True)


@pytest.fixture
def agent_setup(tmp_path: Path) -> ConnectSetup:
    return ConnectSetup(tmp_path)


def hook_checks(agent_setup: ConnectSetup, name: str = "hooks") -> Check:
    checks, _ = agent_setup.keeper.doctor()
    return next(check for check in checks if check.name == name)


def person(root: Path, project: Path | None = None) -> ConnectSetup:
    """Somebody with a default home, in their own project or a copy of one."""
    root.mkdir()
    one = ConnectSetup(root)
    if project is not None:
        shutil.copytree(project, one.project, dirs_exist_ok=True)
    one.places = one.places._replace(system="linux")
    one.home = Path(one.places.data("holdfast"))
    one.keeper = Keeper.open(str(one.project), home=str(one.home))
    one.keeper.agent_dirs = one.places
    return one


# ── deleted homes ──────────────────────────────────────────────────────────────────────────────────


def test_doctor_warns_when_the_home_was_deleted(agent_setup: ConnectSetup) -> None:
    """It names the file of the hooks and two ways out."""
    agent_setup.connect("claude", "cline")
    shutil.rmtree(agent_setup.home)
    check = hook_checks(agent_setup)
    assert check.status == "warning"
    assert str(agent_setup.claude) in check.detail
    assert "nothing is recorded" in check.detail
    assert check.fix == "holdfast connect claude cline, or holdfast uninstall, which removes them"
    (done,) = agent_setup.connect("claude")
    assert done.revived
    assert "was created now" in done.notes[0]
    assert hook_checks(agent_setup) == Check("hooks", "ok", "connected: claude, cline")
    shutil.rmtree(agent_setup.home)
    assert uninstall(agent_setup.keeper, agent_setup.places).problems == []
    assert hook_checks(agent_setup).detail == "no agent is connected"


def test_doctor_warns_when_only_the_script_is_missing(agent_setup: ConnectSetup) -> None:
    """Despite the receipt; connecting again creates it."""
    agent_setup.connect("claude")
    os.unlink(detect.script_path(str(agent_setup.home)))
    assert detect.inspect_agent(agent_setup.keeper, agent_setup.places, "claude").silent
    assert hook_checks(agent_setup).status == "warning"
    assert agent_setup.connect("claude")[0].revived
    assert not detect.inspect_agent(agent_setup.keeper, agent_setup.places, "claude").silent
    assert not agent_setup.connect("claude")[0].revived


def test_fix_names_its_project(agent_setup: ConnectSetup) -> None:
    """Connecting this project does not repair another one's hooks."""
    elsewhere = agent_setup.project.parent / "else where"
    elsewhere.mkdir()
    places = agent_setup.places
    agent_setup.places = places._replace(project=str(elsewhere))
    agent_setup.connect("claude", scope="project")
    agent_setup.places = places
    os.unlink(detect.script_path(str(agent_setup.home)))
    check = hook_checks(agent_setup)
    assert check.fix == f"holdfast connect claude --scope project --project '{elsewhere}'"
    assert str(elsewhere) in check.detail


# ── a project somebody else connected ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", NAMES)
def test_doctor_reports_a_clone_with_hooks_that_is_not_connected(tmp_path: Path, name: str) -> None:
    """Connecting creates only the script, and payloads are kept from then on."""
    anna = person(tmp_path / "anna")
    anna.connect(name, scope="project")
    bert = person(tmp_path / "bert", anna.project)
    before = bert.snapshot()
    seen = detect.inspect_agent(bert.keeper, bert.places, name)
    assert (seen.connected, seen.silent) == ("project", True)
    check = hook_checks(bert)
    assert (check.status, check.fix) == ("warning", f"holdfast connect {name} --scope project")
    assert seen.files[0] in check.detail
    assert detect.commands([seen]) == [check.fix]
    with pytest.raises(Conflict, match="not in this home yet") as caught:
        bert.connect(name)
    assert str(check.fix) in str(caught.value.hint)
    (done,) = bert.connect(name, scope="project")
    assert (done.revived, done.is_new) == (True, False)
    outside = {path: what for path, what in bert.snapshot().items() if not path.startswith(str(bert.me))}
    assert outside == {path: what for path, what in before.items() if not path.startswith(str(bert.me))}
    assert "nothing is recorded" not in hook_checks(bert).detail
    assert not detect.inspect_agent(bert.keeper, bert.places, name).silent
    assert len(bert.receipts()) == 1


def test_connected_clone_delivers_payloads(tmp_path: Path) -> None:
    """The shared command line reaches the colleague's own home."""
    anna = person(tmp_path / "anna")
    anna.connect("claude", scope="project")
    bert = person(tmp_path / "bert", anna.project)
    bert.connect("claude", scope="project")
    settings = json.loads((bert.project / ".claude" / "settings.json").read_text())
    line = settings["hooks"]["Stop"][0]["hooks"][0]["command"]
    env = {"HOME": str(bert.me), "PATH": os.environ["PATH"]}
    subprocess.run(["sh", "-c", line], input=b'{"hook_event_name": "Stop"}', env=env, cwd=bert.project, check=True)
    assert spool.has_entries(str(bert.home))
    assert not spool.has_entries(str(anna.home))


@pytest.mark.parametrize("connected", [True, False])
def test_disconnecting_a_clone_warns_that_it_affects_everybody(tmp_path: Path, connected: bool) -> None:
    """The hooks are removed as requested."""
    anna = person(tmp_path / "anna")
    anna.connect("claude", scope="project")
    bert = person(tmp_path / "bert", anna.project)
    if connected:
        bert.connect("claude", scope="project")
    notes = [note for connected in bert.disconnect("claude") for note in connected.notes]
    assert len(notes) == 1
    assert "everybody who shares it" in notes[0]
    assert "hooks/hook" not in (bert.project / ".claude" / "settings.json").read_text()
    assert anna.disconnect("claude")[0].notes == ()


def test_doctor_warns_about_hooks_with_a_colleagues_path(agent_setup: ConnectSetup, tmp_path: Path) -> None:
    """A path of another machine in a shared file, with a fix."""
    agent_setup.connect("claude", scope="project")
    bert = person(tmp_path / "bert", agent_setup.project)
    shutil.rmtree(agent_setup.home)
    check = hook_checks(bert)
    assert check.status == "warning"
    assert "holdfast connect AGENT" in str(check.fix)
    bert.connect("claude")
    assert hook_checks(bert) == Check("hooks", "ok", "connected: claude")


# ── what stands in the way ───────────────────────────────────────────────────────────────────────────────


def test_obstacles_are_reported_only_for_present_agents(agent_setup: ConnectSetup) -> None:
    """Installed or connected ones."""
    agent_setup.places = agent_setup.places._replace(environ={"PATH": "", "OPENCODE_PURE": "1"})
    assert detect.obstacles(agent_setup.places, "opencode", "user")

    def is_reported() -> bool:
        return bool(detect.inspect_agent(agent_setup.keeper, agent_setup.places, "opencode").obstacles)

    assert not is_reported()
    trace = agent_setup.project / ".opencode"
    trace.mkdir()
    assert is_reported()
    trace.rmdir()
    agent_setup.connect("opencode")
    assert is_reported()


def test_doctor_reports_a_linked_spool(agent_setup: ConnectSetup, tmp_path: Path) -> None:
    """Hooks do not write through it, so payloads are lost until somebody removes it."""
    agent_setup.connect("claude")
    (agent_setup.home / "spool").rmdir()
    (tmp_path / "elsewhere").mkdir()
    (agent_setup.home / "spool").symlink_to(tmp_path / "elsewhere")
    assert hook_checks(agent_setup, "spool").status == "warning"


def test_doctor_uses_only_receipts_without_agent_dirs(agent_setup: ConnectSetup) -> None:
    """A library may not name the directories."""
    agent_setup.connect("claude")
    agent_setup.keeper.agent_dirs = None
    assert hook_checks(agent_setup).detail == "connected: claude"
    os.unlink(detect.script_path(str(agent_setup.home)))
    assert str(agent_setup.claude) in hook_checks(agent_setup).detail
    assert isinstance(agent_setup.places, AgentDirs)
