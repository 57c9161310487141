"""Version numbers of the four layouts: which of two is the newer, however many of their parts are written."""

from __future__ import annotations

import re
from typing import Final

from holdfast.core.canonical import Json

_NUMBER: Final = re.compile(r"\s*v?(\d{1,9})(?:\.(\d{1,9}))?(?:\.(\d{1,9}))?\s*\Z", re.ASCII)


def parts(version: Json) -> tuple[int, ...] | None:
    """A version as three numbers, 0 for those it leaves out; None when it is no version."""
    if isinstance(version, bool) or not isinstance(version, (str, int, float)):
        return None
    found = _NUMBER.match(str(version))
    return None if found is None else tuple(int(group or 0) for group in found.groups())


def is_newer(version: Json, known: str) -> bool:
    """Newer in any part: what it changed, nobody here can know."""
    one, other = parts(version), parts(known)
    return one is not None and other is not None and one > other


def is_older(version: Json, known: str) -> bool:
    one, other = parts(version), parts(known)
    return one is not None and other is not None and one < other
