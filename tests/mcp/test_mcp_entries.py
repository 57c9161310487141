"""Entries of `record` and its answers: nothing is lost silently, answers are true, and short."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.errors import Busy, Failed
from holdfast.core.times import format_time
from holdfast.keeper.keeper import Keeper
from tests.mcp.agent_client import AgentClient, text_of


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentClient]:
    at_work = AgentClient(tmp_path_factory.mktemp("entries"))
    at_work.done("start_session", goal="Lose nothing")
    at_work.done(
        "record", agents=[{"id": "a", "event": "started"}], tasks=[{"event": "added", "text": "T", "id": "t"}]
    )
    yield at_work
    at_work.close()


@pytest.mark.parametrize(("arguments", "where", "field"), [
    ({"tasks": [{"event": "added", "text": "A", "outcome": "O"}]}, "tasks[0]", "outcome"),
    ({"tasks": [{"event": "added", "text": "A", "artifacts": ["q"]}]}, "tasks[0]", "artifacts"),
    ({"tasks": [{"event": "started", "id": "t", "text": "other"}]}, "tasks[0]", "text"),
    ({"agents": [{"id": "z", "event": "started", "progress": 0.4}]}, "agents[0]", "progress"),
    ({"agents": [{"id": "z", "event": "started", "summary": "S"}]}, "agents[0]", "summary"),
    ({"agents": [{"id": "z", "event": "started", "tokens": 77}]}, "agents[0]", "tokens"),
    ({"agents": [{"id": "a", "event": "progressed", "progress": 0.5, "message": "M"}]}, "agents[0]", "message"),
    ({"agents": [{"id": "a", "event": "completed", "category": "permanent"}]}, "agents[0]", "category"),
    ({"agents": [{"id": "a", "event": "paused", "task": "T"}]}, "agents[0]", "task"),
    ({"context": [{"tokens": 1}, {"compressed": True, "window": 5}]}, "context[1]", "window"),
    ({"context": [{"compressed": True, "agent": "a"}]}, "context[0]", "agent"),
], ids=lambda value: str(value)[:50])  # fmt: skip
def test_unknown_field_of_an_entry_is_refused(
    work: AgentClient, arguments: dict[str, Any], where: str, field: str
) -> None:
    """The answer names it, and lists the fields of the event."""
    text = work.refused("record", notes=["kept out"], **arguments)
    assert text.startswith(f"Nothing of this call was recorded: {where}: `{field}` does not belong to ")


@pytest.mark.parametrize("arguments", [
    {"progress": True}, {"progress": False}, {"agents": [{"id": "a", "event": "progressed", "progress": True}]},
    {"context": [{"tokens": True}]}, {"context": [{"tokens": 1, "window": True}]},
], ids=str)  # fmt: skip
def test_true_is_not_accepted_as_a_number(work: AgentClient, arguments: dict[str, Any]) -> None:
    assert "not true or false" in work.refused("record", **arguments)


def test_unwritable_store_is_reported_and_no_entry_blamed(work: AgentClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Locked before the first entry, or full at the end: the answer is about the store."""
    real = Keeper.batch

    @contextmanager
    def locked(self: Keeper) -> Iterator[None]:
        raise Busy("the store is locked")
        yield

    @contextmanager
    def full(self: Keeper) -> Iterator[None]:
        with real(self):
            yield
            raise Failed("the disk is full")

    for broken, words in ((locked, "the store is locked"), (full, "the disk is full")):
        monkeypatch.setattr(Keeper, "batch", broken)
        text = text_of(work.call("record", notes=["x"]))
        assert text.startswith(f"Nothing of this call was recorded: {words}")
    monkeypatch.undo()
    assert work.done("get_status")["session"]["notes"] == []


def test_compression_clears_the_hint_to_compress(work: AgentClient) -> None:
    """The earlier measurement is no longer valid."""
    full = work.done("record", context=[{"tokens": 199_000, "window": 200_000}])
    assert "compress now" in full["notes"][-1]
    after = work.done("record", context=[{"compressed": True}])
    assert (after["notes"], after["context"]["tokens"], after["context"]["level"]) == ([], None, "normal")
    assert work.done("record", notes=["later"])["notes"] == []
    assert work.done("record", context=[{"tokens": 20_000}])["context"]["tokens"] == 20_000


def test_hints_name_entries_and_missing_values(work: AgentClient) -> None:
    """An entry of `record` instead of a command."""
    text = work.refused("record", agents=[{"id": "a", "event": "started"}])
    assert 'record with agents: [{"id": "a", "event": "retried"}]' in text
    assert "holdfast agent" not in text
    text = work.refused("record", tasks=[{"event": "completed"}])
    assert "task's `id` is missing" in text
    assert "`id`" in text
    assert "Leave `cursor` out" in work.refused("search_history", cursor="ffffffff")


def test_schemas_describe_the_accepted_arguments(work: AgentClient) -> None:
    """Unknown arguments are refused, and lengths are the real limits."""
    for tool in work.tools.values():
        assert tool.input_schema["additionalProperties"] is False
    agent = work.tools["record"].input_schema["properties"]["agents"]["items"]
    assert agent["additionalProperties"] is False
    assert agent["properties"]["type"]["maxLength"] == 100
    assert work.tools["record"].input_schema["properties"]["edit"]["type"] == "object"
    work.done("record", agents=[{"id": "longest", "event": "started", "type": "x" * 100}])
    assert "type" in work.refused("record", agents=[{"id": "longer", "event": "started", "type": "x" * 101}])


def test_goal_scope_and_mode_can_be_edited(work: AgentClient) -> None:
    work.done("record", edit={"goal": "Lose nothing at all", "scope": "mcp", "mode": "debug", "tags": ["t"]})
    session = work.done("get_status")["session"]
    assert (session["goal"], session["scope"], session["mode"]) == ("Lose nothing at all", "mcp", "debug")
    assert session["tags"] == ["t"]
    assert "edit: nothing to change" in work.refused("record", edit={})
    assert "mode" in work.refused("record", edit={"mode": "reckless"})


def test_past_pause_can_be_recorded(work: AgentClient, tmp_path: Path) -> None:
    """It counts as a pause; an impossible one is refused."""
    at_work = AgentClient(tmp_path)
    with at_work.keeper() as keeper:
        now = keeper.now()
        keeper.start("Long day", at=now - 3_600_000)
    pause = {"since": format_time(now - 3_000_000), "until": format_time(now - 1_800_000), "reason": "lunch"}
    at_work.done("record", away=[pause])
    pauses = at_work.done("get_status")["session"]["time"]["pauses"]
    assert [pause["reason"] for pause in pauses if pause["kind"] == "manual"] == ["lunch"]
    assert "away[0]" in at_work.refused("record", away=[{**pause, "since": format_time(now - 7_200_000)}])
    assert "is not a time" in at_work.refused("record", away=[{**pause, "since": "noon"}])
    at_work.close()
    assert work.done("get_status")["session"]["goal"]


def test_answers_stay_short(tmp_path: Path) -> None:
    """Goals in listings, tokens by agent and documents are cut, and omissions are counted."""
    at_work = AgentClient(tmp_path)
    with at_work.keeper() as keeper:
        for number in range(50):
            keeper.start(f"{number} " + "long " * 3_800, replace=True)
        session = keeper.session()
        with keeper.batch():
            for number in range(1_000):
                session.measure_context(number, agent=f"agent-with-a-long-name-{number}")
    page = at_work.call("search_history", limit=50)
    assert len(json.dumps(page.structured_content)) < 30_000
    assert len(text_of(page)) < 15_000
    assert len(at_work.read("holdfast://history")) < 30_000
    recorded = at_work.done("record", notes=["x"])
    assert len(json.dumps(recorded)) < 3_000
    assert len(recorded["context"]["by_agent"]) == 10
    assert recorded["context"]["by_agent"]["agent-with-a-long-name-999"] == 999
    assert recorded["left_out"] == [{"what": "context.by_agent", "shown": 10, "total": 1_000}]
    assert len(at_work.read("holdfast://session/current")) < 35_000
    at_work.close()
