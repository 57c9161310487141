"""A subagent's start reported by a hook reaches mirrored files at once, by a process that the hook starts."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast.conversations.adapters import index
from holdfast.conversations.connect.agent_settings import settings_of
from holdfast.conversations.hooks import install
from holdfast.conversations.signals import AgentBegan, Called
from tests.support.agent_hooks import AgentHooks

ORCHESTRATOR = ".claude/orchestrator-session.json"
PAYLOADS = Path(__file__).parent.parent / "conversations" / "payloads"
HANGING = 60.0  # seconds


def _modes(agent: str) -> dict[str, str]:
    """The hook mode of each event, by the event's name in lower case."""
    module = sys.modules[type(settings_of(agent)).__module__]
    table = getattr(module, "HOOKS", None) or getattr(module, "MANNERS", {})
    return {event.lower(): getattr(how, "manner", how) for event, how in table.items()}


def _starts() -> list[tuple[str, str]]:
    """Every event whose payload contains a subagent's start, for every agent."""
    events = set()
    for path in sorted(PAYLOADS.glob("*/*.json")):
        sample: dict[str, Any] = json.loads(path.read_text())
        event = index.load_adapter(path.parent.name).parse(sample["payload"])
        begun = event is not None and any(
            isinstance(signal, AgentBegan) or (isinstance(signal, Called) and signal.begins)
            for signal in event.signals
        )
        # The event after a tool contains everything, but it is never the first report of a start.
        if begun and not sample["event"].lower().startswith(("post", "after")):
            events.add((path.parent.name, sample["event"]))
    return sorted(events)


@pytest.mark.parametrize(("agent", "event"), [item for item in _starts() if item[0] != "opencode"])
def test_hook_of_an_agents_start_is_drained_at_once(agent: str, event: str) -> None:
    """Otherwise it reached mirrored files with the next event, seconds or minutes later."""
    assert agent in index.NAMES
    assert _modes(agent)[event.lower()] != "tell"


@pytest.mark.skipif(sys.platform == "win32", reason="the hook script is for POSIX systems")
def test_subagents_start_reaches_the_mirrored_file_without_another_command(tmp_path: Path) -> None:
    """The hook returns at once; the process it started writes the file."""
    agents = AgentHooks(tmp_path)
    install.install(str(agents.home), system=sys.platform)
    with agents.keeper() as keeper:
        keeper.mirrors.switch_on("orchestrator")
        keeper.start("Build the shop")
    sample = {"session_id": "talk-1", "cwd": str(agents.project), "hook_event_name": "SubagentStart",
            "agent_id": "a1", "agent_type": "reviewer"}  # fmt: skip
    manner = _modes("claude")["subagentstart"]
    hook = subprocess.run(
        [str(agents.home / "hooks" / "hook"), "claude", manner, "user"],
        input=json.dumps(sample).encode(), capture_output=True, timeout=HANGING, check=False, cwd=agents.project,
    )  # fmt: skip
    assert (hook.returncode, hook.stdout, hook.stderr) == (0, b"", b"")
    path = agents.project / ORCHESTRATOR
    until = time.time() + HANGING
    while not json.loads(path.read_text())["agents"] and time.time() < until:
        time.sleep(0.05)
    assert [(item["id"], item["status"]) for item in json.loads(path.read_text())["agents"]] == [
        ("a1", "in_progress")
    ]
