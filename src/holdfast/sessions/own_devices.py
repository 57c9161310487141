"""Which writers of a session are devices of ours: others may write in it too."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.store import origin

if TYPE_CHECKING:
    from holdfast.core.own_events import IsOwn
    from holdfast.workspace.workspace import Workspace


def device_test(ws: Workspace) -> Callable[[str], bool]:
    """Tells whether a writer with keys is this device or another one of ours, as the vaults stand now."""
    tests = [test for follower in ws.followers if (test := follower.is_own_writer(ws)) is not None]
    return lambda writer: any(is_own_writer(writer) for is_own_writer in tests)


def own_test(ws: Workspace, session: str) -> IsOwn:
    """Tells whether a writer of the session is a device of ours, as far as is known now.

    Hooks ask: nothing is looked up before a writer comes that this device is not, and nothing twice.
    """
    this = ws.home.known_writer(ws.address)
    known: dict[str, bool] = {}
    devices: list[Callable[[str], bool]] = []

    def looked_up(writer: str) -> bool:
        store = ws.store()
        if not origin.is_own_stream(store, session, writer) or origin.member_of(store, session) is not None:
            return False
        if writer == this or not os.path.lexists(ws.home.remotes):
            return True
        from holdfast.workspace.keys.device_keys import is_certified

        if not is_certified(writer) and origin.share_of(store, session) is None:
            return True
        if not devices:
            devices.append(device_test(ws))
        return devices[0](writer)

    def is_own(writer: str) -> bool:
        # On a server, the owner of a session can put events into it that name this device as their writer.
        if writer == this and ws.address.path is not None:
            return True
        if writer not in known:
            known[writer] = looked_up(writer)
        return known[writer]

    return is_own
