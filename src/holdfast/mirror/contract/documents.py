"""The contract's YAML files as data: read with care, and written over what people made of them.

Comments, the order of keys and what other programs added survive a write. A file in which git left the marks of a
merge is nobody's to write until a person has decided; one that cannot be understood can be set aside, never lost.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Final, NamedTuple

from holdfast.core.canonical import Json
from holdfast.core.errors import Conflict, Damaged, HoldfastError, Invalid, NotFound
from holdfast.core.times import text as time_text
from holdfast.formats import reading
from holdfast.machine.files import sync_directory, write_atomic
from holdfast.machine.private import open_private
from holdfast.machine.trouble import again, explain, shown

LIMIT: Final = reading.LIMIT
_MARKS: Final = re.compile(rb"^(?:<{7}|>{7})(?: |\r?$)", re.MULTILINE)

Mapping = dict[str, Json]


class Document(NamedTuple):
    """What a file says, and its own text, which the next version is written over."""

    value: Mapping
    text: str


def load(path: str) -> Document | None:
    """The mapping in a YAML file; None when there is no file.

    Raises `Conflict` for an unfinished merge, `Damaged` when it is no YAML mapping.
    """
    raw = raw_of(path)
    if raw is None:
        return None
    if unmerged(raw):
        raise unfinished(path)
    try:
        value = reading.read_yaml(raw, path).value
    except Invalid as error:
        raise _damaged(path, error.message) from error
    if not isinstance(value, dict):
        raise _damaged(path, f"{shown(path)} is no mapping of names to values")
    return Document(value, raw.decode())


def raw_of(path: str) -> bytes | None:
    """The bytes of a file of ours: never through a link, never more than any such file can have."""
    try:
        fd = open_private(path, os.O_RDONLY)
    except NotFound:
        return None
    try:
        parts: list[bytes] = []
        size = 0
        while size <= LIMIT and (part := again(os.read, fd, 1 << 18)):
            parts.append(part)
            size += len(part)
    except OSError as error:
        raise explain(error, "read", path) from error
    finally:
        os.close(fd)
    if size > LIMIT:
        raise _damaged(path, f"{shown(path)} is larger than {LIMIT >> 20} MiB")
    return b"".join(parts)


def unmerged(raw: bytes) -> bool:
    """Whether git left the marks of a conflict in it."""
    return _MARKS.search(raw) is not None


def unfinished(path: str) -> Conflict:
    return Conflict(
        f"{shown(path)} holds the marks of a merge that nobody finished",
        hint="Decide in the file what is to stay, remove the marks (<<<<<<<, =======, >>>>>>>), and try again.",
        operation="read",
        file=path,
    )


def save(path: str, value: Mapping, over: Document | None, displaced: Callable[[str], None] | None = None) -> None:
    """Write the value; what the file had besides it (comments, order, spelling) stays."""
    write_atomic(path, written(value, over), displaced=displaced)


def written(value: Mapping, over: Document | None = None) -> bytes:
    from holdfast.formats import yamltext

    return yamltext.written(value, over=None if over is None else over.text).encode()


def set_aside(path: str, now: int) -> str:
    """Give a file that cannot be used another name, under which it is kept: `NAME.rejected-20261115T093000Z`."""
    stamp = time_text(now)[:19].replace("-", "").replace(":", "") + "Z"
    aside = f"{path}.rejected-{stamp}"
    number = 1
    while os.path.lexists(aside):
        number += 1
        aside = f"{path}.rejected-{stamp}-{number}"
    try:
        os.rename(path, aside)
        sync_directory(os.path.dirname(path))
    except OSError as error:
        raise explain(error, "set aside", path) from error
    return aside


def _damaged(path: str, why: str) -> HoldfastError:
    return Damaged(
        why, hint="holdfast doctor --repair sets it aside and restores it from history.", operation="read", file=path
    )
