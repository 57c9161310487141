"""Races: a concurrent write to a mirrored file is never lost, and nobody ever reads half a file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Keeper
from holdfast.formats.mirror import fingerprint
from holdfast.formats.mirror.mirrors import Mirrors
from holdfast.keeper import change_feed
from holdfast.keeper.change_feed import ChangeFeed, Changes
from holdfast.keeper.session import SessionHandle
from holdfast.machine import files
from tests.support.mirrored_project import CRAFT, FORMATS, HISTORY, ORCHESTRATOR, REGISTRY, TIMER, Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path, *FORMATS)


@pytest.fixture
def keeper(project: Project) -> Iterator[Keeper]:
    with project.open() as keeper:
        yield keeper


@pytest.fixture
def session(keeper: Keeper) -> SessionHandle:
    return keeper.start("Build the shop", scope="Shop", task="Build it", model="sonnet")


# ── between check and rename ─────────────────────────────────────────────────────────────────────────────


def in_place(path: Path, text: str) -> None:
    path.write_text(text)


def by_renaming(path: Path, text: str) -> None:
    other = path.with_name("theirs.part")
    other.write_text(text)
    os.replace(other, path)


def write_before_replace(
    monkeypatch: pytest.MonkeyPatch, path: Path, write: Callable[[Path, str], None], text: str, *, exchange: bool
) -> list[Path]:
    """Write the file once, right before it is replaced; with or without a system that can exchange names."""
    done: list[Path] = []
    put = files._Directory.put

    def hooked(self: Any, temporary: str, name: str, *, keep: bool) -> str | None:
        if not done and Path(self.path) / name == path:
            done.append(path)
            write(path, text)
        return put(self, temporary, name, keep=keep)

    monkeypatch.setattr(files._Directory, "put", hooked)
    if not exchange:
        monkeypatch.setattr(files, "exchange", lambda *_: False)
    return done


EDITS: dict[str, tuple[Callable[[Project], str], Callable[[str], str], Callable[[SessionHandle], object], object]] = {
    "orchestrator": (
        lambda _: ORCHESTRATOR,
        lambda text: json.dumps({**json.loads(text), "mode": "debug"}),
        lambda session: session.document().mode,
        "debug",
    ),
    "timer": (
        lambda _: TIMER,
        lambda text: json.dumps({**json.loads(text), "scope": "Market"}),
        lambda session: session.document().scope,
        "Market",
    ),
    "craft": (
        lambda project: project.craft(),
        lambda text: json.dumps({**json.loads(text), "progress": 0.25}),
        lambda session: session.document().progress,
        0.25,
    ),
    "contract": (
        lambda project: project.state(),
        lambda text: text.replace('"sonnet"', '"opus"'),
        lambda session: session.document().model,
        "opus",
    ),
}


@pytest.mark.parametrize("exchange", [True, False])
@pytest.mark.parametrize("write", [in_place, by_renaming])
@pytest.mark.parametrize("name", EDITS)
def test_write_between_check_and_rename_is_imported(
    name: str, write: Callable[[Path, str], None], exchange: bool, project: Project, keeper: Keeper,
    session: SessionHandle, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    path, change, look, expected = EDITS[name]
    file = project.file(path(project))
    time.sleep(1.1)  # so that the contract's file, which counts seconds, is written at all
    done = write_before_replace(monkeypatch, file, write, change(file.read_text()), exchange=exchange)
    session.decide("Brick")
    assert done == [file]
    assert look(session) == expected
    assert [decision.chosen for decision in session.document().decisions] == ["Brick"]
    assert project.rejected() == []
    assert project.leftovers() == []
    project.in_step(keeper)


def test_garbage_written_between_check_and_rename_is_set_aside(
    project: Project, keeper: Keeper, session: SessionHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_before_replace(monkeypatch, project.file(ORCHESTRATOR), in_place, "{not json", exchange=True)
    session.decide("Brick")
    (aside,) = project.rejected()
    assert project.file(aside).read_text() == "{not json"
    project.in_step(keeper)


def test_file_that_appears_while_we_create_it_is_imported(
    project: Project, keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent starts a session by writing the file while we start one."""
    example = {
        "schema_version": "1.0", "session_id": "2026-11-02-abcdef", "created": "2026-11-02T10:00:00Z",
        "updated": "2026-11-02T11:00:00Z", "project": {"name": "shop", "path": None, "git_branch": None},
        "goal": "Theirs", "mode": "default", "status": "in_progress", "agents": [], "completed_work": [],
        "pending_tasks": [], "decisions_made": [], "errors": [],
        "context_usage": {"estimated_tokens": 0, "percentage": 0, "last_compression": None},
    }  # fmt: skip
    real = os.link

    def link(source: str, target: str, **more: Any) -> None:
        if target == str(project.file(ORCHESTRATOR)) and not os.path.lexists(target):
            project.write(ORCHESTRATOR, example)
        real(source, target, **more)

    monkeypatch.setattr(os, "link", link)
    mine = keeper.start("Ours")
    goals = {row.goal for row in keeper.history()}
    assert goals == {"Ours", "Theirs"}
    assert mine.document().goal == "Ours"
    assert project.rejected() == []
    project.in_step(keeper)


def test_write_during_the_removal_of_the_timer_file_is_kept_aside(
    project: Project, keeper: Keeper, session: SessionHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot be true any more after the stop."""
    real = os.rename
    theirs = json.dumps({**project.json(TIMER), "scope": "Market"})

    def rename(source: Any, target: Any, **more: Any) -> None:
        if os.path.basename(source) == project.file(TIMER).name and not project.rejected():
            project.write(TIMER, theirs)
        real(source, target, **more)

    monkeypatch.setattr(os, "rename", rename)
    session.stop()
    assert not project.file(TIMER).exists()
    kept = [project.file(name).read_text() for name in project.rejected()]
    assert session.document().scope == "Market" or kept == [theirs]
    assert project.leftovers() == []


def test_write_right_after_ours_is_noticed(
    project: Project, keeper: Keeper, session: SessionHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before we stat our own file: theirs must not pass for ours."""
    real = files.write_atomic
    done: list[str] = []

    def then_theirs(path: str, data: bytes, **more: Any) -> None:
        real(path, data, **more)
        if path == str(project.file(ORCHESTRATOR)) and not done:
            done.append(path)
            project.edit(ORCHESTRATOR, lambda document: document.update(mode="debug"))
            time.sleep(0.05)

    monkeypatch.setattr(files, "write_atomic", then_theirs)
    session.decide("Brick")
    assert done
    assert session.document().mode == "debug"
    project.in_step(keeper)


# ── young files ──────────────────────────────────────────────────────────────────────────────────────────


def test_edit_with_an_unchanged_fingerprint_is_noticed(
    project: Project, keeper: Keeper, session: SessionHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Same size, times and inode, within one clock tick: a young file is read again."""
    before = project.file(ORCHESTRATOR).read_text()
    kept = keeper.mirrors.stored.tree(keeper.place.root).files["orchestrator"][ORCHESTRATOR].print
    assert kept.is_young
    real = fingerprint.take

    def frozen(path: str, now: int) -> fingerprint.Fingerprint | None:
        seen = real(path, now)
        if path == str(project.file(ORCHESTRATOR)) and seen is not None:
            return fingerprint.Fingerprint(kept.inode, kept.size, kept.changed, kept.touched, kept.at)
        return seen

    monkeypatch.setattr(fingerprint, "take", frozen)
    assert before.count('"default"') == 1
    project.write(ORCHESTRATOR, before.replace('"default"', '"release"'))
    assert session.document().mode == "release"


@pytest.mark.parametrize("formats", [FORMATS, ("timer",)])
def test_unchanged_files_cost_one_stat_each(
    formats: tuple[str, ...],
    project: Project,
    keeper: Keeper,
    session: SessionHandle,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing is read."""
    for name in set(FORMATS) - set(formats):
        keeper.mirrors.switch_off(name)
    session.note("the last that is written")
    time.sleep(0.05)
    session.document()  # what was young is no longer
    looked: dict[str, int] = {}
    read: list[str] = []
    root = str(project.path)

    def counting(real: Callable[..., os.stat_result]) -> Callable[..., os.stat_result]:
        def counted(path: Any, *more: Any, **options: Any) -> os.stat_result:
            if isinstance(path, str) and path.startswith(root + "/"):
                looked[path] = looked.get(path, 0) + 1
            return real(path, *more, **options)

        return counted

    def opened(event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("open", "os.scandir", "os.listdir") and str(arguments[0]).startswith(root + "/"):
            read.append(str(arguments[0]))

    monkeypatch.setattr(os, "lstat", counting(os.lstat))
    monkeypatch.setattr(os, "stat", counting(os.stat))
    watched.append(opened)
    try:
        assert session.document().goal == "Build the shop"
    finally:
        watched.remove(opened)
    assert read == []
    tree = keeper.mirrors.stored.tree(keeper.place.root)
    mirrored = {str(project.file(path)) for name in formats for path in tree.files[name]}
    folders = {str(project.file(path)) for path in (HISTORY, CRAFT, ".ai-session")} if formats == FORMATS else set()
    assert set(looked) == mirrored | folders
    assert set(looked.values()) == {1}
    assert str(project.file(REGISTRY)) in mirrored or formats != FORMATS


watched: list[Callable[[str, tuple[Any, ...]], None]] = []


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    for item in watched:
        item(event, arguments)


sys.addaudithook(_audit)  # an audit hook cannot be removed; it costs nothing while unused


# ── many at once ─────────────────────────────────────────────────────────────────────────────────────────


def test_files_are_in_step_after_eight_concurrent_processes(
    project: Project, keeper: Keeper, session: SessionHandle
) -> None:
    script = (
        "import sys\nfrom holdfast import Keeper\n"
        "with Keeper.open(sys.argv[1], home=sys.argv[2]) as keeper:\n"
        "    for number in range(4):\n"
        "        keeper.session().decide(f'{sys.argv[3]}-{number}')\n"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", script, str(project.path), str(project.home), str(number)])
        for number in range(8)
    ]
    assert [popen.wait() for popen in running] == [0] * 8
    chosen = {decision.chosen for decision in session.document().decisions}
    assert chosen == {f"{process}-{number}" for process in range(8) for number in range(4)}
    assert {item["decision"] for item in project.json(ORCHESTRATOR)["decisions_made"]} == chosen
    assert (project.rejected(), project.leftovers()) == ([], [])
    project.in_step(keeper)


@pytest.mark.parametrize("verb", ["note", "stop", "replace"])
def test_next_command_writes_the_files_of_a_killed_one(
    verb: str, project: Project, keeper: Keeper, session: SessionHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even a read-only command, if the kill came between commit and files."""
    time.sleep(0.05)
    session.document()  # so that no file is read only because it is young
    with monkeypatch.context() as patch:
        patch.setattr(Mirrors, "write", lambda _: None)
        patch.setattr(Mirrors, "collect", lambda _: None)
        if verb == "note":
            session.decide("Brick")
        elif verb == "stop":
            session.stop()
        else:
            keeper.start("Repair the shop", replace=True)
    with project.open() as other:
        other.current()
        project.in_step(other)
    assert project.file(TIMER).exists() == (verb != "stop")


# ── while a follower runs ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("installed", [True, False])
def test_edit_is_imported_while_a_follower_runs(
    installed: bool, project: Project, keeper: Keeper, session: SessionHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a command; the follower learns whose edit it was."""
    if not installed:
        monkeypatch.setitem(sys.modules, "watchfiles._rust_notify", None)
    changes_reported: list[Changes] = []
    changed = threading.Event()

    def on_change(change: Changes) -> None:
        changes_reported.append(change)
        if session.id in change.sessions:
            changed.set()

    with ChangeFeed(project.open, on_change) as follower:
        place = follower.place
        project.edit(ORCHESTRATOR, lambda document: document.update(goal="Sell the shop"))
        assert changed.wait(10)
        assert follower.place > place
    assert session.document().goal == "Sell the shop"
    assert change_feed.POLL_INTERVAL < 1
