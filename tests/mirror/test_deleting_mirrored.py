"""Deleting a mirrored session removes what Holdfast wrote of it from the project; what others wrote stays."""

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


def assert_doctor_is_content(keeper: Keeper) -> None:
    checks, _ = keeper.doctor()
    assert {check.name: (check.status, check.detail) for check in checks if check.status != "ok"} == {}


def assert_in_no_file(project: Project, text: str) -> None:
    paths = [path for path in project.path.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]
    assert paths == []


def test_every_file_of_a_deleted_session_is_removed(project: Project, keeper: Keeper) -> None:
    """In all four formats; nothing of its text is left, and nothing restores it."""
    session = keeper.start(SECRET)
    session.add_task("Paint it")
    feature = project.feature()
    keeper.delete(session.id, force=True)
    assert not feature.exists()
    assert [project.file(name).exists() for name in (ORCHESTRATOR, TIMER)] == [False, False]
    assert list(project.file(CRAFT).glob("*")) == []
    assert_in_no_file(project, "unspeakable")
    assert_doctor_is_content(keeper)
    keeper.doctor(repair=True)
    assert not feature.exists()
    assert (keeper.history(), keeper.notices) == ([], [])


def test_deleted_archived_session_is_removed_and_others_stay(project: Project, keeper: Keeper) -> None:
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
    assert_in_no_file(project, "unspeakable")
    assert_doctor_is_content(keeper)
    project.in_step(keeper)


def test_foreign_entries_and_comments_stay_in_the_registry(project: Project, keeper: Keeper) -> None:
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


def test_history_lines_of_other_programs_stay(project: Project, keeper: Keeper) -> None:
    """Only theirs, as they wrote them; the doctor reports no loss."""
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
    assert_in_no_file(project, "unspeakable")
    assert_doctor_is_content(keeper)
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
    assert_doctor_is_content(keeper)


def test_new_session_of_the_same_name_starts_next_to_remaining_lines(project: Project, keeper: Keeper) -> None:
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
    assert_doctor_is_content(keeper)


def test_deletion_elsewhere_removes_files_with_the_next_command(project: Project, keeper: Keeper) -> None:
    """The next one that runs in the project."""
    session = keeper.start(SECRET)
    feature = project.feature()
    elsewhere = project.path.parent / "elsewhere"
    elsewhere.mkdir()
    with project.open(elsewhere) as other:
        other.delete(session.id, force=True)
    assert feature.exists()
    with project.open() as again:
        assert again.current() is None
        assert_doctor_is_content(again)
    assert not feature.exists()
    assert_in_no_file(project, "unspeakable")


def test_unmerged_registry_delays_the_removal(project: Project, keeper: Keeper) -> None:
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


def test_torn_line_is_recognized_as_ours_by_its_start() -> None:
    own = json.dumps({"timestamp": "2026-11-15T10:00:00Z", "command": "x", OWN: {"hash": "1"}}).encode()
    torn = b'{"timestamp":"2026-11-15T10:00:00Z","command":"note.added","arguments":"unspeak'
    theirs = json.dumps(FOREIGN).encode()
    other = b'{"timestamp":"2026-11-15T10:00:00Z","command":"make","arg'
    assert feature_dirs.lines_of_others(b"\n".join([own, torn, theirs, other])) == theirs + b"\n" + other


def test_concurrently_appended_line_stays(project: Project, keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody appends without a lock between our read and our rename."""
    session = keeper.start(SECRET)
    feature = layout.Feature(project.feature().name, str(project.feature()))
    real, line = feature_dirs.lines_of_others, json.dumps(FOREIGN) + "\n"
    calls: list[bytes] = []

    def late(raw: bytes) -> bytes:
        if not calls:
            calls.append(raw)
            with open(feature.history, "a", encoding="utf-8") as file:
                file.write(line)
        return real(raw)

    monkeypatch.setattr(feature_dirs, "lines_of_others", late)
    keeper.delete(session.id, force=True)
    assert Path(feature.history).read_text() == line


def test_archives_are_recognized_by_their_names(project: Project, keeper: Keeper) -> None:
    session = keeper.start(SECRET)
    session.abort()
    (name,) = project.archives()
    assert project.file(f"{HISTORY}/{name}").exists()
    keeper.delete(session.id, force=True)
    assert project.archives() == []
