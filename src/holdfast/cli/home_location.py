"""Where the home is, according to the environment. Loaded by hooks, so it imports only what they need."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

NO_STORE: Final = "?"  # for what is no URL of a store


def home(environ: Mapping[str, str]) -> str:
    """`HOLDFAST_HOME`, or the platform's place for a program's data."""
    named = environ.get("HOLDFAST_HOME")
    if named:
        return named
    if sys.platform == "linux":  # the answer of platformdirs, without the five milliseconds of asking it
        data = environ.get("XDG_DATA_HOME", "")
        if not data.strip():
            data = os.path.join(os.path.expanduser("~"), ".local", "share")
        return os.path.join(data, "holdfast")
    from holdfast.workspace.home import default_home

    return default_home()


def without_password(url: str) -> str:
    """The URL of a store as it may be kept with a payload."""
    if not url or url.startswith("sqlite:"):
        return url
    from holdfast.core.errors import HoldfastError
    from holdfast.store.address import address

    try:
        return address(url).url
    except HoldfastError:
        return NO_STORE  # a password could be anywhere in it
