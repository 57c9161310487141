"""Small files that are only a memory of what conversations said: after a week in which nobody wrote to one, it is
forgotten. What matters is in the log.
"""

from __future__ import annotations

import os
from typing import Final

from holdfast.core.times import DAY

_FORGOTTEN: Final = 7 * DAY


def forget_old(directory: str, now: int) -> None:
    for name in os.listdir(directory):
        path = os.path.join(directory, name)
        try:
            if now - os.lstat(path).st_mtime * 1000 > _FORGOTTEN:
                os.unlink(path)
        except OSError:
            continue
