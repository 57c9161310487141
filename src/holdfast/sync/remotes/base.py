"""The interface of remotes: places for objects that are created once, read, listed and removed.

A remote is trusted with nothing but keeping bytes. Correctness needs one thing of it: an object is created whole or
not at all, and never replaces an existing one. Every implementation passes `holdfast.sync.remotes.conformance`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol, runtime_checkable

from holdfast.core.errors import Invalid, NotFound, Refused, Unreachable

_NAME: Final = re.compile(r"[0-9a-z][0-9a-z.-]*(/[0-9a-z][0-9a-z.-]*)*", re.ASCII)
MAX_NAME_LENGTH: Final = 200


class ObjectInfo(NamedTuple):
    """An object in a listing."""

    name: str
    size: int


class Missing(NotFound):
    """The object does not exist: it never did, or somebody removed it."""


class ObjectTooLarge(Refused):
    """The object is larger than the limit. Nothing of it is kept."""


class RemoteUnreadable(Unreachable):
    """Somebody replaced all objects with something unreadable: they are as good as lost."""

    retry_helps = False


class RemoteStore(Protocol):
    """One remote, open. Every method may raise `Unreachable`; trying again later is always safe."""

    url: str

    def list(self, prefix: str) -> Sequence[ObjectInfo]:
        """Objects with this prefix, ordered by name. Invalid names are left out."""

    def get(self, name: str, limit: int) -> bytes:
        """The whole object; `Missing`, or `ObjectTooLarge` as soon as it exceeds `limit` bytes."""

    def put(self, objects: Sequence[tuple[str, bytes]], *, remove: Sequence[str] = ()) -> frozenset[str]:
        """Create objects, durably and in this order, then remove others; return the names that existed already.

        An existing object is never changed. If this fails midway, earlier objects exist and later ones do not;
        nothing is removed before all exist. Removing a missing object is no error.
        """

    def close(self) -> None: ...


@runtime_checkable
class HasForeignObjects(Protocol):
    """A remote where one object that others left can block all the rest."""

    @property
    def foreign(self) -> Sequence[str]:
        """Invalid names that were skipped so far, as they are at the remote."""

    def replace_unreadable(self) -> None:
        """From now on, treat unreadable contents as an empty remote, and replace them with the next put."""


def foreign_at(remote: RemoteStore) -> Sequence[str]:
    return remote.foreign if isinstance(remote, HasForeignObjects) else ()


def replace_unreadable(remote: RemoteStore) -> None:
    if isinstance(remote, HasForeignObjects):
        remote.replace_unreadable()


def is_name(name: str) -> bool:
    return len(name) <= MAX_NAME_LENGTH and _NAME.fullmatch(name) is not None and ".." not in name


def checked(name: str) -> str:
    """The name, if it is valid: names from listings or other devices must never lead anywhere else."""
    if not is_name(name):
        raise Invalid("that is not a valid name of an object at a remote")
    return name
