"""`holdfast run -- COMMAND…`: run a command as an agent of the session.

Standard output is the command's alone. What Holdfast has to say, the JSON document too, goes to standard error.
"""

from __future__ import annotations

import sys

from holdfast.cli.call import VERSION, Call, encode
from holdfast.core.errors import HoldfastError, Usage
from holdfast.keeper.session import SessionHandle
from holdfast.sessions import run as session_run


def run(call: Call) -> int:
    words = call.parsed
    if words.globals.at is not None:
        raise Usage("run takes no --at: a command runs now", hint="To record one that ran, use holdfast agent start.")
    notes: list[str] = []

    def announce(text: str) -> None:
        notes.append(text)
        call.note(f"holdfast: {text}")

    session = call.keeper.session()
    result = session.run(
        words.rest,
        agent_id=words.text("agent"),
        type=words.text("type"),
        task=words.text("task"),
        timeout=words.number("timeout"),
        retries=words.integer("retries"),
        categories=session_run.categories_from(words.texts("categories")),
        announce=announce,
        environ=call.environ,
    )
    if result.later:
        announce(
            f"the server cannot be reached: the result of {result.agent_id} is stored here, and recorded"
            " once the server is back"
        )
    if result.unrecorded is not None:
        notes.append(f"not everything about {result.agent_id} could be recorded: {result.unrecorded.message}")
        if not call.json:  # said even when asked to be quiet: something is missing from the log
            sys.stderr.write(str(call.paint.plain(f"holdfast: {notes[-1]}")) + "\n")
    call.print_notes()
    if call.json:
        sys.stderr.write(encode({"holdfast": VERSION, **_result(session, result), "notes": notes}))
    return result.code


def _result(session: SessionHandle, result: session_run.RunResult) -> dict[str, object]:
    try:
        document = session.document()
    except HoldfastError:
        return {"session": None, "agent": None, "exit_code": result.code}
    agent = next((agent for agent in reversed(document.agents) if agent.id == result.agent_id), None)
    return {"session": document, "agent": agent, "exit_code": result.code}
