"""Small files that are only a memory of what conversations said: after a week in which nobody wrote to one, it is
forgotten. What matters is in the log.
"""

from __future__ import annotations

import contextlib
import os
from typing import Final

import msgspec

from holdfast.core.canonical import Json, digest
from holdfast.core.decode import decodable
from holdfast.core.errors import HoldfastError
from holdfast.core.times import DAY
from holdfast.machine import files

_FORGOTTEN: Final = 7 * DAY


def forget_old(directory: str, now: int) -> None:
    for name in os.listdir(directory):
        path = os.path.join(directory, name)
        try:
            if now - os.lstat(path).st_mtime * 1000 > _FORGOTTEN:
                os.unlink(path)
        except OSError:
            continue


DIRECTORY: Final = "opened"


class Opening(msgspec.Struct, omit_defaults=True):
    model: str | None = None
    permission: str | None = None
    title: str | None = None
    rest: dict[str, Json] = {}


def remember(home: str, name: str, said: Opening, *, now: int) -> None:
    directory = os.path.join(home, DIRECTORY)
    files.make_private_dir(directory)
    known = recall(home, name) or Opening()
    united = Opening(
        model=said.model or known.model, permission=said.permission or known.permission,
        title=said.title or known.title, rest={**known.rest, **said.rest},
    )  # fmt: skip
    if united == known:
        return
    files.write_atomic(_path(home, name), msgspec.json.encode(united), durable=False)
    forget_old(directory, now)


def recall(home: str, name: str) -> Opening | None:
    path = _path(home, name)
    if not os.path.lexists(path):
        return None
    try:
        return msgspec.json.decode(
            files.read_limited(path, 1 << 20, what="an opened conversation"), type=decodable(Opening)
        )
    except (msgspec.MsgspecError, HoldfastError):
        return None


def forget(home: str, name: str) -> None:
    """It is told to the session, and that is in the log."""
    with contextlib.suppress(OSError):
        os.unlink(_path(home, name))


def _path(home: str, name: str) -> str:
    return os.path.join(home, DIRECTORY, digest(name.encode(errors="surrogatepass"))[:32] + ".json")
