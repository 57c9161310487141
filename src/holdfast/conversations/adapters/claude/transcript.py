"""Read Claude Code's transcripts: a conversation's own file, then those of its subagents.

A forked or resumed conversation may begin with a copy of the one it came from. Copied records say so, or are known
by their ids, and are skipped as long as the original is there. A subagent is put together from three places: the
call that asked for it, the result of that call, and its own lines.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple, Self

import msgspec

from holdfast.conversations.adapters.base import Payload
from holdfast.conversations.adapters.claude.records import (
    DECODER,
    ENDING,
    SUBAGENT_PREFIX,
    ClaudeBlock,
    ClaudeMessage,
    ClaudeRecord,
    ClaudeUsage,
    shell_result,
)
from holdfast.conversations.adapters.clean_text import plain
from holdfast.conversations.adapters.errors import classify
from holdfast.conversations.adapters.fields import decode_any, get_flag, get_int, get_text, parse_timestamp
from holdfast.conversations.adapters.files import DirectoryEntry, list_directories, list_files, stamp
from holdfast.conversations.adapters.jsonl import ReadProblems, read_records
from holdfast.conversations.adapters.tools import CLAUDE, signals_of
from holdfast.conversations.adapters.transcript import (
    MAX_PROMPT_LENGTH,
    TimedSignal,
    Transcript,
    TranscriptBuilder,
    TranscriptSource,
    with_problems,
)
from holdfast.conversations.signals import AgentBegan, AgentEnded, Compacted, Prompted
from holdfast.core.canonical import Json
from holdfast.workspace.agent_dirs import AgentDirs

if TYPE_CHECKING:
    from holdfast.conversations.adapters.claude.forks import Forks

_SHELLS: Final = frozenset({"Bash", "PowerShell"})
_AGENTS: Final = frozenset({"Task", "Agent"})
# Written for the model, or by a command of the program: nobody's request.
_NO_PROMPT: Final = (
    "<command-", "<local-command", "<bash-", "<system-reminder>", "<task-notification>", "<user-memory",
    "<ide_", "[Request interrupted", "Caveat: ",
)  # fmt: skip
_SYNTHETIC: Final = "<synthetic>"


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────


class ClaudeReader:
    name = "claude"

    def __init__(self) -> None:
        # The latest listing, and what its conversations have in common once one is read.
        self._listed: dict[str, str] = {}
        self._forks: Forks | None = None

    def sources(self, places: AgentDirs) -> Iterator[TranscriptSource]:
        root = os.path.join(places.under("CLAUDE_CONFIG_DIR", ".claude"), "projects")
        self._listed, self._forks = {}, None
        for project in list_directories(root, linked=True):
            for path, name, own_stamp in list_files(project, ENDING):
                if not name.startswith(SUBAGENT_PREFIX):
                    stamps = [own_stamp, *(file.stamp for file in _subagent_files(path))]
                    source = TranscriptSource(path, ";".join(stamps))
                    self._listed[path] = source.stamp
                    yield source

    def read(self, source: TranscriptSource) -> Iterator[Transcript]:
        # Loaded only to read: looking whether there is anything to read happens more often.
        from holdfast.conversations.adapters.claude.forks import Forks

        if self._listed.get(source.path) != source.stamp:
            return _read(source, Forks())
        if self._forks is None:
            self._forks = Forks()
        return _read(source, self._forks)


def _read(source: TranscriptSource, forks: Forks) -> Iterator[Transcript]:
    directory, name = os.path.split(source.path)
    builder = ClaudeTranscriptBuilder(name.removesuffix(ENDING))
    originals = _Originals(source.path)
    copied = forks.copied_lines(source.path)
    problems = ReadProblems()
    for number, record in read_records(source.path, DECODER, problems):
        if record.uuid and copied.has(number):
            builder.skip(record, copied.origin, copied.cost_usd)
        elif originals.have(record):
            builder.skip(record, record.forked.session if record.forked is not None else record.session)
        else:
            builder.add(record, number)
    agents = {file.removeprefix(SUBAGENT_PREFIX).removesuffix(ENDING): path
              for path, file, _ in _subagent_files(source.path)}  # fmt: skip
    for agent in builder.subagents():
        path = os.path.join(directory, f"{SUBAGENT_PREFIX}{agent}{ENDING}")
        if agent not in agents and _is_name(agent) and stamp(path) is not None:
            agents[agent] = path
    for agent, path in sorted(agents.items()):
        agent_problems = ReadProblems()
        for number, record in read_records(path, DECODER, agent_problems):
            builder.add_subagent_record(record, number, agent)
        problems.extend(agent_problems, f"in {os.path.basename(path)}, ")
    yield from with_problems(builder.finish(), problems, "claude", builder.transcript.conversation)


class _Originals:
    """The conversations next to one from which its lines may be copied."""

    def __init__(self, path: str) -> None:
        self._directory, name = os.path.split(path)
        self._is_there = {name.removesuffix(ENDING): False}

    def have(self, record: ClaudeRecord) -> bool:
        """Whether a record is a copy of one in a conversation that is still there."""
        origin = record.forked.session if record.forked is not None else record.session
        if origin is None:
            return False
        is_there = self._is_there.get(origin)
        if is_there is None:
            path = os.path.join(self._directory, origin + ENDING)
            is_there = self._is_there[origin] = _is_name(origin) and os.path.isfile(path)
        return is_there


def _is_name(name: str) -> bool:
    """A word that leads to no other directory."""
    return name.replace("-", "").replace("_", "").isalnum()


def _subagent_files(path: str) -> list[DirectoryEntry]:
    """The subagents of a conversation that have files of their own."""
    directory = os.path.join(path.removesuffix(ENDING), "subagents")
    return [file for file in list_files(directory, ENDING) if file.name.startswith(SUBAGENT_PREFIX)]


# ── one conversation ─────────────────────────────────────────────────────────────────────────────────────


class ClaudeSubagent(msgspec.Struct):
    """One subagent: asked for by a call, or known only by its file."""

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
    answer: str | None = None
    context: int = 0
    finished: bool = False

    @classmethod
    def from_call(cls, call: str, arguments: Payload, at: int) -> Self:
        """Until its own id is known, it goes by that of the call."""
        return cls(
            call, at, get_text(arguments, "subagent_type") or "general-purpose",
            get_text(arguments, "description", "prompt"), background=get_flag(arguments, "run_in_background"),
        )  # fmt: skip

    def end(self, result: Payload, shown: Json, at: int, failed: str | None) -> None:
        """The call has returned: with a result, or only saying that the subagent has begun."""
        if result.get("status") in ("async_launched", "remote_launched"):
            self.background = True
            return
        self.ended = at
        self.failed = failed
        self.summary = None if failed else _words(result.get("content")) or _words(shown)
        self.tokens = get_int(result, "totalTokens")

    def extend_to(self, at: int) -> None:
        self.first = at if self.first is None else min(self.first, at)
        self.last = at if self.last is None else max(self.last, at)

    def signals(self, call: str) -> Iterator[TimedSignal]:
        began = self.began if self.first is None else min(self.began, self.first)
        begins = AgentBegan(agent=self.agent, type=self.type, task=self.task, background=self.background)
        yield TimedSignal(began, begins, f"{call}.began")
        ended = self.ended
        if ended is None and self.finished:
            ended = self.last  # it ran in the background: its own last message is its end
        if ended is None:
            return
        summary = None if self.failed else self.summary or self.answer
        ends = AgentEnded(
            agent=self.agent, type=self.type, task=self.task, failed=self.failed,
            tokens=self.tokens if self.tokens is not None else self.context or None,
            summary=None if summary is None else plain(summary),
        )  # fmt: skip
        yield TimedSignal(max(ended, began), ends, f"{call}.ended")


class _Call(NamedTuple):
    """A tool call whose result is not known yet."""

    tool: str
    input: msgspec.Raw
    agent: str | None


class ClaudeTranscriptBuilder(TranscriptBuilder):
    def __init__(self, conversation: str) -> None:
        super().__init__("claude", conversation)
        self._calls: dict[str, _Call] = {}
        self._usage: dict[str, ClaudeUsage] = {}
        self._counted: set[str] = set()  # messages whose usage counts for the conversation they were copied from
        self._runs: dict[str, ClaudeSubagent] = {}  # by the call
        self._by_agent: dict[str, ClaudeSubagent] = {}
        # The oldest versions keep a subagent's lines in the conversation's file: which run such a line belongs to.
        self._by_line: dict[str, ClaudeSubagent] = {}
        self._prompts: dict[str, ClaudeSubagent] = {}
        self._at = 0
        self._titles: dict[str, str] = {}
        self._cost: float | None = None
        self._cost_before: float | None = 0

    # ── lines ────────────────────────────────────────────────────────────────────────────────────────────

    def add(self, record: ClaudeRecord, number: int) -> None:
        """A line of the conversation itself."""
        kind = record.type
        if kind in ("user", "assistant"):
            if record.sidechain:
                run = self._run_of(record)
                if run is not None:
                    self._message(record, number, run)
                return
            if self.transcript.cwd is None:
                self.transcript.cwd = record.cwd
            self.transcript.branch = record.branch or self.transcript.branch
            self._message(record, number, None)
        elif kind == "system":
            if record.subtype == "compact_boundary" and not record.sidechain:
                tokens_left = record.compaction.post_tokens if record.compaction else None
                self.emit(self._moment(record), Compacted(tokens=tokens_left), record.uuid or f"line{number}")
        elif kind == "custom-title" and record.custom_title:
            self._titles["custom"] = record.custom_title
        elif kind == "ai-title" and record.ai_title:
            self._titles["ai"] = record.ai_title
        elif kind == "summary" and type(summary := decode_any(record.summary)) is str and summary:
            self._titles["summary"] = summary
        elif kind == "cost-state" and record.cost_usd:
            self._cost = record.cost_usd
        if record.forked is not None:
            self.transcript.parent = record.forked.session

    def skip(self, record: ClaudeRecord, origin: str | None, cost: float | None = None) -> None:
        """A line that counts for the conversation it was copied from; `cost` is what that one had cost."""
        self.transcript.parent = origin
        self._cost_before = cost
        if isinstance(record.message, ClaudeMessage) and record.message.id:
            self._counted.add(record.message.id)

    def add_subagent_record(self, record: ClaudeRecord, number: int, agent: str) -> None:
        """A line of a subagent's own file."""
        if record.type not in ("user", "assistant"):
            return
        run = self._by_agent.get(agent)
        if run is None:
            run = self._by_agent[agent] = self._runs[agent] = ClaudeSubagent(
                agent, parse_timestamp(record.timestamp) or self._at
            )
        self._message(record, number, run)

    def subagents(self) -> list[str]:
        """The subagents that were called, by the program's own ids."""
        return list(self._by_agent)

    def _run_of(self, record: ClaudeRecord) -> ClaudeSubagent | None:
        run = self._by_agent.get(record.agent) if record.agent else None
        if run is None and record.parent:
            run = self._by_line.get(record.parent)
        if run is None and isinstance(record.message, ClaudeMessage) and type(record.message.content) is str:
            run = self._prompts.get(record.message.content)
        if run is not None and record.uuid:
            self._by_line[record.uuid] = run
        return run

    def _moment(self, record: ClaudeRecord) -> int:
        at = parse_timestamp(record.timestamp)
        if at is not None:
            self._at = at
        return self._at

    def _message(self, record: ClaudeRecord, number: int, run: ClaudeSubagent | None) -> None:
        mark = record.uuid
        if mark is None:
            mark = f"line{number}" if run is None else f"{run.agent}.line{number}"
        elif not self.is_new(mark):
            return
        at = self._moment(record)
        if not at:
            return
        self.add_message(at, is_sign=run is None)
        if run is not None:
            run.extend_to(at)
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
        self.emit(at, Prompted(text=plain(text, MAX_PROMPT_LENGTH)), mark)

    # ── messages of the model ──────────────────────────────────────────────────────────────────────────────

    def _answer(
        self, record: ClaudeRecord, message: ClaudeMessage, at: int, mark: str, run: ClaudeSubagent | None
    ) -> None:
        blocks = _blocks(message)
        if record.api_error:
            message_text = " ".join(block.text for block in blocks if block.text) or None
            kind = decode_any(record.error)
            agent = None if run is None else run.agent
            self.emit(at, classify(kind if type(kind) is str else None, message_text, agent=agent), mark)
            return
        usage = message.usage
        if usage is not None and message.id and message.id not in self._counted:
            self._usage[message.id] = usage  # one answer is written in several lines; the last one has it all
        if run is None:
            if message.model and message.model != _SYNTHETIC:
                self.transcript.model = message.model
            if usage is not None:
                self.measure(at, usage.context, mark)
        elif usage is not None and usage.context:
            run.context = usage.context + (usage.output_tokens or 0)
        for block in blocks:
            if block.type == "tool_use":
                self._call(block, at, run)
            elif block.type == "text" and run is not None and block.text:
                run.answer = block.text
        if run is not None:
            run.finished = message.stop_reason == "end_turn"

    def _call(self, block: ClaudeBlock, at: int, run: ClaudeSubagent | None) -> None:
        if block.id is None or block.name is None:
            return
        self._calls[block.id] = _Call(block.name, block.input, None if run is None else run.agent)
        if block.name in _AGENTS:
            arguments = decode_any(block.input)
            arguments = arguments if type(arguments) is dict else {}
            run = self._runs[block.id] = ClaudeSubagent.from_call(block.id, arguments, at)
            if (prompt := get_text(arguments, "prompt")) is not None:
                self._prompts[prompt] = run

    # ── results ──────────────────────────────────────────────────────────────────────────────────

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
        failed = _words(decode_any(block.content)) or "failed" if block.is_error else None
        if call.tool not in CLAUDE:
            if failed is not None:
                self.emit_all(at, signals_of(call.tool, None, agent=call.agent, failed=failed), mark)
            return
        if call.tool in _AGENTS:
            assert block.tool_use_id is not None
            self._agent_done(self._runs.get(block.tool_use_id), record, block, at, failed)
            return
        response = shell_result(record.result) if call.tool in _SHELLS else decode_any(record.result)
        arguments = decode_any(call.input)
        signals = signals_of(call.tool, arguments, response, agent=call.agent, call=block.tool_use_id, failed=failed)
        self.emit_all(at, signals, mark)

    def _agent_done(
        self, run: ClaudeSubagent | None, record: ClaudeRecord, block: ClaudeBlock, at: int, failed: str | None
    ) -> None:
        if run is None:
            return
        result = decode_any(record.result)
        result = result if type(result) is dict else {}
        name = get_text(result, "agentId")
        if name is not None and name not in self._by_agent and run.first is None:
            run.agent = name
        self._by_agent.setdefault(run.agent, run)
        run.end(result, decode_any(block.content), at, failed)

    # ── the transcript ────────────────────────────────────────────────────────────────────────────────────────

    def finish(self) -> Transcript | None:
        """The transcript; None when it has no messages."""
        transcript, titles = self.transcript, self._titles
        for call, run in self._runs.items():
            transcript.signals.extend(run.signals(call))
        for usage in self._usage.values():
            self.add_tokens(
                usage.input_tokens or 0, usage.output_tokens or 0, usage.cache_read_input_tokens or 0,
                usage.cache_creation_input_tokens or 0,
            )  # fmt: skip
        transcript.branch = None if transcript.branch in ("", "HEAD") else transcript.branch
        transcript.title = titles.get("custom") or titles.get("ai") or titles.get("summary")
        transcript.cost_usd = self._own_cost()
        return super().finish()

    def _own_cost(self) -> float | None:
        """Its cost without that of the conversation it was copied from, which it goes on counting from."""
        if self._cost is None or self._cost_before is None:
            return None
        return max(self._cost - self._cost_before, 0.0)


def _blocks(message: ClaudeMessage) -> list[ClaudeBlock]:
    return [item for item in message.content if type(item) is ClaudeBlock] if type(message.content) is list else []


def _words(content: Json) -> str | None:
    """The text of a result: itself, or the texts of its blocks."""
    if type(content) is str:
        return content
    if type(content) is list:
        texts = [item["text"] for item in content if type(item) is dict and type(item.get("text")) is str]
        return "\n".join(str(text) for text in texts) or None
    return None


READER: Final = ClaudeReader()
