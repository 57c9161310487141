"""After any edit of any mirrored file and one command, every file is valid and equals an export.

What was written is imported or set aside under another name; what was left out is not removed.
"""

from __future__ import annotations

import copy
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from holdfast.formats import registry
from holdfast.formats.document_paths import is_covered
from holdfast.formats.text.read import read
from tests.support.mirrored_project import FORMATS, ORCHESTRATOR, REGISTRY, TIMER, Project

FILES = ("orchestrator", "timer", "craft", "state", "plan", "registry")
PARTS = {"state": ("contract", "state"), "plan": ("contract", "plan"), "registry": ("contract", "entry")}
REMOVED = object()
GARBAGE: tuple[Any, ...] = (
    REMOVED, None, "", "garbage", "2026-13-99", "2026-01-02T03:04:05Z", -1, 7.5, 10**6, True, [], {}, ["x"], {"x": 1},
    [{}], "completed", "finished",
)  # fmt: skip


def path_of(project: Project, name: str) -> str:
    return {
        "orchestrator": ORCHESTRATOR, "timer": TIMER, "craft": project.craft(), "state": project.state(),
        "plan": project.plan(), "registry": REGISTRY,
    }[name]  # fmt: skip


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inner in entries:
        yield (*place, step)
        yield from places(inner, (*place, step))


def edited(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    made = copy.deepcopy(value)
    inner = made
    for step in place[:-1]:
        inner = inner[step]
    if new is REMOVED:
        del inner[place[-1]]
    else:
        inner[place[-1]] = new
    return made


def is_derived(name: str, place: tuple[Any, ...]) -> bool:
    kind, *inside = PARTS.get(name, (name,))
    meant = (*inside, *(place[2:] if name == "registry" else place))
    return is_covered(registry.format_named(kind).derived, meant)


def check_edit_of(project: Project, name: str, place: tuple[Any, ...], new: Any) -> None:
    """Edit a file at one place, then check what must be true."""
    path = path_of(project, name)
    with project.open() as keeper:
        before = keeper.session().document()
    value = read(project.file(path).read_bytes(), path).value
    project.write(path, edited(value, place, new))
    written = project.file(path).read_bytes()
    with project.open() as keeper:
        document = keeper.session(before.id).document()
        project.in_step(keeper)
        assert keeper.mirrors.changed_outside() == set()
    kept = [project.file(name).read_bytes() for name in project.rejected()]
    if kept:
        assert kept == [written]
        assert (document.goal, document.status, document.tasks) == (before.goal, before.status, before.tasks)
    elif new is REMOVED:
        assert (document.goal, document.status, document.tasks) == (before.goal, before.status, before.tasks)
        assert [agent.status for agent in document.agents] == [agent.status for agent in before.agents]


def project_with_content(root: Path) -> Project:
    project = Project(root, *FORMATS)
    with project.open() as keeper:
        session = keeper.start("Build the shop", scope="Shop", task="Build it", model="sonnet")
        session.agent("code-1", type="code", task="Code", pid=None).done(summary="Coded")
        session.agent("test-1", type="test", task="Test", pid=None)
        session.add_task("Write the tests", task_id="tests")
        session.add_task("Paint it", task_id="paint")
        session.finish_task("paint")
        session.decide("Use SQLite", why="It is there")
    return project


def test_every_file_is_valid_after_any_edit_and_nothing_is_lost(tmp_path: Path) -> None:
    """Every edit starts from the same copied project, since creating that is most of the work."""
    at, kept = tmp_path / "at", tmp_path / "kept"
    at.mkdir()
    project = project_with_content(at)
    shutil.copytree(at, kept, symlinks=True)

    @settings(max_examples=settings().max_examples // 2, deadline=None, suppress_health_check=list(HealthCheck))
    @given(name=st.sampled_from(FILES), where=st.integers(0, 10_000), new=st.sampled_from(GARBAGE))
    @example(name="plan", where=5, new=REMOVED)
    def check_edit(name: str, where: int, new: Any) -> None:
        shutil.rmtree(at)
        shutil.copytree(kept, at, symlinks=True)
        with project.open() as keeper:
            keeper.session()  # reads the files: they are copies with the same content
            assert keeper.mirrors.changed_outside() == set()
        path = path_of(project, name)
        every = list(places(read(project.file(path).read_bytes(), path).value))
        check_edit_of(project, name, every[where % len(every)], new)

    check_edit()
