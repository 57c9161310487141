"""Features of a newer version of the contract are left alone and reported, while the others are mirrored."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mirror.mirror_calls import Calls

NEWER = """version: "2.0"
feature_id: "mow-the-lawn-2026-11-01"
current_state:
  active_task: null
  model_in_use: "sonnet"
  started_at: "2026-11-01T10:00:00Z"
  last_updated: "2026-11-01T11:00:00Z"
  mood: "cheerful"
"""
PLAN = """feature:
  id: "mow-the-lawn-2026-11-01"
  name: "Mow the lawn"
  description: "All of it"
  created_at: "2026-11-01T10:00:00Z"
phases: []
"""
REGISTRY = """active_features:
  - feature_id: "mow-the-lawn-2026-11-01"
    started_at: "2026-11-01T10:00:00Z"
    last_active: "2026-11-01T11:00:00Z"
    status: "active"
"""
STATE = ".ai-session/mow-the-lawn-2026-11-01/state.yaml"


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Calls:
    calls = Calls(tmp_path, monkeypatch, capsys)
    (calls.project / STATE).parent.mkdir(parents=True)
    (calls.project / STATE).write_text(NEWER)
    (calls.project / STATE).with_name("implementation-plan.yaml").write_text(PLAN)
    (calls.project / ".ai-session/active-features.yaml").write_text(REGISTRY)
    return calls


def snapshot(calls: Calls) -> dict[str, bytes]:
    folder = (calls.project / STATE).parent
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix == ".yaml"}


def test_recover_reads_a_newer_feature_and_reports_its_version(calls: Calls) -> None:
    code, out, err = calls("recover", STATE, "--start")
    assert code == 0
    assert "Mow the lawn" in out
    assert "$.version: is a version that Holdfast does not support: read as the one it supports" in out + err
    assert calls.json("status")["session"]["goal"] == "Mow the lawn"
    assert (calls.project / STATE).read_text() == NEWER


@pytest.mark.parametrize("recovered", [False, True])
def test_mirror_leaves_a_newer_feature_alone_and_shows_the_others(calls: Calls, recovered: bool) -> None:
    if recovered:
        assert calls("recover", STATE, "--start")[0] == 0
    before = snapshot(calls)
    code, _, err = calls("mirror", "on", "contract")
    assert code == 0
    assert f"{STATE} is left alone: this is version '2.0' of the contract" in err
    assert calls("start", "Build the shop", "--replace")[0] == 0
    assert calls("note", "on")[0] == 0
    assert snapshot(calls) == before
    (shop,) = (calls.project / ".ai-session").glob("build-the-shop-*")
    assert (shop / "state.yaml").exists()
    registry = (calls.project / ".ai-session/active-features.yaml").read_text()
    assert registry.startswith(REGISTRY)
    assert shop.name in registry
    assert not list((calls.project / ".ai-session").rglob("*.rejected-*"))
    assert STATE in calls("mirror", "status")[1]


def test_mirror_on_names_the_file_of_an_invalid_feature(calls: Calls) -> None:
    """Not the registry, which is valid."""
    (calls.project / STATE).write_text("version: '1.0'\ncurrent_state: {}\n")
    (calls.project / STATE).with_name("implementation-plan.yaml").unlink()
    (calls.project / ".ai-session/active-features.yaml").write_text("active_features: []\n")
    code, _, err = calls("mirror", "on", "contract")
    assert code == 5
    assert f"{STATE} exists but is not a contract file" in err
    assert f"holdfast validate {STATE}" in err
