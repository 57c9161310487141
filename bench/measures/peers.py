"""Finds the programs that Holdfast is compared with; `make bench` installs them."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path


def find(name: str) -> str | None:
    """The path of a program: beside this interpreter, where `HOLDFAST_BENCH_PEERS` says, or on the path."""
    places = [
        str(Path(sys.executable).parent),
        os.environ.get("HOLDFAST_BENCH_PEERS", ""),
        os.environ.get("PATH", ""),
    ]
    return shutil.which(name, path=os.pathsep.join(place for place in places if place))
