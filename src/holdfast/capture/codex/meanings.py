"""What Codex's tools mean: the names its hooks and its rollouts give them, and how it says what came of a call.

Its hooks hand the shell over as `Bash` and put the name of a namespace before a tool's own without anything between
(`collaborationspawn_agent`); rollouts keep both apart and know every name the shell ever had.
"""

from __future__ import annotations

import json
import re
from typing import Final, NamedTuple

import msgspec

from holdfast.capture.payload import word
from holdfast.capture.signals import AgentBegan, AnySignal, Called, Ran
from holdfast.capture.tools import Call, Table, active, patches, plans, runs, waits_for_input
from holdfast.core.canonical import Json

DEFAULT_TYPE: Final = "default"  # what it calls an agent without a role
_NAMESPACES: Final = ("collaboration", "functions")
_CODE: Final = re.compile(r"(?:Exit code:|Process exited with code) (-?\d{1,10})\b")
_SECONDS: Final = re.compile(r"Wall time: (\d{1,7}(?:\.\d{1,6})?) seconds")


def ran(call: Call) -> tuple[AnySignal, ...]:
    """A shell command. Hooks hand over what it printed and not how it ended: without a word on that, nobody knows."""
    found = runs(call)
    if call.failed is not None or call.result:
        return found
    return tuple(msgspec.structs.replace(one, code=None) if isinstance(one, Ran) else one for one in found)


def calls_agent(call: Call) -> tuple[AnySignal, ...]:
    """Before a subagent. The message to it may be encrypted; its name is not, and says in a word what it is for."""
    if call.id is None:
        return active(call)
    task = word(call.input, "task_name", "message", "prompt")
    return (Called(agent=call.agent, call=call.id, type=_type(call), task=task, background=True),)


def called_agent(call: Call) -> tuple[AnySignal, ...]:
    """After the call a subagent goes on by itself. Some versions say here by which id."""
    said = call.result or _object(call.text)
    name = word(said, "agent_id", "thread_id")
    if name is None or call.failed is not None:
        return active(call)
    task = word(call.input, "task_name", "message", "prompt")
    return (AgentBegan(agent=name, type=_type(call), task=task, background=True),)


def _type(call: Call) -> str:
    return word(call.input, "agent_type", "agent_role") or DEFAULT_TYPE


def _object(text: str | None) -> dict[str, Json]:
    if text is None or not text.startswith("{") or len(text) > 4_096:
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if type(value) is dict else {}


BEFORE: Final[Table] = {
    "spawn_agent": calls_agent,
    "request_user_input": waits_for_input,
    "request_user_input_async": waits_for_input,
}
AFTER: Final[Table] = {
    "Bash": ran,
    "shell": ran,
    "shell_command": ran,
    "local_shell": ran,
    "exec_command": ran,
    "container.exec": ran,
    "apply_patch": patches,
    "update_plan": plans,
    "spawn_agent": called_agent,
}


def plain_name(tool: str) -> str:
    """A tool's own name, without the namespace that is glued to it."""
    for space in _NAMESPACES:
        rest = tool.removeprefix(space).lstrip("._")
        if rest != tool and (rest in AFTER or rest in BEFORE):
            return rest
    return tool


class Outcome(NamedTuple):
    """What a call came to, as far as its output says: most calls say it in words for the model."""

    response: Json
    failed: str | None = None
    took_ms: int | None = None


def outcome(response: Json) -> Outcome:
    """How a call ended, read from the first lines of its output."""
    if type(response) is not str:
        return Outcome(response)
    head = response[:200]
    code = _CODE.search(head)
    seconds = _SECONDS.search(head)
    took = round(float(seconds[1]) * 1000) if seconds else None
    if code is None:
        return Outcome(response, took_ms=took or None)
    number = abs(int(code[1]))
    said = response.partition("Output:\n")[2][:500].strip()
    failed = f"exit code {number}: {said}" if number else None
    return Outcome({"exit_code": number, "output": response}, failed, took or None)
