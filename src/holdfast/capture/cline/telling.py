"""One conversation of Cline put together from its manifest and its messages, its subagents' included."""

from __future__ import annotations

from typing import Final

from holdfast.capture.cline.hooks import resume, tool_signals, words_of
from holdfast.capture.cline.meanings import AFTER, SUBAGENT
from holdfast.capture.cline.records import Block, Manifest, Message, Usage, facts
from holdfast.capture.moments import in_millis, moment
from holdfast.capture.plain import plain
from holdfast.capture.signals import AgentBegan, AgentEnded, AnySignal, Measured, Prompted
from holdfast.capture.storytelling import LONGEST_PROMPT, marked
from holdfast.capture.transcripts import Story, Told
from holdfast.capture.values import value

_CALLS_AGENT: Final = "spawn_agent"


class Telling:
    def __init__(self, conversation: str, manifest: Manifest | None) -> None:
        self.conversation = conversation
        self._of = manifest or Manifest()
        self._told: list[Told] = []
        self._signs: list[int] = []
        self._seen: set[str] = set()
        self._calls: dict[str, Block] = {}
        self._used = [0, 0, 0, 0]
        self._context: tuple[int, int, str] | None = None
        self._model: str | None = None
        self._messages = 0
        self._prompts = 0

    def hear(self, message: Message, number: int, agent: str | None = None) -> None:
        """A message, in the order of its file; `agent` is the subagent whose file it is."""
        mark = message.id or f"{agent or ''}#{number}"
        at = in_millis(message.ts)
        if at is None or mark in self._seen:
            return
        self._seen.add(mark)
        self._messages += 1
        if agent is None:
            self._signs.append(at)
        if message.role == "assistant":
            self._answer(message, at, mark, agent)
        elif message.role == "user":
            self._asked(message, at, mark, agent)

    def hear_agent(self, agent: str, messages: list[Message]) -> None:
        """A subagent: its beginning, its end if it came to one, and what it did."""
        for number, message in enumerate(messages):
            self.hear(message, number, agent)
        moments = [at for one in messages if (at := in_millis(one.ts)) is not None]
        if not moments:
            return
        asked = next((text for one in messages if one.role == "user" and (text := said(one))), None)
        task = plain(words_of(asked), 500) if asked else None
        self._tell(min(moments), AgentBegan(agent=agent, type=SUBAGENT, task=task), f"{agent}.began")
        last = messages[-1]
        if last.role == "assistant" and not any(block.type == "tool_use" for block in blocks(last)):
            summary, used = said(last), last.metrics or Usage()
            ended = AgentEnded(
                agent=agent, type=SUBAGENT, task=task, tokens=used.context or None,
                summary=plain(summary) if summary else None,
            )  # fmt: skip
            self._tell(max(moments), ended, f"{agent}.ended")

    def _answer(self, message: Message, at: int, mark: str, agent: str | None) -> None:
        used = message.metrics
        if used is not None:
            # All that was sent is counted as one, from the cache or not.
            self._used[0] += max(int(used.input_tokens or 0) - used.cached, 0)
            self._used[1] += int(used.output_tokens or 0)
            self._used[2] += int(used.cache_read_tokens or 0)
            self._used[3] += int(used.cache_write_tokens or 0)
            if agent is None and used.context:
                self._context = (at, used.context, mark)
        model = message.model
        if agent is None and model is not None and model.id:
            self._model = f"{model.provider}/{model.id}" if model.provider else model.id
        for block in blocks(message):
            if block.type == "tool_use" and block.id and block.name:
                self._calls[block.id] = block

    def _asked(self, message: Message, at: int, mark: str, agent: str | None) -> None:
        results = [block for block in blocks(message) if block.type == "tool_result"]
        for place, block in enumerate(results):
            call = self._calls.pop(block.tool_use_id or "", None)
            if call is not None:
                self._came(call, block, at, f"{mark}:{place}" if place else mark, agent)
        text = said(message)
        if agent is not None or results or not text:
            return
        # What a conversation is about is said at its beginning; the rest is between a person and an agent.
        self._tell(at, Prompted(text=plain(words_of(text), LONGEST_PROMPT) if self._prompts == 0 else ""), mark)
        self._prompts += 1

    def _came(self, call: Block, block: Block, at: int, mark: str, agent: str | None) -> None:
        tool = call.name or ""
        if tool == _CALLS_AGENT or (tool not in AFTER and not block.is_error):
            return  # subagents have files of their own
        result = value(block.content)
        failed = (result if type(result) is str and result else "it failed") if block.is_error else None
        signals = tool_signals(
            tool, value(call.input), result, agent=agent, call=call.id, failed=failed, took_ms=None
        )  # fmt: skip
        for signal, own in marked(signals, mark):
            self._tell(at, signal, own)

    def _tell(self, at: int, signal: AnySignal, mark: str) -> None:
        self._told.append(Told(at, signal, mark))

    def story(self) -> Story | None:
        """What there is to tell; None when nobody said anything. The manifest alone tells beginning and end."""
        of, known = self._of, facts(self._of)
        began, ended = moment(of.started_at), moment(of.ended_at)
        if not self._signs:
            if began is None:
                return None
            self._signs = [began] if ended is None else [began, max(ended, began)]
        if not self._prompts and of.prompt and began is not None:
            self._tell(began, Prompted(text=plain(words_of(of.prompt), LONGEST_PROMPT)), "prompt")
        if self._context is not None:
            at, tokens, mark = self._context
            self._tell(at, Measured(tokens=tokens), f"{mark}.context")
        self._told.sort(key=lambda told: told.at)
        model = f"{of.provider}/{of.model}" if of.provider and of.model else of.model
        whole = known.aggregate_usage
        return Story(
            agent="cline",
            conversation=self.conversation,
            began=min(self._signs),
            ended=max([*self._signs, *(told.at for told in self._told[-1:])]),
            cwd=of.cwd or of.workspace_root,
            title=known.title,
            model=self._model or model,
            resume=resume(self.conversation),
            told=self._told,
            signs=sorted(self._signs),
            input_tokens=self._used[0],
            output_tokens=self._used[1],
            cache_read_tokens=self._used[2],
            cache_write_tokens=self._used[3],
            messages=self._messages,
            cost_usd=(whole.total_cost if whole is not None else None) or known.total_cost or None,
        )


def blocks(message: Message) -> list[Block]:
    return message.content if type(message.content) is list else []


def said(message: Message) -> str | None:
    if type(message.content) is str:
        return message.content or None
    return "\n".join(block.text for block in blocks(message) if block.type == "text" and block.text) or None
