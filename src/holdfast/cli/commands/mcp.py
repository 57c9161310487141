"""`holdfast mcp`: serve an agent that speaks MCP, on standard input and output."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from holdfast.cli.call import Call
from holdfast.cli.home_location import home
from holdfast.core import extras


def run(call: Call) -> int:
    if find_spec("mcp") is None:
        raise extras.missing_extra("the MCP server needs", "mcp")
    from holdfast.mcp import streams

    by_hand = sys.stdin.isatty()
    wires = streams.take()
    if by_hand:
        call.note(
            "Waiting for an agent to speak MCP on standard input; holdfast connect AGENT has it started for you."
        )
    from holdfast.mcp.context import ServerOptions
    from holdfast.mcp.server import serve

    words, environ = call.parsed.globals, call.environ
    options = ServerOptions(
        directory=words.project or ".", home=home(environ), environ=environ,
        store=call.store, actor=environ.get("HOLDFAST_ACTOR") or None,
    )  # fmt: skip
    return serve(options, wires)
