"""Which format a file has: by its place, by its shape, and when it is nobody's."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.formats.detect import format_at, rank_by_likelihood, recognise, why_foreign

TIMER: dict[str, Any] = {
    "sessionId": "20260105-a-b", "branchName": "session/20260105-a-b", "startTime": "2026-01-05T08:00:00Z",
    "actualWorkingMs": 0, "totalPausedMs": 0, "pauses": [], "status": "IN_PROGRESS",
}  # fmt: skip
ORCHESTRATOR: dict[str, Any] = {
    "schema_version": "1.0", "session_id": "2026-01-05-abc123", "created": "2026-01-05T08:00:00Z",
    "updated": "2026-01-05T08:00:00Z", "goal": "x", "agents": [], "pending_tasks": [], "completed_work": [],
    "decisions_made": [], "context_usage": {}, "errors": [],
}  # fmt: skip
CRAFT: dict[str, Any] = {
    "schema_version": "1.0.0", "session_id": "3f2b8a52-7c1e-4a57-9d0e-1f2a3b4c5d6e",
    "created_at": "2026-01-05T08:00:00.000Z", "updated_at": "2026-01-05T08:00:00.000Z", "device": "d", "goal": "x",
    "agents": [], "completed_work": [], "pending_tasks": [], "decisions_made": [], "files_modified": [],
    "context_usage": {}, "teleportation": {}, "metadata": {}, "progress": 0.5,
}  # fmt: skip
STATE: dict[str, Any] = {"feature_id": "a-2026-01-05", "current_state": {"active_task": None, "model_in_use": "opus"}}
FEATURES: dict[str, Any] = {"active_features": [{"feature_id": "a-2026-01-05", "status": "active"}]}
HAND_MADE: dict[str, Any] = {"working_on": "the parser", "next_steps": ["tests"], "blocker": None, "git_branch": "x"}


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/p/.claude/orchestrator-session.json", "orchestrator"),
        ("/p/.claude/orchestrator-history/2026-01-05-abc123.json", "orchestrator"),
        ("/p/.claude/session-state.json", "timer"),
        ("C:\\p\\.claude\\session-state.json", "timer"),
        ("/p/.craft/cache/orchestration-sessions/x.json", "craft"),
        ("/p/.craft/cache/orchestration-sessions/index.json", "craft-index"),
        ("/p/.ai-session/active-features.yaml", "contract-registry"),
        ("/p/.ai-session/a-2026-01-05/state.yaml", "contract-state"),
        ("/p/.ai-session/a-2026-01-05/implementation-plan.yaml", "contract-plan"),
        ("/p/.ai-session/a-2026-01-05/history.jsonl", "contract-history"),
        ("/p/session-state.json", None),
        ("/p/.claude/settings.json", None),
        ("/p/orchestrator-history/x.json", None),
        ("/p/orchestration-sessions/x.json", None),
        ("/p/state.yaml", None),
        ("/p/.ai-session/state.yaml", None),
        ("/p/.ai-session/a-2026-01-05/artifacts/state.yaml", None),
        ("state.yaml", None),
        ("", None),
    ],
)
def test_place_belongs_to_a_format(path: str, kind: str | None) -> None:
    detected = format_at(path)
    assert (detected and detected[1]) == kind
    if detected is not None:
        assert detected[1].startswith(detected[0])


@pytest.mark.parametrize(
    ("value", "kind"),
    [(TIMER, "timer"), (ORCHESTRATOR, "orchestrator"), (CRAFT, "craft"), (STATE, "contract-state"),
     (FEATURES, "contract-registry"), (HAND_MADE, None), ({}, None), ([], None), (None, None), ("x", None),
     ({"name": "package", "version": "1.0.0"}, None)],
)  # fmt: skip
def test_document_is_detected_by_shape_at_any_path(value: Any, kind: str | None) -> None:
    detected = recognise(value, "/elsewhere/x.json")
    assert (detected and detected[1]) == kind
    if detected is not None:
        assert rank_by_likelihood(value)[0] == detected[0].name


def test_clear_shape_of_another_format_outweighs_the_path() -> None:
    detected = recognise(CRAFT, "/p/.claude/session-state.json")
    assert detected is not None
    assert detected[0].name == "craft"


def test_damaged_document_is_detected_by_its_path() -> None:
    damaged: dict[str, Any] = {"session_id": 5, "agents": "none", "errors": [], "created": 1}
    detected = recognise(damaged, "/p/.claude/orchestrator-session.json")
    assert detected is not None
    assert detected[0].name == "orchestrator"


@pytest.mark.parametrize("place", ["/p/.claude/session-state.json", "/p/.claude/orchestrator-session.json"])
def test_hand_made_file_has_no_format_whatever_its_name(place: str) -> None:
    assert recognise(HAND_MADE, place) is None
    why = why_foreign(HAND_MADE)
    assert why is not None
    assert "hand-made" in why
    assert "working_on" in why


@pytest.mark.parametrize(("value", "why"), [([], "a list"), (5, "a single value"), ({}, "it is empty")])
def test_value_that_is_not_an_object_has_no_format(value: Any, why: str) -> None:
    assert why in str(why_foreign(value))


def test_damaged_document_of_ours_is_not_foreign() -> None:
    for value in (TIMER, ORCHESTRATOR, CRAFT):
        assert why_foreign(value) is None


def test_keys_are_shown_harmlessly() -> None:
    why = why_foreign({"a\x1b[31mb": 1, "x" * 500: 2})
    assert why is not None
    assert "\x1b" not in why
    assert len(why) < 300
