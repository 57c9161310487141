"""A client of another project: the MCP inspector's command line, started for every request.

`make inspector` installs it, with a node to run it; without it these tests are skipped.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = Path(__file__).parents[2] / ".inspector" / "node_modules" / ".bin"
PATIENCE = 60.0
_IN_CI = bool(os.environ.get("HOLDFAST_CI"))  # read at import: tests run with an empty environment

pytestmark = pytest.mark.skipif(
    not _IN_CI and not (PROGRAMS / "mcp-inspector").exists(), reason="the MCP inspector is not here: make inspector"
)


class Inspector:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.project = root / "webshop"
        self.project.mkdir()
        self.env = {
            **os.environ, "HOLDFAST_HOME": str(root / "home"), "HOME": str(root),
            "PATH": os.pathsep.join([str(PROGRAMS), os.environ["PATH"]]),
            # Node compiles the inspector once, not for every request.
            "NODE_COMPILE_CACHE": str(root / "compiled"),
        }  # fmt: skip

    def run(self, method: str, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(PROGRAMS / "mcp-inspector"), "--cli", sys.executable, "-m", "holdfast", "mcp", "--method", method,
             *words],
            cwd=self.project, env=self.env, capture_output=True, text=True, timeout=PATIENCE, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def ask(self, method: str, *words: str) -> dict[str, Any]:
        done = self.run(method, *words)
        assert done.stdout, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        pairs = [
            f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in arguments.items()
        ]
        return self.ask("tools/call", "--tool-name", tool, *(word for pair in pairs for word in ("--tool-arg", pair)))


@pytest.fixture(scope="module")
def inspector(tmp_path_factory: pytest.TempPathFactory) -> Inspector:
    return Inspector(tmp_path_factory.mktemp("inspector"))


def test_tools_resources_templates_and_prompts_are_listed(inspector: Inspector) -> None:
    """The inspector accepts every schema."""
    strict = inspector.run("tools/list", "--strict")
    assert strict.returncode == 0
    assert "Warning" not in strict.stderr
    assert len(json.loads(strict.stdout)["tools"]) == 9
    assert len(inspector.ask("resources/list")["resources"]) == 3
    assert len(inspector.ask("resources/templates/list")["resourceTemplates"]) == 2
    assert [item["name"] for item in inspector.ask("prompts/list")["prompts"]] == ["continue", "hand_over", "wrap_up"]


def test_every_tool_resource_and_prompt_answers(inspector: Inspector) -> None:
    """Valid requests with matching answers, invalid ones with errors."""
    begun = inspector.call("start_session", goal="Look at me")
    assert begun["structuredContent"]["goal"] == "Look at me"
    recorded = inspector.call(
        "record", notes=["seen"], progress=0.5, tasks=[{"event": "added", "text": "Look"}],
        decisions=[{"chosen": "yes", "why": "no"}],
    )  # fmt: skip
    assert recorded["structuredContent"]["recorded"] == 4
    assert inspector.call("pause_session", reason="tea")["structuredContent"]["status"] == "paused"
    assert "seen" in inspector.call("resume_session")["structuredContent"]["briefing"]
    assert inspector.call("get_status")["structuredContent"]["session"]["progress"] == 0.5
    assert len(inspector.call("search_history", query="look")["structuredContent"]["sessions"]) == 1
    assert inspector.call("sync")["isError"]
    assert inspector.call("share_session", email="ada@example.org")["isError"]
    assert inspector.call("record", files=[{"path": "../../etc/passwd"}])["isError"]
    short = begun["structuredContent"]["id"][:13]
    for uri in ("session/current", f"briefing/{short}"):
        assert "Look at me" in inspector.ask("resources/read", "--uri", f"holdfast://{uri}")["contents"][0]["text"]
    prompt = inspector.ask("prompts/get", "--prompt-name", "hand_over", "--prompt-args", f"session={short}")
    assert "Look at me" in prompt["messages"][0]["content"]["text"]
    assert inspector.call("finish_session", summary="Seen")["structuredContent"]["status"] == "completed"
