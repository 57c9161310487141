"""How a session travels, wherever people and programs look: `status`, `show`, `export`, and the craft mirror."""

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


def standing(several: Several, *words: str) -> tuple[str, str | None]:
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


def test_without_a_remote_a_session_goes_nowhere(several: Several) -> None:
    """Nothing is shown of travelling before there is anything to travel by."""
    several.session("start", "Ship it")
    assert several.session("status")["sync"] == NOWHERE
    assert "Sync" not in several("status").out
    assert block(several)["enabled"] is False


def test_pending_until_a_sync_and_after_every_change(several: Several) -> None:
    """What the vault does not know makes a session pending, at once and everywhere; a sync makes it synced."""
    session = several.session("start", "Ship it")["id"]
    several.create_vault()
    assert standing(several) == ("pending", "home")
    several.document("sync")
    assert standing(several) == ("synced", "home")
    assert several.session("status")["sync"]["last_sync"].endswith("Z")
    assert "home: all of it is there; last synced just now" in several("status").out
    assert standing(several, "note", "more") == ("pending", "home")
    assert standing(several, "show", session) == ("pending", "home")
    assert "not all of it is there yet" in several("status").out
    assert "not all of it is there yet" in several("show", session).out
    several.document("sync")
    assert standing(several, "show", session) == ("synced", "home")


def test_what_another_device_wrote_is_no_news_here(several: Several) -> None:
    """A session that came from elsewhere is synced: nothing of it waits here."""
    session = several.session("start", "Ship it")["id"]
    several.create_vault()
    several.sync("laptop")
    several.join("desktop")
    several.sync("laptop", "desktop")
    assert standing(several, "show", session) == ("synced", "home")


def test_device_that_waits_to_be_let_in(several: Several) -> None:
    """Until it is approved, everything of it is pending, and it was never synced."""
    several.create_vault()
    several.at("desktop")
    several.session("start", "Alone so far")
    several.document("remote", "add", "home", several.url)
    several("sync")
    sync = several.session("status")["sync"]
    assert (sync["status"], sync["last_sync"], sync["error"]) == ("pending", None, None)
    several.away()
    several("sync")
    assert standing(several)[0] == "error"
    several.back()
    several("sync")
    assert standing(several)[0] == "pending"


def test_what_is_pending_stays_pending_until_the_vault_is_confirmed(several: Several) -> None:
    """Earlier sessions are not sent to a vault nobody has confirmed, and say so; new ones go."""
    several.create_vault()
    several.at("desktop")
    earlier = several.session("start", "Before")["id"]
    several.join("desktop")
    later = several.session("start", "After", "--replace")["id"]
    several.document("sync")
    assert standing(several, "show", earlier)[0] == "pending"
    assert standing(several, "show", later)[0] == "synced"
    several.at("laptop")
    words = several.vault
    several.at("desktop")
    several.document("remote", "confirm", "home", words)
    several.document("sync")
    assert standing(several, "show", earlier)[0] == "synced"


def test_offline_is_an_error_with_its_reason_until_it_works_again(several: Several) -> None:
    """What the last attempt failed of is shown; a sync that succeeds takes it away."""
    several.session("start", "Ship it")
    several.create_vault()
    several.document("sync")
    several.away()
    assert several("sync").code == 7
    sync = several.session("status")["sync"]
    assert sync["status"] == "error"
    assert sync["error"]
    assert sync["last_sync"] is not None
    # Without blanks: a path as long as this one's may be broken anywhere.
    assert "".join(sync["error"].split()) in "".join(several("status").out.split())
    several.back()
    several.document("sync")
    assert standing(several) == ("synced", "home")
    assert several.session("status")["sync"]["error"] is None


def test_of_several_remotes_the_worst_is_shown(several: Several) -> None:
    """A session that is at one place and not at the other is not yet everywhere."""
    several.session("start", "Ship it")
    several.create_vault()
    several.document("remote", "add", "stick", f"folder:{several.root / 'stick'}")
    several.document("sync", "--remote", "home")
    assert standing(several) == ("pending", "stick")
    several.document("sync")
    assert standing(several)[0] == "synced"
    (several.root / "stick").rename(several.root / "pocket")
    several("sync")
    assert standing(several) == ("error", "stick")


def test_session_of_another_project_than_the_remotes_goes_nowhere(several: Several) -> None:
    """A remote for one project does not concern the sessions of others."""
    several.session("start", "Ship it")
    several.document("remote", "add", "home", several.url, "--this-project")
    several.document("sync")
    assert standing(several) == ("synced", "home")
    other = several.root / "elsewhere"
    other.mkdir()
    several.patch.chdir(other)
    several.session("start", "Something else")
    assert several.session("status")["sync"] == NOWHERE


def test_removed_device_is_reported_so(several: Several) -> None:
    """Whoever was taken out of the vault sees it in `status`, as far as it can know."""
    several.create_vault()
    several.join("desktop")
    several.at("laptop")
    several.document("device", "remove", "desktop")
    several.at("desktop")
    several.session("start", "Too late")
    several("sync")
    assert standing(several)[0] == "error"


def test_who_a_session_is_shared_with(several: Several) -> None:
    """The people it is shared with are named, on every device of the vault, until it is taken back."""
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
def test_status_loads_nothing_that_it_does_not_need(several: Several, *, remote: bool) -> None:
    """Without a remote nothing of teleportation is loaded; with one, still no cryptography."""
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


def test_craft_block_is_true(several: Several) -> None:
    """`export --format craft` says how the session really travels."""
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


def test_devices_are_those_that_wrote_to_it(several: Several) -> None:
    """Whoever records something in the session is one of its devices, on all of them."""
    session = several.session("start", "Ship it")["id"]
    several.create_vault()
    several.sync("laptop")
    several.join("desktop")
    several.document("resume", session)
    several.document("note", "from the desktop")
    several.sync("desktop", "laptop")
    assert sorted(block(several, session)["devices"]) == ["desktop", "laptop"]


def test_mirror_follows_a_sync(several: Several) -> None:
    """A mirror says what was true when it was written; a sync writes it again, and nobody's edit is seen in that."""
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


def test_edit_of_the_mirror_after_a_sync_is_taken_in(several: Several) -> None:
    """Who edits the file that a sync wrote changes what they changed; the block is ours alone."""
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


def test_what_came_in_goes_out_as_it_was(several: Several, tmp_path: Path) -> None:
    """An imported document is exported to the letter while there is no remote; with one, its block is true."""
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
