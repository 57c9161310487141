"""The directories of agent programs on this machine, from the environment that the surface read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple


class AgentDirs(NamedTuple):
    """A person's home, a project, and the environment."""

    home: str
    project: str
    environ: Mapping[str, str] = {}
    system: str = "linux"  # as `sys.platform` says it

    def under(self, variable: str, *usual: str) -> str:
        """The directory that a variable names, or its default below the person's home."""
        named = self.environ.get(variable, "").strip()
        return os.path.abspath(os.path.expanduser(named)) if named else os.path.join(self.home, *usual)

    def data(self, *parts: str) -> str:
        """A path below the person's XDG data directory."""
        return os.path.join(self.under("XDG_DATA_HOME", ".local", "share"), *parts)

    def config(self, *parts: str) -> str:
        """A path below the person's XDG configuration directory."""
        return os.path.join(self.under("XDG_CONFIG_HOME", ".config"), *parts)

    def in_home(self, *parts: str) -> str:
        return os.path.join(self.home, *parts)

    def in_project(self, *parts: str) -> str:
        return os.path.join(self.project, *parts)
