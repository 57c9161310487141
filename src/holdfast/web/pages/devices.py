"""Devices: this one, the vaults it belongs to, who else does, and what was sent, waits, or was turned away.

All of it is remembered: no remote is asked when the page is drawn, however often that is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.keeper.teleports import remembering
from holdfast.web.pages import Asked, Page, Shot
from holdfast.web.rendering import render

if TYPE_CHECKING:
    from holdfast.keeper.following import Change
    from holdfast.keeper.keeper import Keeper

# How this device stands in a vault, and how others do.
STANDING: Final = {
    "member": "belongs here", "pending": "asks to join", "reader": "reads only", "removed": "was removed",
    "other-keys": "known by other keys", "no-keys": "has no keys", "recovery": "a code on paper", "guest": "a guest",
}  # fmt: skip


class Devices:
    name = "devices"
    title = "Devices"

    def shot(self, keeper: Keeper, _: Asked, /) -> Shot:
        there = remembering.there(keeper)
        vaults = {
            f"remote-{one.remote.vault}": render("devices-remote.html", one=one, said=STANDING) for one in there
        }
        about = {
            "devices-heading": render("devices-heading.html", there=there),
            "devices-here": render("devices-here.html", here=remembering.here(keeper)),
            "devices-people": render("devices-people.html", people=remembering.known_people(keeper)),
            "devices-alone": render("devices-alone.html", alone=not there),
        }
        return Shot({**about, **vaults}, {"devices-remotes": tuple(vaults)})

    def concerns(self, _: Change, __: Asked, /) -> bool:
        return True

    def extras(self, _: Keeper, __: Asked, /) -> dict[str, object]:
        return {}


DEVICES: Final[Page] = Devices()
