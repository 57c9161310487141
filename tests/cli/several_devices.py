"""Several devices of one or more people, each with a home of its own, and a folder that all can reach."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Calling


class Several(Calling):
    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        super().__init__(root, monkeypatch, capsys)
        self.root = root
        # An unreachable remote stays unreachable here, so that retries need not wait.
        monkeypatch.setattr("holdfast.sync.remotes.wrappers._FIRST_WAIT", 0.0)
        self.folder = root / "remote"
        self.url = f"folder:{self.folder}"
        self.repository()
        self.git("remote", "add", "origin", "https://example.org/shop.git")
        self.at("laptop")

    def at(self, device: str) -> None:
        """Switches to this device."""
        home = self.root / f"home-{device}"
        self.patch.setenv("HOLDFAST_HOME", str(home))
        if not home.exists():
            home.mkdir(mode=0o700)
            # No background process runs here: a test sees only its own effects.
            (home / "config.toml").write_text(f'[device]\nname = "{device}"\n\n[sync]\nbackground = false\n')

    @property
    def words(self) -> str:
        """The fingerprint of the current device."""
        return str(self.document("device", "show")["device"]["fingerprint"])

    @property
    def age(self) -> str:
        return str(self.document("device", "show")["device"]["age"])

    @property
    def vault(self) -> str:
        """The words of the first vault of the current device."""
        return str(self.document("remote", "list")["remotes"][0]["words"])

    def create_vault(self, device: str = "laptop") -> None:
        self.at(device)
        assert self.document("remote", "add", "home", self.url)["what"] == "founded"

    def join(self, device: str, by: str = "laptop") -> None:
        """This device asks to join, the other approves, and the first becomes the current device again."""
        self.at(device)
        assert self.document("remote", "add", "home", self.url)["what"] == "asked"
        words = self.words
        self.at(by)
        self.document("device", "approve", words)
        self.at(device)
        self.document("sync")

    def sync(self, *devices: str) -> dict[str, Any]:
        """Syncs these devices one after the other, or the current one; returns the last result."""
        done: dict[str, Any] = {}
        for device in devices:
            self.at(device)
            done = self.document("sync")
        return done or self.document("sync")

    def notes(self, session: str) -> list[str]:
        return [item["text"] for item in self.session("show", session)["notes"]]

    def away(self) -> None:
        """Makes the remote unreachable until `back`."""
        self.folder.rename(self.root / "unplugged")

    def back(self) -> None:
        (self.root / "unplugged").rename(self.folder)
