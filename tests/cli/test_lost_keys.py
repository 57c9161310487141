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


class Losing(Several):
    """Two devices with one session; the desk's keys can be put aside. The laptop founded, so it lets others in."""

    def begin(self, *, admin: bool = False) -> str:
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
        """Leave, ask again with new keys, and be let in."""
        self.at("desk")
        self.document("remote", "remove", "home")
        assert self.document("remote", "add", "home", self.url)["what"] == "asked"
        self.approve_desk(*options)
        self.sync("desk", "laptop", "desk")

    def check(self, name: str) -> dict[str, Any]:
        return next(item for item in json.loads(self("doctor", "--json").out)["checks"] if item["name"] == name)

    def arrived(self, session: str) -> set[str]:
        """What the laptop knows, after everybody synced; nobody is turned away."""
        self.sync("desk")
        assert self.sync("laptop")["rejected"] == []
        return set(self.notes(session))


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Losing:
    return Losing(tmp_path, monkeypatch, capsys)


@pytest.mark.parametrize("admin", [False, True])
def test_put_aside_and_put_back(desk: Losing, *, admin: bool) -> None:
    """Meanwhile nothing makes new keys and everything says that they are gone; afterwards all of it arrives."""
    session = desk.begin(admin=admin)
    desk.file.rename(desk.aside)
    error = desk.refused(6, "sync")
    assert "keys are missing" in error["message"]
    assert f"holdfast remote add home {desk.url}" in error["hint"]
    desk.refused(6, "device", "show")
    assert not desk.file.exists()
    desk.session("note", "s5")
    assert not is_certified(desk.writer)
    assert desk.session("status")["sync"]["status"] == "error"
    assert "keys are missing" in desk("status").out
    assert desk.document("remote", "list")["remotes"][0]["status"] == "no-keys"
    assert desk.check("keys")["status"] == "failed"
    desk.aside.rename(desk.file)
    desk.session("note", "s6")
    assert desk.certified()
    assert desk.arrived(session) >= {"s1", "s5", "s6"}
    desk.at("desk")
    assert desk.session("status")["sync"]["status"] == "synced"


def test_missing_for_good(desk: Losing) -> None:
    """A new device in the vault's eyes; what was recorded without keys goes with it."""
    session = desk.begin()
    desk.file.unlink()
    desk.session("note", "lost1")
    assert desk("sync").code == 6
    desk.rejoin()
    desk.session("note", "lost2")
    assert desk.certified()
    assert desk.arrived(session) >= {"s1", "lost1", "lost2"}


def test_other_keys_are_reported_everywhere(desk: Losing) -> None:
    """Keys that the vault never met, in a home that it knows: nobody says that all of it is there."""
    session = desk.begin()
    desk.file.rename(desk.aside)
    key_files.create(str(desk.file.parent), name="desk")
    again = f"holdfast remote remove home, then holdfast remote add home {desk.url}"
    (note,) = desk.document("sync")["notes"]
    assert "new keys" in note
    assert again in note
    assert again in desk("sync").err
    desk.session("note", "under new keys")
    assert desk.certified()
    assert again in str(desk.session("status")["sync"]["error"])
    assert desk.document("device", "show")["device"]["vaults"][0]["status"] == "other-keys"
    assert again in " ".join(desk("device", "show").out.split())
    assert desk.document("remote", "list")["remotes"][0]["status"] == "other-keys"
    assert again in " ".join(desk("remote", "list").out.split())
    assert again in desk.check("remote home")["fix"]
    desk.rejoin()
    assert desk.document("remote", "list")["remotes"][0]["status"] == "member"
    assert desk.arrived(session) >= {"s1", "under new keys"}


def test_request_under_other_keys_makes_room(desk: Losing) -> None:
    """Whoever loses its keys while it waits asks again with those it has then, and only these are asked for."""
    desk.create_vault()
    desk.at("desk")
    desk.document("remote", "add", "home", desk.url)
    desk.file.unlink()
    desk.document("remote", "remove", "home")
    desk.document("remote", "add", "home", desk.url)
    words = desk.words
    desk.at("laptop")
    asking = [
        item["fingerprint"] for item in desk.document("device", "list")["devices"] if item["status"] == "pending"
    ]
    assert asking == [words]
    desk.approve_desk()
    assert desk.document("sync")["notes"] == []
    assert desk.document("remote", "list")["remotes"][0]["status"] == "member"


def test_what_only_an_admin_can_send(desk: Losing) -> None:
    """Events of earlier keys are shown as not sent, with the way out; once this device is an admin, they arrive."""
    session = desk.begin()
    desk.session("note", "unsent")
    desk.file.unlink()
    desk.rejoin()
    assert "unsent" not in desk.arrived(session)
    desk.at("desk")
    sync = desk.session("status")["sync"]
    assert sync["status"] == "pending"
    assert "holdfast doctor" in sync["error"]
    assert "all of it is there" not in desk("status").out
    result = desk.check("remote home")
    assert result["status"] == "warning"
    assert f"holdfast device approve {desk.words} --admin" in result["fix"]
    desk.approve_desk("--admin")
    assert desk.arrived(session) >= {"s1", "unsent"}
    desk.at("desk")
    assert desk.session("status")["sync"]["status"] == "synced"
    assert desk.check("remote home")["status"] == "ok"


def test_ordinary_change_of_the_file_begins_no_new_life(desk: Losing) -> None:
    """The same keys in a file that was written anew, or touched, or is damaged: the writer stays."""
    desk.begin()
    writer = desk.writer
    desk.document("device", "rename", "desk")
    desk.session("note", "renamed")
    assert desk.writer == writer
    os.utime(desk.file)
    desk.session("note", "touched")
    assert desk.writer == writer
    whole = desk.file.read_bytes()
    desk.file.write_bytes(whole[:20])
    desk.session("note", "damaged")
    assert desk.writer == writer
    desk.file.write_bytes(whole)
    desk.session("note", "whole again")
    assert desk.writer == writer
