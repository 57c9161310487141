"""The tool calls of a rollout. The same thing is often written twice, as what the model asked for and as what the
program did: under the id of the call, what was done counts, and what was asked for where nothing else is told.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from holdfast.capture.codex.meanings import AFTER, outcome, plain_name
from holdfast.capture.codex.records import DURATION, Item, Response
from holdfast.capture.edits import counted, digest
from holdfast.capture.payload import part, word
from holdfast.capture.signals import Active, AnySignal, Edited, Ran
from holdfast.capture.tools import command_of, signals_of
from holdfast.capture.values import NOTHING, read, value
from holdfast.core.canonical import Json

# How Codex tells the model that nothing was done at all, and that the person broke it off.
_NOT_DONE = ("unsupported call", "unsupported custom tool call")
_BROKEN_OFF = "aborted by user"


class _Call(msgspec.Struct):
    """What was asked for, and what became of it as far as that was told."""

    at: int
    tool: str = ""
    given: str | None = None
    action: msgspec.Raw = NOTHING
    output: msgspec.Raw = NOTHING
    # What the program says it did.
    done: tuple[AnySignal, ...] | None = None


class Calls:
    def __init__(self) -> None:
        self.agent: str | None = None
        self._open: dict[str, _Call] = {}
        self._over: list[tuple[str, _Call]] = []

    def asked(self, name: str, item: Response, at: int) -> None:
        """The model asks for a tool."""
        before = self._open.pop(name, None)
        if before is not None:
            self._over.append((name, before))  # ids are the model's, and may come again
        given = item.arguments if item.arguments is not None else item.input
        self._open[name] = _Call(at, item.name or "local_shell", given, item.action)

    def answered(self, name: str, output: msgspec.Raw) -> None:
        """The model is told what came of it."""
        if name in self._open:
            self._open[name].output = output

    def done(self, name: str, signals: tuple[AnySignal, ...], at: int) -> None:
        """The program did this."""
        call = self._open.get(name)
        if call is None:
            call = self._open[name] = _Call(at)  # asked for by a script, which is all the model wrote
        call.at = at
        call.done = (call.done or ()) + signals

    def did(self, item: Item, name: str, at: int) -> None:
        """The same, from what the program says of it."""
        match item.type:
            case "CommandExecution" | "exec_command_end":
                command = command_of({"command": value(item.command)})
                if command is None:
                    return
                took = read(DURATION, item.duration)
                code = abs(item.exit_code) if item.exit_code is not None else int(item.status == "failed")
                ran = Ran(agent=self.agent, command=command, code=code, took_ms=None if took is None else took.ms)
                self.done(name, (ran,), at)
            case "FileChange" | "patch_apply_end":
                if item.success is False or item.status not in (None, "completed"):
                    self.done(name, (), at)
                elif changes := _changes(value(item.changes), self.agent):
                    self.done(name, changes, at)

    def told(self) -> Iterator[tuple[int, str, tuple[AnySignal, ...]]]:
        """All of it: when, by which id, and what it was."""
        for name, call in [*self._over, *self._open.items()]:
            signals = call.done if call.done is not None else self._meant(name, call)
            yield call.at, name, tuple(one for one in signals if type(one) is not Active)

    def _meant(self, name: str, call: _Call) -> tuple[AnySignal, ...]:
        """What a call means of which the program itself said nothing: older versions, and tools like the plan."""
        tool = plain_name(call.tool)
        if tool not in AFTER:
            return ()
        given: Json = call.given if call.given is not None else value(call.action)
        if type(given) is str and given.lstrip().startswith("{"):
            given = value(given)
        output = value(call.output)
        if type(output) is str and output.startswith("{"):
            # What came of a command was an object written as text once.
            inner = value(output)
            code = part(inner, "metadata").get("exit_code") if type(inner) is dict else None
            output = {"exit_code": abs(code)} if type(code) is int else output
        said = output if type(output) is str else ""
        if said.startswith(_NOT_DONE):
            return ()
        came = outcome(output)
        return signals_of(
            tool, given, came.response, agent=self.agent, call=name, took_ms=came.took_ms, table=AFTER,
            failed=_BROKEN_OFF if said.startswith(_BROKEN_OFF) else came.failed,
        )  # fmt: skip


def _changes(files: Json, agent: str | None) -> tuple[AnySignal, ...]:
    """Files, by what was done to them."""
    found: list[AnySignal] = []
    for path, told in files.items() if type(files) is dict else ():
        if type(told) is not dict or not path:
            continue
        kind = word(told, "type") or next(iter(told), "")
        change = part(told, kind) or told  # older versions nest it
        content, diff, moved = change.get("content"), change.get("unified_diff"), word(change, "move_path")
        if kind == "add":
            text = content if type(content) is str else None
            lines = counted("", text) if text is not None else None
            found.append(
                Edited(
                    agent=agent, path=path, action="created", after=digest(text),
                    lines_added=lines.added if lines else None, lines_removed=0 if lines else None,
                )
            )  # fmt: skip
        elif kind == "delete" or (kind == "update" and moved):
            found.append(Edited(agent=agent, path=path, action="deleted"))
            if moved:
                found.append(Edited(agent=agent, path=moved, action="created"))
        elif kind == "update":
            rows = diff.split("\n") if type(diff) is str else []
            added = sum(1 for row in rows if row.startswith("+") and not row.startswith("+++ "))
            removed = sum(1 for row in rows if row.startswith("-") and not row.startswith("--- "))
            found.append(Edited(agent=agent, path=path, lines_added=added, lines_removed=removed))
    return tuple(found)
