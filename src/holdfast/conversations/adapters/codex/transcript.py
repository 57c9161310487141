"""The tool calls of a rollout. The same thing is often written twice, as what the model asked for and as what the
program did: under the id of the call, what was done counts, and what was asked for where nothing else is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from holdfast.conversations.adapters.clean_text import goal_of, plain
from holdfast.conversations.adapters.codex.hooks import AFTER, DEFAULT_TYPE, outcome, plain_name, resume
from holdfast.conversations.adapters.codex.records import (
    COUNT,
    DURATION,
    EVENT,
    ITEM,
    META,
    RESPONSE,
    SPENT,
    TURN,
    CodexEvent,
    CodexItem,
    CodexLine,
    CodexUsage,
    Count,
    Meta,
    Response,
    texts,
)
from holdfast.conversations.adapters.edits import counted, digest
from holdfast.conversations.adapters.errors import classify
from holdfast.conversations.adapters.fields import NOTHING, part, read, value, word
from holdfast.conversations.adapters.timestamps import moment
from holdfast.conversations.adapters.tools import command_of, signals_of
from holdfast.conversations.adapters.transcript import LONGEST_PROMPT, OF_AGENTS, Marks, TimedSignal, Transcript
from holdfast.conversations.signals import (
    Active,
    AgentBegan,
    AgentEnded,
    AnySignal,
    Chosen,
    Compacted,
    Edited,
    Measured,
    Prompted,
    Ran,
)
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

    def did(self, item: CodexItem, name: str, at: int) -> None:
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
            yield call.at, name, tuple(signal for signal in signals if type(signal) is not Active)

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


# A fork may begin with a copy of what it comes from, written in one go as it was opened.
_COPIED_WITHIN: Final = 1_000  # ms
# Written for the model in the person's name.
_NO_PROMPT: Final = ("<", "# AGENTS.md")
_TOOL_CALLS: Final = frozenset({"function_call", "custom_tool_call", "local_shell_call"})
_OUTPUTS: Final = frozenset({"function_call_output", "custom_tool_call_output", "local_shell_call_output"})
_SIGNS: Final = frozenset({"reasoning", "web_search_call", *_TOOL_CALLS, *_OUTPUTS})


class CodexTranscript:
    def __init__(self, name: str) -> None:
        self._name = name
        self._meta: Meta | None = None
        # The conversations that a subagent works for, the one that all of it is for first.
        self.callers: tuple[str, ...] = ()
        self._agent: str | None = None
        self._opened = 0
        self._copying = False
        self._at = 0
        self._signs: list[int] = []
        self._told: list[TimedSignal] = []
        self._calls = Calls()
        self._marks = Marks()
        # Prompts by the kind of record they were found in: the surest kind that is there counts.
        self._prompts: dict[str, list[tuple[int, str, str]]] = {"item": [], "event": [], "message": []}
        self._spent: dict[str, CodexUsage] = {}
        self._counted: list[CodexUsage] = []
        self._total = -1
        self._measured: tuple[int, Count, CodexEvent, int] | None = None
        self._messages = 0
        self._cwd: str | None = None
        self._title: str | None = None
        self._chosen = Chosen()
        # How the last turn ended: when, with which words, or why it was broken off.
        self._last: tuple[int, str | None, str | None] | None = None

    # ── lines ────────────────────────────────────────────────────────────────────────────────────────────

    def hear(self, line: CodexLine, number: int) -> None:
        at = moment(line.timestamp)
        if at is not None:
            self._at = at
        if self._copying:
            # Nothing in a copy is news, and its times are those of the copying.
            self._copying = self._at - self._opened <= _COPIED_WITHIN
            if self._copying:
                return
        match line.type:
            case "response_item":
                self._response(read(RESPONSE, line.payload), number)
            case "event_msg":
                self._event(line.payload, number)
            case "session_meta":
                self._begin(read(META, line.payload))
            case "turn_context":
                self._turn(line, number)
            case "token_usage_record":
                spent = read(SPENT, line.payload)
                if spent is not None and spent.response_id and spent.usage:
                    self._spent[spent.response_id] = spent.usage
            case "compacted":
                self._tell(Compacted(), f"line{number}")
            case "message":
                self._response(Response(type=line.type, role=line.role, id=line.id, content=line.content), number)
            case "":
                if self._meta is None and line.id is not None:
                    self._begin(Meta(id=line.id, timestamp=line.timestamp))

    def _begin(self, meta: Meta | None) -> None:
        if meta is None:
            return
        if self._meta is not None:
            # A second one is that of the conversation whose history was copied.
            self._copying = meta.id != self._meta.id and self._at - self._opened <= _COPIED_WITHIN
            return
        self._meta = meta
        self._opened = self._at = moment(meta.timestamp) or self._at
        self._cwd = meta.cwd
        self.callers = callers(meta)
        if meta.id and self.callers:
            self._agent = self._calls.agent = meta.id

    def _turn(self, line: CodexLine, number: int) -> None:
        turn = read(TURN, line.payload)
        if turn is None:
            return
        self._cwd = self._cwd or turn.cwd
        policy = value(turn.approval_policy)
        permission = None if policy is None else "bypassPermissions" if policy == "never" else "default"
        chosen = Chosen(model=turn.model, permission=permission)
        if chosen != self._chosen and chosen != Chosen():
            self._chosen = chosen
            self._tell(chosen, f"line{number}")

    # ── what went to the model and came from it ──────────────────────────────────────────────────────────

    def _response(self, item: Response | None, number: int) -> None:
        if item is None:
            return
        if item.type == "message":
            if item.role == "assistant":
                self._sign(message=True)
            elif item.role == "user":
                said = texts(item.content)
                if said.strip() and not said.lstrip().startswith(_NO_PROMPT):
                    self._prompts["message"].append((self._at, said, item.id or f"line{number}"))
        elif item.type in _SIGNS:
            self._sign()
            name = item.call_id or item.id
            if name is None:
                return
            if item.type in _TOOL_CALLS:
                self._calls.asked(name, item, self._at)
            elif item.type in _OUTPUTS:
                self._calls.answered(name, item.output)

    # ── what the program did ─────────────────────────────────────────────────────────────────────────────

    def _event(self, payload: msgspec.Raw, number: int) -> None:
        event = read(EVENT, payload)
        if event is None:
            return
        match event.type:
            case "item_completed":
                self._item(read(ITEM, event.item), number)
            case "exec_command_end" | "patch_apply_end":
                self._item(read(ITEM, payload), number)  # older versions: the fields of the item stand in the event
            case "user_message":
                self._sign()
                if event.message and event.message.strip():
                    self._prompts["event"].append((self._at, event.message, f"line{number}"))
            case "token_count":
                self._count(event, number)
            case "task_complete" | "turn_complete":
                self._last = (self._at, event.last_agent_message, None)
            case "turn_aborted":
                self._last = (self._at, None, "interrupted")
            case "task_started" | "turn_started":
                self._last = None
            case "thread_name_updated":
                self._title = event.thread_name or self._title
            case "error":
                kind = value(event.codex_error_info)
                kind = next(iter(kind), None) if type(kind) is dict else kind
                met = classify(kind if type(kind) is str else None, event.message, agent=self._agent)
                self._tell(met, f"line{number}")

    def _item(self, item: CodexItem | None, number: int) -> None:
        if item is None:
            return
        match item.type:
            case "UserMessage":
                self._sign()
                said = texts(item.content)
                if said.strip():
                    self._prompts["item"].append((self._at, said, item.id or f"line{number}"))
            case "SubAgentActivity":
                if item.agent_thread_id and value(item.kind) == "started":
                    task = _task(item.agent_path)
                    began = AgentBegan(agent=item.agent_thread_id, type=DEFAULT_TYPE, task=task, background=True)
                    self._calls.done(item.id or f"line{number}", (began,), self._at)
            case _:
                self._calls.did(item, item.call_id or item.id or f"line{number}", self._at)

    def _count(self, event: CodexEvent, number: int) -> None:
        count = read(COUNT, event.info)
        if count is None or count.last_token_usage is None:
            return
        # It is also told when only the limits have changed, with the same total.
        total = count.total_token_usage.total_tokens if count.total_token_usage else self._total + 1
        if total != self._total:
            self._total = total
            self._counted.append(count.last_token_usage)
        self._measured = (self._at, count, event, number)

    # ── all of it ────────────────────────────────────────────────────────────────────────────────────────

    def story(self) -> Transcript | None:
        """What there is to tell; None when nobody said anything."""
        meta = self._meta or Meta()
        for at, name, signals in self._calls.told():
            for place, signal in enumerate(signals):
                self._tell(signal, f"{name}.{place}" if place else name, at)
        self._tell_prompts()
        own = meta.id or _id_in(self._name)
        if not self._signs or own is None:
            return None
        began, ended = min(self._signs), max(self._signs)
        if self._agent is not None:
            self._tell_agent(meta, self._agent, began, ended)
        else:
            self._tell_measured()
        told = sorted(self._told, key=lambda one: one.at)
        usage = list(self._spent.values()) or self._counted
        cached = sum(item.cached_input_tokens for item in usage)
        return Transcript(
            agent="codex",
            conversation=own,
            began=began,
            ended=max([ended, *(line.at for line in told[-1:])]),
            cwd=self._cwd,
            branch=meta.git.branch if meta.git else None,
            title=self._title,
            model=self._chosen.model,
            resume=resume(own),
            parent=next(iter(self.callers), meta.forked_from_id),
            told=told,
            signs=sorted(self._signs),
            input_tokens=max(sum(item.input_tokens for item in usage) - cached, 0),
            output_tokens=sum(item.output_tokens for item in usage),
            cache_read_tokens=cached,
            messages=self._messages,
        )

    def _sign(self, *, message: bool = False) -> None:
        if self._at:
            self._signs.append(self._at)
        self._messages += message

    def _tell(self, signal: AnySignal, mark: str, at: int | None = None) -> None:
        when = self._at if at is None else at
        if not when or (self._agent is not None and not isinstance(signal, OF_AGENTS)):
            return
        if self._agent is not None:
            mark = f"{self._agent}.{mark}"
        self._told.append(TimedSignal(when, signal, self._marks.mark(mark)))

    def _tell_prompts(self) -> None:
        kind = next((kind for kind in ("item", "event", "message") if self._prompts[kind]), "item")
        wanted = True
        for at, said, mark in self._prompts[kind]:
            self._messages += 1
            if kind == "message" and at:
                self._signs.append(at)
            # One prompt with a goal in it is all that is ever asked for.
            text = plain(said, LONGEST_PROMPT) if wanted else ""
            wanted = wanted and goal_of(text) is None
            self._tell(Prompted(text=text), mark, at)

    def _tell_agent(self, meta: Meta, own: str, began: int, ended: int) -> None:
        kind, task = meta.agent_role or DEFAULT_TYPE, _task(meta.agent_path)
        opened = min(self._opened or began, began)
        self._tell(AgentBegan(agent=own, type=kind, task=task, background=True), "began", opened)
        if self._last is not None:
            at, said, failed = self._last
            last = self._measured[1].last_token_usage if self._measured else None
            done = AgentEnded(
                agent=own, type=kind, task=task, summary=plain(said) if said else None, failed=failed,
                tokens=last.total_tokens if last else None,
            )  # fmt: skip
            self._tell(done, f"ended.{at}", max(at, ended))

    def _tell_measured(self) -> None:
        if self._measured is None:
            return
        at, count, event, number = self._measured
        last = count.last_token_usage
        limits = value(event.rate_limits)
        self._tell(
            Measured(
                tokens=last.total_tokens if last else None,
                window=count.model_context_window,
                limits=_limits(limits),
            ),
            f"measured{number}",
            at,
        )


def callers(meta: Meta) -> tuple[str, ...]:
    """The conversation a subagent works for, and whoever called it; nobody for a conversation of its own."""
    source = value(meta.source)
    source = source if type(source) is dict else {}
    spawned = part(part(source, "subagent"), "thread_spawn")
    parent = meta.parent_thread_id or word(spawned, "parent_thread_id")
    if parent is None and meta.thread_source != "subagent" and "subagent" not in source:
        return ()
    return tuple(dict.fromkeys(name for name in (meta.session_id, parent) if name and name != meta.id))


def _task(path: str | None) -> str | None:
    """`/root/tests`: an agent is named for what it is to do."""
    return path.rpartition("/")[2].replace("_", " ") or None if path else None


def _limits(value: Json) -> dict[str, Json] | None:
    """How much of the account's limits is used, where anything is said about it."""
    if type(value) is not dict:
        return None
    said: dict[str, Json] = {}
    for name in ("primary", "secondary"):
        if type(value.get(name)) is dict:
            said[name] = value[name]
    return said or None


def _id_in(name: str) -> str | None:
    """`rollout-2026-11-15T09-30-00-<id>`: the conversation in the name of a file."""
    stem = name.partition(".")[0]
    return stem[28:] if stem.startswith("rollout-") and len(stem) > 28 else None
