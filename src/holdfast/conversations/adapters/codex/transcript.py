"""Read Codex's rollouts: a conversation's own file, then those of its subagents.

Prompts, token counts and tool calls may stand in several kinds of records; of each, the surest kind that is there
counts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

import msgspec

from holdfast.conversations.adapters.clean_text import plain
from holdfast.conversations.adapters.codex.hooks import DEFAULT_TYPE
from holdfast.conversations.adapters.codex.rollouts import (
    COUNT,
    EVENT,
    ITEM,
    META,
    RESPONSE,
    SPENT,
    TURN,
    CodexCount,
    CodexEvent,
    CodexItem,
    CodexLine,
    CodexMeta,
    CodexResponse,
    CodexUsage,
    RolloutIndex,
    callers,
    find_rollouts,
    home_of,
    read_callers,
    read_lines,
    texts,
)
from holdfast.conversations.adapters.codex.settings import home
from holdfast.conversations.adapters.codex.tools import CodexCalls
from holdfast.conversations.adapters.errors import classify
from holdfast.conversations.adapters.fields import decode, decode_any, parse_timestamp
from holdfast.conversations.adapters.jsonl import ReadProblems
from holdfast.conversations.adapters.transcript import (
    PartTranscriptBuilder,
    Transcript,
    TranscriptSource,
    merge_subagent,
    with_problems,
)
from holdfast.conversations.signals import AgentBegan, AgentEnded, Chosen, Compacted, Measured
from holdfast.core.canonical import Json
from holdfast.workspace.agent_dirs import AgentDirs

_MAX_AGENTS: Final = 1_000
# A fork may begin with a copy of what it comes from, written in one go as it was opened.
_COPIED_WITHIN: Final = 1_000  # ms
# Written for the model in the person's name.
_NO_PROMPT: Final = ("<", "# AGENTS.md")
_TOOL_CALLS: Final = frozenset({"function_call", "custom_tool_call", "local_shell_call"})
_OUTPUTS: Final = frozenset({"function_call_output", "custom_tool_call_output", "local_shell_call_output"})
_SIGNS: Final = frozenset({"reasoning", "web_search_call", *_TOOL_CALLS, *_OUTPUTS})


# ── files ──


class CodexReader:
    name = "codex"

    def __init__(self) -> None:
        # The latest listing, and its index once a rollout is read.
        self._listed: dict[str, str] = {}
        self._index: RolloutIndex | None = None

    def sources(self, places: AgentDirs) -> Iterator[TranscriptSource]:
        listed: dict[str, str] = {}
        for source in find_rollouts(home(places)):
            listed[source.path] = source.stamp
            yield source
        self._listed, self._index = listed, None

    def read(self, source: TranscriptSource) -> Iterator[Transcript]:
        problems = ReadProblems()
        builder = _read(source.path, problems)
        index = self._index_of(source)
        if index.has_top(builder.callers):
            return
        transcript = builder.finish()
        if transcript is not None:
            _merge_subagents(transcript, index, problems)
        name = os.path.basename(source.path).removesuffix(".zst").removesuffix(".jsonl")
        yield from with_problems(transcript, problems, self.name, name[:200])

    def _index_of(self, source: TranscriptSource) -> RolloutIndex:
        if self._listed.get(source.path) != source.stamp:
            root = home_of(source.path)
            paths = [] if root is None else [source.path for source in find_rollouts(root)]
            return RolloutIndex(paths, read_callers)
        if self._index is None:
            self._index = RolloutIndex(self._listed, read_callers)
        return self._index


def _merge_subagents(transcript: Transcript, index: RolloutIndex, problems: ReadProblems) -> None:
    """Merge the subagents of a conversation, and theirs."""
    seen = {transcript.conversation}
    waiting = [
        *_subagents_of(transcript),
        *index.subagents_of(transcript.conversation, transcript.began, transcript.ended),
    ]
    while waiting and len(seen) < _MAX_AGENTS:
        name = waiting.pop(0)
        path = None if name in seen else index.find(name)
        seen.add(name)
        if path is None:
            continue
        agent_problems = ReadProblems()
        part = _read(path, agent_problems).finish()
        if part is not None and part.conversation == name:
            waiting += [*_subagents_of(part), *index.subagents_of(name, part.began, part.ended)]
            merge_subagent(transcript, part)
        problems.extend(agent_problems, f"in {os.path.basename(path)}, ")


def _read(path: str, problems: ReadProblems) -> CodexTranscriptBuilder:
    builder = CodexTranscriptBuilder(os.path.basename(path))
    for number, line in read_lines(path, problems):
        builder.add(line, number)
    return builder


def _subagents_of(transcript: Transcript) -> list[str]:
    """The ids of the subagents that began in it."""
    return [
        line.signal.agent for line in transcript.signals if isinstance(line.signal, AgentBegan) and line.signal.agent
    ]


# ── one conversation ──


class CodexTranscriptBuilder(PartTranscriptBuilder):
    def __init__(self, name: str) -> None:
        super().__init__("codex", "")
        self._name = name
        self._meta: CodexMeta | None = None
        # The conversations that a subagent works for, the topmost first.
        self.callers: tuple[str, ...] = ()
        self._opened = 0
        self._copying = False
        self._at = 0
        self._calls = CodexCalls()
        # Prompts by the kind of record they are in: the surest kind that is there counts.
        self._prompts: dict[str, list[tuple[int, str, str]]] = {"item": [], "event": [], "message": []}
        self._spent: dict[str, CodexUsage] = {}
        self._counted: list[CodexUsage] = []
        self._total = -1
        self._last_count: tuple[int, CodexCount, CodexEvent, int] | None = None
        self._chosen = Chosen()
        # How the last turn ended: when, with which message, or why it was aborted.
        self._last: tuple[int, str | None, str | None] | None = None

    # ── lines ────────────────────────────────────────────────────────────────────────────────────────────

    def add(self, line: CodexLine, number: int) -> None:
        at = parse_timestamp(line.timestamp)
        if at is not None:
            self._at = at
        if self._copying:
            # Nothing in a copy is new, and its times are those of the copying.
            self._copying = self._at - self._opened <= _COPIED_WITHIN
            if self._copying:
                return
        match line.type:
            case "response_item":
                self._response(decode(RESPONSE, line.payload), number)
            case "event_msg":
                self._event(line.payload, number)
            case "session_meta":
                self._begin(decode(META, line.payload))
            case "turn_context":
                self._turn(line, number)
            case "token_usage_record":
                spent = decode(SPENT, line.payload)
                if spent is not None and spent.response_id and spent.usage:
                    self._spent[spent.response_id] = spent.usage
            case "compacted":
                self.emit(self._at, Compacted(), f"line{number}")
            case "message":
                self._response(
                    CodexResponse(type=line.type, role=line.role, id=line.id, content=line.content), number
                )
            case "":
                if self._meta is None and line.id is not None:
                    self._begin(CodexMeta(id=line.id, timestamp=line.timestamp))

    def _begin(self, meta: CodexMeta | None) -> None:
        if meta is None:
            return
        if self._meta is not None:
            # A second one is that of the conversation whose history was copied.
            self._copying = meta.id != self._meta.id and self._at - self._opened <= _COPIED_WITHIN
            return
        self._meta = meta
        self._opened = self._at = parse_timestamp(meta.timestamp) or self._at
        self.transcript.cwd = meta.cwd
        self.callers = callers(meta)
        if meta.id and self.callers:
            self.agent = self._calls.agent = meta.id

    def _turn(self, line: CodexLine, number: int) -> None:
        turn = decode(TURN, line.payload)
        if turn is None:
            return
        self.transcript.cwd = self.transcript.cwd or turn.cwd
        policy = decode_any(turn.approval_policy)
        permission = None if policy is None else "bypassPermissions" if policy == "never" else "default"
        chosen = Chosen(model=turn.model, permission=permission)
        if chosen != self._chosen and chosen != Chosen():
            self._chosen = chosen
            self.emit(self._at, chosen, f"line{number}")

    # ── to and from the model ──────────────────────────────────────────────────────────

    def _response(self, item: CodexResponse | None, number: int) -> None:
        if item is None:
            return
        if item.type == "message":
            if item.role == "assistant":
                self._sign(message=True)
            elif item.role == "user":
                text = texts(item.content)
                if text.strip() and not text.lstrip().startswith(_NO_PROMPT):
                    self._prompts["message"].append((self._at, text, item.id or f"line{number}"))
        elif item.type in _SIGNS:
            self._sign()
            name = item.call_id or item.id
            if name is None:
                return
            if item.type in _TOOL_CALLS:
                self._calls.add_request(name, item, self._at)
            elif item.type in _OUTPUTS:
                self._calls.add_output(name, item.output)

    # ── done by the program ─────────────────────────────────────────────────────────────────────────────

    def _event(self, payload: msgspec.Raw, number: int) -> None:
        event = decode(EVENT, payload)
        if event is None:
            return
        match event.type:
            case "item_completed":
                self._item(decode(ITEM, event.item), number)
            case "exec_command_end" | "patch_apply_end":
                self._item(decode(ITEM, payload), number)  # older versions: the fields of the item stand in the event
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
                self.transcript.title = event.thread_name or self.transcript.title
            case "error":
                kind = decode_any(event.codex_error_info)
                kind = next(iter(kind), None) if type(kind) is dict else kind
                signal = classify(kind if type(kind) is str else None, event.message, agent=self.agent)
                self.emit(self._at, signal, f"line{number}")

    def _item(self, item: CodexItem | None, number: int) -> None:
        if item is None:
            return
        match item.type:
            case "UserMessage":
                self._sign()
                text = texts(item.content)
                if text.strip():
                    self._prompts["item"].append((self._at, text, item.id or f"line{number}"))
            case "SubAgentActivity":
                if item.agent_thread_id and decode_any(item.kind) == "started":
                    task = _task(item.agent_path)
                    began = AgentBegan(agent=item.agent_thread_id, type=DEFAULT_TYPE, task=task, background=True)
                    self._calls.add_done(item.id or f"line{number}", (began,), self._at)
            case _:
                self._calls.add_item(item, item.call_id or item.id or f"line{number}", self._at)

    def _count(self, event: CodexEvent, number: int) -> None:
        count = decode(COUNT, event.info)
        if count is None or count.last_token_usage is None:
            return
        # It also comes when only the limits have changed, with the same total.
        total = count.total_token_usage.total_tokens if count.total_token_usage else self._total + 1
        if total != self._total:
            self._total = total
            self._counted.append(count.last_token_usage)
        self._last_count = (self._at, count, event, number)

    # ── the transcript ────────────────────────────────────────────────────────────────────────────────────────

    def finish(self) -> Transcript | None:
        """The transcript; None when it has no messages."""
        meta = self._meta or CodexMeta()
        for at, name, signals in self._calls.signals():
            for place, signal in enumerate(signals):
                self.emit(at, signal, f"{name}.{place}" if place else name)
        self._emit_prompts()
        transcript, own = self.transcript, meta.id or _id_in(self._name)
        if not transcript.signs or own is None:
            return None
        if self.agent is not None:
            self._emit_subagent(meta, self.agent, min(transcript.signs), max(transcript.signs))
        else:
            self._emit_measured()
        usage = list(self._spent.values()) or self._counted
        cached = sum(item.cached_input_tokens for item in usage)
        fresh = max(sum(item.input_tokens for item in usage) - cached, 0)
        self.add_tokens(fresh, sum(item.output_tokens for item in usage), cached)
        transcript.conversation = own
        transcript.branch = meta.git.branch if meta.git else None
        transcript.model = self._chosen.model
        transcript.parent = next(iter(self.callers), meta.forked_from_id)
        return super().finish()

    def _sign(self, *, message: bool = False) -> None:
        if self._at:
            self.transcript.signs.append(self._at)
        self.transcript.messages += message

    def _emit_prompts(self) -> None:
        kind = next((kind for kind in ("item", "event", "message") if self._prompts[kind]), "item")
        for at, prompt, mark in self._prompts[kind]:
            self.add_message(at, is_sign=kind == "message" and bool(at))
            self.emit_prompt(at, prompt, mark)

    def _emit_subagent(self, meta: CodexMeta, own: str, began: int, ended: int) -> None:
        kind, task = meta.agent_role or DEFAULT_TYPE, _task(meta.agent_path)
        opened = min(self._opened or began, began)
        self.emit(opened, AgentBegan(agent=own, type=kind, task=task, background=True), "began")
        if self._last is not None:
            at, message, failed = self._last
            last = self._last_count[1].last_token_usage if self._last_count else None
            end = AgentEnded(
                agent=own, type=kind, task=task, summary=plain(message) if message else None, failed=failed,
                tokens=last.total_tokens if last else None,
            )  # fmt: skip
            self.emit(max(at, ended), end, f"ended.{at}")

    def _emit_measured(self) -> None:
        if self._last_count is None:
            return
        at, count, event, number = self._last_count
        last = count.last_token_usage
        limits = decode_any(event.rate_limits)
        tokens = last.total_tokens if last else None
        measured = Measured(tokens=tokens, window=count.model_context_window, limits=_limits(limits))
        self.emit(at, measured, f"measured{number}")


def _task(path: str | None) -> str | None:
    """The task in a path like `/root/tests`: an agent is named after it."""
    return path.rpartition("/")[2].replace("_", " ") or None if path else None


def _limits(value: Json) -> dict[str, Json] | None:
    """How much of the account's limits is used, where that is said."""
    if type(value) is not dict:
        return None
    limits: dict[str, Json] = {}
    for name in ("primary", "secondary"):
        if type(value.get(name)) is dict:
            limits[name] = value[name]
    return limits or None


def _id_in(name: str) -> str | None:
    """The conversation's id in the name of a file, `rollout-2026-11-15T09-30-00-<id>`."""
    stem = name.partition(".")[0]
    return stem[28:] if stem.startswith("rollout-") and len(stem) > 28 else None


READER: Final = CodexReader()
