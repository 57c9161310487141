"""Sync from end to end: real processes, homes of their own, and a folder between them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import checked, git, git_environment


class Home:
    """One device; every call is a process."""

    def __init__(self, root: Path, name: str) -> None:
        self.project = root / f"project-{name}"
        self._home = root / f"home-{name}"
        self._home.mkdir(mode=0o700)
        (self._home / "config.toml").write_text(f'[device]\nname = "{name}"\n\n[sync]\nbackground = false\n')
        self._environ = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("HOLDFAST_", "GIT_"))},
            **git_environment(root),
            "HOLDFAST_HOME": str(self._home),
        }

    def run(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "holdfast", *words], cwd=self.project, env=self._environ, input=stdin, text=True,
            capture_output=True, check=False,
        )  # fmt: skip

    def __call__(self, *words: str, stdin: str = "") -> dict[str, Any]:
        """The document of a call that must succeed."""
        done = self.run(*words, "--json", stdin=stdin)
        assert (done.returncode, done.stderr) == (0, ""), done
        return checked(done.stdout)

    def notes(self, session: str) -> list[str]:
        return [item["text"] for item in self("show", session)["session"]["notes"]]


@pytest.fixture
def homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Home]:
    for name, value in git_environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    origin = tmp_path / "origin"
    origin.mkdir()
    git("init", "-q", "-b", "main", where=origin)
    (origin / "README.md").write_text("hello\n")
    git("add", ".", where=origin)
    git("commit", "-q", "-m", "first", where=origin)
    entries = {name: Home(tmp_path, name) for name in ("laptop", "desk", "new", "guest")}
    for home in entries.values():
        git("clone", "-q", str(origin), str(home.project), where=tmp_path)
    return entries


def test_sync_from_creating_a_vault_to_an_expired_share(homes: dict[str, Home], tmp_path: Path) -> None:
    """Create, ask, approve, sync, rename, recover, remove; share, write as a guest, revoke, read only, expire."""
    laptop, desk, new, guest = homes.values()
    url = f"folder:{tmp_path}/remote"

    # A vault is created, a second device asks to join, and a person compares thirteen words.
    session = laptop("start", "Build the shop")["session"]["id"]
    laptop("note", "from the laptop")
    assert laptop("remote", "add", "home", url)["what"] == "founded"
    assert laptop("sync")["pushed"] > 0
    asked = desk("remote", "add", "home", url)
    assert asked["what"] == "asked"
    assert desk("sync")["pulled"] == 0
    assert laptop("device", "approve", asked["fingerprint"])["approved"]["name"] == "desk"
    assert desk("sync")["pulled"] > 0

    # The desk continues where the laptop stopped, and the laptop receives it.
    assert desk("resume", session)["session"]["notes"][0]["text"] == "from the laptop"
    desk("note", "from the desk")
    desk("device", "rename", "workbench")
    desk("sync")
    laptop("sync")
    assert laptop.notes(session) == ["from the laptop", "from the desk"]
    assert "workbench" in {item["name"] for item in laptop("device", "list")["devices"]}

    # The recovery code opens the vault for a new device; the workbench is removed.
    code = laptop.run("device", "recovery-code").stdout
    assert new("remote", "add", "home", url, "--recover", stdin=code)["what"] == "member"
    new("sync")
    assert new.notes(session) == ["from the laptop", "from the desk"]
    new("device", "remove", "workbench")
    desk("note", "too late")
    desk("sync")
    laptop("sync")
    assert "too late" not in laptop.notes(session)

    # A guest reads, is admitted, and writes.
    ada = "ada@example.org"
    laptop("people", "add", ada, guest("device", "show")["device"]["age"])
    laptop("share", session, "--with", ada)
    guest("people", "add", "ben@example.org", laptop("device", "show")["device"]["fingerprint"])
    (accepted,) = guest("accept", url)["sessions"]
    assert (accepted["id"], accepted["goal"], accepted["writes"]) == (session, "Build the shop", True)
    laptop("sync")
    guest("sync")
    guest("resume", session)
    guest("note", "from the guest")
    guest("sync")
    laptop("sync")
    new("sync")
    assert laptop.notes(session)[-1] == new.notes(session)[-1] == "from the guest"

    # Revoked: the guest keeps what was read, and receives nothing more.
    laptop("revoke", session, "--from", ada)
    laptop("note", "for us alone")
    laptop("sync")
    guest("sync")
    assert "for us alone" not in guest.notes(session)

    # Read only, and expiring soon.
    laptop("share", session, "--with", ada, "--read-only", "--expires", "2s")
    assert guest("accept", url)["sessions"][0]["writes"] is False
    assert "for us alone" in guest.notes(session)
    time.sleep(2.1)
    laptop("sync")
    laptop("note", "after the end")
    laptop("sync")
    guest("sync")
    assert "after the end" not in guest.notes(session)

    # The remote contains no readable text.
    lying = b"".join(path.read_bytes() for path in (tmp_path / "remote").rglob("*") if path.is_file())
    for word in (b"Build the shop", b"from the laptop", b"workbench", ada.encode(), session.encode()):
        assert word not in lying
    assert json.loads(laptop.run("doctor", "--json").stdout)["holdfast"] == 1
