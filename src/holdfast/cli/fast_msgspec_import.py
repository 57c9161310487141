"""Import msgspec faster; imported before everything else.

Msgspec imports `typing_extensions` if it is installed, which takes up to ten milliseconds and adds nothing on the
Pythons that we support.
"""

from __future__ import annotations

import sys

if "msgspec" not in sys.modules and "typing_extensions" not in sys.modules:
    sys.modules["typing_extensions"] = None  # type: ignore[assignment]
    try:
        import msgspec  # noqa: F401
    finally:
        del sys.modules["typing_extensions"]
