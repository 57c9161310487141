"""The index of craft sessions is shared with other programs: what they write into it stays."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Keeper
from holdfast.formats.mirror import layouts
from tests.support.mirrored_project import CRAFT, Project

INDEX = f"{CRAFT}/index.json"
OTHER = {"session_id": "other", "label": "not ours", "goal": "Mow the lawn", "pinned": {"by": ["me"]}}
FOREIGN: dict[str, Any] = {"version": 3, "sessions": [OTHER], "last_opened": "2026-11-01T10:00:00Z"}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path, "craft")


@pytest.fixture
def keeper(project: Project) -> Iterator[Keeper]:
    with project.open() as keeper:
        yield keeper


def entries(project: Project) -> dict[str, Any]:
    return {entry["session_id"]: entry for entry in project.json(INDEX)["sessions"]}


def rejected(project: Project) -> list[Path]:
    return sorted(project.file(CRAFT).glob("index.json.rejected-*"))


def test_foreign_entries_and_keys_stay_in_an_existing_index(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write(INDEX, FOREIGN)
    before = project.file(INDEX).read_bytes()
    with project.open() as keeper:
        keeper.mirrors.switch_on("craft")
        assert project.file(INDEX).read_bytes() == before
        session = keeper.start("Build the shop")
        assert entries(project) == {"other": OTHER, session.id: entries(project)[session.id]}
        assert entries(project)[session.id]["goal"] == "Build the shop"
        assert {key: project.json(INDEX)[key] for key in ("version", "last_opened")} == {
            "version": 3,
            "last_opened": FOREIGN["last_opened"],
        }
        session.note("on")
        session.edit(goal="Build two shops")
        assert entries(project)["other"] == OTHER
        assert entries(project)[session.id]["goal"] == "Build two shops"
        assert (rejected(project), keeper.notices) == ([], [])


def test_foreign_keys_in_our_entry_stay_when_it_is_updated(project: Project, keeper: Keeper) -> None:
    session = keeper.start("Build the shop")

    def change(document: Any) -> None:
        document["sessions"][0] |= {"label": "my pet name", "starred": True, "goal": "somebody's own words"}
        document["sessions"].append(OTHER)
        document["sessions"].append({"label": "without an id"})
        document["theme"] = "dark"

    project.edit(INDEX, change)
    session.note("on")
    ours = next(entry for entry in project.json(INDEX)["sessions"] if entry.get("session_id") == session.id)
    assert (ours["label"], ours["starred"], ours["goal"]) == ("my pet name", True, "Build the shop")
    assert OTHER in project.json(INDEX)["sessions"]
    assert {"label": "without an id"} in project.json(INDEX)["sessions"]
    assert project.json(INDEX)["theme"] == "dark"
    assert keeper.notices == []


def test_index_in_another_layout_is_not_rewritten(project: Project, keeper: Keeper) -> None:
    session = keeper.start("Build the shop")
    text = json.dumps(project.json(INDEX), indent=7)
    project.write(INDEX, text)
    keeper.mirrors.write()
    assert project.file(INDEX).read_text() == text
    session.edit(goal="Build two shops")
    assert entries(project)[session.id]["goal"] == "Build two shops"


@pytest.mark.parametrize("label", [{}, {"label": "my pet name"}])
def test_entry_of_a_deleted_session_is_removed_and_others_stay(
    label: dict[str, str], project: Project, keeper: Keeper
) -> None:
    session = keeper.start("Unspeakable")
    project.edit(INDEX, lambda document: document["sessions"].append(OTHER))
    keeper.mirrors.write()
    project.edit(INDEX, lambda document: [entry.update(label) for entry in document["sessions"]])
    keeper.delete(session.id, force=True)
    assert entries(project) == {"other": OTHER | label}
    assert "Unspeakable" not in project.file(INDEX).read_text()


def test_entry_of_the_last_session_is_removed_even_if_another_program_edited_it(
    project: Project, keeper: Keeper
) -> None:
    session = keeper.start("Unspeakable")
    project.edit(INDEX, lambda document: document["sessions"][0].update(label="my pet name"))
    keeper.delete(session.id, force=True)
    assert [path.name for path in project.file(CRAFT).iterdir()] in ([], ["index.json"])
    assert not project.file(INDEX).exists() or entries(project) == {}


@pytest.mark.parametrize(
    "text",
    ["[]", "{}", '{"sessions": {}}', '{"sessions": [{"session_id": "a"}, "b"]}', '{"sessions": [', "hello", "\x00"],
)
def test_unusable_index_is_set_aside_and_reported(text: str, tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write(INDEX, text)
    os.utime(project.file(INDEX), (1, 1))
    with project.open() as keeper:
        keeper.mirrors.switch_on("craft")
        session = keeper.start("Build the shop")
        session.note("on")
        assert [path.read_text() for path in rejected(project)] == [text]
        assert [sentence.partition(":")[0] for sentence in keeper.notices] == [
            f"{INDEX} was set aside as {rejected(project)[0].name}"
        ]
        assert [*entries(project)] == [session.id]


@pytest.mark.parametrize("name", [["a"], {"a": 1}, None, 7])
def test_entry_whose_id_is_not_a_string_stays(name: object, project: Project, keeper: Keeper) -> None:
    session = keeper.start("Build the shop")
    project.edit(INDEX, lambda document: document["sessions"].append({"session_id": name, "label": "odd"}))
    session.note("on")
    assert {"session_id": name, "label": "odd"} in project.json(INDEX)["sessions"]


def test_concurrent_write_to_the_index_by_another_program_stays(
    project: Project, keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = keeper.start("Build the shop")
    wanted = layouts.CraftLayout.wanted
    once = [True]

    def interrupted(*arguments: Any) -> Any:
        files_wanted = wanted(*arguments)
        if once:
            once.clear()
            project.edit(INDEX, lambda document: document["sessions"].append(OTHER))
        return files_wanted

    monkeypatch.setattr(layouts.CraftLayout, "wanted", interrupted)
    session.edit(goal="Build two shops")
    assert entries(project)["other"] == OTHER
    assert entries(project)[session.id]["goal"] == "Build two shops"
