"""The craft format's specification, point by point, tested with commands only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.several_devices import Several

IMPORTED = {
    "schema_version": "1.0.0", "session_id": "0b0c7a52-6c1f-4c0e-9d8e-2f0d6f3a1b11",
    "created_at": "2026-01-17T14:30:00.000Z", "updated_at": "2026-01-17T14:45:00.000Z", "device": "MacBook Pro",
    "project": "/Users/dt/projects/my-app", "goal": "Add OAuth", "mode": "default", "status": "in_progress",
    "progress": 0.5, "agents": [], "completed_work": [], "pending_tasks": ["Tests"], "decisions_made": [],
    "files_modified": [],
    "context_usage": {"estimated_tokens": 0, "compression_count": 0, "last_compression": None, "by_agent": {}},
    "teleportation": {
        "enabled": True, "last_sync": None, "sync_status": None, "sync_error": None,
        "devices": ["MacBook Pro", "iMac"], "storage_backend": "claude-desktop", "encrypted": True,
        "shared_with": None,
    },
}  # fmt: skip


@pytest.fixture
def several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Several:
    return Several(tmp_path, monkeypatch, capsys)


def exported(several: Several, session: str = "@") -> dict[str, Any]:
    document = several.document("export", session, "--format", "craft")["document"]
    assert isinstance(document, dict)
    return document


def mirrored(several: Several) -> dict[str, Any]:
    folder = several.project / ".craft/cache/orchestration-sessions"
    [file] = [path for path in folder.glob("*.json") if path.name != "index.json"]
    document = json.loads(file.read_text())
    assert isinstance(document, dict)
    return document


def imported(several: Several) -> str:
    (several.project / "craft.json").write_text(json.dumps(IMPORTED, indent=2))
    several.document("import", "craft.json")
    return str(IMPORTED["session_id"])


# ── project and devices ──────────────────────────────────────────────────────────────────────────────────


def test_project_is_the_path_on_the_current_device(several: Several) -> None:
    several.create_vault()
    session = several.session("start", "Build the shop")["id"]
    several.sync()
    several.join("desktop")
    elsewhere = several.root / "clone"
    several.git("clone", "-q", str(several.project), str(elsewhere))
    several.git("remote", "set-url", "origin", "https://example.org/shop.git", where=elsewhere)
    several.at("desktop")
    several.patch.chdir(elsewhere)
    several.session("resume", session)
    result = exported(several)
    assert result["project"] == str(elsewhere)
    assert result["metadata"]["project_paths"] == [str(several.project)]
    several("mirror", "on", "craft")
    file = elsewhere / f".craft/cache/orchestration-sessions/{session}.json"
    shown = json.loads(file.read_text())
    assert (shown["project"], shown["metadata"]) == (result["project"], result["metadata"])
    assert several("validate", str(file)).code == 0
    # Another program's edit of the file does not record this path in the session.
    before = len(several.document("log")["events"])
    file.write_text(json.dumps({**shown, "goal": "Build the whole shop"}, indent=2))
    several.session("status")
    assert [event["type"] for event in several.document("log")["events"][before:]] == ["session.edited"]
    several.sync()
    several.sync("laptop")
    several.patch.chdir(several.project)
    result = exported(several, session)
    assert (result["project"], result["goal"]) == (str(several.project), "Build the whole shop")
    assert "project_paths" not in result["metadata"]


@pytest.mark.parametrize("rest", [{}, {"x-tool": 1}])
def test_project_of_an_import_is_unchanged_until_the_session_is_used(several: Several, rest: dict[str, int]) -> None:
    session = imported(several)
    if rest:
        (several.project / "craft.json").write_text(json.dumps({**IMPORTED, **rest}))
        several.document("import", "craft.json")
    assert exported(several, session) == {**IMPORTED, **rest}
    several.session("resume", session)
    result = exported(several, session)
    assert result["project"] == str(several.project)
    assert result["metadata"]["project_paths"] == [IMPORTED["project"]]


def test_project_of_an_import_stays_this_devices_after_an_edit_of_its_file(several: Several) -> None:
    """The file does not know where the project is on other devices."""
    session = imported(several)
    several.session("resume", session)
    several("mirror", "on", "craft")
    (file,) = (several.project / ".craft/cache/orchestration-sessions").glob(f"{session}.json")
    before = json.loads(file.read_text())
    file.write_text(json.dumps({**before, "pending_tasks": ["Write the tests"], "x-tool": 1}, indent=2))
    several.session("status")
    document = json.loads(file.read_text())
    assert (document["project"], document["x-tool"]) == (str(several.project), 1)
    assert document["metadata"]["project_paths"] == [IMPORTED["project"]]


def test_imported_device_names_are_kept_in_devices(several: Several) -> None:
    session = imported(several)
    several.session("resume", session)
    assert several.session("note", "Going on here")["devices"] == ["MacBook Pro", "iMac", "laptop"]
    result = exported(several, session)
    assert (result["device"], result["teleportation"]["devices"]) == ("laptop", ["MacBook Pro", "iMac", "laptop"])


def test_own_sessions_have_the_version_of_the_format(several: Several) -> None:
    several.session("start", "Build the shop")
    assert exported(several)["metadata"]["craft_version"] == "1.0.0"


# ── pending agents ───────────────────────────────────────────────────────────────────────────────────────


def test_agent_add_records_a_pending_agent_that_agent_start_starts(several: Several) -> None:
    several.session("start", "Build the shop")
    several.session("agent", "start", "arch-1", "--type", "architect")
    added = several.document("agent", "add", "code-1", "--type", "coder", "--task", "Form", "--blocking-on", "arch-1")
    assert (added["agent"]["status"], added["agent"]["started_at"]) == ("pending", None)
    shown = exported(several)["agents"][1]
    assert (shown["status"], shown["started_at"], shown["blocking_on"]) == ("pending", None, "arch-1")
    several.refused(5, "agent", "add", "code-1", "--type", "coder")
    several.refused(3, "agent", "add", "doc-1", "--type", "writer", "--blocking-on", "nobody")
    several.session("pause")
    several.session("resume")
    begun = several.document("agent", "start", "code-1", "--type", "builder", "--background")["agent"]
    assert (begun["status"], begun["type"], begun["task"], begun["background"]) == (
        "running",
        "builder",
        "Form",
        True,
    )
    assert begun["started_at"] is not None
    several.refused(5, "agent", "start", "code-1", "--type", "coder")
    several.session("agent", "done", "code-1")


# ── sync status ──────────────────────────────────────────────────────────────────────────────────────────


def test_sync_block_is_right_after_every_change(several: Several) -> None:
    """In the mirrored file and in the JSON, before anything else is recorded."""
    several.at("ada")
    key = several.age
    several.at("laptop")
    several.document("people", "add", "ada@example.org", key)
    session = several.session("start", "Build the shop")["id"]
    several("mirror", "on", "craft")
    several.patch.chdir(several.root)  # wherever the command is run

    def travels() -> tuple[Any, ...]:
        block = mirrored(several)["teleportation"]
        assert exported(several, session)["teleportation"] == block
        return block["enabled"], block["encrypted"], block["sync_status"], block["shared_with"]

    assert travels() == (False, False, None, None)
    several.document("remote", "add", "home", several.url)
    assert travels() == (True, True, "pending", None)
    several.document("sync")
    several.document("share", session, "--with", "ada@example.org")
    assert travels() == (True, True, "success", ["ada@example.org"])
    assert several.session("show", session)["sync"]["shared_with"] == ["ada@example.org"]
    several.document("revoke", session, "--from", "ada@example.org")
    assert travels() == (True, True, "success", None)
    assert several.session("show", session)["sync"]["shared_with"] == []
    several.document("remote", "remove", "home")
    assert travels() == (False, False, None, None)


def test_remote_list_says_that_claude_desktop_does_not_sync(several: Several) -> None:
    several.patch.setenv("HOME", str(several.root))
    several.patch.setenv("APPDATA", str(several.root / "AppData"))
    several.patch.setenv("XDG_CONFIG_HOME", str(several.root / "config"))
    for folder in ("config/Claude", "Library/Application Support/Claude", "AppData/Claude"):
        (several.root / folder).mkdir(parents=True)
    added = several("remote", "add", "desktop", "claude-desktop:")
    assert added.code == 0
    assert "Claude Desktop does not copy this folder to other devices" in added.err
    assert "does not copy this folder to other devices" in " ".join(several("remote", "list").out.split())
    [listed] = several.document("remote", "list")["remotes"]
    assert "does not copy" in listed["caveat"]
    several.document("remote", "add", "home", several.url)
    assert [item["caveat"] is None for item in several.document("remote", "list")["remotes"]] == [False, True]


# ── tolerance ────────────────────────────────────────────────────────────────────────────────────────────


def test_import_accepts_what_strict_validation_refuses(several: Several) -> None:
    """Times without milliseconds, a choice that was no option, a name instead of an address."""
    document = {
        **IMPORTED,
        "updated_at": "2026-01-17T14:45:00Z",
        "decisions_made": [
            {"timestamp": "2026-01-17T14:40:00Z", "context": "c", "options": ["a", "b"], "chosen": "c",
             "reasoning": None}
        ],
        "teleportation": {**IMPORTED["teleportation"], "shared_with": ["Ada"]},  # type: ignore[dict-item]
        "metadata": {"craft_version": "v1"},
    }  # fmt: skip
    (several.project / "craft.json").write_text(json.dumps(document))
    [verdict] = json.loads(several("validate", "craft.json", "--json").out)["files"]
    assert [problem["path"] for problem in verdict["problems"]] == [
        "$.updated_at", "$.decisions_made[0].timestamp", "$.teleportation.shared_with[0]", "$.metadata.craft_version",
        "$.decisions_made[0].chosen",
    ]  # fmt: skip
    assert several("validate", "craft.json", "--lenient").code == 0
    assert several.document("import", "craft.json")["notes"] == []
    assert exported(several, str(IMPORTED["session_id"])) == document
