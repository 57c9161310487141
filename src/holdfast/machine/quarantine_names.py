"""Names for what is kept beside a file: `NAME.rejected-20261115T093000Z`, and the first that is free."""

from __future__ import annotations

import os

from holdfast.core.times import format_time


def stamp(now: int) -> str:
    """A moment as it stands in a file's name: to the second, in UTC."""
    return format_time(now)[:19].replace("-", "").replace(":", "") + "Z"


def free_name(path: str) -> str:
    """The path itself, or with the first number that makes it free."""
    name, number = path, 1
    while os.path.lexists(name):
        number += 1
        name = f"{path}-{number}"
    return name
