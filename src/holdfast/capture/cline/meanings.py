"""What Cline's tools mean, those of the terminal program and those of the extension before it, shared by its hooks
and its store. Parameters come as they were given, or each of them as text.
"""

from __future__ import annotations

import re
from typing import Final

from holdfast.capture import values
from holdfast.capture.payload import number, part, word
from holdfast.capture.signals import AgentEnded, AnySignal, Called, Edited, Ran
from holdfast.capture.tools import Call, Table, active, deletes, edits, patches, waits_for_input, writes
from holdfast.core.canonical import Json

SUBAGENT: Final = "subagent"
_MOST: Final = 100  # commands in one call
_CODE: Final = re.compile(r"exited with code (\d{1,10})\b")
_BLOCK: Final = re.compile(r"^-{3,} SEARCH\n(.*?)\n?={3,}\n(.*?)\n?\+{3,} REPLACE$", re.DOTALL | re.MULTILINE)


def edits_file(call: Call) -> tuple[AnySignal, ...]:
    """A text exchanged for another; with nothing to exchange, a file written or lines put into one."""
    if "old_text" in call.input and type(call.input["old_text"]) is str:
        return edits(call)
    if number(call.input, "insert_line") is not None:
        path = word(call.input, "path")
        return (Edited(agent=call.agent, path=path),) if path and call.failed is None else active(call)
    said = (call.text or "")[:200]
    given: dict[str, Json] = {"path": call.input.get("path"), "content": call.input.get("new_text")}
    result: dict[str, Json] = {"type": "create"} if "created" in said else {}
    return writes(call._replace(input=given, result=result))


def replaces(call: Call) -> tuple[AnySignal, ...]:
    """Blocks of text searched for and replaced, as the extension writes them."""
    diff = call.input.get("diff")
    blocks = _BLOCK.findall(diff[:1_000_000]) if type(diff) is str else []
    pairs: list[Json] = [{"old_text": old, "new_text": new} for old, new in blocks[:_MOST]]
    return edits(call._replace(input={"path": call.input.get("path"), "edits": pairs}, result={}))


def runs_each(call: Call) -> tuple[AnySignal, ...]:
    """Shell commands, one or several, each with its own end."""
    commands = [one for one in _listed(call.input.get("commands", call.input.get("command"))) if one.strip()]
    if not commands:
        return active(call)
    ends = call.result.get("each")
    told = ends if type(ends) is list else []
    return tuple(
        Ran(
            agent=call.agent,
            command=command,
            code=_code(told[place] if place < len(told) else None, call.failed),
            took_ms=call.took_ms if len(commands) == 1 else None,
        )
        for place, command in enumerate(commands[:_MOST])
    )


def asks_for_agent(call: Call) -> tuple[AnySignal, ...]:
    if call.id is None:
        return active(call)
    return (Called(agent=call.agent, call=call.id, type=SUBAGENT, task=word(call.input, "task")),)


def agent_done(call: Call) -> tuple[AnySignal, ...]:
    if call.id is None:
        return active(call)
    usage = part(call.result, "usage")
    tokens = (number(usage, "inputTokens") or 0) + (number(usage, "outputTokens") or 0)
    return (
        AgentEnded(
            call=call.id, type=SUBAGENT, task=word(call.input, "task"), summary=word(call.result, "text"),
            tokens=tokens or None, took_ms=call.took_ms, failed=call.failed,
        ),
    )  # fmt: skip


AFTER: Final[Table] = {
    "editor": edits_file,
    "apply_patch": patches,
    "run_commands": runs_each,
    "spawn_agent": agent_done,
    "write_to_file": writes,
    "new_file": writes,
    "replace_in_file": replaces,
    "execute_command": runs_each,
    "delete_file": deletes,
}
BEFORE: Final[Table] = {
    "spawn_agent": asks_for_agent,
    "ask_question": waits_for_input,
    "ask_followup_question": waits_for_input,
}


def given(value: Json) -> dict[str, Json]:
    return value if type(value) is dict else {}


def outcome(value: Json) -> Json:
    """What came of a call: an object, several of them, or either as text."""
    if type(value) is str and value.lstrip()[:1] in ("{", "["):
        read = values.value(value)
        value = value if read is None else read
    return {"each": value} if type(value) is list else value


def _listed(value: Json) -> list[str]:
    if type(value) is str:
        found = outcome(value)
        value = found["each"] if type(found) is dict and "each" in found else [value]
    if type(value) is not list:
        return []
    named = [one.get("command") if type(one) is dict else one for one in value]
    return [one for one in named if type(one) is str]


def _code(end: Json, failed: str | None) -> int:
    told = given(end)
    said = f"{word(told, 'error') or ''} {failed or ''}"
    code = _CODE.search(said[:500])
    if code is not None:
        return int(code[1])
    return 1 if failed is not None or told.get("success") is False else 0
