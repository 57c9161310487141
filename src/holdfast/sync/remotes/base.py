"""What a remote is: a place for objects that are created once, read, listed and removed.

A remote is never trusted with more than keeping bytes. Correctness needs one thing of it: an object is created whole,
or not at all, and never over one that is there. Whatever implements this passes
`holdfast.sync.remotes.conformance`.
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
    """There is no such object: it was never there, or somebody removed it."""


class ObjectTooLarge(Refused):
    """The object is larger than what was asked for can be. Nothing of it is kept."""


class RemoteUnreadable(Unreachable):
    """What somebody put in the place of all objects cannot be read: for everybody it is as if they were lost."""

    retry_helps = False


class RemoteStore(Protocol):
    """One remote, open. Every method may raise `Unreachable`; trying again later is always safe."""

    url: str

    def list(self, prefix: str) -> Sequence[ObjectInfo]:
        """Objects whose names begin so, in order of their names. Names that are none of ours are left out."""

    def get(self, name: str, limit: int) -> bytes:
        """The whole object; `Missing`, or `TooLarge` as soon as it is known to have more than `limit` bytes."""

    def put(self, objects: Sequence[tuple[str, bytes]], *, remove: Sequence[str] = ()) -> frozenset[str]:
        """Create these, durably and in this order, then remove those; gives the names that were there already.

        An object that is there is never changed. Should it fail midway, those before are there and those after are
        not; nothing is removed before all are there. Removing what is not there is done.
        """

    def close(self) -> None: ...


@runtime_checkable
class HasForeignObjects(Protocol):
    """A remote where one thing that others left there could stand in the way of all the rest."""

    @property
    def foreign(self) -> Sequence[str]:
        """Names that cannot be objects and that were passed over so far, as they are there."""

    def replace_unreadable(self) -> None:
        """From now on, what cannot be read at all is taken for an empty remote, and replaced by the next put."""


def foreign_at(remote: RemoteStore) -> Sequence[str]:
    return remote.foreign if isinstance(remote, HasForeignObjects) else ()


def replace_unreadable(remote: RemoteStore) -> None:
    if isinstance(remote, HasForeignObjects):
        remote.replace_unreadable()


def is_name(name: str) -> bool:
    return len(name) <= MAX_NAME_LENGTH and _NAME.fullmatch(name) is not None and ".." not in name


def checked(name: str) -> str:
    """The name, if it is one: what a listing or another device says must never lead anywhere else."""
    if not is_name(name):
        raise Invalid("that is not a name of an object at a remote")
    return name
