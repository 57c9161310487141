"""How many entries are kept of one device: who may say anything about a vault could otherwise fill everybody's disk.

An entry that is not kept is as good as unknown here. So what another device's entry follows is kept in any case: that
one would not count without it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from holdfast.sync.protocol import entries
from holdfast.sync.protocol.ancestry import Ancestry
from holdfast.sync.protocol.entries import Header, Signed
from holdfast.sync.protocol.membership import Membership

# Bytes. Admins of our own vault are not bounded; those of who shares a session with us are.
_MOST_OF_DEVICE: Final = 16 << 20
_MOST_OF_FOREIGN_ADMIN: Final = 64 << 20
# How many entries that are not there those of a device that is no admin may wait for: more than one of them names.
_MOST_MISSING: Final = 2_000


def said_too_much(
    known: Mapping[str, Signed],
    new: Mapping[str, Signed],
    ancestry: Ancestry,
    members: Callable[[], Membership],
    main: Membership | None,
) -> dict[str, str]:
    """Of the new entries those that are more than is kept of their authors, by hash, with who that is.

    `ancestry` and `members` are of all of them together; `main` is the membership of our own vault, when the entries
    are of a share of it.
    """
    together = {**known, **new}
    headers = {name: header for name, signed in together.items() if (header := entries.header_of(signed.payload))}
    said: Counter[str] = Counter()
    for name, header in headers.items():
        said[header.by] += len(together[name].payload)
    large = [author for author, size in said.items() if size > _MOST_OF_DEVICE]
    if not large:
        return {}
    judged, last = members(), len(ancestry.nodes)
    over: dict[str, str] = {}
    for author in large:
        most = _most_of(author, judged, main)
        if most is None:
            continue
        needed = followed(
            headers.get,
            (own for own, header in headers.items() if header.by != author and not _is_guest(judged, header.by)),
        )
        theirs = [name for name in new if headers[name].by == author]
        size = said[author] - sum(len(new[name].payload) for name in theirs)
        # Those that others follow first, and none before what it follows itself.
        for name in sorted(theirs, key=lambda name: (name not in needed, ancestry.numbers.get(name, last), name)):
            size += len(new[name].payload)
            if size > most and name not in needed:
                over[name] = author
    return over


def names_too_much(
    known: Mapping[str, Signed], new: Mapping[str, Signed], ancestry: Ancestry, members: Membership
) -> dict[str, str]:
    """Of the new entries those that wait for more than is looked for of their authors, by hash, with who that is.

    What an entry of a device with other rights follows is kept.
    """
    missing = set(ancestry.missing)
    if len(missing) <= _MOST_MISSING:
        return {}
    headers = {
        name: header
        for name in ancestry.waiting
        if (signed := new.get(name) or known.get(name)) is not None  # others are wrongly signed
        and (header := entries.header_of(signed.payload)) is not None
    }
    needed = followed(headers.get, (name for name, header in headers.items() if members.is_admin(header.by)))
    named: dict[str, set[str]] = {}
    over: dict[str, str] = {}
    # What is kept already comes first.
    for name in sorted(headers, key=lambda name: (name in new, len(headers[name].parents), name)):
        by = headers[name].by
        if members.is_admin(by) or name in needed:
            continue
        more = named.get(by, set()) | missing.intersection(headers[name].parents)
        if len(more) <= _MOST_MISSING:
            named[by] = more
        elif name in new:
            over[name] = by
    return over


def followed(header_of: Callable[[str], Header | None], names: Iterable[str]) -> set[str]:
    """Everything that these entries follow, however far."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        header = header_of(waiting.pop())
        for parent in () if header is None else header.parents:
            if parent not in found:
                found.add(parent)
                waiting.append(parent)
    return found


def _most_of(device: str, members: Membership, main: Membership | None) -> int | None:
    """How many bytes of entries are kept of a device; None: all of them."""
    within = members if main is None else main
    known = within.members.get(device) or within.removed.get(device)
    if known is None or not known.admin:
        return _MOST_OF_DEVICE
    return _MOST_OF_FOREIGN_ADMIN if main is None and members.session is not None else None


def _is_guest(members: Membership, device: str) -> bool:
    known = members.members.get(device) or members.removed.get(device)
    return known is None or known.kind == "guest"
