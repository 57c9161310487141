"""An overview of this device, its remotes and the people it shares with, from memory.

No remote is asked: the page that shows it is drawn often and must not wait for a network.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.core import view
from holdfast.core.errors import HoldfastError
from holdfast.core.text import shorten
from holdfast.sync import devices, join_vault, open_vault, people, remote_list, remote_setup, session_status
from holdfast.sync.session_status import UnsentSessions
from holdfast.sync.state import PastRejection, VaultState
from holdfast.workspace.keys import key_files

if TYPE_CHECKING:
    from holdfast.sync.devices import KnownDevice
    from holdfast.sync.join_vault import RememberedRequest
    from holdfast.sync.people import Person
    from holdfast.sync.remote_list import KnownRemote
    from holdfast.sync.remote_setup import RemoteStatus
    from holdfast.workspace.keys.device_keys import PublicKeys
    from holdfast.workspace.workspace import Workspace

_MAX_LENGTH: Final = 200
# A name before the host is shown only for ssh, where it is no secret.
_LOGIN: Final = re.compile(r"(?<=://)[^/@]*@")


class RemoteProblem(NamedTuple):
    """What is wrong, and what to do about it."""

    message: str
    hint: str | None


class DeviceOverview(NamedTuple):
    """This device; without keys before the first remote is added."""

    name: str
    keys: PublicKeys | None
    in_keyring: bool
    problem: RemoteProblem | None


class SharedOverview(NamedTuple):
    """A session that others may read or write, and who they are."""

    session: str
    goal: str
    people: tuple[str, ...]


class RemoteOverview(NamedTuple):
    """A remote, as far as this device knows."""

    remote: KnownRemote
    address: str
    # None where it is unknown: `problems` say why.
    status: RemoteStatus | None = None
    problems: tuple[RemoteProblem, ...] = ()
    unsent: UnsentSessions = UnsentSessions(0, more=False)
    devices: tuple[KnownDevice, ...] = ()
    # Requests to join as of the last sync; only admin devices see them.
    requests: tuple[RememberedRequest, ...] = ()
    # What is still rejected, the latest first.
    rejections: tuple[PastRejection, ...] = ()
    shared: tuple[SharedOverview, ...] = ()


def this_device(ws: Workspace) -> DeviceOverview:
    try:
        device = key_files.device(ws.home.path)
    except HoldfastError as error:
        return DeviceOverview(ws.device(), None, in_keyring=False, problem=RemoteProblem(error.message, error.hint))
    if device is None:
        return DeviceOverview(ws.device(), None, in_keyring=False, problem=None)
    return DeviceOverview(ws.device(), device.public, device.place == "keyring", problem=None)


def remotes(ws: Workspace) -> list[RemoteOverview]:
    """Every remote, each with its own problems. Raises `Damaged` where the list of remotes is damaged."""
    return [_overview(ws, remote) for remote in remote_list.load(ws.home)]


def known_people(ws: Workspace) -> list[Person]:
    return people.load(ws.home)


def address(remote: KnownRemote) -> str:
    """The address of a remote, without credentials."""
    scheme = remote.url.removeprefix("git:").partition("://")[0].lower()
    return remote.url if scheme == "ssh" and ":" not in _login(remote.url) else _LOGIN.sub("", remote.url)


def _login(url: str) -> str:
    match = _LOGIN.search(url)
    return "" if match is None else match[0]


def _overview(ws: Workspace, remote: KnownRemote) -> RemoteOverview:
    overview = RemoteOverview(remote, address(remote))
    try:
        status = remote_setup.status_of(ws, remote)
        public = key_files.public(ws.home.path)
        advice = remote_setup.advice(status, "FINGERPRINT" if public is None else public.words)
        memory = VaultState(ws.store(), remote.vault)
        overview = overview._replace(
            status=status,
            problems=tuple(RemoteProblem(*item) for item in advice),
            unsent=session_status.count_unsent(ws, remote),
            requests=join_vault.remembered_requests(memory),
            rejections=tuple(sorted(memory.rejections(), key=lambda rejection: -rejection.at)),
            shared=tuple(_shared(ws, memory)),
        )
        return overview._replace(devices=tuple(devices.remembered(ws, open_vault.open_offline(ws, remote), remote)))
    except HoldfastError as error:
        return overview._replace(problems=(*overview.problems, RemoteProblem(error.message, error.hint)))


def _shared(ws: Workspace, memory: VaultState) -> list[SharedOverview]:
    shared = []
    for session, names in memory.under(tuple[str, ...], "shared"):
        state = ws.store().state(session) if names else None
        if state is not None and not state.deleted:
            shared.append(SharedOverview(session, shorten(view.text_value(state, "goal") or "", _MAX_LENGTH), names))
    return shared
