"""What Codex's tools mean, in its hooks and in its rollouts, and how it says what a call came to.

Hooks call the shell `Bash` and put a namespace before a tool's own name without a separator
(`collaborationspawn_agent`); rollouts keep both apart and know every name the shell ever had. Rollouts often have the
same thing twice, as what the model asked for and as what the program did: under the id of the call, what was done
counts, and what was asked for only where nothing else is known.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from holdfast.conversations.adapters.codex.hooks import DEFAULT_TYPE
from holdfast.conversations.adapters.codex.rollouts import DURATION, CodexItem, CodexResponse
from holdfast.conversations.adapters.edits import count_changed_lines, hash_content
from holdfast.conversations.adapters.fields import NULL, decode, decode_any, get_object, get_text
from holdfast.conversations.adapters.tools import (
    Table,
    ToolCall,
    active,
    command_of,
    patches,
    plans,
    runs,
    signals_of,
    waits_for_input,
)
from holdfast.conversations.signals import Active, AgentBegan, AnySignal, Called, Edited, Ran
from holdfast.core.canonical import Json

_NAMESPACES: Final = ("collaboration", "functions")
_CODE: Final = re.compile(r"(?:Exit code:|Process exited with code) (-?\d{1,10})\b")
_SECONDS: Final = re.compile(r"Wall time: (\d{1,7}(?:\.\d{1,6})?) seconds")


def ran(call: ToolCall) -> tuple[AnySignal, ...]:
    """A shell command. Hooks hand over what it printed, but not always how it ended: then the code is unknown."""
    signals = runs(call)
    if call.failed is not None or call.result:
        return signals
    return tuple(
        msgspec.structs.replace(signal, code=None) if isinstance(signal, Ran) else signal for signal in signals
    )


def calls_agent(call: ToolCall) -> tuple[AnySignal, ...]:
    """Before a subagent. The message to it may be encrypted; its name is not, and says what it is for."""
    if call.id is None:
        return active(call)
    task = get_text(call.input, "task_name", "message", "prompt")
    return (Called(agent=call.agent, call=call.id, type=_subagent_type(call), task=task, background=True),)


def called_agent(call: ToolCall) -> tuple[AnySignal, ...]:
    """After the call, when the subagent goes on by itself. Some versions say its id here."""
    result = call.result or _parse_object(call.text)
    name = get_text(result, "agent_id", "thread_id")
    if name is None or call.failed is not None:
        return active(call)
    task = get_text(call.input, "task_name", "message", "prompt")
    return (AgentBegan(agent=name, type=_subagent_type(call), task=task, background=True),)


def _subagent_type(call: ToolCall) -> str:
    return get_text(call.input, "agent_type", "agent_role") or DEFAULT_TYPE


def _parse_object(text: str | None) -> dict[str, Json]:
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
    """A tool's own name, without the namespace glued to it."""
    for namespace in _NAMESPACES:
        rest = tool.removeprefix(namespace).lstrip("._")
        if rest != tool and (rest in AFTER or rest in BEFORE):
            return rest
    return tool


class CodexOutcome(NamedTuple):
    """What a call came to, as far as its output says, mostly in words for the model."""

    response: Json
    failed: str | None = None
    took_ms: int | None = None


def outcome(response: Json) -> CodexOutcome:
    """How a call ended, read from the first lines of its output."""
    if type(response) is not str:
        return CodexOutcome(response)
    head = response[:200]
    code = _CODE.search(head)
    seconds = _SECONDS.search(head)
    took = round(float(seconds[1]) * 1000) if seconds else None
    if code is None:
        return CodexOutcome(response, took_ms=took or None)
    number = abs(int(code[1]))
    output = response.partition("Output:\n")[2][:500].strip()
    failed = f"exit code {number}: {output}" if number else None
    return CodexOutcome({"exit_code": number, "output": response}, failed, took or None)


# ── the calls of a rollout ──

# How Codex tells the model that nothing was done at all, and that the person interrupted the call.
_NOT_DONE = ("unsupported call", "unsupported custom tool call")
_ABORTED = "aborted by user"


class _Call(msgspec.Struct):
    """What was asked for, and what became of it as far as that is known."""

    at: int
    tool: str = ""
    given: str | None = None
    action: msgspec.Raw = NULL
    output: msgspec.Raw = NULL
    # What the program says it did.
    done: tuple[AnySignal, ...] | None = None


class CodexCalls:
    """The tool calls of one rollout."""

    def __init__(self) -> None:
        self.agent: str | None = None
        self._open: dict[str, _Call] = {}
        self._replaced: list[tuple[str, _Call]] = []

    def add_request(self, name: str, item: CodexResponse, at: int) -> None:
        """The model asks for a tool."""
        before = self._open.pop(name, None)
        if before is not None:
            self._replaced.append((name, before))  # ids are the model's, and may repeat
        arguments = item.arguments if item.arguments is not None else item.input
        self._open[name] = _Call(at, item.name or "local_shell", arguments, item.action)

    def add_output(self, name: str, output: msgspec.Raw) -> None:
        """The model gets the result."""
        if name in self._open:
            self._open[name].output = output

    def add_done(self, name: str, signals: tuple[AnySignal, ...], at: int) -> None:
        """The program did this."""
        call = self._open.get(name)
        if call is None:
            call = self._open[name] = _Call(at)  # asked for by a script, which is all the model wrote
        call.at = at
        call.done = (call.done or ()) + signals

    def add_item(self, item: CodexItem, name: str, at: int) -> None:
        """The program did what an item of its own says."""
        match item.type:
            case "CommandExecution" | "exec_command_end":
                command = command_of({"command": decode_any(item.command)})
                if command is None:
                    return
                took = decode(DURATION, item.duration)
                code = abs(item.exit_code) if item.exit_code is not None else int(item.status == "failed")
                ran = Ran(agent=self.agent, command=command, code=code, took_ms=None if took is None else took.ms)
                self.add_done(name, (ran,), at)
            case "FileChange" | "patch_apply_end":
                if item.success is False or item.status not in (None, "completed"):
                    self.add_done(name, (), at)
                elif changes := _changes(decode_any(item.changes), self.agent):
                    self.add_done(name, changes, at)

    def signals(self) -> Iterator[tuple[int, str, tuple[AnySignal, ...]]]:
        """The time, id and signals of every call."""
        for name, call in [*self._replaced, *self._open.items()]:
            signals = call.done if call.done is not None else self._interpret(name, call)
            yield call.at, name, tuple(signal for signal in signals if type(signal) is not Active)

    def _interpret(self, name: str, call: _Call) -> tuple[AnySignal, ...]:
        """The meaning of a call of which the program itself said nothing: older versions, and tools like the plan."""
        tool = plain_name(call.tool)
        if tool not in AFTER:
            return ()
        arguments: Json = call.given if call.given is not None else decode_any(call.action)
        if type(arguments) is str and arguments.lstrip().startswith("{"):
            arguments = decode_any(arguments)
        output = decode_any(call.output)
        if type(output) is str and output.startswith("{"):
            # In older versions, the result of a command is an object written as text.
            inner = decode_any(output)
            code = get_object(inner, "metadata").get("exit_code") if type(inner) is dict else None
            output = {"exit_code": abs(code)} if type(code) is int else output
        text = output if type(output) is str else ""
        if text.startswith(_NOT_DONE):
            return ()
        result = outcome(output)
        return signals_of(
            tool, arguments, result.response, agent=self.agent, call=name, took_ms=result.took_ms, table=AFTER,
            failed=_ABORTED if text.startswith(_ABORTED) else result.failed,
        )  # fmt: skip


def _changes(files: Json, agent: str | None) -> tuple[AnySignal, ...]:
    """The changes of files, by their paths."""
    signals: list[AnySignal] = []
    for path, entry in files.items() if type(files) is dict else ():
        if type(entry) is not dict or not path:
            continue
        kind = get_text(entry, "type") or next(iter(entry), "")
        change = get_object(entry, kind) or entry  # older versions nest it
        content, diff, moved = change.get("content"), change.get("unified_diff"), get_text(change, "move_path")
        if kind == "add":
            text = content if type(content) is str else None
            lines = count_changed_lines("", text) if text is not None else None
            signals.append(
                Edited(
                    agent=agent, path=path, action="created", after=hash_content(text),
                    lines_added=lines.added if lines else None, lines_removed=0 if lines else None,
                )
            )  # fmt: skip
        elif kind == "delete" or (kind == "update" and moved):
            signals.append(Edited(agent=agent, path=path, action="deleted"))
            if moved:
                signals.append(Edited(agent=agent, path=moved, action="created"))
        elif kind == "update":
            rows = diff.split("\n") if type(diff) is str else []
            added = sum(1 for row in rows if row.startswith("+") and not row.startswith("+++ "))
            removed = sum(1 for row in rows if row.startswith("-") and not row.startswith("--- "))
            signals.append(Edited(agent=agent, path=path, lines_added=added, lines_removed=removed))
    return tuple(signals)
