"""Behaviour of the real Codex alone: it runs no hooks before a person has trusted them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from holdfast.conversations.adapters.codex import settings
from tests.real import real_programs
from tests.real.agent_tasks import CODEX, GOAL
from tests.real.machine import Machine

real_programs.skip_unless_requested()
pytestmark = real_programs.needs("codex")

UNTRUSTING = tuple(word for word in CODEX.words if "hook-trust" not in word)


def test_model_and_permission_mode_are_recorded(tmp_path: Path) -> None:
    """Codex reports both with every event."""
    machine = CODEX.machine(tmp_path)
    CODEX.run_prompt(machine, GOAL)
    session = machine.session()
    assert session["model"] == "gpt-6.1-sol"
    assert session["extra"]["permission_modes"] == {"codex": "bypassPermissions"}


def test_untrusted_hooks_are_reported(tmp_path: Path) -> None:
    """They do not run, nothing is recorded, and `agents` names the obstacle."""
    machine = CODEX.machine(tmp_path)
    CODEX.run_prompt(machine, GOAL, *UNTRUSTING)
    assert machine.sessions() == []
    assert "trusted" in " ".join(_listed(machine)["obstacles"])


def test_trusted_hook_hashes_equal_those_of_codex(tmp_path: Path) -> None:
    """With the hashes Holdfast expects in its configuration, Codex runs the hooks."""
    machine = CODEX.machine(tmp_path)
    hooks = str(machine.home / CODEX.settings)
    with (machine.home / ".codex" / "config.toml").open("a") as config:
        for hook in settings._hooks(hooks):
            config.write(f'\n[hooks.state."{hooks}:{":".join(hook.key)}"]\ntrusted_hash = "{hook.hash}"\n')
    CODEX.run_prompt(machine, GOAL, *UNTRUSTING)
    assert [session["goal"] for session in machine.sessions()] == [GOAL]
    assert "native.closed" in [event["type"] for event in machine.events("@")]
    assert _listed(machine)["obstacles"] == []


def _listed(machine: Machine) -> dict[str, Any]:
    [listed] = [item for item in machine.holdfast("agents")["agents"] if item["name"] == "codex"]
    assert listed["connected"] == "user"
    return dict(listed)
