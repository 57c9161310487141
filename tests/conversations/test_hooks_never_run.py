"""Hooks that stand in settings and are not heard: of a home that is gone, of a project somebody else connected."""

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
from tests.support.connect_setup import Ground

if sys.platform == "win32":
    pytest.skip("command lines that every person's shell understands are POSIX's", allow_module_level=True)


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


def examined(ground: Ground, name: str = "hooks") -> Check:
    checks, _ = ground.keeper.doctor()
    return next(check for check in checks if check.name == name)


def person(root: Path, project: Path | None = None) -> Ground:
    """Somebody with Holdfast in its usual place, in a project of their own or in a copy of one."""
    root.mkdir()
    one = Ground(root)
    if project is not None:
        shutil.copytree(project, one.project, dirs_exist_ok=True)
    one.places = one.places._replace(system="linux")
    one.home = Path(one.places.data("holdfast"))
    one.keeper = Keeper.open(str(one.project), home=str(one.home))
    one.keeper.agent_dirs = one.places
    return one


# ── a home that is gone ──────────────────────────────────────────────────────────────────────────────────


def test_the_doctor_found_all_well_though_the_home_was_deleted(ground: Ground) -> None:
    """Hooks whose script is gone are a warning that names the file and both ways out."""
    ground.connect("claude", "cline")
    shutil.rmtree(ground.home)
    check = examined(ground)
    assert check.status == "warning"
    assert str(ground.claude) in check.detail
    assert "nothing is recorded" in check.detail
    assert check.fix == "holdfast connect claude cline, or holdfast uninstall, which removes them"
    (done,) = ground.connect("claude")
    assert done.revived
    assert "was created now" in done.notes[0]
    assert examined(ground) == Check("hooks", "ok", "connected: claude, cline")
    shutil.rmtree(ground.home)
    assert uninstall(ground.keeper, ground.places).problems == []
    assert examined(ground).detail == "no agent is connected"


def test_the_script_alone_is_gone(ground: Ground) -> None:
    """What is remembered does not hide it; connecting again makes it."""
    ground.connect("claude")
    os.unlink(detect.script_path(str(ground.home)))
    assert detect.look(ground.keeper, ground.places, "claude").silent
    assert examined(ground).status == "warning"
    assert ground.connect("claude")[0].revived
    assert not detect.look(ground.keeper, ground.places, "claude").silent
    assert not ground.connect("claude")[0].revived


def test_the_fix_names_the_project_it_is_about(ground: Ground) -> None:
    """Hooks of another project are not mended by connecting this one."""
    elsewhere = ground.project.parent / "else where"
    elsewhere.mkdir()
    places = ground.places
    ground.places = places._replace(project=str(elsewhere))
    ground.connect("claude", scope="project")
    ground.places = places
    os.unlink(detect.script_path(str(ground.home)))
    check = examined(ground)
    assert check.fix == f"holdfast connect claude --scope project --project '{elsewhere}'"
    assert str(elsewhere) in check.detail


# ── a project somebody else connected ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", NAMES)
def test_a_clone_with_hooks_was_not_heard_and_nobody_said_so(tmp_path: Path, name: str) -> None:
    """They are named, connecting the project makes the script alone, and a colleague is heard from then on."""
    anna = person(tmp_path / "anna")
    anna.connect(name, scope="project")
    bert = person(tmp_path / "bert", anna.project)
    before = bert.picture()
    seen = detect.look(bert.keeper, bert.places, name)
    assert (seen.connected, seen.silent) == ("project", True)
    check = examined(bert)
    assert (check.status, check.fix) == ("warning", f"holdfast connect {name} --scope project")
    assert seen.files[0] in check.detail
    assert detect.commands([seen]) == [check.fix]
    with pytest.raises(Conflict, match="not in this home yet") as caught:
        bert.connect(name)
    assert str(check.fix) in str(caught.value.hint)
    (done,) = bert.connect(name, scope="project")
    assert (done.revived, done.is_new) == (True, False)
    outside = {path: what for path, what in bert.picture().items() if not path.startswith(str(bert.me))}
    assert outside == {path: what for path, what in before.items() if not path.startswith(str(bert.me))}
    assert "nothing is recorded" not in examined(bert).detail
    assert not detect.look(bert.keeper, bert.places, name).silent
    assert len(bert.memory()) == 1


def test_a_clone_is_heard_once_it_is_connected(tmp_path: Path) -> None:
    """The command line that came with the repository hands a payload over to the colleague's own home."""
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
def test_disconnecting_a_clone_says_whose_hooks_these_were(tmp_path: Path, connected: bool) -> None:
    """They are taken out, as asked; that it is a change for everybody is said."""
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


def test_hooks_of_a_colleagues_unusual_home(ground: Ground, tmp_path: Path) -> None:
    """A path of another machine in a shared file: a warning while nobody is heard, with a fix that helps."""
    ground.connect("claude", scope="project")
    bert = person(tmp_path / "bert", ground.project)
    shutil.rmtree(ground.home)
    check = examined(bert)
    assert check.status == "warning"
    assert "holdfast connect AGENT" in str(check.fix)
    bert.connect("claude")
    assert examined(bert) == Check("hooks", "ok", "connected: claude")


# ── what stands in the way ───────────────────────────────────────────────────────────────────────────────


def test_nothing_stands_in_the_way_of_who_is_not_here(ground: Ground) -> None:
    """Obstacles are told of agents that are found or connected, and of no other."""
    ground.places = ground.places._replace(environ={"PATH": "", "OPENCODE_PURE": "1"})
    assert detect.obstacles(ground.places, "opencode", "user")

    def told() -> bool:
        return bool(detect.look(ground.keeper, ground.places, "opencode").obstacles)

    assert not told()
    trace = ground.project / ".opencode"
    trace.mkdir()
    assert told()
    trace.rmdir()
    ground.connect("opencode")
    assert told()


def test_a_spool_that_is_a_link_is_told(ground: Ground, tmp_path: Path) -> None:
    """Hooks do not follow it, so what they tell is lost until somebody removes it."""
    ground.connect("claude")
    (ground.home / "spool").rmdir()
    (tmp_path / "elsewhere").mkdir()
    (ground.home / "spool").symlink_to(tmp_path / "elsewhere")
    assert examined(ground, "spool").status == "warning"


def test_places_are_not_asked_where_nobody_told_them(ground: Ground) -> None:
    """A library that names no places is told what is remembered, as far as that goes."""
    ground.connect("claude")
    ground.keeper.agent_dirs = None
    assert examined(ground).detail == "connected: claude"
    os.unlink(detect.script_path(str(ground.home)))
    assert str(ground.claude) in examined(ground).detail
    assert isinstance(ground.places, AgentDirs)
