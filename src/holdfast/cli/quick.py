"""A faster way to import msgspec; imported before everything else.

It looks for `typing_extensions`, which costs up to ten milliseconds where some other package brought it along, and
gives it nothing on the Pythons we support. A command is that much quicker without.
"""

from __future__ import annotations

import sys

if "msgspec" not in sys.modules and "typing_extensions" not in sys.modules:
    sys.modules["typing_extensions"] = None  # type: ignore[assignment]
    try:
        import msgspec  # noqa: F401
    finally:
        del sys.modules["typing_extensions"]
