"""Devices: this one, its vaults, their other members, and what was sent, waits, or was rejected.

All of it is remembered: drawing the page asks no remote.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.sync import devices_overview
from holdfast.web.pages import Page, PageContent, PageRequest
from holdfast.web.render import render

if TYPE_CHECKING:
    from holdfast.keeper.change_feed import Changes
    from holdfast.keeper.keeper import Keeper

# The status of a device in a vault.
STATUS_WORDS: Final = {
    "member": "member", "pending": "asks to join", "reader": "read-only", "removed": "removed",
    "other-keys": "known by other keys", "no-keys": "no keys", "recovery": "recovery code", "guest": "guest",
}  # fmt: skip


class Devices:
    name = "devices"
    title = "Devices"

    def content(self, keeper: Keeper, _: PageRequest, /) -> PageContent:
        remotes = devices_overview.remotes(keeper)
        vaults = {
            f"remote-{entry.remote.vault}": render("devices-remote.html", entry=entry, words=STATUS_WORDS)
            for entry in remotes
        }
        about = {
            "devices-heading": render("devices-heading.html", remotes=remotes),
            "devices-here": render("devices-here.html", here=devices_overview.this_device(keeper)),
            "devices-people": render("devices-people.html", people=devices_overview.known_people(keeper)),
            "devices-alone": render("devices-alone.html", alone=not remotes),
        }
        return PageContent({**about, **vaults}, {"devices-remotes": tuple(vaults)})

    def concerns(self, _: Changes, __: PageRequest, /) -> bool:
        return True

    def extras(self, _: Keeper, __: PageRequest, /) -> dict[str, object]:
        return {}


DEVICES: Final[Page] = Devices()
