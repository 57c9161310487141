"""What opencode's tools mean, shared by its hooks and its store. Lists of to-dos are told by an event of their own,
so that the tool behind them is only a sign of activity.
"""

from __future__ import annotations

from typing import Final

from holdfast.capture.payload import part, word
from holdfast.capture.signals import AgentEnded, AnySignal
from holdfast.capture.tools import Call, Table, active, asks_for_agent, edits, patches, runs, waits_for_input, writes
from holdfast.core.canonical import Json


def agent_done(call: Call) -> tuple[AnySignal, ...]:
    """After a subagent, which is a conversation of its own; one in the background tells its end itself."""
    agent = word(part(call.result, "metadata"), "sessionId")
    ended = call.failed is not None or 'state="completed"' in (call.text or "")
    if not ended or (agent is None and call.id is None):
        return active(call)
    task = word(call.input, "description")
    return (AgentEnded(agent=agent, call=call.id, task=task, failed=call.failed, stopped=call.stopped),)


AFTER: Final[Table] = {
    "edit": edits,
    "multiedit": edits,
    "write": writes,
    "patch": patches,
    "apply_patch": patches,
    "bash": runs,
    "shell": runs,
    "task": agent_done,
}
BEFORE: Final[Table] = {"task": asks_for_agent, "question": waits_for_input}


def outcome(tool: str, metadata: Json, output: Json) -> Json:
    """What came of a call, in the words that the meanings know."""
    meta = metadata if type(metadata) is dict else {}
    found: dict[str, Json] = {
        "metadata": {"exit": meta.get("exit"), "sessionId": meta.get("sessionId")}, "output": output
    }  # fmt: skip
    if tool == "write" and type(meta.get("exists")) is bool:
        found["type"] = "update" if meta["exists"] else "create"
    return found
