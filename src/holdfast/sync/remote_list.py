"""The list of remotes: a small JSON file in the home that is written whole.

Fields of a newer version that are unknown here are kept when the list is changed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Literal

import msgspec

from holdfast.core.decode import decodable
from holdfast.core.errors import Conflict, Damaged, HoldfastError, Invalid, NotFound
from holdfast.core.state import State
from holdfast.core.text import check_text
from holdfast.machine import files
from holdfast.workspace.home import Home


def write_list(path: str, rows: Sequence[msgspec.Struct], *, by: str, max_size: int, what: str) -> None:
    """Write a list. Rows with the same value in the field `by` are the same row."""
    before: dict[object, dict[str, object]] = {}
    if os.path.lexists(path):
        written = files.read_limited(path, max_size, subject=what)
        rows_before = msgspec.json.decode(written, type=decodable(list[dict[str, object]]))
        before = {entry.get(by): entry for entry in rows_before}
    new_rows = [msgspec.to_builtins(row) for row in rows]
    data = msgspec.json.encode([{**before.get(row_fields[by], {}), **row_fields} for row_fields in new_rows])
    files.write_atomic(path, msgspec.json.format(data, indent=2) + b"\n")


_MAX_SIZE = 1 << 20
_WHAT = "the list of remotes"


class KnownRemote(msgspec.Struct, frozen=True, kw_only=True):
    """A remote by name. Its vault is pinned: another one at the same address is somebody else's."""

    name: str
    url: str
    vault: str
    # `vault`: our own sessions. `share`: one session that somebody shared with us.
    kind: Literal["vault", "share"] = "vault"
    # Only sessions of these projects; empty means all.
    projects: tuple[str, ...] = ()
    session: str | None = None

    def receives(self, state: State | None) -> bool:
        """Whether a session is sent there."""
        if self.kind == "share":
            return state is not None and state.session == self.session
        return not self.projects or state is None or state.project is None or state.project.id in self.projects


def no_remotes() -> HoldfastError:
    return NotFound("no remote is set up", hint="For example: holdfast remote add home folder:/media/stick/holdfast")


def rejoin_commands(remote: KnownRemote) -> str:
    """The commands by which a device with new keys joins again."""
    if remote.kind == "share":
        return f"holdfast accept {remote.url}"
    return f"holdfast remote remove {remote.name}, then holdfast remote add {remote.name} {remote.url}"


def other_keys_message(remote: KnownRemote) -> str:
    """The message where a vault knows this device by keys that it no longer has."""
    return f"this device has new keys; the vault knows its old ones: ask to join again: {rejoin_commands(remote)}"


def load(home: Home) -> list[KnownRemote]:
    if not os.path.lexists(home.remotes):
        return []
    try:
        data = files.read_limited(home.remotes, _MAX_SIZE, subject=_WHAT)
        return msgspec.json.decode(data, type=decodable(list[KnownRemote]))
    except msgspec.MsgspecError:
        raise Damaged(
            "the list of remotes is damaged",
            hint="Move it away, then add the remotes again: holdfast remote add NAME URL. Nothing is lost by that.",
            file=home.remotes,
        ) from None


def save(home: Home, remotes: list[KnownRemote]) -> None:
    home.prepare()
    write_list(home.remotes, remotes, by="name", max_size=_MAX_SIZE, what=_WHAT)


def find(home: Home, name: str) -> KnownRemote:
    for remote in load(home):
        if remote.name == name:
            return remote
    raise NotFound(f"no remote called {name[:60]!a}", hint="holdfast remote list shows the remotes.")


def check_free(home: Home, name: str) -> str:
    """The name, if it is valid and no remote has it yet."""
    check_text(name, "the remote's name", max_length=60)
    if not name.isprintable() or name.startswith("-"):
        raise Invalid("the remote's name cannot be shown or typed", hint="Use letters, digits and dashes.")
    if any(remote.name == name for remote in load(home)):
        raise Conflict(f"a remote called {name[:60]!a} already exists", hint="Choose another name.")
    return name


def add(home: Home, remote: KnownRemote) -> None:
    save(home, [*load(home), remote])


def remove(home: Home, name: str) -> KnownRemote:
    removed = find(home, name)
    save(home, [remote for remote in load(home) if remote.name != name])
    return removed
