"""A scripted model that speaks the API of whichever agent program calls it, in a network namespace.

Run as a program inside a namespace: it brings the loopback up, listens there, runs the command after `--`, writes
down every request, and ends with the command's exit code. No packet can leave: there is no other network.
"""

from __future__ import annotations

import http.server
import json
import subprocess
import sys
import threading
from typing import Any, Final

PORT: Final = 8765
ADDRESS: Final = f"http://127.0.0.1:{PORT}"
# Marks a prompt that one agent writes for another: the other one is asking.
ERRAND: Final = "ERRAND"
LAST_WORDS: Final = "All done."
ERRAND_WORDS: Final = "The cart is fine."
# A step without an answer, at which the program waits forever.
SILENCE: Final = "silence"
# A step at which the API reports an exhausted usage limit.
USED_UP: Final = "used up"

# In the words of each API.
_USED_UP: Final = {
    "type": "error",
    "error": {
        "type": "rate_limit_error", "code": 429, "status": "RESOURCE_EXHAUSTED",
        "message": "You exceeded your current quota, please check your plan and billing details.",
    },
}  # fmt: skip

Step = dict[str, Any]


class Script:
    """The model's answers: one tool call after another, then its last words."""

    def __init__(self, steps: list[Step], errand: list[Step]) -> None:
        self._steps = {False: steps, True: errand}

    def step(self, done: int, *, errand: bool) -> Step | None:
        steps = self._steps[errand]
        step = steps[done] if done < len(steps) else None
        if step is not None and step["tool"] in (SILENCE, USED_UP):
            raise NoAnswer(step["tool"])
        return step


class NoAnswer(Exception):
    """The script makes the model not answer."""


def anthropic(script: Script, asked: dict[str, Any]) -> bytes:
    """An answer of the Messages API, streamed."""
    messages = asked.get("messages", [])
    errand = ERRAND in json.dumps(messages[:1])
    done = sum(block.get("type") == "tool_use" for block in _blocks(messages))
    name = f"{'errand' if errand else 'main'}_{done}"
    step = script.step(done, errand=errand) if asked.get("tools") else None
    usage = {
        "input_tokens": 100,
        "output_tokens": 5,
        "cache_creation_input_tokens": 10,
        "cache_read_input_tokens": 20,
    }
    message: dict[str, Any] = {
        "id": f"msg_{name}_{len(messages)}", "type": "message", "role": "assistant", "model": asked.get("model"),
        "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage,
    }  # fmt: skip
    start: dict[str, Any]
    if step is None:
        start = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": ERRAND_WORDS if errand else LAST_WORDS}
    else:
        start = {"type": "tool_use", "id": f"toolu_{name}", "name": step["tool"], "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(step["input"])}
    if not asked.get("stream"):
        whole = start | ({"text": delta["text"]} if step is None else {"input": step["input"]})
        return json.dumps(message | {"content": [whole], "stop_reason": "end_turn"}).encode()
    end = {"stop_reason": "end_turn" if step is None else "tool_use", "stop_sequence": None}
    return _stream([
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": start},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": end, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ])  # fmt: skip


def _blocks(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [block for message in messages if isinstance(message["content"], list) for block in message["content"]]


def responses(script: Script, asked: dict[str, Any]) -> bytes:
    """An answer of the Responses API, streamed."""
    items = asked.get("input", [])
    errand = any(ERRAND in json.dumps(item) for item in items if item.get("type") == "agent_message")
    done = sum(item.get("type") in ("function_call", "custom_tool_call") for item in items)
    step = script.step(done, errand=errand)
    name = f"{'errand' if errand else 'main'}_{done}"
    item: dict[str, Any]
    if step is None:
        text = {"type": "output_text", "text": ERRAND_WORDS if errand else LAST_WORDS}
        item = {"type": "message", "id": f"msg_{name}", "role": "assistant", "content": [text]}
    elif isinstance(step["input"], str):
        item = {"type": "custom_tool_call", "id": f"ctc_{name}", "call_id": f"call_{name}", "name": step["tool"],
                "input": step["input"]}  # fmt: skip
    else:
        item = {"type": "function_call", "id": f"fc_{name}", "call_id": f"call_{name}", "name": step["tool"],
                "arguments": json.dumps(step["input"])}  # fmt: skip
        if "namespace" in step:
            item["namespace"] = step["namespace"]
    usage = {
        "input_tokens": 1000, "input_tokens_details": {"cached_tokens": 400}, "output_tokens": 50,
        "output_tokens_details": {"reasoning_tokens": 10}, "total_tokens": 1050,
    }  # fmt: skip
    return _stream([
        {"type": "response.created", "response": {"id": f"resp_{name}"}},
        {"type": "response.output_item.added", "item": item},
        {"type": "response.output_item.done", "item": item},
        {"type": "response.completed", "response": {"id": f"resp_{name}", "usage": usage}},
    ])  # fmt: skip


def generate_content(script: Script, asked: dict[str, Any]) -> bytes:
    """A streamed answer of Gemini's API; a request without tools asks which model to use, and gets an answer."""
    contents = asked.get("contents", [])
    parts = [part | {"role": item.get("role")} for item in contents for part in item.get("parts", [])]
    # A briefing may mention an earlier errand.
    user_texts = [
        text for part in parts if part["role"] == "user" and "holdfast-record" not in (text := part.get("text", ""))
    ]
    errand = ERRAND in json.dumps([user_texts, asked.get("systemInstruction")])
    done = sum("functionCall" in part for part in parts)
    step = script.step(done, errand=errand) if "functionDeclarations" in json.dumps(asked.get("tools")) else None
    part: dict[str, Any]
    if step is not None:
        part = {"functionCall": {"name": step["tool"], "args": step["input"]}}
    elif "responseJsonSchema" in json.dumps(asked):
        part = {"text": json.dumps({"complexity_reasoning": "x", "complexity_score": 10, "reasoning": "x"})}
    else:
        part = {"text": ERRAND_WORDS if errand else LAST_WORDS}
    usage = {
        "promptTokenCount": 1200, "candidatesTokenCount": 30, "totalTokenCount": 1235, "cachedContentTokenCount": 200,
        "thoughtsTokenCount": 5,
    }  # fmt: skip
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    return json.dumps({"candidates": [candidate], "usageMetadata": usage}).encode()


def _stream(events: list[dict[str, Any]]) -> bytes:
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()


def answer(script: Script, path: str, asked: dict[str, Any]) -> tuple[str, bytes]:
    """Kind and bytes of the answer to a request, chosen by its path."""
    if "countTokens" in path or "count_tokens" in path:
        return "application/json", b'{"totalTokens": 1000, "input_tokens": 1000}'
    if "/messages" in path:
        reply = anthropic(script, asked)
        return "text/event-stream" if asked.get("stream") else "application/json", reply
    if "/responses" in path:
        return "text/event-stream", responses(script, asked)
    if "streamGenerateContent" in path:
        return "text/event-stream", b"data: " + generate_content(script, asked) + b"\n\n"
    if "generateContent" in path:
        return "application/json", generate_content(script, asked)
    return "application/json", b'{"data": [], "models": []}'


def serve(script: Script, requests: str) -> http.server.ThreadingHTTPServer:
    writing = threading.Lock()

    class Asked(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Nobody reads it."""

        def do_GET(self) -> None:
            self.do_POST()

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            try:
                asked = json.loads(body or b"{}")
            except ValueError:
                asked = {}
            code, silent = 200, False
            try:
                kind, data = answer(script, self.path, asked if isinstance(asked, dict) else {})
            except NoAnswer as why:
                code, kind, data, silent = 429, "application/json", json.dumps(_USED_UP).encode(), str(why) == SILENCE
            with writing, open(requests, "a", encoding="utf-8") as file:
                file.write(json.dumps({"path": self.path, "body": asked, "silent": silent}) + "\n")
            if silent:
                threading.Event().wait()
            self.send_response(code)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    return http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Asked)


def loopback_up() -> None:
    import fcntl
    import socket
    import struct

    up_and_running, set_flags = 0x41, 0x8914
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, set_flags, struct.pack("16sh22x", b"lo", up_and_running))


def main(script: str, requests: str, command: list[str]) -> int:
    """Without a script there is no model: the program finds no listener."""
    loopback_up()
    if script == "-":
        return subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode
    with open(script, encoding="utf-8") as file:
        document = json.load(file)
    with serve(Script(document["steps"], document["errand"]), requests) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        code = subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode
        server.shutdown()
    return code


if __name__ == "__main__":
    words = sys.argv[1:]
    sys.exit(main(words[0], words[1], words[words.index("--") + 1 :]))
