"""`device admit`: what a removed device wrote since is shown, waits, and is taken in by an admin's word."""

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
    """The desk was removed, and wrote a note and a session since; we are at the laptop. Gives the session."""
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


def test_what_is_pending_is_shown_and_taken_in(several: Several) -> None:
    """`device list` and `doctor` name it with the command; after that it is there, and nothing waits any more."""
    session = removed(several)
    assert listed(several, "desk")["held"] == {"events": 0, "pushes": 1}
    assert listed(several, "laptop")["held"] is None
    shown = several("device", "list")
    assert "what it wrote since is held back: 1 push not read" in shown.out
    assert "holdfast device admit NAME" in shown.err
    checks = {item["name"]: item for item in several.document("doctor")["checks"]}
    assert (
        "desk was removed, and what it wrote since is held back (1 push not read)" in checks["remote home"]["detail"]
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


def test_in_words(several: Several) -> None:
    """How many events of how many sessions; and calmly, that there is nothing."""
    removed(several)
    assert several("device", "admit", "desk").out.startswith("Took in ")
    again = several("device", "admit", "desk")
    assert (again.code, again.out.strip()) == (0, "Nothing of desk is held back")
    assert several.document("device", "admit", "desk")["admitted"]["events"] == 0


def test_by_its_fingerprint_at_a_device_that_came_later(several: Several) -> None:
    """Another admin decides as well, and everybody gets it."""
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


def test_what_cannot_be_admitted(several: Several) -> None:
    """Each reason has its code: nobody of that name, one that belongs to the vault, nobody who may."""
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


def test_what_cannot_be_read_stays(several: Several) -> None:
    """A push that somebody changed is not taken in; that is said, and it still waits."""
    several.at("laptop")
    before = set((several.folder / "p").rglob("*"))
    removed(several)
    for pack in set((several.folder / "p").rglob("*")) - before:
        if pack.is_file():
            pack.chmod(0o600)
            pack.write_bytes(b"\0" * pack.stat().st_size)
    done = several("device", "admit", "desk")
    assert (done.code, done.out.strip()) == (0, "Nothing of desk was taken in")
    assert "1 push of it was not taken in" in done.err
    assert listed(several, "desk")["held"] == {"events": 0, "pushes": 1}


# ── at the removed device ────────────────────────────────────────────────────────────────────────────────


def test_removed_device_knows_that_it_is_out(several: Several) -> None:
    """It cannot read who removed it; that others write what it cannot open tells it enough."""
    several.at("laptop")
    several.session("start", "Ship it")
    several.sync("laptop", "desk", "laptop")
    several.document("device", "remove", "desk")
    several.at("desk")
    assert several.document("remote", "list")["remotes"][0]["status"] == "member"
    several.document("sync")
    assert several.document("remote", "list")["remotes"][0]["status"] == "removed"
    assert listed(several, "desk")["status"] == "removed"
    assert "was removed" in several("device", "show").out
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


def test_planted_head_makes_nobody_removed(several: Several) -> None:
    """Bytes that no key opens, above a head that is still there, prove nothing: anybody can put them there."""
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
