"""Where agents keep their things, as the environment of this call says it."""

from __future__ import annotations

import os
import sys

from holdfast.capture.places import Places
from holdfast.cli.call import Call


def places(call: Call) -> Places:
    return Places(os.path.expanduser("~"), call.keeper.place.root, call.environ, sys.platform)
