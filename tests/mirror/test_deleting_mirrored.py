"""Deleting a session that is mirrored: what Holdfast wrote of it goes from the project, what others wrote stays."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import Keeper
from holdfast.formats.contract.fields import OWN
from holdfast.formats.mirror.contract import feature_dirs, layout, registry
from tests.support.mirrored_project import CONTRACT, CRAFT, FORMATS, HISTORY, ORCHESTRATOR, REGISTRY, TIMER, Project

FOREIGN = {
    "timestamp": "2026-11-15T10:00:00Z", "command": "make", "arguments": "test", "model": "opus", "agent": "bot",
    "task_id": None, "status": "success", "duration_ms": 5,
}  # fmt: skip
SECRET = "Build the unspeakable shop"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path, *FORMATS)


@pytest.fixture
def keeper(project: Project) -> Iterator[Keeper]:
    with project.open() as keeper:
        yield keeper


def doctor_is_content(keeper: Keeper) -> None:
    checks, _ = keeper.doctor()
    assert {check.name: (check.status, check.detail) for check in checks if check.status != "ok"} == {}


def nowhere(project: Project, text: str) -> None:
    paths = [path for path in project.path.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]
    assert paths == []


def test_every_file_of_a_deleted_session_goes(project: Project, keeper: Keeper) -> None:
    """The current one, in all four formats; nothing of its words is left, and nothing brings it back."""
    session = keeper.start(SECRET)
    session.add_task("Paint it")
    feature = project.feature()
    keeper.delete(session.id, force=True)
    assert not feature.exists()
    assert [project.file(name).exists() for name in (ORCHESTRATOR, TIMER)] == [False, False]
    assert list(project.file(CRAFT).glob("*")) == []
    nowhere(project, "unspeakable")
    doctor_is_content(keeper)
    keeper.doctor(repair=True)
    assert not feature.exists()
    assert (keeper.history(), keeper.notices) == ([], [])


def test_an_archived_session_goes_and_the_others_stay(project: Project, keeper: Keeper) -> None:
    first = keeper.start(SECRET)
    first.stop()
    second = keeper.start("Repair the shop")
    keeper.delete(first.id, force=True)
    assert project.archives() == []
    assert project.craft() == f"{CRAFT}/{second.id}.json"
    assert [item["session_id"] for item in project.json(f"{CRAFT}/index.json")["sessions"]] == [second.id]
    assert [entry["feature_id"] for entry in registry.entries(str(project.file(CONTRACT)))] == [
        project.feature().name
    ]
    assert project.json(ORCHESTRATOR)["goal"] == "Repair the shop"
    nowhere(project, "unspeakable")
    doctor_is_content(keeper)
    project.in_step(keeper)


def test_others_entries_and_comments_stay_in_the_registry(project: Project, keeper: Keeper) -> None:
    keeper.start("Repair the shop").stop()
    session = keeper.start(SECRET)
    theirs = '# Ask Grace about these.\n- feature_id: "billing-2026-11-01" # hers\n'
    entry = '  started_at: "2026-11-01T09:00:00Z"\n  last_active: "2026-11-01T09:00:00Z"\n  status: "paused"\n'
    path = project.file(REGISTRY)
    indent = "  " if "\n  - " in path.read_text() else ""
    path.write_text(path.read_text() + "".join(f"{indent}{line}\n" for line in (theirs + entry).splitlines()))
    keeper.delete(session.id, force=True)
    text = path.read_text()
    assert "# Ask Grace about these." in text
    assert "# hers" in text
    assert [str(entry["feature_id"])[:6] for entry in registry.entries(str(path.parent))] == ["repair", "billin"]


def test_lines_of_other_programs_stay(project: Project, keeper: Keeper) -> None:
    """Theirs and only theirs, as they wrote them; and the doctor does not take the rest for a loss."""
    session = keeper.start(SECRET)
    feature = project.feature()
    line = json.dumps(FOREIGN) + "\n"
    with (feature / "history.jsonl").open("a") as file:
        file.write(line + "scribble\n")
    session.note("Something unspeakable")
    keeper.delete(session.id, force=True)
    assert (feature / "history.jsonl").read_text() == line + "scribble\n"
    assert not (feature / "state.yaml").exists()
    assert not (feature / "implementation-plan.yaml").exists()
    nowhere(project, "unspeakable")
    doctor_is_content(keeper)
    keeper.doctor(repair=True)
    assert not (feature / "state.yaml").exists()
    assert registry.entries(str(project.file(CONTRACT))) == []


def test_artifacts_stay(project: Project, keeper: Keeper) -> None:
    session = keeper.start(SECRET)
    feature = project.feature()
    (feature / "artifacts" / "plan.txt").write_text("mine\n")
    keeper.delete(session.id, force=True)
    assert sorted(str(path.relative_to(feature)) for path in feature.rglob("[!.]*")) == [
        "artifacts",
        "artifacts/plan.txt",
    ]
    doctor_is_content(keeper)


def test_a_session_of_the_same_name_begins_anew_where_lines_were_left(project: Project, keeper: Keeper) -> None:
    session = keeper.start(SECRET)
    feature = project.feature()
    with (feature / "history.jsonl").open("a") as file:
        file.write(json.dumps(FOREIGN) + "\n")
    keeper.delete(session.id, force=True)
    keeper.start(SECRET)
    assert project.feature() == feature
    (feature / "state.yaml").unlink()
    with project.open() as again:
        again.session()
    assert (feature / "state.yaml").exists()
    doctor_is_content(keeper)


def test_a_deletion_elsewhere_is_followed_up_by_the_next_command(project: Project, keeper: Keeper) -> None:
    """Whoever deletes without the project at hand leaves the files to the next command that runs there."""
    session = keeper.start(SECRET)
    feature = project.feature()
    elsewhere = project.path.parent / "elsewhere"
    elsewhere.mkdir()
    with project.open(elsewhere) as other:
        other.delete(session.id, force=True)
    assert feature.exists()
    with project.open() as again:
        assert again.current() is None
        doctor_is_content(again)
    assert not feature.exists()
    nowhere(project, "unspeakable")


def test_a_registry_that_waits_for_a_merge_delays_the_erasing(project: Project, keeper: Keeper) -> None:
    session = keeper.start(SECRET)
    feature = project.feature()
    whole = project.file(REGISTRY).read_text()
    project.write(REGISTRY, f"<<<<<<< ours\n{whole}=======\n{whole}>>>>>>> theirs\n")
    keeper.delete(session.id, force=True)
    project.write(REGISTRY, whole)
    with project.open() as again:
        again.history()
        again.collect()
    assert not feature.exists()
    assert registry.entries(str(project.file(CONTRACT))) == []


def test_a_line_that_a_crash_cut_off_is_ours_by_its_beginning() -> None:
    own = json.dumps({"timestamp": "2026-11-15T10:00:00Z", "command": "x", OWN: {"hash": "1"}}).encode()
    torn = b'{"timestamp":"2026-11-15T10:00:00Z","command":"note.added","arguments":"unspeak'
    theirs = json.dumps(FOREIGN).encode()
    other = b'{"timestamp":"2026-11-15T10:00:00Z","command":"make","arg'
    assert feature_dirs.foreign_lines(b"\n".join([own, torn, theirs, other])) == theirs + b"\n" + other


def test_a_line_added_in_the_very_moment_stays(
    project: Project, keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between our reading and the rename somebody appends, who knows no lock."""
    session = keeper.start(SECRET)
    feature = layout.Feature(project.feature().name, str(project.feature()))
    real, line = feature_dirs.foreign_lines, json.dumps(FOREIGN) + "\n"
    calls: list[bytes] = []

    def late(raw: bytes) -> bytes:
        if not calls:
            calls.append(raw)
            with open(feature.history, "a", encoding="utf-8") as file:
                file.write(line)
        return real(raw)

    monkeypatch.setattr(feature_dirs, "foreign_lines", late)
    keeper.delete(session.id, force=True)
    assert Path(feature.history).read_text() == line


def test_archives_in_the_history_folder_are_read_by_name(project: Project, keeper: Keeper) -> None:
    session = keeper.start(SECRET)
    session.abort()
    (name,) = project.archives()
    assert project.file(f"{HISTORY}/{name}").exists()
    keeper.delete(session.id, force=True)
    assert project.archives() == []
