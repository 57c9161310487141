"""Devices of one person that share a folder, for the Devices page."""

from __future__ import annotations

from pathlib import Path

from holdfast.keeper.keeper import Keeper
from holdfast.sync import devices, people, remote_setup, sync
from holdfast.workspace.keys.device_keys import DeviceKeys
from tests.web.dashboard import Site
from tests.web.sample_sessions import HOSTILE

NAMES = (HOSTILE[0], HOSTILE[6], HOSTILE[7])


class Vaults:
    """The device whose page is shown, other devices, and the folder they share."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.folder = site.top / "folder"
        self.url = f"folder:{self.folder}"
        no_background_sync(site.home)

    def other(self, name: str, number: int = 0) -> Keeper:
        """Another device, with its own home."""
        home = self.site.top / f"other{number}"
        no_background_sync(home)
        return Keeper.open(str(self.site.project("elsewhere")), home=str(home), actor="ada", device=name)

    def create_vault(self) -> None:
        with self.site.keeper() as keeper:
            remote_setup.add(keeper, "home", self.url)
            sync.sync(keeper)

    def ask(self, name: str, number: int) -> str:
        """Ask to join with this device; returns its fingerprint."""
        with self.other(name, number) as keeper:
            remote_setup.add(keeper, "home", self.url)
            return devices.public_keys(keeper).words

    def join(self, name: str, number: int) -> None:
        words = self.ask(name, number)
        with self.site.keeper() as keeper:
            devices.approve(keeper, words)
        with self.other(name, number) as keeper:
            sync.sync(keeper)

    def sync(self) -> None:
        with self.site.keeper() as keeper:
            sync.sync(keeper)

    def write(self, name: str, number: int, goal: str) -> None:
        """Record something on another device and send it."""
        with self.other(name, number) as keeper:
            keeper.start(goal, replace=True)
            sync.sync(keeper)

    def corrupt_newest_pack(self) -> None:
        """Corrupt the newest pack in the folder."""
        newest = max(self.folder.rglob("p/*/*"), key=lambda path: path.stat().st_mtime_ns)
        newest.chmod(0o600)
        newest.write_bytes(newest.read_bytes()[:-20] + b"\0" * 20)


def no_background_sync(home: Path) -> None:
    """No background activity: a test sees only what it does."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    config = home / "config.toml"
    if not config.exists():
        config.write_text("[sync]\nbackground = false\n")


def everything(vaults: Vaults) -> None:
    """A member, a removed device, a joiner; something sent, unsent and rejected."""
    with vaults.site.keeper() as keeper:
        keeper.start("Lay the cable to the lighthouse")
        people.add(keeper.home, "tove@example.org", DeviceKeys.generate().public.age)
    vaults.create_vault()
    vaults.join("laptop", 1)
    vaults.write("laptop", 1, "Paint the boat")
    vaults.sync()
    vaults.join(NAMES[2], 2)
    with vaults.site.keeper() as keeper:
        devices.remove(keeper, NAMES[2])
    vaults.ask(NAMES[0], 3)
    vaults.write("laptop", 1, "Mend the net")
    vaults.corrupt_newest_pack()
    vaults.sync()
    with vaults.site.keeper() as keeper:
        keeper.session().note("Buy more rope")
