"""A subagent of Claude Code, put together from three places: the call that asked for it, the result of that call,
and its own lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, Self

import msgspec

from holdfast.conversations.adapters.base import Payload
from holdfast.conversations.adapters.claude.records import (
    ClaudeBlock,
    ClaudeMessage,
    ClaudeRecord,
    ClaudeUsage,
    shell,
)
from holdfast.conversations.adapters.clean_text import plain
from holdfast.conversations.adapters.errors import classify
from holdfast.conversations.adapters.fields import flag, number, value, word
from holdfast.conversations.adapters.timestamps import moment
from holdfast.conversations.adapters.tools import CLAUDE, signals_of
from holdfast.conversations.adapters.transcript import LONGEST_PROMPT, TimedSignal, Transcript, marked
from holdfast.conversations.signals import AgentBegan, AgentEnded, AnySignal, Compacted, Measured, Prompted
from holdfast.core.canonical import Json


class ClaudeSubagent(msgspec.Struct):
    """One subagent: asked for by a call, or found only by its file."""

    agent: str
    began: int
    type: str = "general-purpose"
    task: str | None = None
    ended: int | None = None
    background: bool = False
    summary: str | None = None
    tokens: int | None = None
    failed: str | None = None
    # From its own lines.
    first: int | None = None
    last: int | None = None
    said: str | None = None
    context: int = 0
    finished: bool = False

    @classmethod
    def asked(cls, call: str, given: Payload, at: int) -> Self:
        """As the call tells it; until its own id is known, it goes by that of the call."""
        return cls(
            call, at, word(given, "subagent_type") or "general-purpose", word(given, "description", "prompt"),
            background=flag(given, "run_in_background"),
        )  # fmt: skip

    def done(self, result: Payload, shown: Json, at: int, failed: str | None) -> None:
        """The call has returned: with what came of it, or only with the word that it was begun."""
        if result.get("status") in ("async_launched", "remote_launched"):
            self.background = True
            return
        self.ended = at
        self.failed = failed
        self.summary = None if failed else words(result.get("content")) or words(shown)
        self.tokens = number(result, "totalTokens")

    def at_work(self, at: int) -> None:
        self.first = at if self.first is None else min(self.first, at)
        self.last = at if self.last is None else max(self.last, at)

    def told(self, call: str) -> Iterator[TimedSignal]:
        began = self.began if self.first is None else min(self.began, self.first)
        begins = AgentBegan(agent=self.agent, type=self.type, task=self.task, background=self.background)
        yield TimedSignal(began, begins, f"{call}.began")
        ended = self.ended
        if ended is None and self.finished:
            ended = self.last  # it ran in the background: its own last word is its end
        if ended is None:
            return
        summary = None if self.failed else self.summary or self.said
        ends = AgentEnded(
            agent=self.agent, type=self.type, task=self.task, failed=self.failed,
            tokens=self.tokens if self.tokens is not None else self.context or None,
            summary=None if summary is None else plain(summary),
        )  # fmt: skip
        yield TimedSignal(max(ended, began), ends, f"{call}.ended")


def words(content: Json) -> str | None:
    """The words of a result: itself, or the texts of its blocks."""
    if type(content) is str:
        return content
    if type(content) is list:
        texts = [item["text"] for item in content if type(item) is dict and type(item.get("text")) is str]
        return "\n".join(str(text) for text in texts) or None
    return None


_SHELLS: Final = frozenset({"Bash", "PowerShell"})
_AGENTS: Final = frozenset({"Task", "Agent"})
# Written for the model, or by a command of the program: nobody's request.
_NO_PROMPT: Final = (
    "<command-", "<local-command", "<bash-", "<system-reminder>", "<task-notification>", "<user-memory",
    "<ide_", "[Request interrupted", "Caveat: ",
)  # fmt: skip
_SYNTHETIC: Final = "<synthetic>"


class _Call(NamedTuple):
    """A tool was called, and what came of it is not known yet."""

    tool: str
    input: msgspec.Raw
    agent: str | None


class ClaudeTranscript:
    def __init__(self, conversation: str) -> None:
        self.conversation = conversation
        self._told: list[TimedSignal] = []
        self._signs: list[int] = []
        self._seen: set[str] = set()
        self._calls: dict[str, _Call] = {}
        self._usage: dict[str, ClaudeUsage] = {}
        self._counted: set[str] = set()  # messages of which the conversation it was copied from has the usage
        self._runs: dict[str, ClaudeSubagent] = {}  # by the call
        self._by_agent: dict[str, ClaudeSubagent] = {}
        # The oldest versions keep a subagent's lines within the conversation: which run a line of them belongs to.
        self._within: dict[str, ClaudeSubagent] = {}
        self._prompts: dict[str, ClaudeSubagent] = {}
        self._at = 0
        self._messages = 0
        self._cwd: str | None = None
        self._branch: str | None = None
        self._model: str | None = None
        self._titles: dict[str, str] = {}
        self._cost: float | None = None
        self._cost_before: float | None = 0
        self._context: tuple[int, int, str] | None = None
        # The conversation that its first lines were copied from.
        self.parent: str | None = None

    # ── lines ────────────────────────────────────────────────────────────────────────────────────────────

    def hear(self, record: ClaudeRecord, number: int) -> None:
        """A line of the conversation itself."""
        kind = record.type
        if kind in ("user", "assistant"):
            if record.sidechain:
                run = self._run_of(record)
                if run is not None:
                    self._message(record, number, run)
                return
            if self._cwd is None:
                self._cwd = record.cwd
            self._branch = record.branch or self._branch
            self._message(record, number, None)
        elif kind == "system":
            if record.subtype == "compact_boundary" and not record.sidechain:
                left = record.compaction.post_tokens if record.compaction else None
                self._tell(self._moment(record), Compacted(tokens=left), record.uuid or f"line{number}")
        elif kind == "custom-title" and record.custom_title:
            self._titles["custom"] = record.custom_title
        elif kind == "ai-title" and record.ai_title:
            self._titles["ai"] = record.ai_title
        elif kind == "summary" and type(said := value(record.summary)) is str and said:
            self._titles["summary"] = said
        elif kind == "cost-state" and record.cost_usd:
            self._cost = record.cost_usd
        if record.forked is not None:
            self.parent = record.forked.session

    def pass_over(self, record: ClaudeRecord, origin: str | None, cost: float | None = None) -> None:
        """A line that the conversation it was copied from tells; `cost` is what that one had cost."""
        self.parent = origin
        self._cost_before = cost
        if isinstance(record.message, ClaudeMessage) and record.message.id:
            self._counted.add(record.message.id)

    def hear_agent(self, record: ClaudeRecord, number: int, agent: str) -> None:
        """A line of a subagent's own file."""
        if record.type not in ("user", "assistant"):
            return
        run = self._by_agent.get(agent)
        if run is None:
            run = self._by_agent[agent] = self._runs[agent] = ClaudeSubagent(
                agent, moment(record.timestamp) or self._at
            )
        self._message(record, number, run)

    def called(self) -> list[str]:
        """The subagents that were called, by the program's own ids."""
        return list(self._by_agent)

    def _run_of(self, record: ClaudeRecord) -> ClaudeSubagent | None:
        run = self._by_agent.get(record.agent) if record.agent else None
        if run is None and record.parent:
            run = self._within.get(record.parent)
        if run is None and isinstance(record.message, ClaudeMessage) and type(record.message.content) is str:
            run = self._prompts.get(record.message.content)
        if run is not None and record.uuid:
            self._within[record.uuid] = run
        return run

    def _moment(self, record: ClaudeRecord) -> int:
        at = moment(record.timestamp)
        if at is not None:
            self._at = at
        return self._at

    def _tell(self, at: int, signal: AnySignal, mark: str) -> None:
        self._told.append(TimedSignal(at, signal, mark))

    def _message(self, record: ClaudeRecord, number: int, run: ClaudeSubagent | None) -> None:
        mark = record.uuid
        if mark is None:
            mark = f"line{number}" if run is None else f"{run.agent}.line{number}"
        elif mark in self._seen:
            return
        self._seen.add(mark)
        at = self._moment(record)
        if not at:
            return
        self._messages += 1
        if run is None:
            self._signs.append(at)
        else:
            run.at_work(at)
        message = record.message
        if not isinstance(message, ClaudeMessage):
            return
        if record.type == "assistant":
            self._answer(record, message, at, mark, run)
        elif type(message.content) is list:
            self._results(record, _blocks(message), at, mark, run)
        elif type(message.content) is str and run is None:
            self._prompt(record, message.content, at, mark)

    def _prompt(self, record: ClaudeRecord, text: str, at: int, mark: str) -> None:
        if record.meta or record.compact_summary or not text.strip() or text.lstrip().startswith(_NO_PROMPT):
            return
        self._tell(at, Prompted(text=plain(text, LONGEST_PROMPT)), mark)

    # ── what the model said ──────────────────────────────────────────────────────────────────────────────

    def _answer(
        self, record: ClaudeRecord, message: ClaudeMessage, at: int, mark: str, run: ClaudeSubagent | None
    ) -> None:
        blocks = _blocks(message)
        if record.api_error:
            said = " ".join(block.text for block in blocks if block.text) or None
            kind = value(record.error)
            agent = None if run is None else run.agent
            self._tell(at, classify(kind if type(kind) is str else None, said, agent=agent), mark)
            return
        usage = message.usage
        if usage is not None and message.id and message.id not in self._counted:
            self._usage[message.id] = usage  # one answer is written in several lines; the last one has it all
        if run is None:
            if message.model and message.model != _SYNTHETIC:
                self._model = message.model
            if usage is not None and usage.context:
                self._context = (at, usage.context, mark)
        elif usage is not None and usage.context:
            run.context = usage.context + (usage.output_tokens or 0)
        for block in blocks:
            if block.type == "tool_use":
                self._call(block, at, run)
            elif block.type == "text" and run is not None and block.text:
                run.said = block.text
        if run is not None:
            run.finished = message.stop_reason == "end_turn"

    def _call(self, block: ClaudeBlock, at: int, run: ClaudeSubagent | None) -> None:
        if block.id is None or block.name is None:
            return
        self._calls[block.id] = _Call(block.name, block.input, None if run is None else run.agent)
        if block.name in _AGENTS:
            given = value(block.input)
            given = given if type(given) is dict else {}
            asked = self._runs[block.id] = ClaudeSubagent.asked(block.id, given, at)
            if (prompt := word(given, "prompt")) is not None:
                self._prompts[prompt] = asked

    # ── what came of it ──────────────────────────────────────────────────────────────────────────────────

    def _results(
        self, record: ClaudeRecord, blocks: list[ClaudeBlock], at: int, mark: str, run: ClaudeSubagent | None
    ) -> None:
        texts: list[str] = []
        for place, block in enumerate(blocks):
            if block.type == "tool_result" and block.tool_use_id is not None:
                call = self._calls.pop(block.tool_use_id, None)
                if call is not None:
                    self._result(record, block, call, at, f"{mark}:{place}" if place else mark)
            elif block.type == "text" and block.text:
                texts.append(block.text)
        if texts and run is None and not any(block.type == "tool_result" for block in blocks):
            own = [text for text in texts if not text.lstrip().startswith(_NO_PROMPT)]
            self._prompt(record, "\n".join(own), at, mark)

    def _result(self, record: ClaudeRecord, block: ClaudeBlock, call: _Call, at: int, mark: str) -> None:
        failed = words(value(block.content)) or "failed" if block.is_error else None
        if call.tool not in CLAUDE:
            if failed is not None:
                self._tell_all(at, signals_of(call.tool, None, agent=call.agent, failed=failed), mark)
            return
        if call.tool in _AGENTS:
            assert block.tool_use_id is not None
            self._agent_done(self._runs.get(block.tool_use_id), record, block, at, failed)
            return
        response = shell(record.result) if call.tool in _SHELLS else value(record.result)
        given = value(call.input)
        told = signals_of(call.tool, given, response, agent=call.agent, call=block.tool_use_id, failed=failed)
        self._tell_all(at, told, mark)

    def _tell_all(self, at: int, signals: tuple[AnySignal, ...], mark: str) -> None:
        for signal, own in marked(signals, mark):
            self._tell(at, signal, own)

    def _agent_done(
        self, run: ClaudeSubagent | None, record: ClaudeRecord, block: ClaudeBlock, at: int, failed: str | None
    ) -> None:
        if run is None:
            return
        result = value(record.result)
        result = result if type(result) is dict else {}
        name = word(result, "agentId")
        if name is not None and name not in self._by_agent and run.first is None:
            run.agent = name
        self._by_agent.setdefault(run.agent, run)
        run.done(result, value(block.content), at, failed)

    # ── all of it ────────────────────────────────────────────────────────────────────────────────────────

    def story(self) -> Transcript | None:
        """What there is to tell; None when nobody said anything."""
        for call, run in self._runs.items():
            self._told.extend(run.told(call))
        if self._context is not None:
            at, tokens, mark = self._context
            self._tell(at, Measured(tokens=tokens), f"{mark}.context")
        if not self._signs:
            return None
        self._told.sort(key=lambda told: told.at)
        usage = self._usage.values()
        titles = self._titles
        return Transcript(
            agent="claude",
            conversation=self.conversation,
            began=min(self._signs),
            ended=max([max(self._signs), *(told.at for told in self._told[-1:])]),
            cwd=self._cwd,
            branch=None if self._branch in (None, "", "HEAD") else self._branch,
            title=titles.get("custom") or titles.get("ai") or titles.get("summary"),
            model=self._model,
            # It is shown to be typed: nothing that a shell would take for more than a word.
            resume=f"claude --resume {self.conversation}" if self.conversation.replace("-", "").isalnum() else None,
            parent=self.parent,
            told=self._told,
            signs=sorted(self._signs),
            input_tokens=sum(item.input_tokens or 0 for item in usage),
            output_tokens=sum(item.output_tokens or 0 for item in usage),
            cache_read_tokens=sum(item.cache_read_input_tokens or 0 for item in usage),
            cache_write_tokens=sum(item.cache_creation_input_tokens or 0 for item in usage),
            messages=self._messages,
            cost_usd=self._own_cost(),
        )

    def _own_cost(self) -> float | None:
        """What it has cost without what it was copied from: it goes on counting from there."""
        if self._cost is None or self._cost_before is None:
            return None
        return max(self._cost - self._cost_before, 0.0)


def _blocks(message: ClaudeMessage) -> list[ClaudeBlock]:
    return [item for item in message.content if type(item) is ClaudeBlock] if type(message.content) is list else []
