"""Transcripts as Claude Code writes them, line by line, for tests of their reader."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeVar

from holdfast.conversations.adapters.claude.transcript import READER
from holdfast.conversations.adapters.transcript import Transcript
from holdfast.workspace.agent_dirs import AgentDirs

TALK = "11111111-2222-4333-8444-555555555555"
T = TypeVar("T")


class Past:
    """The home of a person who used Claude Code. Lines are a second apart."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.directory = home / ".claude" / "projects" / "-work-app"
        self.directory.mkdir(parents=True)
        self._second = 0
        self._number = 0

    def line(self, kind: str, message: Any = None, **more: Any) -> dict[str, Any]:
        self._second += 1
        self._number += 1
        line = {
            "parentUuid": None, "isSidechain": False, "type": kind, "uuid": f"uuid-{self._number}",
            "timestamp": f"2026-03-04T10:{self._second // 60:02d}:{self._second % 60:02d}.000Z",
            "cwd": "/work/app", "sessionId": TALK, "gitBranch": "main", "version": "2.1.325",
        }  # fmt: skip
        return line | ({} if message is None else {"message": message}) | more

    def prompt(self, text: Any, **more: Any) -> dict[str, Any]:
        return self.line("user", {"role": "user", "content": text}, **more)

    def answer(self, *blocks: dict[str, Any], name: str = "", usage: Any = None, **more: Any) -> dict[str, Any]:
        reason = more.pop("stop_reason", "end_turn")
        message = {"id": name or f"msg-{self._number}", "model": "claude-opus-5-5", "content": list(blocks),
                   "stop_reason": reason, "usage": usage or {"input_tokens": 10, "output_tokens": 5}}  # fmt: skip
        return self.line("assistant", message, **more)

    def used(self, call: str, tool: str, given: Any, **more: Any) -> dict[str, Any]:
        return self.answer({"type": "tool_use", "id": call, "name": tool, "input": given}, **more)

    def result(self, call: str, shown: Any = "done", result: Any = None, **more: Any) -> dict[str, Any]:
        block = {"type": "tool_result", "tool_use_id": call, "content": shown}
        if more.pop("is_error", False):
            block["is_error"] = True
        return self.line("user", {"role": "user", "content": [block]}, toolUseResult=result, **more)

    def write(self, *lines: dict[str, Any], name: str = TALK) -> None:
        path = self.directory / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))

    def transcripts(self) -> list[Transcript]:
        sources = READER.sources(AgentDirs(str(self.home), "/nowhere"))
        return [transcript for source in sources for transcript in READER.read(source)]

    def transcript(self) -> Transcript:
        (transcript,) = self.transcripts()
        return transcript


def only(transcript: Transcript, kind: type) -> list[Any]:
    return [timed.signal for timed in transcript.signals if isinstance(timed.signal, kind)]
