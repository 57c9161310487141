"""Readable names in place of generated ids: which ids are generated, and what is shown and accepted instead."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from holdfast.core.display_names import agent_names, id_of, is_opaque, task_names
from holdfast.core.modes import WINDOW, window


class Agent(NamedTuple):
    id: str
    type: str = "reviewer"


@pytest.mark.parametrize(
    "id_",
    [
        "a55cae90-daa8-4ec4-9b81-a177f4ac06a7", "toolu_01A09q90qw90lq917835lq9", "call_8fKd03mQz1", "a1b2c3d4",
        "ses_e1ff8d709ffe2AhiB6acwFE7jY", "agent_1794759910435_1bf0h3", "claude-ab12-deadbeef", "ae3f9c1b",
        "claude-beef-deadbeef-2", "1794758822588_r8r2z", "invoke_agent-75e270b2f4a5059a",
    ],
)  # fmt: skip
def test_id_is_opaque_when_a_program_made_it(id_: str) -> None:
    """UUIDs, ids of calls and threads, hashes, and times in milliseconds."""
    assert is_opaque(id_)


@pytest.mark.parametrize(
    "id_",
    ["reviewer", "reviewer-1", "t3", "3", "oauth2", "fix-issue-1234", "python3-tests", "a", "S3.upload", "v2.1.325",
     "api_v2_client", "phase-1-task-12", "2026-11-15", "decade", "facade-cabbed"],
)  # fmt: skip
def test_id_chosen_by_a_person_is_kept(id_: str) -> None:
    """Words and small numbers."""
    assert not is_opaque(id_)


def test_agents_are_named_by_type_and_number_when_their_ids_are_opaque() -> None:
    """In the order in which they began, skipping names of other agents."""
    agents = [
        Agent("a55cae90-daa8-4ec4-9b81-a177f4ac06a7"), Agent("reviewer-2"), Agent("toolu_01A09q90qw90lq9"),
        Agent("call_8fKd03mQz1", "General Purpose"), Agent("plain"),
    ]  # fmt: skip
    names = agent_names(agents)
    assert names == {
        agents[0].id: "reviewer-1", agents[2].id: "reviewer-3", agents[3].id: "general-purpose-1"
    }  # fmt: skip
    assert id_of(names, "reviewer-3") == agents[2].id
    assert id_of(names, "reviewer-2") == "reviewer-2"
    assert id_of(names, "reviewer-9") == "reviewer-9"


def test_tasks_are_numbered_when_their_ids_are_opaque() -> None:
    """By their place in the plan, skipping numbers that are other tasks' ids."""
    tasks = [Agent("claude-ab12-12345678"), Agent("t2"), Agent("claude-ab12-abcdef12"), Agent("3")]
    assert task_names(tasks) == {tasks[0].id: "1"}


@pytest.mark.parametrize(
    ("model", "tokens", "expected"),
    [
        ("claude-opus-4-5-20251101", 0, 200_000), ("claude-sonnet-4-5[1m]", 0, 1_000_000),
        ("claude-sonnet-4-5", 350_000, 1_000_000), ("anthropic/claude-sonnet-4-5", 0, 200_000),
        ("us.anthropic.claude-opus-4-1-v1:0", 0, 200_000), ("opus", 0, 200_000), ("gpt-5-codex", 0, 272_000),
        ("openai/gpt-5.1-codex-max", 300_000, 400_000), ("gemini-2.5-pro", 0, 1_048_576),
        ("models/gemini-3-flash", 0, 1_048_576), ("gpt-4.1-mini", 0, 1_047_576), ("o3", 0, 200_000),
        ("o4-mini", 0, 200_000), ("gpt-4o", 0, WINDOW), ("somebody/else", 0, WINDOW), (None, 500_000, WINDOW),
        ("", 0, WINDOW),
    ],
)  # fmt: skip
def test_context_window_follows_from_model_and_tokens(model: str | None, tokens: int, expected: int) -> None:
    """Of a model with two sizes, the one that fits the tokens in use; of an unknown model, the default."""
    assert window(model, tokens) == expected
