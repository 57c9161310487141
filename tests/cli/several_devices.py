"""Several devices of one or more people, each with a home of its own, and a folder they all can reach."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Calling


class Several(Calling):
    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        super().__init__(root, monkeypatch, capsys)
        self.root = root
        # What is out of reach here stays so: trying it again need not take time.
        monkeypatch.setattr("holdfast.sync.remotes.wrappers._FIRST_WAIT", 0.0)
        self.folder = root / "remote"
        self.url = f"folder:{self.folder}"
        self.repository()
        self.git("remote", "add", "origin", "https://example.org/shop.git")
        self.at("laptop")

    def at(self, device: str) -> None:
        """Sit down at this device."""
        home = self.root / f"home-{device}"
        self.patch.setenv("HOLDFAST_HOME", str(home))
        if not home.exists():
            home.mkdir(mode=0o700)
            # Nothing happens by itself here: what a test sees is what it did.
            (home / "config.toml").write_text(f'[device]\nname = "{device}"\n\n[sync]\nbackground = false\n')

    @property
    def words(self) -> str:
        """The fingerprint of the device we are at."""
        return str(self.document("device", "show")["device"]["fingerprint"])

    @property
    def age(self) -> str:
        return str(self.document("device", "show")["device"]["age"])

    @property
    def vault(self) -> str:
        """The words of the first vault of the device we are at."""
        return str(self.document("remote", "list")["remotes"][0]["words"])

    def create_vault(self, device: str = "laptop") -> None:
        self.at(device)
        assert self.document("remote", "add", "home", self.url)["what"] == "founded"

    def join(self, device: str, by: str = "laptop") -> None:
        """This device asks, the other approves, and we sit at the first again."""
        self.at(device)
        assert self.document("remote", "add", "home", self.url)["what"] == "asked"
        words = self.words
        self.at(by)
        self.document("device", "approve", words)
        self.at(device)
        self.document("sync")

    def sync(self, *devices: str) -> dict[str, Any]:
        """Sync at these one after the other, or where we are; gives what the last one said."""
        done: dict[str, Any] = {}
        for device in devices:
            self.at(device)
            done = self.document("sync")
        return done or self.document("sync")

    def notes(self, session: str) -> list[str]:
        return [item["text"] for item in self.session("show", session)["notes"]]

    def away(self) -> None:
        """The remote cannot be reached, until it is `back`."""
        self.folder.rename(self.root / "unplugged")

    def back(self) -> None:
        (self.root / "unplugged").rename(self.folder)
