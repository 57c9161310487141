"""Read TOML that other people wrote, within limits.

Python's reader needs memory quadratic in the parts of one dotted key: 100 KB of `a.a.a…` took 9.5 GB. So keys are
measured first. Whatever it raises because of a file's content becomes a `ValueError`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from typing import Any, Final

from holdfast.core.limits import MAX_KEY_PARTS

# Possessive, so linear for any input; text that is not closed extends to where tomllib gives up.
_TEXT: Final = re.compile(
    r'"""[^"\\]*+(?:(?:\\.|"(?!""))[^"\\]*+)*+(?:"{3,5})?'
    r"|'''[^']*+(?:'(?!'')[^']*+)*+(?:'{3,5})?"
    r'|"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"?'
    r"|'[^'\n]*+'?"
    r"|#[^\n]*+",
    re.DOTALL,
)
_LONG_KEY: Final = re.compile(rf"(?<![A-Za-z0-9_-])(?:[A-Za-z0-9_-]++[ \t]*+\.[ \t]*+){{{MAX_KEY_PARTS}}}")


def loads(text: str, *, parse_float: Callable[[str], Any] = float) -> dict[str, Any]:
    """The data in a TOML text. Raises `ValueError`, whatever is wrong with it."""
    # A quoted part of a key counts as a part; dots in strings and comments do not.
    bare = _TEXT.sub(lambda match: "" if match[0][0] == "#" else "q", text)
    if _LONG_KEY.search(bare):
        raise ValueError(f"a key has more than {MAX_KEY_PARTS} parts")
    try:
        return tomllib.loads(text, parse_float=parse_float)
    except tomllib.TOMLDecodeError:
        raise
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except (ValueError, OverflowError):
        # Python's message about a number with thousands of digits mentions its own settings.
        raise ValueError("a number in it is too large") from None
