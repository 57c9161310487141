"""`holdfast hook AGENT`: an agent's payload on standard input, as its hooks hand it over.

Agents come in by `cli.entry`, which is quicker and takes every spelling. This is for help, and for whoever comes by
another way; what it does is the same.
"""

from __future__ import annotations

from holdfast.cli import hooking
from holdfast.cli.call import Call


def run(call: Call) -> int:
    return 2 if hooking.main([call.parsed.text("agent") or ""]) == hooking.BLOCKED else 0
