"""All that this device remembers of itself, its remotes and the people it shares with: no remote is asked.

For whoever looks often, and must not wait for a network. What a remote would say today is asked by `sync`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.core import view
from holdfast.core.errors import HoldfastError
from holdfast.core.text import shorten
from holdfast.keeper.teleports import devices, opening, people, remotes, standing, travelling
from holdfast.keeper.teleports.travelling import Unsent
from holdfast.teleport import asking, key_files
from holdfast.teleport.memory import Memory, Turned

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper
    from holdfast.keeper.teleports.devices import Known
    from holdfast.keeper.teleports.people import Person
    from holdfast.keeper.teleports.remotes import Remote
    from holdfast.keeper.teleports.standing import Met
    from holdfast.teleport.asking import Asks
    from holdfast.teleport.keys import PublicKeys

_LONGEST: Final = 200
# A name before the host is shown only where it is no secret: ssh logs in with it.
_LOGIN: Final = re.compile(r"(?<=://)[^/@]*@")


class Trouble(NamedTuple):
    """What is wrong, and what to do about it."""

    what: str
    hint: str | None


class Here(NamedTuple):
    """This device. Without keys it has never met a vault."""

    name: str
    keys: PublicKeys | None
    in_keyring: bool
    trouble: Trouble | None


class Shared(NamedTuple):
    """A session that others may read or write, and who they are."""

    session: str
    goal: str
    people: tuple[str, ...]


class There(NamedTuple):
    """A remote, as far as this device knows."""

    remote: Remote
    address: str
    # None where it cannot be told: `troubles` say why.
    met: Met | None = None
    troubles: tuple[Trouble, ...] = ()
    unsent: Unsent = Unsent(0, more=False)
    devices: tuple[Known, ...] = ()
    # Who asked to be let in, when this device last heard; only those that may let others in know.
    asking: tuple[Asks, ...] = ()
    # What was not taken in and is not in order yet, the latest first.
    turned: tuple[Turned, ...] = ()
    shared: tuple[Shared, ...] = ()


def here(keeper: Keeper) -> Here:
    try:
        found = key_files.device(keeper.home.path)
    except HoldfastError as error:
        return Here(keeper.device(), None, in_keyring=False, trouble=Trouble(error.message, error.hint))
    if found is None:
        return Here(keeper.device(), None, in_keyring=False, trouble=None)
    return Here(keeper.device(), found.public, found.place == "keyring", trouble=None)


def there(keeper: Keeper) -> list[There]:
    """Every remote. What is wrong with one says nothing of the others. Raises where their list is damaged."""
    return [_told(keeper, one) for one in remotes.load(keeper.home)]


def known_people(keeper: Keeper) -> list[Person]:
    return people.load(keeper.home)


def address(remote: Remote) -> str:
    """Where a remote is, without what somebody may have written into the address to get in."""
    scheme = remote.url.removeprefix("git:").partition("://")[0].lower()
    return remote.url if scheme == "ssh" and ":" not in _login(remote.url) else _LOGIN.sub("", remote.url)


def _login(url: str) -> str:
    found = _LOGIN.search(url)
    return "" if found is None else found[0]


def _told(keeper: Keeper, remote: Remote) -> There:
    shown = There(remote, address(remote))
    try:
        met = standing.met(keeper, remote)
        public = key_files.public(keeper.home.path)
        advice = standing.advice(met, "FINGERPRINT" if public is None else public.words)
        memory = Memory(keeper.store(), remote.vault)
        shown = shown._replace(
            met=met,
            troubles=tuple(Trouble(*one) for one in advice),
            unsent=travelling.unsent(keeper, remote),
            asking=asking.remembered(memory),
            turned=tuple(sorted(memory.turned(), key=lambda one: -one.at)),
            shared=tuple(_shared(keeper, memory)),
        )
        return shown._replace(devices=tuple(devices.remembered(keeper, opening.remembered(keeper, remote), remote)))
    except HoldfastError as error:
        return shown._replace(troubles=(*shown.troubles, Trouble(error.message, error.hint)))


def _shared(keeper: Keeper, memory: Memory) -> list[Shared]:
    found = []
    for session, names in memory.under(tuple[str, ...], "shared"):
        state = keeper.store().state(session) if names else None
        if state is not None and not state.deleted:
            found.append(Shared(session, shorten(view.word(state, "goal") or "", _LONGEST), names))
    return found
