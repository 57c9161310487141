"""The live `.ai-session/` directory: a feature is created completely or not at all, and the registry loses none."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.errors import Conflict, Damaged, Failed, HoldfastError, Invalid, NotFound, Refused
from holdfast.formats.mirror.contract import feature_dirs, feature_files, layout, registry, yaml_files
from holdfast.formats.text.read import read_yaml
from holdfast.machine import files

ID = "add-login-2026-11-15"


def document(name: str = ID, at: str = "2026-11-15T10:00:00Z", status: str = "active") -> dict[str, Any]:
    return {
        "state": {
            "version": "1.0",
            "feature_id": name,
            "current_state": {
                "active_task": None, "model_in_use": "opus", "started_at": "2026-11-15T09:00:00Z", "last_updated": at,
            },
        },
        "plan": {
            "feature": {"id": name, "name": "Login", "description": "Login", "created_at": "2026-11-15T09:00:00Z"},
            "phases": [],
        },
        "entry": {
            "feature_id": name, "started_at": "2026-11-15T09:00:00Z", "last_active": at, "status": status,
        },
    }  # fmt: skip


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / ".ai-session"


def loaded(path: Path) -> Any:
    return read_yaml(path.read_bytes(), str(path)).value


def visible_names(root: Path) -> list[str]:
    """Locks and temporary files start with a dot."""
    return sorted(name for name in os.listdir(root) if not name.startswith("."))


def ids(root: Path) -> list[object]:
    return [entry["feature_id"] for entry in registry.entries(str(root))]


# ── creating ─────────────────────────────────────────────────────────────────────────────────────────────


def test_feature_has_every_file_of_the_contract(root: Path) -> None:
    made = feature_dirs.create(str(root), document(), history=[{"command": "plan"}])
    assert visible_names(root) == ["README.md", "active-features.yaml", ID]
    assert sorted(os.listdir(root / ID)) == ["artifacts", "history.jsonl", "implementation-plan.yaml", "state.yaml"]
    assert loaded(Path(made.state)) == document()["state"]
    assert loaded(Path(made.plan)) == document()["plan"]
    assert Path(made.history).read_text() == '{"command":"plan"}\n'
    assert loaded(root / "active-features.yaml") == {"active_features": [document()["entry"]]}
    assert [name for name in os.listdir(root) if name.startswith(".creating-")] == []


def test_created_files_are_private(root: Path) -> None:
    old = os.umask(0)
    try:
        feature_dirs.create(str(root), document())
    finally:
        os.umask(old)
    for path in [root, *root.rglob("*")]:
        info = path.lstat()
        assert stat.S_IMODE(info.st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_existing_readme_stays(root: Path) -> None:
    root.mkdir()
    (root / "README.md").write_text("Ours.\n")
    feature_dirs.create(str(root), document())
    assert (root / "README.md").read_text() == "Ours.\n"


def test_git_ignores_locks_and_temporaries(root: Path) -> None:
    feature_dirs.create(str(root), document())
    feature_files.update(str(root), document(), [{"command": "x"}])
    subprocess.run(["git", "init", "-q", str(root.parent)], check=True)
    status = subprocess.run(
        ["git", "-C", str(root.parent), "status", "--porcelain", "-uall"], check=True, capture_output=True, text=True
    )
    assert sorted(line[3:] for line in status.stdout.splitlines()) == [
        ".ai-session/.gitignore", ".ai-session/README.md", ".ai-session/active-features.yaml",
        *(f".ai-session/{ID}/{name}" for name in ("history.jsonl", "implementation-plan.yaml", "state.yaml")),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "name",
    ["", "login", "Login-2026-11-15", "login-2026-02-30", "../login-2026-11-15", "a--b-2026-11-15",
     "login-2026-11-15\n", "-2026-11-15", "lögin-2026-11-15", ".login-2026-11-15", "a" * 250 + "-2026-11-15"],
)  # fmt: skip
def test_invalid_feature_id_creates_nothing(root: Path, name: str) -> None:
    with pytest.raises(Invalid) as caught:
        feature_dirs.create(str(root), document(name))
    assert caught.value.operation == "create"
    assert not root.exists()


def test_second_feature_with_the_same_id_is_refused(root: Path) -> None:
    feature_dirs.create(str(root), document())
    before = {path: path.read_bytes() for path in root.rglob("*.yaml")}
    with pytest.raises(Conflict) as caught:
        feature_dirs.create(str(root), document(at="2026-11-15T11:00:00Z"))
    assert (caught.value.operation, caught.value.feature_id, caught.value.file) == ("create", ID, str(root / ID))
    assert {path: path.read_bytes() for path in root.rglob("*.yaml")} == before


def test_id_known_only_to_the_registry_is_taken(root: Path) -> None:
    """Unless its directory was lost and is created again."""
    root.mkdir()
    registry.put(str(root), document()["entry"])
    with pytest.raises(Conflict):
        feature_dirs.create(str(root), document())
    assert not (root / ID).exists()
    feature_dirs.create(str(root), document(), known=True)
    assert ids(root) == [ID]


def test_registry_with_conflict_markers_stops_a_creation(root: Path) -> None:
    """Before any file is written."""
    feature_dirs.create(str(root), document())
    path = root / "active-features.yaml"
    torn = f"<<<<<<< HEAD\n{path.read_text()}=======\nactive_features: []\n>>>>>>> other\n"
    path.write_text(torn)
    with pytest.raises(Conflict, match="merge"):
        feature_dirs.create(str(root), document("other-2026-11-15"))
    assert path.read_text() == torn
    assert visible_names(root) == ["README.md", "active-features.yaml", ID]


def test_creation_is_undone_when_it_cannot_be_registered(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise Failed("the disk is full")

    monkeypatch.setattr(registry, "put", full)
    with pytest.raises(Failed) as caught:
        feature_dirs.create(str(root), document())
    assert (caught.value.operation, caught.value.feature_id) == ("create", ID)
    assert visible_names(root) == ["README.md"]
    assert [name for name in os.listdir(root) if name.startswith(".creating-")] == []


@pytest.mark.parametrize("failing", range(1, 8))
def test_creation_that_fails_at_any_write_leaves_nothing(
    root: Path, failing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No directory, no entry, no temporary file, whichever write fails."""
    count = 0
    real = files.write_atomic

    def write(path: str, data: bytes, **more: Any) -> None:
        nonlocal count
        count += 1
        if count == failing:
            raise Failed("the disk is full", operation="write", file=path)
        real(path, data, **more)

    for module in (feature_dirs, yaml_files, layout):
        monkeypatch.setattr(module, "write_atomic", write)
    with pytest.raises(Failed):
        feature_dirs.create(str(root), document())
    assert set(visible_names(root)) <= {"README.md"}
    assert [name for name in os.listdir(root) if name.startswith((".creating-", ".holdfast-"))] == []
    monkeypatch.undo()
    feature_dirs.create(str(root), document())
    assert ids(root) == [ID]


# ── settling ─────────────────────────────────────────────────────────────────────────────────────────────


def test_creation_that_died_before_its_rename_is_undone(root: Path) -> None:
    feature_dirs.create(str(root), document())
    dead = root / ".creating-0123"
    (dead / "artifacts").mkdir(parents=True)
    (dead / "state.yaml").write_text("half")
    (dead / ".holdfast-00.tmp").write_text("half")
    assert len(feature_dirs.finish_interrupted(str(root))) == 1
    assert not dead.exists()
    assert feature_dirs.finish_interrupted(str(root)) == []


def test_creation_that_died_before_its_registry_entry_is_completed(root: Path) -> None:
    feature_dirs.create(str(root), document())
    (root / "active-features.yaml").unlink()
    (root / ID / ".unregistered").write_text(json.dumps(document(status="paused")["entry"]))
    assert feature_dirs.finish_interrupted(str(root)) == [f"Feature {ID} was created but not listed: it is now."]
    assert registry.entries(str(root)) == [document(status="paused")["entry"]]
    assert not (root / ID / ".unregistered").exists()


def test_foreign_file_in_a_temporary_directory_is_not_removed(root: Path) -> None:
    root.mkdir()
    (root / ".creating-0123").mkdir()
    (root / ".creating-0123" / "thesis.doc").write_text("keep")
    assert feature_dirs.finish_interrupted(str(root)) == []
    assert (root / ".creating-0123" / "thesis.doc").read_text() == "keep"


def test_settle_leaves_an_unmerged_registry_alone(root: Path) -> None:
    feature_dirs.create(str(root), document())
    (root / "active-features.yaml").write_text("<<<<<<< a\n=======\n>>>>>>> b\n")
    (root / ID / ".unregistered").write_text(json.dumps(document()["entry"]))
    assert "cannot be listed" in feature_dirs.finish_interrupted(str(root))[0]
    assert (root / ID / ".unregistered").exists()
    assert (root / "active-features.yaml").read_text() == "<<<<<<< a\n=======\n>>>>>>> b\n"


# ── the registry ─────────────────────────────────────────────────────────────────────────────────────────

CREATE = textwrap.dedent("""
    import json, sys
    from holdfast.formats.mirror.contract import feature_dirs
    name = f"feature-{sys.argv[2]}-2026-11-15"
    document = json.loads(sys.argv[3].replace("add-login-2026-11-15", name))
    feature_dirs.create(sys.argv[1], document)
""")


def test_fifty_concurrent_processes_create_a_feature_each(root: Path) -> None:
    """Every feature exists exactly once, and nothing else is left."""
    words = [sys.executable, "-c", CREATE, str(root)]
    many = [subprocess.Popen([*words, str(number), json.dumps(document())]) for number in range(50)]
    assert [popen.wait() for popen in many] == [0] * 50
    expected = sorted(f"feature-{number}-2026-11-15" for number in range(50))
    assert sorted(map(str, ids(root))) == expected
    assert visible_names(root) == sorted(["README.md", "active-features.yaml", *expected])
    assert feature_dirs.finish_interrupted(str(root)) == []
    assert [name for name in os.listdir(root) if name.endswith(".tmp")] == []


def test_foreign_entries_comments_and_keys_survive(root: Path) -> None:
    root.mkdir()
    path = root / "active-features.yaml"
    path.write_text(
        "# Kept by the whole team.\nowner: ann\nactive_features:\n"
        "  # the big one\n"
        "  - feature_id: billing-2026-11-01   # ask Bo\n"
        "    status: paused\n    started_at: '2026-11-01T10:00:00Z'\n"
        "    last_active: '2026-11-01T12:00:00Z'\n    priority: 3\n"
    )
    registry.put(str(root), document()["entry"])
    registry.put(str(root), {"feature_id": "billing-2026-11-01", "status": "active"})
    text = path.read_text()
    for kept in ("# Kept by the whole team.", "# the big one", "# ask Bo", "owner: ann", "priority: 3"):
        assert kept in text
    first, second = registry.entries(str(root))
    assert list(first) == ["feature_id", "status", "started_at", "last_active", "priority"]
    assert (first["status"], first["last_active"]) == ("active", "2026-11-01T12:00:00Z")
    assert second == document()["entry"]


def test_unchanged_entry_writes_nothing(root: Path) -> None:
    feature_dirs.create(str(root), document())
    before = (root / "active-features.yaml").stat()
    registry.put(str(root), document()["entry"])
    after = (root / "active-features.yaml").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_last_active_never_goes_back(root: Path) -> None:
    feature_dirs.create(str(root), document(at="2026-11-15T10:00:00Z"))
    registry.put(str(root), document(at="2026-11-15T08:00:00Z", status="paused")["entry"])
    assert registry.entry(str(root), ID) == document(at="2026-11-15T10:00:00Z", status="paused")["entry"]
    registry.put(str(root), document(at="2026-11-15T12:30:00+02:00")["entry"])
    assert registry.entry(str(root), ID) == document(at="2026-11-15T12:30:00+02:00")["entry"]


def test_completed_status_is_final(root: Path) -> None:
    feature_dirs.create(str(root), document())
    for status in ("paused", "active", "paused", "completed"):
        registry.put(str(root), document(status=status)["entry"])
    with pytest.raises(Refused) as caught:
        registry.put(str(root), document(status="active")["entry"])
    assert (caught.value.operation, caught.value.feature_id) == ("update", ID)
    assert registry.entry(str(root), ID) == document(status="completed")["entry"]


@pytest.mark.parametrize(
    "text",
    ["active_features: 3\n", "- 1\n", "active_features:\n  - 7\n", "a: b: c\n", "active_features: [{}]\n", "\xff"],
)
def test_invalid_registry_is_damaged_and_stays(root: Path, text: str) -> None:
    root.mkdir()
    path = root / "active-features.yaml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(Damaged) as caught:
        registry.put(str(root), document()["entry"])
    assert (caught.value.operation, caught.value.file) == ("update", str(path))
    with pytest.raises(Damaged):
        registry.entries(str(root))
    assert path.read_bytes() == text.encode("latin-1")


@pytest.mark.parametrize("text", ["active_features:\n", "active_features: []\n"])
def test_empty_list_is_a_registry(root: Path, text: str) -> None:
    root.mkdir()
    (root / "active-features.yaml").write_text(text)
    registry.put(str(root), document()["entry"])
    assert ids(root) == [ID]


# ── updating ─────────────────────────────────────────────────────────────────────────────────────────────


def test_update_writes_all_files_and_appends_to_history(root: Path) -> None:
    feature_dirs.create(str(root), document())
    later = document(at="2026-11-15T11:00:00Z", status="paused")
    later["plan"]["feature"]["name"] = "Log in"
    feature_files.update(str(root), later, [{"command": "pause"}])
    feature_now = feature_files.read(str(root), ID)
    assert feature_now.state is not None
    assert feature_now.plan is not None
    assert (feature_now.state.value, feature_now.plan.value) == (later["state"], later["plan"])
    assert registry.entry(str(root), ID) == later["entry"]
    assert (root / ID / "history.jsonl").read_text() == '{"command":"pause"}\n'


def test_last_updated_never_goes_back(root: Path) -> None:
    feature_dirs.create(str(root), document(at="2026-11-15T10:00:00Z"))
    feature_files.update(str(root), document(at="2020-01-01T00:00:00Z"))
    feature_now = feature_files.read(str(root), ID)
    assert feature_now.state is not None
    assert feature_now.state.value == document(at="2026-11-15T10:00:00Z")["state"]


def test_comments_in_state_survive_an_update(root: Path) -> None:
    feature_dirs.create(str(root), document())
    path = root / ID / "state.yaml"
    path.write_text("# mine\n" + path.read_text() + "reviewer: bo # asked\n")
    feature_files.update(str(root), document(at="2026-11-15T11:00:00Z"))
    text = path.read_text()
    assert "# mine\n" in text
    assert "reviewer: bo # asked" in text
    assert "2026-11-15T11:00:00Z" in text


def test_update_of_a_missing_or_damaged_feature_writes_nothing(root: Path) -> None:
    with pytest.raises(NotFound):
        feature_files.update(str(root), document())
    feature_dirs.create(str(root), document())
    with pytest.raises(NotFound) as missing:
        feature_files.update(str(root), document("other-2026-11-15"))
    assert missing.value.feature_id == "other-2026-11-15"
    (root / ID / "implementation-plan.yaml").write_text("feature: [\n")
    with pytest.raises(Damaged):
        feature_files.update(str(root), document(at="2026-11-15T11:00:00Z"), [{"command": "x"}])
    assert (root / ID / "history.jsonl").read_text() == ""
    assert loaded(root / ID / "state.yaml") == document()["state"]


# ── obstacles ────────────────────────────────────────────────────────────────────────────────────────────


def all_writes(root: Path) -> list[HoldfastError]:
    """Each way of writing."""
    errors: list[HoldfastError] = []
    for attempt in (
        lambda: feature_dirs.create(str(root), document()),
        lambda: feature_files.update(str(root), document(), [{"command": "x"}]),
        lambda: feature_dirs.finish_interrupted(str(root)),
        lambda: registry.put(str(root), document()["entry"]),
        lambda: feature_files.read(str(root), ID),
    ):
        try:
            attempt()
        except HoldfastError as error:
            errors.append(error)
    return errors


def test_linked_directory_is_not_written_through(root: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    root.symlink_to(elsewhere)
    assert [type(error) for error in all_writes(root)] == [Refused] * 5
    assert list(elsewhere.iterdir()) == []


def test_linked_feature_is_not_written_through(root: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    root.mkdir()
    (root / ID).symlink_to(elsewhere)
    assert [type(error) for error in all_writes(root)] == [Conflict, NotFound, NotFound]
    assert layout.features(str(root)) == []
    assert list(elsewhere.iterdir()) == []


def test_file_in_place_of_the_directory_stays(root: Path) -> None:
    root.write_text("keep")
    assert [type(error) for error in all_writes(root)] == [Invalid] * 5
    assert root.read_text() == "keep"


def test_linked_file_is_not_written_through(root: Path, tmp_path: Path) -> None:
    feature_dirs.create(str(root), document())
    for name in ("state.yaml", "implementation-plan.yaml", "history.jsonl"):
        secret = tmp_path / name
        secret.write_text("version: 1\n")
        (root / ID / name).unlink()
        (root / ID / name).symlink_to(secret)
        with pytest.raises(Refused):
            feature_files.update(str(root), document(at="2026-11-15T11:00:00Z"), [{"command": "x"}])
        assert secret.read_text() == "version: 1\n"
