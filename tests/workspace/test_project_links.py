"""Links that come with a repository: nothing is written through them, in any component of a path."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.conversations.adapters.index import CONNECTABLE
from holdfast.conversations.connect import detect
from holdfast.core.agent_programs import MCP_ONLY
from holdfast.core.errors import HoldfastError, Refused
from holdfast.formats import export
from holdfast.formats.mirror.layouts import LAYOUTS
from holdfast.formats.registry import NAMES, format_named
from holdfast.formats.remainder import render_with_remainder
from holdfast.keeper import doctor
from tests.support.connect_setup import ConnectSetup

if sys.platform == "win32":
    pytest.skip("links and owners are POSIX's", allow_module_level=True)

AGENTS = [name for name in CONNECTABLE if name not in MCP_ONLY]
PRECIOUS = b'{"precious": true}\n'


@pytest.fixture
def setup(tmp_path: Path) -> ConnectSetup:
    return ConnectSetup(tmp_path)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A directory outside the project, with files of every name that a connection writes."""
    made = tmp_path / "outside"
    made.mkdir()
    (made / "file.json").write_bytes(PRECIOUS)
    return made


def in_empty_project(link: Path, project: Path) -> Path:
    """The same path in an empty project, with its directories created."""
    for path in project.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    link.parent.mkdir(parents=True, exist_ok=True)
    return link


def linkable_paths(setup: ConnectSetup, agent: str) -> list[Path]:
    """Every component, below the project, of every file that a connection of this agent writes there."""
    paths = [Path(change.path) for change in detect.changes(str(setup.home), setup.places, agent, "project")]
    wanted = [path for file in paths for path in (file, *file.parents) if setup.project in path.parents]
    return list(dict.fromkeys(wanted))


def planted(setup: ConnectSetup, outside: Path, agent: str) -> Iterator[tuple[str, Path]]:
    """Replaces each component in turn by a link that leads outside, to an existing target and to none; files by hard
    links too.
    """
    files = {Path(change.path) for change in detect.changes(str(setup.home), setup.places, agent, "project")}
    for link in linkable_paths(setup, agent):
        targets = [outside / "missing"] + ([outside / "file.json"] if link in files else [outside])
        for target in targets:
            in_empty_project(link, setup.project).symlink_to(target)
            yield f"a link to {target.name}", link
        if link in files:
            os.link(outside / "file.json", in_empty_project(link, setup.project))
            yield "a hard link", link
            in_empty_project(link, setup.project).symlink_to(setup.project / ".git" / "hooks" / "pre-commit")
            (setup.project / ".git" / "hooks").mkdir(parents=True)
            yield "a link into .git", link


@pytest.mark.parametrize("agent", AGENTS)
def test_connect_refuses_links_in_the_project(setup: ConnectSetup, outside: Path, agent: str) -> None:
    """The error names the file; nothing is written inside or outside, and nothing is remembered."""
    tried = 0
    for kind, link in planted(setup, outside, agent):
        before = setup.snapshot()
        with pytest.raises(Refused) as refused:
            setup.connect(agent, scope="project")
        assert str(setup.project) in refused.value.message, kind
        assert setup.snapshot() == before, (kind, link)
        assert sorted(os.listdir(outside)) == ["file.json"], (kind, link)
        assert (outside / "file.json").read_bytes() == PRECIOUS, (kind, link)
        assert setup.receipts() == [], (kind, link)
        tried += 1
    assert tried >= 4
    in_empty_project(setup.project / "x", setup.project)
    assert setup.connect(agent, scope="project")[0].is_new


@pytest.mark.parametrize("agent", AGENTS)
def test_disconnect_follows_no_links_that_replaced_its_files(setup: ConnectSetup, outside: Path, agent: str) -> None:
    """The targets stay unchanged, and disconnecting says why."""
    setup.connect(agent, scope="project")
    (outside / "file.json").unlink()
    for link in linkable_paths(setup, agent):
        moved = outside / link.name
        link.rename(moved)
        link.symlink_to(moved)
        before = {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()}
        with pytest.raises(Refused):
            setup.disconnect(agent)
        assert {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()} == before, link
        link.unlink()
        moved.rename(link)
    assert setup.disconnect(agent)[0].is_new
    assert not any(b"holdfast" in path.read_bytes().lower() for path in setup.project.rglob("*") if path.is_file())


def test_connect_follows_a_link_within_the_project(setup: ConnectSetup) -> None:
    """The person keeps an agent's settings elsewhere in the repository."""
    (setup.project / "tools").mkdir()
    (setup.project / ".claude").symlink_to("tools")
    setup.connect("claude", scope="project")
    assert b"holdfast" in (setup.project / "tools" / "settings.json").read_bytes()
    setup.disconnect("claude")
    assert not (setup.project / "tools" / "settings.json").exists()
    assert (setup.project / ".claude").is_symlink()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_connect_refuses_a_file_of_another_user(setup: ConnectSetup) -> None:
    path = setup.project / ".mcp.json"
    path.write_text("{}")
    os.chown(path, 12345, 12345)
    with pytest.raises(Refused, match="another user"):
        setup.connect("claude", scope="project")
    assert path.read_text() == "{}"
    # Root in a container works on projects of the person on the host.
    os.chown(setup.project, 12345, 12345)
    setup.connect("claude", scope="project")
    assert path.stat().st_uid == 12345


def test_connect_follows_no_links_swapped_in_meanwhile(setup: ConnectSetup, outside: Path) -> None:
    """A directory becomes a link and a directory again, as fast as possible."""
    (outside / "settings.json").write_bytes(PRECIOUS)
    folder, kept = setup.project / ".claude", setup.project / "kept"
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
                setup.connect("claude", scope="project")
            with contextlib.suppress(HoldfastError, OSError):
                setup.disconnect("claude")
    finally:
        stop.set()
        swapper.join()
    assert {path.name: path.read_bytes() for path in outside.iterdir()} == {
        "file.json": PRECIOUS, "settings.json": PRECIOUS,
    }  # fmt: skip


@pytest.mark.parametrize("format_", sorted(LAYOUTS))
def test_mirrors_follow_no_links_of_the_project(setup: ConnectSetup, outside: Path, format_: str) -> None:
    """Every directory on the way to a mirrored file, and the file itself, as a link to the outside."""
    setup.keeper.start("G")
    layout = LAYOUTS[format_]({})
    paths = [setup.project / path for path in (*layout.fixed, *layout.folders, ".gitignore")]
    wanted = [item for path in paths for item in (path, *path.parents) if setup.project in item.parents]
    for link in dict.fromkeys(wanted):
        for target in (outside, outside / "file.json", outside / "missing"):
            in_empty_project(link, setup.project).symlink_to(target)
            with contextlib.suppress(HoldfastError):
                setup.keeper.mirrors.switch_on(format_)
            setup.keeper.session().note("recording goes on")
            with contextlib.suppress(HoldfastError):
                setup.keeper.mirrors.switch_off(format_)
            assert os.listdir(outside) == ["file.json"], (link, target)
            assert (outside / "file.json").read_bytes() == PRECIOUS, (link, target)
            assert link.is_symlink(), (link, target)
    assert len(setup.keeper.session().document().notes) == 3 * len(dict.fromkeys(wanted))


def test_contract_features_that_became_links_are_left_alone(setup: ConnectSetup, outside: Path) -> None:
    """The directory and each of its files, moved outside with a link left behind."""
    session = setup.keeper.start("G")
    setup.keeper.mirrors.switch_on("contract")
    feature = next(path for path in (setup.project / ".ai-session").iterdir() if path.is_dir())
    for link in (feature / "state.yaml", feature / "implementation-plan.yaml", feature / "history.jsonl", feature):
        moved = outside / link.name
        link.rename(moved)
        link.symlink_to(moved)
        before = {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()}
        session.note(f"with {link.name} as a link")
        with contextlib.suppress(HoldfastError):
            list(doctor.repair(setup.keeper))
        assert {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()} == before, link
        if link.is_symlink():
            link.unlink()
            moved.rename(link)
    assert len(session.document().notes) == 4


@pytest.mark.parametrize("format_", NAMES)
def test_export_writes_through_no_link(setup: ConnectSetup, outside: Path, format_: str) -> None:
    """Whatever it leads to."""
    rules = format_named(format_)
    document = render_with_remainder(setup.keeper.start("G").state(), rules)
    for target in (outside / "file.json", outside / "missing"):
        (setup.project / "out.json").symlink_to(target)
        with pytest.raises(HoldfastError):
            export.write_document(str(setup.project / "out.json"), document, rules)
        (setup.project / "out.json").unlink()
        assert os.listdir(outside) == ["file.json"]
        assert (outside / "file.json").read_bytes() == PRECIOUS
