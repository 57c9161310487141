"""A change from end to end: hooks as an agent runs them, the process that they start, and `show` and `why`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the script of hooks is another one there")


class Agent:
    """Claude Code as its hooks see it, in a repository of its own."""

    def __init__(self, where: Path) -> None:
        self.home, self.project = where / "home", where / "shop"
        self.project.mkdir()
        self.environ = {
            "PATH": os.environ["PATH"], "HOME": str(where), "HOLDFAST_HOME": str(self.home),
            "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "A",
            "GIT_COMMITTER_EMAIL": "a@b",
        }  # fmt: skip
        self.run("git", "init", "-q")
        (self.project / "cart.py").write_text("total = 1\n")
        self.run("git", "add", ".")
        self.run("git", "commit", "-qm", "Begin")
        self.holdfast("connect", "claude", "--no-mcp")

    def run(self, *words: str, stdin: bytes = b"") -> str:
        done = subprocess.run(
            words, cwd=self.project, env=self.environ, input=stdin, capture_output=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        time.sleep(0.02)
        return done.stdout.decode()

    def holdfast(self, *words: str) -> Any:
        return json.loads(self.run(sys.executable, "-m", "holdfast", *words, "--json"))

    def hook(self, manner: str, event: str, **fields: Any) -> None:
        payload = {"session_id": "talk", "cwd": str(self.project), "hook_event_name": event, **fields}
        self.run(
            "/bin/sh", str(self.home / "hooks" / "hook"), "claude", manner, "user", stdin=json.dumps(payload).encode()
        )

    def command(self, command: str) -> None:
        """A shell command of the agent, and its payload."""
        self.run("/bin/sh", "-c", command)
        self.hook(
            "tell", "PostToolUse", tool_name="Bash", tool_input={"command": command}, tool_response={},
            tool_use_id=f"u{time.time_ns()}",
        )  # fmt: skip

    def events(self, kind: str) -> list[dict[str, Any]]:
        result: list[dict[str, Any]] = self.holdfast("log", "--type", kind)["events"]
        return result


def test_file_and_commit_of_a_command_are_recorded_by_the_process_that_a_hook_starts(tmp_path: Path) -> None:
    """`log` itself compares nothing."""
    agent = Agent(tmp_path)
    agent.hook("ask", "UserPromptSubmit", prompt="Fix the cart", prompt_id="p1")
    agent.command("sed -i.bak s/1/2/ cart.py && rm cart.py.bak && git commit -qam 'Fix the total'")
    agent.hook("stir", "Stop", last_assistant_message="Done")
    ends = time.monotonic() + 60
    while not agent.events("commit.recorded") and time.monotonic() < ends:
        time.sleep(0.2)
    session = agent.holdfast("show", "@")["session"]
    assert [(item["path"], item["by"]) for item in session["files"]] == [("cart.py", "command")]
    assert [(item["subject"], item["conversation"]) for item in session["commits"]] == [("Fix the total", "talk")]
    (answer,) = agent.holdfast("why", "cart.py:1")["sessions"]
    assert set(answer) == {"id", "goal", "conversation", "certainty", "because"}
    assert (answer["goal"], answer["conversation"], answer["certainty"]) == ("Fix the cart", "talk", "certain")
    assert "command" in agent.run(sys.executable, "-m", "holdfast", "show", "@")
    assert "Fix the total" in agent.run(sys.executable, "-m", "holdfast", "report")


def test_transcript_is_read_by_the_process_that_a_hook_starts(tmp_path: Path) -> None:
    """At the end of a turn; `status` reads no transcript."""
    agent = Agent(tmp_path)
    message = {
        "id": "m1", "role": "assistant", "model": "claude-opus-4-5", "content": [{"type": "text", "text": "Done"}],
        "usage": {"input_tokens": 3, "output_tokens": 5, "cache_read_input_tokens": 70_000},
    }  # fmt: skip
    asked = {"role": "user", "content": "Fix the cart"}
    lines: list[dict[str, Any]] = [
        {"type": "user", "uuid": "u1", "timestamp": "2026-11-15T09:00:00Z", "message": asked},
        {"type": "assistant", "uuid": "u2", "timestamp": "2026-11-15T09:00:05Z", "message": message},
        {"type": "cost-state", "totalCostUSD": 0.25},
    ]
    transcript = tmp_path / ".claude" / "projects" / "-shop" / "talk.jsonl"
    transcript.parent.mkdir(parents=True)
    transcript.write_text("".join(json.dumps({"sessionId": "talk", **line}) + "\n" for line in lines))
    agent.hook("ask", "UserPromptSubmit", prompt="Fix the cart", prompt_id="p1")
    agent.hook("stir", "Stop", last_assistant_message="Done", transcript_path=str(transcript))
    ends = time.monotonic() + 60
    while not agent.events("conversation.updated") and time.monotonic() < ends:
        time.sleep(0.2)
    session = agent.holdfast("status")["session"]
    (conversation,) = session["conversations"]
    assert (conversation["title"], conversation["model"]) == ("Fix the cart", "claude-opus-4-5")
    assert conversation["tokens"] == {"input": 3, "output": 5, "cache_read": 70_000, "cache_write": 0}
    assert (conversation["cost_usd"], session["cost_usd"], conversation["prompts"]) == (0.25, 0.25, 1)
    assert (session["context"]["window"], session["context"]["percent"]) == (200_000, 35.0)
