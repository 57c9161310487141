"""Devices whose stores contain secrets that an older version recorded, and a remote whose content can be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast import Keeper
from holdfast.core.envelope import Event
from holdfast.core.events import EventData
from holdfast.store.interface import Draft
from holdfast.sync import devices, open_vault, outgoing, remote_list, remote_setup, vault_shares
from holdfast.sync.sync import sync

TOKEN = "ghp_" + "c4n4ry0" * 5 + "x"
OTHER = "AKIA" + "QX7CANARY4ZP2LM9"
CUT = "[redacted:github_token]"


class Fleet:
    """A laptop with a vault in a folder, and a desktop that can join it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.url = f"folder:{root / 'shelf'}"
        self._open: list[Keeper] = []
        self.laptop = self.keeper("laptop")

    def keeper(self, name: str) -> Keeper:
        place = self.root / name / "shop"
        place.mkdir(parents=True, exist_ok=True)
        home = self.root / name / "home"
        home.mkdir(mode=0o700, exist_ok=True)
        (home / "config.toml").write_text("[sync]\nbackground = false\n")  # a background process would sync first
        keeper = Keeper.open(str(place), home=str(home), actor="ada", device=name)
        self._open.append(keeper)
        return keeper

    def joined(self, name: str) -> Keeper:
        keeper = self.keeper(name)
        remote_setup.add(keeper, "shelf", self.url)
        devices.approve(self.laptop, devices.public_keys(keeper).words)
        remote_setup.confirm(keeper, "shelf", None)
        sync(keeper)
        return keeper

    def remote(self) -> dict[str, bytes]:
        """Everything at the remote: packs decrypted, the rest as it is stored."""
        parts = {}
        with open_vault.vault(self.laptop, remote_list.find(self.laptop.home, "shelf")) as main:
            shares = [vault_shares.open_share(main, share.vault, share.founding) for share in main.membership.shares]
            vaults = {f"p/{vault.tag}/": vault for vault in (main, *shares)}
            for item in main.remote.list(""):
                data = main.remote.get(item.name, 1 << 30)
                if item.name.startswith("p/"):
                    vault = vaults[item.name.rpartition("/")[0] + "/"]
                    data = vault.open("pack", item.name, data, vault.ring)
                parts[item.name] = data
        return parts

    def close(self) -> None:
        for keeper in self._open:
            keeper.close()


def plant(keeper: Keeper, session: str, *data: EventData) -> list[Event]:
    """Records as a version that knew fewer kinds of secrets."""
    made = []
    with keeper.store().transaction() as transaction:
        for item in data:
            event = transaction.record(session, Draft(item, keeper.now(), "ada"))
            assert event is not None
            made.append(event)
        transaction.remember("arrivals/rules", b"0")
    return made


def watched(monkeypatch: pytest.MonkeyPatch) -> list[Event]:
    """Collects the events that are searched for secrets from now on."""
    searched: list[Event] = []
    inner = outgoing.find_secrets

    def look(event: Event, kind_of: outgoing.KindOf) -> outgoing.EventWithSecrets | None:
        searched.append(event)
        return inner(event, kind_of)

    monkeypatch.setattr(outgoing, "find_secrets", look)
    return searched


def raw(home: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(home.rglob("*")) if path.is_file())


def notes(keeper: Keeper, session: str) -> list[str]:
    return [note.text for note in keeper.state(session).notes]
