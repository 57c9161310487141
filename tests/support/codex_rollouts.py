"""Rollouts as Codex writes them, for tests of their reader: records, a whole conversation, and its transcript."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeAlias

from holdfast.conversations.adapters.codex.transcript import READER
from holdfast.conversations.adapters.transcript import Transcript, TranscriptSource
from holdfast.conversations.signals import AnySignal

Record: TypeAlias = dict[str, Any]
# The first digits of such an id are its time in milliseconds, here on the day of these rollouts.
ID = "01a1de6f-1111-7000-8000-000000000001"
SUB = "01a1de6f-2222-7000-8000-000000000002"
PATCH = "*** Begin Patch\n*** Delete File: a\n*** End Patch"
BEGAN = 1_794_733_200_000  # 2026-11-15T09:00:00Z


def line(second: float, kind: str, payload: Record) -> Record:
    minute, rest = divmod(second, 60)
    return {"timestamp": f"2026-11-15T09:{int(minute):02d}:{rest:06.3f}Z", "type": kind, "payload": payload}


def meta(second: float = 0, **fields: object) -> Record:
    whole = {"id": ID, "session_id": ID, "timestamp": "2026-11-15T09:00:00.000Z", "cwd": "/home/anna/shop", **fields}
    return line(second, "session_meta", {"base_instructions": {"text": "x" * 500}, **whole})


def item(second: float, **fields: object) -> Record:
    return line(second, "event_msg", {"type": "item_completed", "item": fields})


def asked(second: float, text: str = "Empty the carts", name: str = "u1") -> Record:
    return item(second, type="UserMessage", id=name, content=[{"type": "text", "text": text}])


def called(second: float, name: str, call: str, given: Record) -> Record:
    whole = {"type": "function_call", "name": name, "call_id": call, "arguments": json.dumps(given)}
    return line(second, "response_item", whole)


def output(second: float, call: str, text: str) -> Record:
    return line(second, "response_item", {"type": "function_call_output", "call_id": call, "output": text})


def spent(second: float, response: str, given: int = 1000, cached: int = 400, out: int = 50) -> Record:
    usage = {"input_tokens": given, "cached_input_tokens": cached, "output_tokens": out, "total_tokens": given + out}
    return line(second, "token_usage_record", {"response_id": response, "usage": usage})


def counted(second: float, total: int, last: int, **fields: object) -> Record:
    usage = {"input_tokens": last - 10, "cached_input_tokens": 0, "output_tokens": 10, "total_tokens": last}
    info = {"total_token_usage": {"total_tokens": total}, "last_token_usage": usage, "model_context_window": 258_400}
    return line(second, "event_msg", {"type": "token_count", "info": info, **fields})


def lines(records: list[Record]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def tell(path: Path, content: bytes | list[Record]) -> list[Transcript]:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else lines(content))
    return list(READER.read(TranscriptSource(str(path), "")))


def kinds(transcript: Transcript, kind: type[AnySignal]) -> list[AnySignal]:
    return [timed.signal for timed in transcript.signals if isinstance(timed.signal, kind)]


WHOLE = [
    meta(git={"branch": "carts"}),
    line(1, "turn_context", {"model": "gpt-6.1-sol", "approval_policy": "never", "cwd": "/home/anna/shop"}),
    line(1, "response_item", {"type": "message", "role": "user", "content": [{"type": "text", "text": "<env/>"}]}),
    asked(2),
    called(3, "exec_command", "c1", {"cmd": "make test"}),
    item(
        5, type="CommandExecution", id="c1", command=["/bin/bash", "-lc", "make test"], exit_code=2, status="failed",
        duration={"secs": 1, "nanos": 500_000_000},
    ),
    output(5, "c1", "Process exited with code 2\nOutput:\nno\n"),
    spent(5, "r1"),
    counted(5, 1050, 1050),
    line(6, "response_item", {"type": "custom_tool_call", "name": "apply_patch", "call_id": "c2", "input": "*** "}),
    item(
        7, type="FileChange", id="c2", status="completed",
        changes={
            "/home/anna/shop/a.py": {"type": "update", "unified_diff": "@@ -1 +1 @@\n-a\n+b\n+c\n"},
            "/home/anna/shop/b.py": {"type": "add", "content": "x\n"},
            "/home/anna/shop/c.py": {"type": "delete", "content": "x\n"},
            "/home/anna/shop/d.py": {"type": "update", "unified_diff": "", "move_path": "/home/anna/shop/e.py"},
        },
    ),
    spent(7, "r2"),
    counted(7, 2100, 1050),
    called(8, "update_plan", "c3", {"plan": [{"step": "Test it", "status": "in_progress"}]}),
    output(8, "c3", "Plan updated"),
    item(9, type="SubAgentActivity", id="c4", kind="started", agent_thread_id=SUB, agent_path="/root/write_tests"),
    line(10, "compacted", {"message": "A summary", "replacement_history": []}),
    line(11, "response_item", {"type": "message", "role": "assistant", "content": []}),
    asked(70, "And now?", "u2"),
    line(71, "event_msg", {"type": "thread_name_updated", "thread_name": "Carts"}),
    line(72, "event_msg", {"type": "task_complete", "last_agent_message": "Done."}),
]  # fmt: skip
