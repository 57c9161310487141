"""Two names of a directory exchanged in one step, where the system can: what stood there is then still at hand.

Replacing a file loses what somebody put there an instant before; exchanging does not.
"""

from __future__ import annotations

import os
import sys
from typing import Final

_SWAP: Final = 2  # RENAME_EXCHANGE on Linux, RENAME_SWAP on macOS: the same number by chance


def exchange(folder: int, one: str, other: str) -> bool:
    """Exchange two names in an open directory; False when this system or file system cannot."""
    name = {"linux": "renameat2", "darwin": "renameatx_np"}.get(sys.platform)
    if name is None:
        return False
    import ctypes

    try:
        call = getattr(ctypes.CDLL(None, use_errno=True), name)
    except (OSError, AttributeError):
        return False
    done = call(
        ctypes.c_int(folder), os.fsencode(one), ctypes.c_int(folder), os.fsencode(other), ctypes.c_uint(_SWAP)
    )
    return bool(done == 0)
