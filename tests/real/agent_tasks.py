"""The same task for each real agent.

How its program is started without a person, its settings before Holdfast, and which tools the model calls.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.real.machine import Machine, RunResult
from tests.real.real_programs import needs
from tests.real.scripted_model import ADDRESS, ERRAND, Step

GOAL: Final = "Fix the cart"
FIRST, SECOND = "one\ntwo\n", "one\n2\n"


@dataclass(frozen=True)
class AgentTask:
    agent: str
    # The file that `connect` changes, below the home, and its content before; None if it does not exist.
    settings: str
    before: str | None
    # Other files of a person's, below the home.
    others: dict[str, str]
    # Arguments before the prompt, and to resume a conversation.
    words: tuple[str, ...]
    resuming: tuple[str, ...]
    environ: dict[str, str]
    steps: tuple[Step, ...]
    errand: tuple[Step, ...] = ()
    # The command that Holdfast gives people to reopen a conversation.
    reopening: str = ""

    def machine(self, root: Path) -> Machine:
        """A machine on which this agent is connected."""
        machine = Machine(root)
        for name, text in (*self.others.items(), *([(self.settings, self.before)] if self.before else [])):
            path = machine.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        machine.holdfast("connect", self.agent)
        return machine

    def script(self, machine: Machine) -> list[Step]:
        return list(json.loads(json.dumps(self.steps).replace("PROJECT", str(machine.project))))

    def run_task(self, machine: Machine) -> RunResult:
        """Run the program until its whole task is done."""
        ran = machine.run(
            self.agent, *self.words, GOAL, steps=self.script(machine), errand=list(self.errand), environ=self.environ
        )  # fmt: skip
        assert ran.code == 0, ran.output
        return ran

    def run_prompt(self, machine: Machine, prompt: str, *before: str) -> RunResult:
        """Run the program for one prompt, to which the model answers without tools."""
        ran = machine.run(self.agent, *(before or self.words), prompt, steps=[], environ=self.environ)
        assert ran.code == 0, ran.output
        return ran


def _step(tool: str, given: dict[str, object] | str, **more: str) -> Step:
    return {"tool": tool, "input": given, **more}


CLAUDE: Final = AgentTask(
    agent="claude",
    settings=".claude/settings.json",
    before='{\n  "theme":   "dark",\n  "hooks": {"Stop": []}\n}\n',
    others={},
    words=("--permission-mode", "acceptEdits", "--allowedTools=Bash,Write,Edit,Agent,TaskCreate,TaskUpdate", "-p"),
    resuming=("--resume", "ID", "-p"),
    environ={"ANTHROPIC_BASE_URL": ADDRESS, "ANTHROPIC_API_KEY": "made-up", "CLAUDE_CODE_MAX_RETRIES": "0"},
    steps=(
        _step("Write", {"file_path": "PROJECT/cart.py", "content": FIRST}),
        _step("Edit", {"file_path": "PROJECT/cart.py", "old_string": "two", "new_string": "2"}),
        _step("Bash", {"command": "echo hello", "description": "Say hello"}),
        _step("Bash", {"command": "exit 3", "description": "Fail"}),
        _step("TaskCreate", {"subject": "Add the cart", "description": "With totals"}),
        _step("TaskUpdate", {"taskId": "1", "status": "in_progress"}),
        _step("TaskUpdate", {"taskId": "1", "status": "completed"}),
        _step("Agent", {"description": "Look at the cart", "prompt": f"{ERRAND} look at the cart",
                        "subagent_type": "general-purpose", "run_in_background": False}),
    ),
    reopening="claude --resume ID",
)  # fmt: skip

_CODEX: Final = ("exec", "--dangerously-bypass-hook-trust", "--dangerously-bypass-approvals-and-sandbox")
CODEX: Final = AgentTask(
    agent="codex",
    settings=".codex/hooks.json",
    before=None,
    others={
        ".codex/config.toml": f'model = "gpt-6.1-sol"\nmodel_provider = "scripted"\n[model_providers.scripted]\n'
        f'name = "scripted"\nbase_url = "{ADDRESS}/v1"\nwire_api = "responses"\nenv_key = "SCRIPTED_KEY"\n'
    },
    words=_CODEX,
    resuming=(*_CODEX, "resume", "ID"),
    environ={"SCRIPTED_KEY": "made-up"},
    steps=(
        _step("apply_patch", "*** Begin Patch\n*** Add File: cart.py\n+one\n+two\n*** End Patch\n"),
        _step("apply_patch", "*** Begin Patch\n*** Update File: cart.py\n@@\n one\n-two\n+2\n*** End Patch\n"),
        _step("exec_command", {"cmd": "echo hello"}),
        _step("exec_command", {"cmd": "exit 3"}),
        _step("spawn_agent", {"task_name": "look", "message": f"{ERRAND} look at the cart", "fork_turns": "none"},
              namespace="collaboration"),
        _step("wait_agent", {"timeout_ms": 10_000}, namespace="collaboration"),
    ),
    reopening="codex resume ID",
)  # fmt: skip

GEMINI: Final = AgentTask(
    agent="gemini",
    settings=".gemini/settings.json",
    before='{\n  // as I like it\n  "security": {"auth": {"selectedType": "gemini-api-key"},\n'
    '               "folderTrust": {"enabled": false}}\n}\n',
    others={},
    words=("--yolo", "-p"),
    resuming=("--yolo", "--resume", "ID", "-p"),
    environ={"GEMINI_API_KEY": "made-up", "GOOGLE_GEMINI_BASE_URL": ADDRESS},
    steps=(
        _step("write_file", {"file_path": "cart.py", "content": FIRST}),
        _step("replace", {"file_path": "cart.py", "old_string": "two", "new_string": "2", "instruction": "Use 2"}),
        _step("run_shell_command", {"command": "echo hello"}),
        _step("run_shell_command", {"command": "exit 3"}),
        _step("invoke_agent", {"agent_name": "generalist", "prompt": f"{ERRAND} look at the cart"}),
    ),
    errand=(_step("complete_task", {"result": {"response": "The cart is fine."}}),),
    reopening="gemini --resume ID",
)  # fmt: skip

TASKS: Final = [pytest.param(task, id=task.agent, marks=needs(task.agent)) for task in (CLAUDE, CODEX, GEMINI)]
