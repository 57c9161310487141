"""Two devices gave one id to different tasks or agents: lists distinguish them, and a repeated command applies to
the next.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.several_devices import Several


@pytest.fixture
def several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Several:
    """A session on laptop and desk, each of which added a task t1 and an agent a-1."""
    made = Several(tmp_path, monkeypatch, capsys)
    made.create_vault()
    session = str(made.session("start", "Build the shop")["id"])
    made.sync()
    made.join("desk")
    made.document("resume", session)
    for device, words in (("desk", "Print the receipt"), ("laptop", "Write the query")):
        made.at(device)
        made.document("task", "add", words)
        made.document("agent", "start", "a-1", "--type", "coder", "--task", words)
    made.sync("laptop", "desk", "laptop")
    return made


def test_tasks_with_one_id_are_listed_with_their_device(several: Several) -> None:
    """Finishing twice finishes both, and says which."""
    listed = several("task", "list").out
    assert "t1 (laptop)" in listed
    assert "t1 (desk)" in listed
    first = several("task", "done", "t1")
    assert "There are 2 tasks t1. This was " in first.err
    second = several("task", "done", "t1")
    assert "There are 2" not in second.err
    texts = {"Print the receipt", "Write the query"}
    assert {text for text in texts if text in first.out + second.out} == texts
    assert (first.out.count("completed"), second.out.count("completed")) == (1, 1)
    third = several("task", "done", "t1")
    assert third.code == 1
    assert "completed already" in third.err


def test_agents_with_one_id_are_listed_with_their_device(several: Several) -> None:
    """The JSON answer contains the one that was meant."""
    listed = several("agent", "list").out
    assert "a-1 (laptop)" in listed
    assert "a-1 (desk)" in listed
    ended = [several.document("agent", "done", "a-1")["agent"] for _ in range(2)]
    assert {item["task"] for item in ended} == {"Print the receipt", "Write the query"}
    assert {item["status"] for item in ended} == {"completed"}


def test_unique_id_is_shown_without_a_device(several: Several) -> None:
    several.document("task", "add", "Alone", "--id", "own")
    assert "own (" not in several("task", "list").out
    assert "There are" not in several("task", "done", "own").err
