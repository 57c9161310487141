"""Generates transcripts as Claude Code writes them, from a fixed seed.

300 conversations in twelve projects, 90,000 messages, about 113 MB: prompts, thinking, tool calls with their results,
edits with the file before them, to-do lists, subagents in separate files, compactions, and answers in several lines
with the same usage.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

SESSIONS = 300
MESSAGES = 90_000
_EPOCH = 1_767_600_000  # seconds; a Monday in January 2026
_PROSE = (
    "the parser keeps a token until its line ends so that errors name both places while the cache holds whatever was "
    "asked for twice and nothing else because a request that fails must leave the table as it found it before the "
    "next one begins to read rows in order of arrival and writes them back sorted by name with their old stamps"
)
_WORDS = _PROSE.split()
_FILES = [f"src/{room}/{name}.py" for room in ("api", "core", "store", "web") for name in ("auth", "cache", "rows")]
_MODEL = "claude-opus-5-5"


class Corpus(NamedTuple):
    home: Path
    sessions: int
    messages: int
    size: int


def build(home: Path, *, sessions: int = SESSIONS, messages: int = MESSAGES) -> Corpus:
    """Write the transcripts below `home`."""
    rng = random.Random(4)
    text = _Text(rng)
    written = size = 0
    for number in range(sessions):
        message_count = (messages * (number + 1)) // sessions - written
        conversation = _Conversation(home, number, rng, text)
        written += conversation.write(message_count)
        size += conversation.size
    return Corpus(home, sessions, written, size)


class _Text:
    """Prose and code to take pieces of: making every word anew would take longer than what is measured."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._prose = " ".join(chance.choice(_WORDS) for _ in range(60_000))
        lines = (f"{'    ' * chance.randrange(1, 4)}{'_'.join(chance.sample(_WORDS, 3))} = {n}" for n in range(9_000))
        self._code = "\n".join(lines)

    def prose(self, length: int) -> str:
        return self._cut(self._prose, length)

    def code(self, length: int) -> str:
        return self._cut(self._code, length)

    def _cut(self, text: str, length: int) -> str:
        begin = self._chance.randrange(len(text) - length * 2)
        return text[begin : begin + self._chance.randrange(length // 2, length * 3 // 2)]


class _Conversation:
    def __init__(self, home: Path, number: int, chance: random.Random, text: _Text) -> None:
        self._chance, self._text = chance, text
        self._id = self._uuid()
        self._cwd = f"/work/projects/project-{number % 12:02d}"
        self._directory = home / ".claude" / "projects" / self._cwd.replace("/", "-")
        self._at = (_EPOCH + number * 86_400 * 9 // 10 + chance.randrange(36_000)) * 1000
        self._agents = 0
        self.size = 0

    def write(self, message_count: int) -> int:
        """Write this many messages, those of subagents included; return how many were written."""
        records: list[dict[str, object]] = [
            {"type": "mode", "mode": "default", "sessionId": self._id},
            {"type": "file-history-snapshot", "messageId": self._uuid(), "snapshot": {"trackedFileBackups": {}}},
        ]
        left = message_count
        while left > 0:
            left -= self._turn(records, left)
        records.append({"type": "ai-title", "aiTitle": self._text.prose(40), "sessionId": self._id})
        self._write_file(self._directory / f"{self._id}.jsonl", records)
        return message_count - left

    def _turn(self, records: list[dict[str, object]], left: int) -> int:
        """Add a prompt, the steps of the agent and its answer; return the number of messages."""
        begin = len(records)
        extra = 0
        self._advance(30, 420)
        records.append(self._line("user", {"role": "user", "content": self._text.prose(260)}))
        for _ in range(self._chance.randrange(4, 18)):
            if len(records) - begin + extra >= left - 1:
                break
            extra += self._step(records, left - (len(records) - begin) - extra)
        if self._chance.random() < 0.03:
            records.append(self._line("system", None) | {
                "subtype": "compact_boundary", "content": "Conversation compacted",
                "compactMetadata": {"trigger": "auto", "preTokens": 155_000, "postTokens": 21_000},
            })  # fmt: skip
            extra -= 1
        records.append(self._answer([{"type": "text", "text": self._text.prose(700)}], self._name("msg"), "end_turn"))
        return len(records) - begin + extra

    def _step(self, records: list[dict[str, object]], left: int) -> int:
        """Add thinking, a call and its result; return messages of a subagent. Lines of one answer share its id."""
        answer = self._name("msg")
        if self._chance.random() < 0.5:
            thought = {"type": "thinking", "thinking": self._text.prose(420), "signature": self._name("sig") * 6}
            records.append(self._answer([thought], answer, None))
        tool, arguments, output, result = self._tool()
        call = self._name("toolu")
        extra = 0
        if tool == "Task":
            if left < 20:
                tool, arguments, output, result = self._read()
            else:
                extra, result = self._agent(min(left - 10, 24), str(arguments["prompt"]))
        records.append(
            self._answer([{"type": "tool_use", "id": call, "name": tool, "input": arguments}], answer, "tool_use")
        )
        self._advance(1, 25)
        failed = tool == "Bash" and self._chance.random() < 0.1
        block = {"tool_use_id": call, "type": "tool_result", "content": output}
        line = self._line("user", {"role": "user", "content": [block | ({"is_error": True} if failed else {})]})
        records.append(line | {"toolUseResult": f"Error: {output}" if failed else result})
        return extra

    def _tool(self) -> tuple[str, dict[str, object], str, object]:
        kind = self._chance.random()
        if kind < 0.34:
            return self._read()
        path = f"{self._cwd}/{self._chance.choice(_FILES)}"
        if kind < 0.60:
            output = self._text.prose(380)
            command = f"python -m pytest {self._chance.choice(_FILES)} -k {self._chance.choice(_WORDS)}"
            arguments: dict[str, object] = {"command": command, "description": "Run the tests"}
            return "Bash", arguments, output, {"stdout": output, "stderr": "", "interrupted": False, "isImage": False}
        if kind < 0.80:
            before = self._text.code(960)
            old = before.splitlines()[len(before.splitlines()) // 2] + "\n"
            new = old + "        return None\n"
            patch = {
                "oldStart": 9,
                "oldLines": 3,
                "newStart": 9,
                "newLines": 4,
                "lines": [f" {old}", "+  return None"],
            }
            arguments = {"file_path": path, "old_string": old, "new_string": new}
            result = {"filePath": path, "oldString": old, "newString": new, "originalFile": before,
                      "structuredPatch": [patch], "userModified": False, "replaceAll": False}  # fmt: skip
            return "Edit", arguments, f"The file {path} has been updated.", result
        if kind < 0.85:
            content = self._text.code(800)
            arguments = {"file_path": path, "content": content}
            result = {"type": "create", "filePath": path, "content": content, "structuredPatch": []}
            return "Write", arguments, f"File created successfully at: {path}", result
        if kind < 0.90:
            states = ("completed", "in_progress", "pending")
            todos = [{"content": f"Step {n}: {_WORDS[n]} {_WORDS[n + 7]}", "status": states[n % 3], "activeForm": "…"}
                     for n in range(self._chance.randrange(3, 8))]  # fmt: skip
            return "TodoWrite", {"todos": todos}, "Todos have been modified.", {"oldTodos": [], "newTodos": todos}
        if kind < 0.975:
            output = self._text.code(520)
            arguments = {"pattern": self._chance.choice(_WORDS), "path": self._cwd, "output_mode": "content"}
            return "Grep", arguments, output, {"mode": "content", "numFiles": 3, "content": output}
        arguments = {"subagent_type": "Explore", "description": "Look around", "prompt": self._text.prose(500)}
        return "Task", arguments, self._text.prose(400), None

    def _read(self) -> tuple[str, dict[str, object], str, object]:
        path = f"{self._cwd}/{self._chance.choice(_FILES)}"
        content = self._text.code(560)
        lines = "\n".join(f"{n:>6}\t{line}" for n, line in enumerate(content.splitlines(), 1))
        file = {"filePath": path, "content": content, "numLines": 40, "startLine": 1, "totalLines": 40}
        return "Read", {"file_path": path}, lines, {"type": "text", "file": file}

    def _agent(self, count: int, prompt: str) -> tuple[int, object]:
        """Write a subagent to its own file; return its number of messages and its result."""
        self._agents += 1
        agent = f"a{self._chance.getrandbits(28):07x}"
        agent_fields = {"isSidechain": True, "agentId": agent}
        records = [self._line("user", {"role": "user", "content": prompt}) | agent_fields]
        began = self._at
        while len(records) < count - 1:
            tool, arguments, output, result = self._read()
            call = self._name("toolu")
            use = {"type": "tool_use", "id": call, "name": tool, "input": arguments}
            records.append(self._answer([use], self._name("msg"), "tool_use") | agent_fields)
            self._advance(1, 9)
            block = {"tool_use_id": call, "type": "tool_result", "content": output}
            line = self._line("user", {"role": "user", "content": [block]}) | agent_fields
            records.append(line | {"toolUseResult": result})
        answer = self._text.prose(900)
        records.append(self._answer([{"type": "text", "text": answer}], self._name("msg"), "end_turn") | agent_fields)
        self._write_file(self._directory / self._id / "subagents" / f"agent-{agent}.jsonl", records)
        result = {"status": "completed", "agentId": agent, "content": [{"type": "text", "text": answer}],
                  "totalDurationMs": self._at - began, "totalTokens": 21_000}  # fmt: skip
        return len(records), result

    # ── lines ────────────────────────────────────────────────────────────────────────────────────────────

    def _line(self, kind: str, message: dict[str, object] | None) -> dict[str, object]:
        line: dict[str, object] = {
            "parentUuid": self._uuid(), "isSidechain": False, "userType": "external", "cwd": self._cwd,
            "sessionId": self._id, "version": "2.1.325", "gitBranch": "main", "type": kind,
        }  # fmt: skip
        if message is not None:
            line["message"] = message
        seconds, milli = divmod(self._at, 1000)
        return line | {"uuid": self._uuid(), "timestamp": f"{_date(seconds)}.{milli:03d}Z"}

    def _answer(self, content: Sequence[Mapping[str, object]], name: str, reason: str | None) -> dict[str, object]:
        self._advance(1, 12)
        usage = {
            "input_tokens": self._chance.randrange(3, 40), "output_tokens": self._chance.randrange(40, 900),
            "cache_creation_input_tokens": self._chance.randrange(200, 4_000),
            "cache_read_input_tokens": self._chance.randrange(9_000, 150_000), "service_tier": "standard",
        }  # fmt: skip
        message: dict[str, object] = {
            "id": name, "type": "message", "role": "assistant", "model": _MODEL, "content": content,
            "stop_reason": reason, "stop_sequence": None, "usage": usage,
        }  # fmt: skip
        return self._line("assistant", message) | {"requestId": self._name("req")}

    def _write_file(self, path: Path, records: list[dict[str, object]]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        data = "".join(json.dumps(record, separators=(",", ":")) + "\n" for record in records).encode()
        path.write_bytes(data)
        self.size += len(data)

    def _advance(self, min_seconds: int, max_seconds: int) -> None:
        self._at += self._chance.randrange(min_seconds * 1000, max_seconds * 1000)

    def _uuid(self) -> str:
        name = f"{self._chance.getrandbits(128):032x}"
        return f"{name[:8]}-{name[8:12]}-4{name[13:16]}-a{name[17:20]}-{name[20:]}"

    def _name(self, kind: str) -> str:
        return f"{kind}_01{self._chance.getrandbits(110):028x}"


def _date(seconds: int) -> str:
    days, rest = divmod(seconds, 86_400)
    year, month, day = _year_month_day(days)
    return f"{year:04d}-{month:02d}-{day:02d}T{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"


def _year_month_day(days: int) -> tuple[int, int, int]:
    from datetime import date, timedelta

    day = date(1970, 1, 1) + timedelta(days=days)
    return day.year, day.month, day.day
