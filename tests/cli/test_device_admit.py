"""`device admit`: what a removed device wrote since its removal waits, is shown, and is admitted by an admin."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.several_devices import Several


@pytest.fixture
def several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Several:
    made = Several(tmp_path, monkeypatch, capsys)
    made.create_vault()
    made.join("desk")
    return made


def removed(several: Several) -> str:
    """The desk was removed, and wrote a note and a session since; the laptop is current. Returns the session."""
    several.at("laptop")
    several.document("device", "remove", "desk")
    several.at("desk")
    session = str(several.session("start", "Ship it")["id"])
    several.document("note", "Written outside")
    several.document("sync")
    several.at("laptop")
    several.document("sync")
    return session


def listed(several: Several, name: str) -> dict[str, Any]:
    return next(item for item in several.document("device", "list")["devices"] if item["name"] == name)


def test_device_admit_accepts_what_is_pending(several: Several) -> None:
    """`device list` and `doctor` name it with the command; afterwards nothing waits."""
    session = removed(several)
    assert listed(several, "desk")["held"] == {"events": 0, "pushes": 1}
    assert listed(several, "laptop")["held"] is None
    shown = several("device", "list")
    assert "not accepted since its removal: 1 push not read" in shown.out
    assert "holdfast device admit NAME" in shown.err
    checks = {item["name"]: item for item in several.document("doctor")["checks"]}
    assert (
        "desk was removed; what it wrote since is not accepted (1 push not read)" in checks["remote home"]["detail"]
    )
    assert "holdfast device admit desk" in checks["remote home"]["fix"]
    several.refused(3, "show", session)
    done = several.document("device", "admit", "desk")["admitted"]
    assert (done["name"], done["remotes"], done["sessions"], done["left"]) == ("desk", ["home"], 1, 0)
    assert done["events"] >= 2
    assert several.notes(session) == ["Written outside"]
    assert listed(several, "desk")["held"] is None
    assert several.document("sync")["rejected"] == []
    assert listed(several, "desk")["status"] == "removed"


def test_device_admit_reports_events_and_sessions(several: Several) -> None:
    """Or that there is nothing."""
    removed(several)
    assert several("device", "admit", "desk").out.startswith("Accepted ")
    again = several("device", "admit", "desk")
    assert (again.code, again.out.strip()) == (0, "Nothing of desk was waiting to be accepted")
    assert several.document("device", "admit", "desk")["admitted"]["events"] == 0


def test_device_admit_works_by_fingerprint_on_a_later_admin(several: Several) -> None:
    """All devices receive it."""
    session = removed(several)
    words = listed(several, "desk")["fingerprint"]
    several.join("tower")
    several.refused(1, "device", "admit", words)
    tower = several.words
    several.at("laptop")
    several.document("device", "approve", tower, "--admin")
    several.at("tower")
    assert several.document("device", "admit", words.upper())["admitted"]["sessions"] == 1
    several.sync("laptop")
    assert several.notes(session) == ["Written outside"]


def test_device_admit_exit_codes(several: Several) -> None:
    """An unknown device, a member of the vault, and a device that is no admin."""
    several.at("laptop")
    several.refused(3, "device", "admit", "nobody")
    error = several.refused(3, "device", "admit", "desk")
    assert "belongs to the vault" in error["hint"]
    removed(several)
    several.join("tower")
    error = several.refused(1, "device", "admit", "desk")
    assert "holdfast device list" in error["hint"]
    several.at("alone")
    several.refused(3, "device", "admit", "desk")


def test_device_admit_leaves_a_changed_push_pending(several: Several) -> None:
    """And reports it."""
    several.at("laptop")
    before = set((several.folder / "p").rglob("*"))
    removed(several)
    for pack in set((several.folder / "p").rglob("*")) - before:
        if pack.is_file():
            pack.chmod(0o600)
            pack.write_bytes(b"\0" * pack.stat().st_size)
    done = several("device", "admit", "desk")
    assert (done.code, done.out.strip()) == (0, "Nothing of desk was accepted")
    assert "1 of its pushes was not accepted" in done.err
    assert listed(several, "desk")["held"] == {"events": 0, "pushes": 1}


# ── at the removed device ────────────────────────────────────────────────────────────────────────────────


def test_removed_device_reports_its_removal(several: Several) -> None:
    """It cannot read who removed it, but others write what it cannot open."""
    several.at("laptop")
    several.session("start", "Ship it")
    several.sync("laptop", "desk", "laptop")
    several.document("device", "remove", "desk")
    several.at("desk")
    assert several.document("remote", "list")["remotes"][0]["status"] == "member"
    several.document("sync")
    assert several.document("remote", "list")["remotes"][0]["status"] == "removed"
    assert listed(several, "desk")["status"] == "removed"
    assert "at home: removed" in several("device", "show").out
    checks = {item["name"]: item for item in json.loads(several("doctor", "--json").out)["checks"]}
    assert "this device was removed from the vault" in checks["remote home"]["detail"]
    several.document("remote", "remove", "home")
    assert several.document("remote", "add", "home", several.url)["what"] == "asked"
    assert several.document("remote", "list")["remotes"][0]["status"] == "pending"
    assert listed(several, "desk")["status"] == "pending"
    words = several.words
    several.at("laptop")
    several.document("device", "approve", words)
    several.sync("desk")
    assert several.document("remote", "list")["remotes"][0]["status"] == "member"
    assert listed(several, "desk")["status"] == "member"


def test_planted_head_does_not_look_like_a_removal(several: Several) -> None:
    """Anybody can place bytes that no key opens next to an existing head."""
    several.at("laptop")
    several.session("start", "Ship it")
    several.sync("laptop", "desk")
    for head in (several.folder / "h").rglob("*-*"):
        if head.is_file():
            stem, _, counter = head.name.rpartition("-")
            planted = head.with_name(f"{stem}-{int(counter) + 5:012}")
            planted.write_bytes(b"HFS1" + bytes(200))
    several.document("sync")
    assert several.document("remote", "list")["remotes"][0]["status"] == "member"
