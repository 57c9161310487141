"""`doctor` on sync: keys, remotes and rejected objects; an unreachable remote is a warning, damage a failure."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from holdfast.sync import open_vault
from tests.cli.several_devices import Several


@pytest.fixture
def several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Several:
    return Several(tmp_path, monkeypatch, capsys)


def checks(several: Several, *, code: int = 0) -> dict[str, dict[str, Any]]:
    """Every check by its name, each once."""
    done = several("doctor", "--json")
    assert done.code == code, done
    document = json.loads(done.out)["checks"]
    named = {match["name"]: match for match in document}
    assert len(named) == len(document)
    return named


def home(several: Several, device: str = "laptop") -> Path:
    return several.root / f"home-{device}"


def test_doctor_opens_no_remote_without_one(several: Several, monkeypatch: pytest.MonkeyPatch) -> None:
    """And makes no keys."""
    monkeypatch.setattr(open_vault, "open_remote", lambda *_, **__: pytest.fail("nobody was to be asked"))
    several.session("start", "Ship it")
    result = checks(several)
    assert (result["keys"]["status"], result["remotes"]["status"]) == ("ok", "ok")
    assert not (home(several) / "device.json").exists()


def test_doctor_shows_keys_and_remote_of_a_sound_device(several: Several) -> None:
    """The fingerprint, the address, and the time of the last sync."""
    several.create_vault()
    several.session("start", "Ship it")
    assert "never synced" in checks(several)["remote home"]["detail"]
    several.document("sync")
    result = checks(several)
    assert {entry["status"] for name, entry in result.items() if name != "modes"} == {"ok"}, result
    assert several.words in result["keys"]["detail"]
    assert several.url in result["remote home"]["detail"]
    assert "last synced at 20" in result["remote home"]["detail"]


def test_doctor_warns_of_an_unreachable_remote(several: Several) -> None:
    several.create_vault()
    several.away()
    several("sync")
    result = checks(several)["remote home"]
    assert result["status"] == "warning"
    assert "cannot be reached" in result["detail"]
    assert "the last sync failed" in result["detail"]


def test_doctor_names_the_command_that_approves_a_waiting_device(several: Several) -> None:
    """With the whole fingerprint, and what waits to be sent."""
    several.create_vault()
    several.at("desktop")
    several.session("start", "Before")
    several.document("remote", "add", "home", several.url)
    result = checks(several)["remote home"]
    assert result["status"] == "warning"
    assert "waits for approval" in result["detail"]
    assert "1 earlier session not sent until you confirm" in result["detail"]
    assert f"holdfast device approve {several.words}" in result["fix"]
    assert "holdfast remote confirm home WORDS" in result["fix"]


def test_doctor_names_rejected_packs_with_reason_and_fix(several: Several) -> None:
    several.create_vault()
    several.join("desktop")
    several.session("start", "Ship it")
    several.document("sync")
    for pack in (several.folder / "p").rglob("*"):
        if pack.is_file():
            pack.write_bytes(b"\0" * pack.stat().st_size)
    several.at("laptop")
    several.document("sync")
    result = checks(several)["remote home"]
    assert result["status"] == "warning"
    assert "not accepted from desktop" in result["detail"]
    assert result["fix"]


def test_doctor_reports_own_packs_and_heads_missing_at_the_remote(several: Several) -> None:
    several.create_vault()
    several.session("start", "Ship it")
    several.document("sync")
    for pack in (several.folder / "p").rglob("*"):
        if pack.is_file():
            pack.unlink()
    assert "1 pack of this device is no longer there" in checks(several)["remote home"]["detail"]
    for head in (several.folder / "h").rglob("*"):
        if head.is_file():
            head.unlink()
    assert "published last is no longer there" in checks(several)["remote home"]["detail"]
    several.document("sync")
    assert "not accepted from laptop: the remote no longer shows" in checks(several)["remote home"]["detail"]
    several.document("sync")
    assert checks(several)["remote home"]["status"] == "ok"


def test_doctor_detects_another_vault_in_place_of_ours(several: Several) -> None:
    several.create_vault()
    ours = (several.folder / "vault").read_bytes()
    several.at("eve")
    several.document("remote", "add", "hers", f"folder:{several.root / 'hers'}")
    (several.folder / "vault").chmod(0o600)
    (several.folder / "vault").write_bytes((several.root / "hers" / "vault").read_bytes())
    several.at("laptop")
    assert "replaced the vault" in checks(several)["remote home"]["detail"]
    (several.folder / "vault").unlink()
    result = checks(several)["remote home"]
    assert "no longer there" in result["detail"]
    assert "holdfast sync --put-back" in str(result["fix"])
    several.document("sync", "--put-back")
    assert (several.folder / "vault").read_bytes() == ours
    assert checks(several)["remote home"]["status"] == "ok"


def test_doctor_fails_on_damaged_keys(several: Several) -> None:
    """Unreadable, or readable by others; no new keys are made."""
    several.create_vault()
    kept = home(several) / "device.json"
    whole = kept.read_bytes()
    kept.write_bytes(whole[:40])
    result = checks(several, code=6)
    assert (result["keys"]["status"], result["remotes"]["status"]) == ("failed", "warning")
    assert kept.read_bytes() == whole[:40]
    kept.unlink()
    result = checks(several, code=6)
    assert "is missing" in result["keys"]["detail"]
    assert not kept.exists()
    kept.write_bytes(whole)
    if os.name != "nt":
        kept.chmod(0o644)
        result = checks(several, code=6)
        assert "open to others" in result["keys"]["detail"]
        assert "chmod 600" in result["keys"]["fix"]
        several("doctor", "--repair")
        kept.chmod(0o600)
    assert checks(several)["keys"]["status"] == "ok"


@pytest.mark.parametrize("name", ["remotes.json", "people.json"])
def test_doctor_fails_on_damaged_sync_files(several: Several, name: str) -> None:
    """They are named and left as they are."""
    several.create_vault()
    (home(several) / name).write_text("{")
    result = checks(several, code=6)
    assert result["remotes"]["status"] == "failed"
    assert (home(several) / name).read_text() == "{"


def test_backup_contains_no_keys(several: Several) -> None:
    """Neither the device's nor those of any vault."""
    several.create_vault()
    several.session("start", "Ship it")
    several.document("sync")
    copy = several.root / "copy.db"
    several.document("backup", str(copy))
    data = copy.read_bytes()
    keys = json.loads((home(several) / "device.json").read_text())
    assert keys["identity"].encode() not in data
    wrapped = b"age-encryption.org"
    assert any(wrapped in path.read_bytes() for path in home(several).glob("store.db*"))
    assert wrapped not in data
    assert b"AGE-SECRET-KEY" not in data
    several.at("desktop")
    several.document("restore", str(copy))
    assert several.document("remote", "list")["remotes"] == []
    assert not (home(several, "desktop") / "device.json").exists()


def test_uninstall_keeps_keys_remotes_and_people(several: Several) -> None:
    several.create_vault()
    several.session("start", "Ship it")
    several.document("people", "add", "bea@example.org", several.age)
    before = {name: (home(several) / name).read_bytes() for name in ("device.json", "remotes.json", "people.json")}
    assert several("uninstall").code == 0
    assert {name: (home(several) / name).read_bytes() for name in before} == before
    several.document("sync")


def test_doctor_reports_missing_membership_entries(several: Several) -> None:
    """With the command that restores them."""
    several.create_vault()
    session = str(several.session("start", "Ship it")["id"])
    several.document("sync")
    for entry in (several.folder / "m").rglob("*"):
        if entry.is_file():
            entry.unlink()
    result = checks(several)["remote home"]
    assert "no new device can join" in result["detail"]
    assert "holdfast sync --put-back" in result["fix"]
    several.document("sync", "--put-back")
    assert checks(several)["remote home"]["status"] == "ok"
    several.join("desktop")
    assert several.session("show", session)["goal"] == "Ship it"


def test_doctor_misses_no_packs_in_a_copied_home(several: Several) -> None:
    """The copy repacks what was deleted; neither home takes that for lost packs."""
    several.create_vault()
    session = str(several.session("start", "To be deleted")["id"])
    several.document("sync")
    several.session("start", "To be kept", "--replace")
    several.document("sync")
    several.document("delete", session, "--confirm", "--force")
    several.document("sync")
    shutil.copytree(home(several), home(several, "copied"))
    several.at("copied")
    several.document("sync")
    assert checks(several)["remote home"]["status"] == "ok"
    several.at("laptop")
    assert checks(several)["remote home"]["status"] == "ok"
    several.sync("laptop", "copied")
    assert checks(several)["remote home"]["status"] == "ok"
    several.at("laptop")
    assert checks(several)["remote home"]["status"] == "ok"


def test_doctor_does_not_break_fingerprints_and_long_names(several: Several, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    several.create_vault()
    several.away()
    several("sync")
    several.back()
    several.document("remote", "add", "a-remote-with-a-long-name", f"folder:{several.root / 'other'}")
    shown = several("doctor").out
    assert f"\n{' ' * 20}{several.words}\n" in shown
    assert "ok      remote a-remote-with-a-long-name\n" in shown
