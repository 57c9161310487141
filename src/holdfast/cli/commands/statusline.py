"""`holdfast statusline AGENT`: one line about the session, for the agent's own status line.

Agents come in by `cli.entry`, which is quicker and takes every spelling. This is for help, for scripts that want a
document (`--json`), and for whoever comes by another way; what it does is the same.
"""

from __future__ import annotations

from holdfast.cli import hooking
from holdfast.cli.call import Call
from holdfast.cli.home_location import home


def run(call: Call) -> int:
    agent = call.parsed.text("agent") or "claude"
    if not call.json:
        return hooking.main(["status", agent])
    from holdfast.cli.statusline import document

    call.answer(document(home(call.environ), agent, call.store or ""), lambda _: "")
    return 0
