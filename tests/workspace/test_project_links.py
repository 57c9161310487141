"""Links that come with a repository: nothing is written where they lead, whatever component of a path they are."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.conversations.adapters.index import CONNECTABLE, MCP_ONLY
from holdfast.conversations.connect import detect
from holdfast.core.errors import HoldfastError, Refused
from holdfast.formats import export
from holdfast.formats.mirror.layouts import LAYOUTS
from holdfast.formats.registry import NAMES, named
from holdfast.formats.remainder import render_with_remainder
from holdfast.keeper import doctor
from tests.support.connect_setup import Ground

if sys.platform == "win32":
    pytest.skip("links and owners are POSIX's", allow_module_level=True)

AGENTS = [name for name in CONNECTABLE if name not in MCP_ONLY]
PRECIOUS = b'{"precious": true}\n'


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A directory beside the project, with files of every name that a connection writes."""
    made = tmp_path / "outside"
    made.mkdir()
    (made / "file.json").write_bytes(PRECIOUS)
    return made


def cleared(spot: Path, project: Path) -> Path:
    """The same path in an empty project, its directories made."""
    for path in project.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    spot.parent.mkdir(parents=True, exist_ok=True)
    return spot


def spots(ground: Ground, agent: str) -> list[Path]:
    """Every component, below the project, of every file that a connection of this agent writes there."""
    paths = [Path(change.path) for change in detect.changes(str(ground.home), ground.places, agent, "project")]
    wanted = [path for file in paths for path in (file, *file.parents) if ground.project in path.parents]
    return list(dict.fromkeys(wanted))


def planted(ground: Ground, outside: Path, agent: str) -> Iterator[tuple[str, Path]]:
    """Each component in turn as a link that leads out, to something and to nothing; the files as hard links too."""
    files = {Path(change.path) for change in detect.changes(str(ground.home), ground.places, agent, "project")}
    for spot in spots(ground, agent):
        targets = [outside / "missing"] + ([outside / "file.json"] if spot in files else [outside])
        for target in targets:
            cleared(spot, ground.project).symlink_to(target)
            yield f"a link to {target.name}", spot
        if spot in files:
            os.link(outside / "file.json", cleared(spot, ground.project))
            yield "a hard link", spot
            cleared(spot, ground.project).symlink_to(ground.project / ".git" / "hooks" / "pre-commit")
            (ground.project / ".git" / "hooks").mkdir(parents=True)
            yield "a link into .git", spot


@pytest.mark.parametrize("agent", AGENTS)
def test_connect_in_a_project_followed_links_that_came_with_it(ground: Ground, outside: Path, agent: str) -> None:
    """Refused in words that name the file, with nothing written, inside or outside, and nothing remembered."""
    tried = 0
    for kind, spot in planted(ground, outside, agent):
        before = ground.picture()
        with pytest.raises(Refused) as refused:
            ground.connect(agent, scope="project")
        assert str(ground.project) in refused.value.message, kind
        assert ground.picture() == before, (kind, spot)
        assert sorted(os.listdir(outside)) == ["file.json"], (kind, spot)
        assert (outside / "file.json").read_bytes() == PRECIOUS, (kind, spot)
        assert ground.memory() == [], (kind, spot)
        tried += 1
    assert tried >= 4
    cleared(ground.project / "x", ground.project)
    assert ground.connect(agent, scope="project")[0].is_new


@pytest.mark.parametrize("agent", AGENTS)
def test_disconnect_in_a_project_follows_no_links_that_came_since(ground: Ground, outside: Path, agent: str) -> None:
    """Files moved out and links left in their place: what is outside stays, and disconnecting says why."""
    ground.connect(agent, scope="project")
    (outside / "file.json").unlink()
    for spot in spots(ground, agent):
        moved = outside / spot.name
        spot.rename(moved)
        spot.symlink_to(moved)
        before = {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()}
        with pytest.raises(Refused):
            ground.disconnect(agent)
        assert {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()} == before, spot
        spot.unlink()
        moved.rename(spot)
    assert ground.disconnect(agent)[0].is_new
    assert not any(b"holdfast" in path.read_bytes().lower() for path in ground.project.rglob("*") if path.is_file())


def test_a_link_within_the_project_is_followed(ground: Ground) -> None:
    """Whoever keeps an agent's settings elsewhere in the repository chose that."""
    (ground.project / "tools").mkdir()
    (ground.project / ".claude").symlink_to("tools")
    ground.connect("claude", scope="project")
    assert b"holdfast" in (ground.project / "tools" / "settings.json").read_bytes()
    ground.disconnect("claude")
    assert not (ground.project / "tools" / "settings.json").exists()
    assert (ground.project / ".claude").is_symlink()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_of_another_user_in_a_project_is_refused(ground: Ground) -> None:
    """It is not this user's to change."""
    path = ground.project / ".mcp.json"
    path.write_text("{}")
    os.chown(path, 12345, 12345)
    with pytest.raises(Refused, match="another user"):
        ground.connect("claude", scope="project")
    assert path.read_text() == "{}"
    # Root in a container works on projects of the person outside.
    os.chown(ground.project, 12345, 12345)
    ground.connect("claude", scope="project")
    assert path.stat().st_uid == 12345


def test_links_swapped_in_while_connecting_lead_nowhere(ground: Ground, outside: Path) -> None:
    """A directory becomes a link and a directory again, as fast as it can: what is outside is never touched."""
    (outside / "settings.json").write_bytes(PRECIOUS)
    folder, kept = ground.project / ".claude", ground.project / "kept"
    folder.mkdir()
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            with contextlib.suppress(OSError):
                folder.rename(kept)
                folder.symlink_to(outside)
            with contextlib.suppress(OSError):
                folder.unlink()
                kept.rename(folder)

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        for _ in range(15):
            with contextlib.suppress(HoldfastError, OSError):
                ground.connect("claude", scope="project")
            with contextlib.suppress(HoldfastError, OSError):
                ground.disconnect("claude")
    finally:
        stop.set()
        swapper.join()
    assert {path.name: path.read_bytes() for path in outside.iterdir()} == {
        "file.json": PRECIOUS, "settings.json": PRECIOUS,
    }  # fmt: skip


@pytest.mark.parametrize("format_", sorted(LAYOUTS))
def test_mirrors_follow_no_links_that_came_with_a_project(ground: Ground, outside: Path, format_: str) -> None:
    """Every directory on the way to a mirrored file, and the file itself, planted as a link: nothing is outside."""
    ground.keeper.start("G")
    layout = LAYOUTS[format_]({})
    paths = [ground.project / path for path in (*layout.fixed, *layout.folders, ".gitignore")]
    wanted = [item for path in paths for item in (path, *path.parents) if ground.project in item.parents]
    for spot in dict.fromkeys(wanted):
        for target in (outside, outside / "file.json", outside / "missing"):
            cleared(spot, ground.project).symlink_to(target)
            with contextlib.suppress(HoldfastError):
                ground.keeper.mirrors.switch_on(format_)
            ground.keeper.session().note("recording goes on")
            with contextlib.suppress(HoldfastError):
                ground.keeper.mirrors.switch_off(format_)
            assert os.listdir(outside) == ["file.json"], (spot, target)
            assert (outside / "file.json").read_bytes() == PRECIOUS, (spot, target)
            assert spot.is_symlink(), (spot, target)
    assert len(ground.keeper.session().document().notes) == 3 * len(dict.fromkeys(wanted))


def test_features_of_a_contract_that_became_links_are_left_alone(ground: Ground, outside: Path) -> None:
    """Its directory and each file in it, moved out with a link left behind: what is outside stays as it is."""
    session = ground.keeper.start("G")
    ground.keeper.mirrors.switch_on("contract")
    feature = next(path for path in (ground.project / ".ai-session").iterdir() if path.is_dir())
    for spot in (feature / "state.yaml", feature / "implementation-plan.yaml", feature / "history.jsonl", feature):
        moved = outside / spot.name
        spot.rename(moved)
        spot.symlink_to(moved)
        before = {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()}
        session.note(f"with {spot.name} as a link")
        with contextlib.suppress(HoldfastError):
            list(doctor.repair(ground.keeper))
        assert {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()} == before, spot
        if spot.is_symlink():
            spot.unlink()
            moved.rename(spot)
    assert len(session.document().notes) == 4


@pytest.mark.parametrize("format_", NAMES)
def test_export_writes_through_no_link(ground: Ground, outside: Path, format_: str) -> None:
    """A file name that is a link: refused, whatever it leads to."""
    rules = named(format_)
    document = render_with_remainder(ground.keeper.start("G").state(), rules)
    for target in (outside / "file.json", outside / "missing"):
        (ground.project / "out.json").symlink_to(target)
        with pytest.raises(HoldfastError):
            export.write_document(str(ground.project / "out.json"), document, rules)
        (ground.project / "out.json").unlink()
        assert os.listdir(outside) == ["file.json"]
        assert (outside / "file.json").read_bytes() == PRECIOUS
