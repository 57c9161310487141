"""The sync status of a session in `status`, `show`, `export` and the craft mirror."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.several_devices import Several

CRAFT = ".craft/cache/orchestration-sessions"
NOWHERE: dict[str, object] = {"remote": None, "status": "none", "last_sync": None, "error": None, "shared_with": []}


@pytest.fixture
def several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Several:
    return Several(tmp_path, monkeypatch, capsys)


def sync_status(several: Several, *words: str) -> tuple[str, str | None]:
    sync = several.session(*(words or ("status",)))["sync"]
    return sync["status"], sync["remote"]


def block(several: Several, *words: str) -> dict[str, Any]:
    document = several.document("export", *words, "--format", "craft")["document"]["teleportation"]
    assert isinstance(document, dict)
    return document


def mirrored(several: Several) -> dict[str, Any]:
    """The block in the mirror's only session file."""
    (entries,) = [path for path in (several.project / CRAFT).iterdir() if path.name != "index.json"]
    return dict(json.loads(entries.read_text())["teleportation"])


# ── status and show ──────────────────────────────────────────────────────────────────────────────────────


def test_session_without_a_remote_has_no_sync_status(several: Several) -> None:
    several.session("start", "Ship it")
    assert several.session("status")["sync"] == NOWHERE
    assert "Sync" not in several("status").out
    assert block(several)["enabled"] is False


def test_session_is_pending_after_every_change_until_a_sync(several: Several) -> None:
    session = several.session("start", "Ship it")["id"]
    several.create_vault()
    assert sync_status(several) == ("pending", "home")
    several.document("sync")
    assert sync_status(several) == ("synced", "home")
    assert several.session("status")["sync"]["last_sync"].endswith("Z")
    assert "home: up to date; last synced just now" in several("status").out
    assert sync_status(several, "note", "more") == ("pending", "home")
    assert sync_status(several, "show", session) == ("pending", "home")
    assert "not fully synced yet" in several("status").out
    assert "not fully synced yet" in several("show", session).out
    several.document("sync")
    assert sync_status(several, "show", session) == ("synced", "home")


def test_session_received_from_another_device_is_synced(several: Several) -> None:
    session = several.session("start", "Ship it")["id"]
    several.create_vault()
    several.sync("laptop")
    several.join("desktop")
    several.sync("laptop", "desktop")
    assert sync_status(several, "show", session) == ("synced", "home")


def test_session_of_a_device_that_waits_for_approval_is_pending(several: Several) -> None:
    """And was never synced."""
    several.create_vault()
    several.at("desktop")
    several.session("start", "Alone so far")
    several.document("remote", "add", "home", several.url)
    several("sync")
    sync = several.session("status")["sync"]
    assert (sync["status"], sync["last_sync"], sync["error"]) == ("pending", None, None)
    several.away()
    several("sync")
    assert sync_status(several)[0] == "error"
    several.back()
    several("sync")
    assert sync_status(several)[0] == "pending"


def test_earlier_sessions_are_pending_until_the_vault_is_confirmed(several: Several) -> None:
    """New ones are sent."""
    several.create_vault()
    several.at("desktop")
    earlier = several.session("start", "Before")["id"]
    several.join("desktop")
    later = several.session("start", "After", "--replace")["id"]
    several.document("sync")
    assert sync_status(several, "show", earlier)[0] == "pending"
    assert sync_status(several, "show", later)[0] == "synced"
    several.at("laptop")
    words = several.vault
    several.at("desktop")
    several.document("remote", "confirm", "home", words)
    several.document("sync")
    assert sync_status(several, "show", earlier)[0] == "synced"


def test_failed_sync_is_shown_with_its_reason_until_one_succeeds(several: Several) -> None:
    several.session("start", "Ship it")
    several.create_vault()
    several.document("sync")
    several.away()
    assert several("sync").code == 7
    sync = several.session("status")["sync"]
    assert sync["status"] == "error"
    assert sync["error"]
    assert sync["last_sync"] is not None
    # Without blanks, since a long path may be wrapped anywhere.
    assert "".join(sync["error"].split()) in "".join(several("status").out.split())
    several.back()
    several.document("sync")
    assert sync_status(several) == ("synced", "home")
    assert several.session("status")["sync"]["error"] is None


def test_worst_status_of_several_remotes_is_shown(several: Several) -> None:
    several.session("start", "Ship it")
    several.create_vault()
    several.document("remote", "add", "stick", f"folder:{several.root / 'stick'}")
    several.document("sync", "--remote", "home")
    assert sync_status(several) == ("pending", "stick")
    several.document("sync")
    assert sync_status(several)[0] == "synced"
    (several.root / "stick").rename(several.root / "pocket")
    several("sync")
    assert sync_status(several) == ("error", "stick")


def test_session_outside_the_remotes_project_has_no_sync_status(several: Several) -> None:
    several.session("start", "Ship it")
    several.document("remote", "add", "home", several.url, "--this-project")
    several.document("sync")
    assert sync_status(several) == ("synced", "home")
    other = several.root / "elsewhere"
    other.mkdir()
    several.patch.chdir(other)
    several.session("start", "Something else")
    assert several.session("status")["sync"] == NOWHERE


def test_status_on_a_removed_device_reports_the_removal(several: Several) -> None:
    several.create_vault()
    several.join("desktop")
    several.at("laptop")
    several.document("device", "remove", "desktop")
    several.at("desktop")
    several.session("start", "Too late")
    several("sync")
    assert sync_status(several)[0] == "error"


def test_people_a_session_is_shared_with_are_shown(several: Several) -> None:
    """On every device of the vault, until revoked."""
    session = several.session("start", "Ship it")["id"]
    several.create_vault()
    several.at("bea")
    key = several.age
    several.at("laptop")
    several.document("people", "add", "bea@example.org", key)
    several.document("share", session, "--with", "bea@example.org")
    assert several.session("show", session)["sync"]["shared_with"] == ["bea@example.org"]
    assert "shared with bea@example.org" in " ".join(several("status").out.split())
    assert block(several, session)["shared_with"] == ["bea@example.org"]
    several.join("desktop")
    several.sync("laptop", "desktop")
    assert several.session("show", session)["sync"]["shared_with"] == ["bea@example.org"]
    several.at("laptop")
    several.document("revoke", session, "--from", "bea@example.org")
    assert several.session("show", session)["sync"]["shared_with"] == []


@pytest.mark.parametrize("remote", [False, True])
def test_status_loads_no_sync_without_a_remote(several: Several, *, remote: bool) -> None:
    """And with one, no cryptography."""
    several.session("start", "Ship it")
    if remote:
        several.create_vault()
        several.document("sync")
    code = (
        "import sys; from holdfast.cli.main import main; main(['status', '--json']);"
        "print(' '.join(sorted(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    assert {
        name for name in loaded if name.split(".")[0] in ("cryptography", "pyrage", "obstore", "keyring")
    } == set()
    ours = {name for name in loaded if name.startswith(("holdfast.sync", "cryptography"))}
    assert bool(ours - {"holdfast.sync", "holdfast.sync.follower"}) is remote
    assert json.loads(done.stdout)["session"]["sync"]["status"] == ("synced" if remote else "none")


# ── craft ────────────────────────────────────────────────────────────────────────────────────────────────


def test_craft_export_has_the_real_sync_status(several: Several) -> None:
    several.session("start", "Ship it")
    several.create_vault()
    result = block(several)
    assert (result["enabled"], result["encrypted"], result["storage_backend"]) == (True, True, "local")
    assert (result["sync_status"], result["last_sync"], result["devices"]) == ("pending", None, ["laptop"])
    several.document("sync")
    result = block(several)
    assert (result["sync_status"], result["sync_error"], result["shared_with"]) == ("success", None, None)
    assert result["last_sync"] == several.session("status")["sync"]["last_sync"]
    several.away()
    several("sync")
    assert block(several)["sync_status"] == "error"
    assert block(several)["sync_error"] == several.session("status")["sync"]["error"]


def test_devices_of_a_session_are_those_that_wrote_to_it(several: Several) -> None:
    session = several.session("start", "Ship it")["id"]
    several.create_vault()
    several.sync("laptop")
    several.join("desktop")
    several.document("resume", session)
    several.document("note", "from the desktop")
    several.sync("desktop", "laptop")
    assert sorted(block(several, session)["devices"]) == ["desktop", "laptop"]


def test_mirror_is_rewritten_after_a_sync(several: Several) -> None:
    """Which is not taken for an edit."""
    several.document("mirror", "on", "craft")
    session = several.session("start", "Ship it")["id"]
    assert mirrored(several)["enabled"] is False
    several.create_vault()
    several.document("note", "one")
    assert (mirrored(several)["enabled"], mirrored(several)["sync_status"]) == (True, "pending")
    events = len(several.document("log")["events"])
    several.document("sync")
    assert mirrored(several) == block(several)
    assert mirrored(several)["sync_status"] == "success"
    status = several.document("mirror", "status")["mirrors"][0]
    assert (status["changed_outside"], status["rejected"]) == (False, [])
    assert len(several.document("log", session)["events"]) == events
    several.document("note", "two")
    assert mirrored(several)["sync_status"] == "pending"


def test_edit_of_the_mirror_after_a_sync_is_read_back(several: Several) -> None:
    """Except within the block, which is ours."""
    several.document("mirror", "on", "craft")
    session = several.session("start", "Ship it")["id"]
    several.create_vault()
    several.document("sync")
    file = several.project / CRAFT / f"{session}.json"
    document = json.loads(file.read_text())
    document["goal"] = "Ship all of it"
    document["teleportation"] |= {"enabled": False, "sync_status": "error", "shared_with": ["eve@example.org"]}
    file.write_text(json.dumps(document))
    answer = several.session("status")
    assert (answer["goal"], answer["conflicts"]) == ("Ship all of it", [])
    assert (mirrored(several)["enabled"], mirrored(several)["shared_with"]) == (True, None)
    assert [item["type"] for item in several.document("log")["events"]].count("session.edited") == 1


def test_imported_document_is_exported_exactly_without_a_remote(several: Several, tmp_path: Path) -> None:
    """With one, its block has the real status."""
    several.session("start", "Ship it")
    document = several.document("export", "--format", "craft")["document"]
    document |= {"session_id": "0b0c7a52-6c1f-4c0e-9d8e-2f0d6f3a1b11"}
    document["teleportation"] |= {"enabled": True, "storage_backend": "s3", "sync_status": "success", "own": 1}
    file = tmp_path / "theirs.json"
    file.write_text(json.dumps(document))
    session = several.document("import", str(file))["files"][0]["session"]
    assert several.document("export", session, "--format", "craft")["document"] == document
    several.create_vault()
    answer = several.document("export", session, "--format", "craft")["document"]["teleportation"]
    assert (answer["storage_backend"], answer["sync_status"], answer["own"]) == ("local", "pending", 1)
