"""A home whose keys are missing or new: every surface says so, and what was recorded meanwhile still arrives."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from holdfast.workspace.keys import key_files
from holdfast.workspace.keys.device_keys import certifies, is_certified
from tests.cli.several_devices import Several


class LostKeys(Several):
    """Two devices with one session; the desk's keys can be moved away. The laptop created the vault and approves."""

    def set_up(self, *, admin: bool = False) -> str:
        session = str(self.session("start", "Build the shop")["id"])
        self.create_vault()
        self.sync()
        self.join("desk")
        if admin:
            self.approve_desk("--admin")
        self.session("resume", session)
        self.session("note", "s1")
        self.sync("desk", "laptop")
        self.at("desk")
        return session

    def approve_desk(self, *options: str) -> None:
        self.at("desk")
        words = self.words
        self.at("laptop")
        self.document("device", "approve", words, *options)
        self.at("desk")

    @property
    def file(self) -> Path:
        return self.root / "home-desk" / "device.json"

    @property
    def aside(self) -> Path:
        return self.root / "aside.json"

    @property
    def writer(self) -> str:
        return str(json.loads((self.root / "home-desk" / "writer.json").read_text())["writer"])

    def certified(self) -> bool:
        public = key_files.public(str(self.file.parent))
        assert public is not None
        return certifies(self.writer, public.signing)

    def rejoin(self, *options: str) -> None:
        """Leaves, asks again with new keys, and is approved."""
        self.at("desk")
        self.document("remote", "remove", "home")
        assert self.document("remote", "add", "home", self.url)["what"] == "asked"
        self.approve_desk(*options)
        self.sync("desk", "laptop", "desk")

    def check(self, name: str) -> dict[str, Any]:
        return next(item for item in json.loads(self("doctor", "--json").out)["checks"] if item["name"] == name)

    def arrived(self, session: str) -> set[str]:
        """The notes that the laptop has after all synced, with nothing rejected."""
        self.sync("desk")
        assert self.sync("laptop")["rejected"] == []
        return set(self.notes(session))


@pytest.fixture
def devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> LostKeys:
    return LostKeys(tmp_path, monkeypatch, capsys)


@pytest.mark.parametrize("admin", [False, True])
def test_keys_moved_away_and_back_lose_nothing(devices: LostKeys, *, admin: bool) -> None:
    """Meanwhile no new keys are made and every surface reports them missing."""
    session = devices.set_up(admin=admin)
    devices.file.rename(devices.aside)
    error = devices.refused(6, "sync")
    assert "keys are missing" in error["message"]
    assert f"holdfast remote add home {devices.url}" in error["hint"]
    devices.refused(6, "device", "show")
    assert not devices.file.exists()
    devices.session("note", "s5")
    assert not is_certified(devices.writer)
    assert devices.session("status")["sync"]["status"] == "error"
    assert "keys are missing" in devices("status").out
    assert devices.document("remote", "list")["remotes"][0]["status"] == "no-keys"
    assert devices.check("keys")["status"] == "failed"
    devices.aside.rename(devices.file)
    devices.session("note", "s6")
    assert devices.certified()
    assert devices.arrived(session) >= {"s1", "s5", "s6"}
    devices.at("desk")
    assert devices.session("status")["sync"]["status"] == "synced"


def test_device_with_lost_keys_rejoins_as_a_new_one(devices: LostKeys) -> None:
    """What was recorded without keys is sent then."""
    session = devices.set_up()
    devices.file.unlink()
    devices.session("note", "lost1")
    assert devices("sync").code == 6
    devices.rejoin()
    devices.session("note", "lost2")
    assert devices.certified()
    assert devices.arrived(session) >= {"s1", "lost1", "lost2"}


def test_unknown_keys_are_reported_on_every_surface(devices: LostKeys) -> None:
    """In a home that the vault knows; no surface claims that everything was sent."""
    session = devices.set_up()
    devices.file.rename(devices.aside)
    key_files.create(str(devices.file.parent), name="desk")
    again = f"holdfast remote remove home, then holdfast remote add home {devices.url}"
    (note,) = devices.document("sync")["notes"]
    assert "new keys" in note
    assert again in note
    assert again in devices("sync").err
    devices.session("note", "under new keys")
    assert devices.certified()
    assert again in str(devices.session("status")["sync"]["error"])
    assert devices.document("device", "show")["device"]["vaults"][0]["status"] == "other-keys"
    assert again in " ".join(devices("device", "show").out.split())
    assert devices.document("remote", "list")["remotes"][0]["status"] == "other-keys"
    assert again in " ".join(devices("remote", "list").out.split())
    assert again in devices.check("remote home")["fix"]
    devices.rejoin()
    assert devices.document("remote", "list")["remotes"][0]["status"] == "member"
    assert devices.arrived(session) >= {"s1", "under new keys"}


def test_request_with_new_keys_replaces_the_pending_one(devices: LostKeys) -> None:
    devices.create_vault()
    devices.at("desk")
    devices.document("remote", "add", "home", devices.url)
    devices.file.unlink()
    devices.document("remote", "remove", "home")
    devices.document("remote", "add", "home", devices.url)
    words = devices.words
    devices.at("laptop")
    asking = [
        item["fingerprint"] for item in devices.document("device", "list")["devices"] if item["status"] == "pending"
    ]
    assert asking == [words]
    devices.approve_desk()
    assert devices.document("sync")["notes"] == []
    assert devices.document("remote", "list")["remotes"][0]["status"] == "member"


def test_events_of_earlier_keys_wait_until_the_device_is_an_admin(devices: LostKeys) -> None:
    """They are shown as not sent, with the way out."""
    session = devices.set_up()
    devices.session("note", "unsent")
    devices.file.unlink()
    devices.rejoin()
    assert "unsent" not in devices.arrived(session)
    devices.at("desk")
    sync = devices.session("status")["sync"]
    assert sync["status"] == "pending"
    assert "holdfast doctor" in sync["error"]
    assert "all of it is there" not in devices("status").out
    result = devices.check("remote home")
    assert result["status"] == "warning"
    assert f"holdfast device approve {devices.words} --admin" in result["fix"]
    devices.approve_desk("--admin")
    assert devices.arrived(session) >= {"s1", "unsent"}
    devices.at("desk")
    assert devices.session("status")["sync"]["status"] == "synced"
    assert devices.check("remote home")["status"] == "ok"


def test_rewritten_key_file_keeps_the_writer(devices: LostKeys) -> None:
    """Also a touched or damaged file."""
    devices.set_up()
    writer = devices.writer
    devices.document("device", "rename", "desk")
    devices.session("note", "renamed")
    assert devices.writer == writer
    os.utime(devices.file)
    devices.session("note", "touched")
    assert devices.writer == writer
    whole = devices.file.read_bytes()
    devices.file.write_bytes(whole[:20])
    devices.session("note", "damaged")
    assert devices.writer == writer
    devices.file.write_bytes(whole)
    devices.session("note", "whole again")
    assert devices.writer == writer
