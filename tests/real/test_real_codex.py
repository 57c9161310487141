"""What only Codex does, with its real program: it runs nobody's hooks before a person has trusted them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from holdfast.conversations.adapters.codex import settings
from tests.real import real_programs
from tests.real.real_plays import CODEX, GOAL
from tests.real.real_stage import Stage

real_programs.wanted()
pytestmark = real_programs.needs("codex")

UNTRUSTING = tuple(word for word in CODEX.words if "hook-trust" not in word)


def test_model_and_permission_mode_are_recorded(tmp_path: Path) -> None:
    """Codex tells both with every event."""
    stage = CODEX.stage(tmp_path)
    CODEX.speaks(stage, GOAL)
    session = stage.session()
    assert session["model"] == "gpt-6.1-sol"
    assert session["extra"]["permission_modes"] == {"codex": "bypassPermissions"}


def test_hooks_that_are_not_trusted_are_not_run_and_holdfast_says_so(tmp_path: Path) -> None:
    """Nothing is recorded, and `agents` names what stands in the way."""
    stage = CODEX.stage(tmp_path)
    CODEX.speaks(stage, GOAL, *UNTRUSTING)
    assert stage.sessions() == []
    assert "trusted" in " ".join(_listed(stage)["obstacles"])


def test_trust_is_read_as_codex_reads_it(tmp_path: Path) -> None:
    """With the hashes that Holdfast expects in its configuration, Codex runs the hooks, and nothing is in the way."""
    stage = CODEX.stage(tmp_path)
    hooks = str(stage.home / CODEX.settings)
    with (stage.home / ".codex" / "config.toml").open("a") as config:
        for hook in settings._hooks(hooks):
            config.write(f'\n[hooks.state."{hooks}:{":".join(hook.key)}"]\ntrusted_hash = "{hook.hash}"\n')
    CODEX.speaks(stage, GOAL, *UNTRUSTING)
    assert [session["goal"] for session in stage.sessions()] == [GOAL]
    assert "native.closed" in [event["type"] for event in stage.events("@")]
    assert _listed(stage)["obstacles"] == []


def _listed(stage: Stage) -> dict[str, Any]:
    [found] = [item for item in stage.holdfast("agents")["agents"] if item["name"] == "codex"]
    assert found["connected"] == "user"
    return dict(found)
