"""`holdfast statusline AGENT`: one line about the session, for the agent's own status line.

Agents come in by `cli.entry`, which is quicker and takes every spelling. This is for help, and for whoever comes by
another way; what it does is the same.
"""

from __future__ import annotations

from holdfast.cli import hooking
from holdfast.cli.call import Call


def run(call: Call) -> int:
    return hooking.main(["status", call.parsed.text("agent") or "claude"])
