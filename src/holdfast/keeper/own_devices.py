"""Which writers of a session are devices of ours: others may write in it too."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.store import origin

if TYPE_CHECKING:
    from holdfast.core.own_words import IsOwn
    from holdfast.keeper.keeper import Keeper


def own_test(keeper: Keeper, session: str) -> IsOwn:
    """Tells whether a writer of the session is a device of ours, as far as is known now.

    Hooks ask: nothing is looked up before a writer comes that this device is not, and nothing twice.
    """
    this = keeper.home.known_writer(keeper.address)
    known: dict[str, bool] = {}
    devices: list[Callable[[str], bool]] = []

    def looked_up(writer: str) -> bool:
        store = keeper.store()
        if not store.is_own_stream(session, writer):
            return False
        if writer == this or not os.path.lexists(keeper.home.remotes):
            return True
        from holdfast.teleport.keys import is_certified

        if not is_certified(writer) and origin.share_of(store, session) is None:
            return True
        if not devices:
            from holdfast.keeper.teleports import opening

            devices.append(opening.device_test(keeper))
        return devices[0](writer)

    def is_own(writer: str) -> bool:
        # On a server, the owner of a session can put events into it that name this device as their writer.
        if writer == this and keeper.address.path is not None:
            return True
        if writer not in known:
            known[writer] = looked_up(writer)
        return known[writer]

    return is_own
