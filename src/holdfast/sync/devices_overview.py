"""What this device remembers of itself, its remotes and the people it shares with; no remote is asked.

For whoever looks often, and must not wait for a network. What a remote would say today is asked by `sync`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.core import view
from holdfast.core.errors import HoldfastError
from holdfast.core.text import shorten
from holdfast.sync import devices, join_vault, open_vault, people, remote_list, remote_setup, session_status
from holdfast.sync.session_status import Unsent
from holdfast.sync.state import Turned, VaultState
from holdfast.workspace.keys import key_files

if TYPE_CHECKING:
    from holdfast.sync.devices import KnownDevice
    from holdfast.sync.join_vault import Asks
    from holdfast.sync.people import Person
    from holdfast.sync.remote_list import KnownRemote
    from holdfast.sync.remote_setup import Met
    from holdfast.workspace.keys.device_keys import PublicKeys
    from holdfast.workspace.workspace import Workspace

_LONGEST: Final = 200
# A name before the host is shown only where it is no secret: ssh logs in with it.
_LOGIN: Final = re.compile(r"(?<=://)[^/@]*@")


class RemoteProblem(NamedTuple):
    """What is wrong, and what to do about it."""

    what: str
    hint: str | None


class DeviceOverview(NamedTuple):
    """This device. Without keys it has never met a vault."""

    name: str
    keys: PublicKeys | None
    in_keyring: bool
    trouble: RemoteProblem | None


class SharedOverview(NamedTuple):
    """A session that others may read or write, and who they are."""

    session: str
    goal: str
    people: tuple[str, ...]


class There(NamedTuple):
    """A remote, as far as this device knows."""

    remote: KnownRemote
    address: str
    # None where it cannot be told: `troubles` say why.
    met: Met | None = None
    troubles: tuple[RemoteProblem, ...] = ()
    unsent: Unsent = Unsent(0, more=False)
    devices: tuple[KnownDevice, ...] = ()
    # Who asked to be let in, when this device last heard; only those that may let others in know.
    asking: tuple[Asks, ...] = ()
    # What was not taken in and is not in order yet, the latest first.
    turned: tuple[Turned, ...] = ()
    shared: tuple[SharedOverview, ...] = ()


def here(ws: Workspace) -> DeviceOverview:
    try:
        found = key_files.device(ws.home.path)
    except HoldfastError as error:
        return DeviceOverview(ws.device(), None, in_keyring=False, trouble=RemoteProblem(error.message, error.hint))
    if found is None:
        return DeviceOverview(ws.device(), None, in_keyring=False, trouble=None)
    return DeviceOverview(ws.device(), found.public, found.place == "keyring", trouble=None)


def there(ws: Workspace) -> list[There]:
    """Every remote. What is wrong with one says nothing of the others. Raises where their list is damaged."""
    return [_told(ws, remote) for remote in remote_list.load(ws.home)]


def known_people(ws: Workspace) -> list[Person]:
    return people.load(ws.home)


def address(remote: KnownRemote) -> str:
    """Where a remote is, without what somebody may have written into the address to get in."""
    scheme = remote.url.removeprefix("git:").partition("://")[0].lower()
    return remote.url if scheme == "ssh" and ":" not in _login(remote.url) else _LOGIN.sub("", remote.url)


def _login(url: str) -> str:
    found = _LOGIN.search(url)
    return "" if found is None else found[0]


def _told(ws: Workspace, remote: KnownRemote) -> There:
    shown = There(remote, address(remote))
    try:
        met = remote_setup.met(ws, remote)
        public = key_files.public(ws.home.path)
        advice = remote_setup.advice(met, "FINGERPRINT" if public is None else public.words)
        memory = VaultState(ws.store(), remote.vault)
        shown = shown._replace(
            met=met,
            troubles=tuple(RemoteProblem(*item) for item in advice),
            unsent=session_status.unsent(ws, remote),
            asking=join_vault.remembered(memory),
            turned=tuple(sorted(memory.turned(), key=lambda one: -one.at)),
            shared=tuple(_shared(ws, memory)),
        )
        return shown._replace(devices=tuple(devices.remembered(ws, open_vault.remembered(ws, remote), remote)))
    except HoldfastError as error:
        return shown._replace(troubles=(*shown.troubles, RemoteProblem(error.message, error.hint)))


def _shared(ws: Workspace, memory: VaultState) -> list[SharedOverview]:
    found = []
    for session, names in memory.under(tuple[str, ...], "shared"):
        state = ws.store().state(session) if names else None
        if state is not None and not state.deleted:
            found.append(SharedOverview(session, shorten(view.text_value(state, "goal") or "", _LONGEST), names))
    return found
