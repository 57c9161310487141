"""Restoring an `.ai-session/` directory from history alone: without a store, nothing deleted, nothing invented."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.formats import registry as formats
from holdfast.formats.mirror.contract import layout, registry, yaml_files
from holdfast.formats.mirror.contract.check import check_directory
from holdfast.formats.mirror.contract.restore import restore
from tests.mirror.contract_feature import ASIDE, NOW, Feature, loaded, tree, undecidable

FILES = ("state.yaml", "implementation-plan.yaml")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "project" / ".ai-session"


@pytest.fixture
def feature(root: Path, tmp_path: Path) -> Feature:
    root.parent.mkdir()
    return Feature(root, tmp_path / "other")


def test_intact_directory_is_left_unchanged(feature: Feature) -> None:
    before = tree(feature.root)
    assert restore(str(feature.root), now=NOW) == []
    assert check_directory(str(feature.root)) == []
    assert tree(feature.root) == before


def test_empty_directory_has_nothing_to_restore(root: Path) -> None:
    assert (check_directory(str(root)), restore(str(root), now=NOW)) == ([], [])
    assert not root.exists()


@pytest.mark.parametrize("name", FILES)
def test_missing_file_is_restored_from_history(feature: Feature, name: str) -> None:
    feature.path(name).unlink()
    assert [(finding.detail, finding.feature) for finding in check_directory(str(feature.root))] == [
        (f"{feature.id}/{name} is missing", feature.id)
    ]
    assert restore(str(feature.root), now=NOW) == [
        f"{feature.id}/{name} was missing: restored from the events in its history."
    ]
    feature.assert_restored()


DAMAGE: list[bytes] = [
    b"", b"\0" * 300, b"\xff\xfe\xfd", b"a: [1,\n", b"just words\n", b"- 1\n- 2\n", b"a: 1\na: 2\n",
    b"feature_id: another-2026-11-15\ncurrent_state: {started_at: '2026-11-15T10:00:00Z'}\nphases: []\n",
    b"x: &a [*a]\n", b"!!python/object/apply:os.system ['true']\n", b"[" * 60,
]  # fmt: skip


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_file_is_set_aside_and_restored(feature: Feature, name: str, damage: bytes) -> None:
    feature.path(name).write_bytes(damage)
    history = feature.path("history.jsonl").read_bytes()
    assert len(check_directory(str(feature.root))) == 1
    assert len(restore(str(feature.root), now=NOW)) == 1
    feature.assert_restored()
    assert feature.path(name + ASIDE).read_bytes() == damage
    assert feature.path("history.jsonl").read_bytes() == history


def test_truncated_file_is_restored_or_still_whole(feature: Feature) -> None:
    """Whatever a crash of another program leaves of a state."""
    whole = feature.path("state.yaml").read_bytes()
    for size in range(0, len(whole), 7):
        feature.path("state.yaml").write_bytes(whole[:size])
        restore(str(feature.root), now=NOW)
        assert check_directory(str(feature.root)) == []
        assert loaded(feature.path("state.yaml"))["feature_id"] == feature.id


def test_files_set_aside_at_the_same_time_are_both_kept(feature: Feature) -> None:
    for content in (b"one\n", b"two\n"):
        feature.path("state.yaml").write_bytes(content)
        restore(str(feature.root), now=NOW)
    kept = sorted(path.read_bytes() for path in feature.path("").glob("state.yaml.rejected-*"))
    assert kept == [b"one\n", b"two\n"]


def test_everything_is_restored_when_only_history_is_left(root: Path, tmp_path: Path) -> None:
    """Two features, one of them paused: states, plans and the registry with their statuses."""
    root.parent.mkdir()
    features = [Feature(root, tmp_path / "a", "login"), Feature(root, tmp_path / "b", "billing", paused=True)]
    for path in root.rglob("*.yaml"):
        path.unlink()
    restore(str(root), now=NOW)
    for item in features:
        item.assert_restored()
    assert sorted(str(entry["status"]) for entry in registry.entries(str(root))) == ["active", "paused"]


def test_merged_history_is_sorted_and_each_event_counts_once(feature: Feature) -> None:
    """Mixed and duplicate lines, foreign and torn ones; history itself stays byte for byte."""
    path = feature.path("history.jsonl")
    lines = path.read_bytes().splitlines(keepends=True) * 2
    random.Random(7).shuffle(lines)
    foreign_line = b'{"timestamp":"2026-11-14T10:00:00Z","command":"look","model":"opus","status":"success"}\n'
    path.write_bytes(b"".join([*lines, foreign_line, b"{torn\n", b'{"half'])[:-1])
    history = path.read_bytes()
    for name in FILES:
        feature.path(name).unlink()
    restore(str(feature.root), now=NOW)
    feature.assert_restored()
    assert path.read_bytes() == history
    assert [finding.partition("history.jsonl ")[2][:38] for finding in undecidable(feature.root)] == [
        "has 2 lines that cannot be read: line ", "has 1 line that the contract does not "
    ]  # fmt: skip


def test_tampered_event_is_ignored(feature: Feature) -> None:
    path = feature.path("history.jsonl")
    path.write_text(path.read_text().replace("half-way", "all-done"))
    feature.path("state.yaml").unlink()
    assert (
        "which has 1 line that somebody changed: what it recorded there is" in restore(str(feature.root), now=NOW)[0]
    )
    assert ["changed since Holdfast wrote it" in finding for finding in undecidable(feature.root)] == [True]
    assert "all-done" not in feature.path("state.yaml").read_text()


# ── histories of other programs ──────────────────────────────────────────────────────────────────────────

LINES: list[dict[str, Any]] = [
    {"timestamp": "2025-01-09T12:00:00Z", "command": "implement", "arguments": "core", "model": "opus",
     "agent": "agent-2", "task_id": "core", "status": "success", "duration_ms": 5},
    {"timestamp": "2025-01-09T10:00:00+00:00", "command": "plan", "arguments": "all of it", "model": "gemini",
     "agent": "agent-1", "task_id": None, "status": "success", "duration_ms": 5234},
    {"timestamp": "2025-01-09T12:00:00Z", "command": "implement", "arguments": "core", "model": "opus",
     "agent": "agent-2", "task_id": "core", "status": "success", "duration_ms": 5},
]  # fmt: skip
OLD = "ai-orchestrator-2025-01-09"


@pytest.fixture
def foreign(root: Path) -> Path:
    """A directory as another program left it, with history only."""
    (root / OLD).mkdir(parents=True)
    (root / OLD / "history.jsonl").write_text("".join(json.dumps(line) + "\n" for line in LINES))
    return root


def test_foreign_lines_restore_what_they_contain(foreign: Path) -> None:
    """The source is named."""
    sentences = restore(str(foreign), now=NOW)
    assert "from 2 lines of its history, without events" in sentences[0]
    assert loaded(foreign / OLD / "state.yaml") == {
        "version": "1.0",
        "feature_id": OLD,
        "current_state": {
            "active_task": "core", "model_in_use": "opus",
            "started_at": "2025-01-09T10:00:00Z", "last_updated": "2025-01-09T12:00:00Z",
        },
    }  # fmt: skip
    plan = loaded(foreign / OLD / "implementation-plan.yaml")
    assert plan["feature"]["name"] == "Ai orchestrator"
    assert [(task["task_id"], task["status"], task["agent"]) for task in plan["phases"][0]["tasks"]] == [
        ("core", "in_progress", "agent-2")
    ]
    assert registry.entries(str(foreign)) == [
        {"feature_id": OLD, "started_at": "2025-01-09T10:00:00Z", "last_active": "2025-01-09T12:00:00Z",
         "status": "active"}
    ]  # fmt: skip
    (finding,) = undecidable(foreign)
    assert f"{OLD}/history.jsonl has 1 line that the contract does not allow: line 2, $.timestamp must be" in finding
    assert len(check_directory(str(foreign))) == 1
    assert restore(str(foreign), now=NOW) == []


@pytest.mark.parametrize("lines", [LINES, []])
def test_restored_files_are_valid_by_the_contract(foreign: Path, lines: list[dict[str, Any]]) -> None:
    (foreign / OLD / "history.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    restore(str(foreign), now=NOW)
    rules = formats.format_named("contract")
    for path in (foreign / "active-features.yaml", *(foreign / OLD / name for name in FILES)):
        value = loaded(path)
        kind = rules.detects(value)
        assert kind is not None
        assert [problem for problem in rules.problems(value, kind) if problem.severity == "error"] == []


def test_other_files_are_used_without_any_history(feature: Feature) -> None:
    feature.path("history.jsonl").write_bytes(b"")
    feature.path("state.yaml").unlink()
    assert "only the start is known" in restore(str(feature.root), now=NOW)[0]
    entry = feature.document["entry"]
    assert isinstance(entry, dict)
    assert loaded(feature.path("state.yaml"))["current_state"] == {
        "active_task": None, "model_in_use": "sonnet",
        "started_at": entry["started_at"], "last_updated": entry["last_active"],
    }  # fmt: skip


def test_empty_feature_directory_is_dated_by_its_name(root: Path) -> None:
    (root / OLD).mkdir(parents=True)
    restore(str(root), now=NOW)
    assert loaded(root / OLD / "state.yaml")["current_state"]["started_at"] == "2025-01-09T00:00:00Z"
    assert (root / OLD / "history.jsonl").read_bytes() == b""
    assert check_directory(str(root)) == []


# ── the registry ─────────────────────────────────────────────────────────────────────────────────────────


def test_missing_registry_entry_is_added(feature: Feature) -> None:
    """The others stay."""
    path = feature.root / "active-features.yaml"
    path.write_text(
        "# ours\nactive_features:\n  - feature_id: gone-2026-01-01\n    started_at: '2026-01-01T00:00:00Z'\n"
        "    last_active: '2026-01-02T00:00:00Z'\n    status: completed\n"
    )
    assert restore(str(feature.root), now=NOW) == [f"{feature.id} was not listed in the registry: it is now."]
    assert [entry["feature_id"] for entry in registry.entries(str(feature.root))] == ["gone-2026-01-01", feature.id]
    assert path.read_text().startswith("# ours\n")
    feature.assert_restored()


def test_damaged_registry_is_rebuilt_and_loses_no_feature(feature: Feature) -> None:
    """Readable entries are kept, even of features whose directory is elsewhere."""
    path = feature.root / "active-features.yaml"
    torn = (
        "active_features:\n  - feature_id: gone-2026-01-01\n    started_at: '2026-01-01T00:00:00Z'\n"
        "    last_active: '2026-01-02T00:00:00Z'\n    status: completed\n    owner: bo\n"
        f"  - feature_id: {feature.id}\n    started_at: '2026-01-01T0"
    )
    path.write_text(torn)
    sentences = restore(str(feature.root), now=NOW)
    kept = f"The damaged one is kept as active-features.yaml{ASIDE}."
    assert sentences == [f"active-features.yaml was damaged: rebuilt with 2 features. {kept}"]
    assert Path(f"{path}{ASIDE}").read_text() == torn
    missing, own = registry.entries(str(feature.root))
    assert (missing["feature_id"], missing["owner"], missing["status"]) == ("gone-2026-01-01", "bo", "completed")
    assert own == feature.document["entry"]
    feature.assert_restored()


MARKS = "<<<<<<< HEAD\n{0}=======\n{0}>>>>>>> theirs\n"


@pytest.mark.parametrize("name", ["active-features.yaml", *FILES])
def test_unmerged_file_is_reported_and_left_alone(feature: Feature, name: str) -> None:
    path = feature.root / name if name.startswith("active") else feature.path(name)
    path.write_text(MARKS.format(path.read_text()))
    before = tree(feature.root)
    assert ["unmerged" in finding.detail for finding in check_directory(str(feature.root))] == [True]
    sentences = restore(str(feature.root), now=NOW)
    assert len(sentences) == 1
    assert sentences[0].startswith("Left alone: ")
    assert {**tree(feature.root), **before} == tree(feature.root)
    assert path.read_bytes() == before[str(path.relative_to(feature.root))]
    assert not list(feature.root.rglob("*.rejected-*"))


# ── obstacles ────────────────────────────────────────────────────────────────────────────────────────────


def link(path: Path, outside: Path) -> None:
    path.symlink_to(outside)


def second_name(path: Path, outside: Path) -> None:
    os.link(outside, path)


def folder(path: Path, outside: Path) -> None:
    path.mkdir()


def pipe(path: Path, outside: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize("plant", [link, second_name, folder, pipe])
@pytest.mark.parametrize("name", FILES)
def test_planted_links_are_reported_and_neither_followed_nor_moved(
    feature: Feature, tmp_path: Path, plant: Callable[[Path, Path], None], name: str
) -> None:
    outside = tmp_path / "outside"
    outside.write_text("keep")
    feature.path(name).unlink()
    plant(feature.path(name), outside)
    assert ["unreadable" in finding.detail for finding in check_directory(str(feature.root))] == [True]
    assert [name[:11] for name in restore(str(feature.root), now=NOW)] == ["Left alone:"]
    assert os.path.lexists(feature.path(name))
    assert outside.read_text() == "keep"


def test_feature_that_cannot_be_restored_does_not_stop_the_others(root: Path, tmp_path: Path) -> None:
    root.parent.mkdir()
    first, second = Feature(root, tmp_path / "a", "alpha"), Feature(root, tmp_path / "b", "beta")
    first.path("history.jsonl").unlink()
    first.path("history.jsonl").mkdir()
    for item in (first, second):
        item.path("state.yaml").unlink()
    sentences = restore(str(root), now=NOW)
    assert any(sentence.startswith(f"{first.id} could not be restored") for sentence in sentences)
    second_state = loaded(second.path("state.yaml"))
    assert second_state == second.document["state"]


def test_only_feature_directories_are_touched(feature: Feature) -> None:
    (feature.root / "notes").mkdir()
    (feature.root / "notes" / "state.yaml").write_text("broken: [")
    (feature.root / "Login-2026-13-45").mkdir()
    before = tree(feature.root)
    assert restore(str(feature.root), now=NOW) == []
    assert tree(feature.root) == before
    assert [item.id for item in layout.features(str(feature.root))] == [feature.id]


def test_interrupted_creation_is_settled_first(feature: Feature) -> None:
    (feature.root / ".creating-00").mkdir()
    assert len(restore(str(feature.root), now=NOW)) == 1
    assert not (feature.root / ".creating-00").exists()


def test_conflict_markers_are_distinguished_from_yaml() -> None:
    assert yaml_files.has_conflict_markers(b"a: 1\n<<<<<<< HEAD\n")
    assert yaml_files.has_conflict_markers(b"a: 1\r\n>>>>>>> x\r\n")
    assert not yaml_files.has_conflict_markers(b"a: '<<<<<<< HEAD'\n# =======\n<<: 1\n")


def test_temporaries_of_killed_writers_are_removed_once_they_are_old(feature: Feature) -> None:
    old, young = feature.path(".holdfast-00.tmp"), feature.root / ".holdfast-01.tmp"
    for path, age in ((old, 7_200), (young, 60)):
        path.write_text("half")
        os.utime(path, (NOW // 1000 - age, NOW // 1000 - age))
    assert restore(str(feature.root), now=NOW) == ["1 temporary file that killed processes left behind: removed."]
    assert (old.exists(), young.exists()) == (False, True)
