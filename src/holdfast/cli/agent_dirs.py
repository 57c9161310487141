"""Where agent programs keep their files, according to the environment of this call."""

from __future__ import annotations

import os
import sys

from holdfast.cli.call import Call
from holdfast.workspace.agent_dirs import AgentDirs


def places(call: Call) -> AgentDirs:
    return AgentDirs(os.path.expanduser("~"), call.keeper.place.root, call.environ, sys.platform)
