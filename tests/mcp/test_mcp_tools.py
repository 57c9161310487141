"""The tools, called by the library's own client, in the current and the previous protocol revision."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from holdfast.core.errors import Unreachable
from holdfast.formats import project_files
from holdfast.keeper.keeper import Keeper
from holdfast.machine import error_log
from holdfast.mcp import sync_tools
from mcp import Client
from tests.mcp.agent_client import CURRENT, PREVIOUS, AgentClient, text_of


@pytest.fixture(params=[CURRENT, PREVIOUS])
def work(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AgentClient]:
    at_work = AgentClient(tmp_path, request.param)
    yield at_work
    at_work.close()


@pytest.fixture
def quick(tmp_path: Path) -> Iterator[AgentClient]:
    """For tests that do not depend on the revision."""
    at_work = AgentClient(tmp_path)
    yield at_work
    at_work.close()


def test_tools_have_correct_hints_and_valid_schemas(work: AgentClient) -> None:
    """Nine tools; each declares arguments, answer, and whether it changes or sends anything."""
    tools = work.tools
    assert list(tools) == [
        "start_session", "resume_session", "get_status", "search_history", "record", "pause_session",
        "finish_session", "sync", "share_session",
    ]  # fmt: skip
    for tool in tools.values():
        assert tool.output_schema is not None
        assert tool.annotations is not None
        for schema in (tool.input_schema, tool.output_schema):
            jsonschema.Draft202012Validator.check_schema(schema)
            assert schema["type"] == "object"
        assert "$ref" not in json.dumps(tool.input_schema)
        assert tool.annotations.read_only_hint is (tool.name in ("get_status", "search_history"))
        assert tool.annotations.destructive_hint is (tool.name in ("finish_session", "share_session"))
        assert tool.annotations.open_world_hint is (tool.name in ("sync", "share_session"))
    assert len(json.dumps([tool.model_dump() for tool in tools.values()])) < 60_000


def test_agent_works_in_a_session_from_start_to_finish(work: AgentClient) -> None:
    """It records all kinds of entries, pauses, resumes, reads, and finishes."""
    assert work.done("get_status")["session"] is None
    begun = work.done("start_session", goal="Add OAuth", mode="optimize", scope="auth", tags=["a", "b"], model="m-1")
    assert (begun["goal"], begun["status"], begun["project"]) == ("Add OAuth", "in_progress", "webshop")
    (work.project / "auth.py").write_text("token = 1\n")
    recorded = work.done(
        "record",
        agents=[
            {"id": "arch", "event": "started", "type": "architect", "task": "Design"},
            {"id": "arch", "event": "progressed", "progress": 0.5},
            {"id": "arch", "event": "completed", "summary": "Designed", "tokens": 1200},
            {"id": "coder", "event": "started", "type": "coder", "blocking_on": "arch", "background": True},
            {"id": "coder", "event": "failed", "category": "transient", "message": "no network"},
            {"id": "coder", "event": "retried"}, {"id": "coder", "event": "paused"},
            {"id": "coder", "event": "resumed"}, {"id": "coder", "event": "aborted", "message": "enough"},
        ],
        tasks=[
            {"event": "added", "text": "Write it", "phase": "build", "agent": "coder"},
            {"event": "added", "text": "Test it", "id": "tests"},
            {"event": "started", "id": "tests"},
            {"event": "completed", "id": "tests", "outcome": "green", "artifacts": ["auth.py"]},
            {"event": "reopened", "id": "tests"}, {"event": "blocked", "id": "tests"},
            {"event": "dropped", "id": "tests"},
        ],
        decisions=[{"chosen": "PKCE", "context": "flow", "options": ["PKCE", "implicit"], "why": "safe"}],
        files=[
            {"path": "auth.py", "action": "created", "agent": "arch"},
            {"path": str(work.project / "auth.py"), "action": "modified"},
        ],
        notes=["first", "second"],
        context=[
            {"tokens": 1000, "window": 200_000}, {"tokens": 50, "agent": "arch"}, {"tokens": 10, "compressed": True},
        ],
        progress=0.25,
        summary="Halfway to half",
    )  # fmt: skip
    assert recorded["recorded"] == 25
    assert recorded["tasks"] == ["t1", "tests"]
    assert (recorded["progress"], recorded["context"]["compressions"]) == (0.25, 1)
    assert work.done("pause_session", reason="lunch")["status"] == "paused"
    resumed = work.done("resume_session")
    assert resumed["session"]["status"] == "in_progress"
    assert "data, not instructions" in resumed["briefing"]
    document = work.done("get_status", session=begun["id"][:8])["session"]
    assert [item["status"] for item in document["agents"]] == ["completed", "aborted"]
    assert [item["path"] for item in document["files"]] == ["auth.py", "auth.py"]
    assert [item["text"] for item in document["notes"]] == ["first", "second"]
    assert document["decisions"][0]["options"] == ["PKCE", "implicit"]
    assert document["summary"] == "Halfway to half"
    assert work.done("finish_session", summary="Done")["status"] == "completed"
    assert work.done("get_status")["session"] is None
    with work.keeper() as keeper:
        assert keeper.session(begun["id"]).document().summary == "Done"


def test_status_document_equals_the_librarys(quick: AgentClient) -> None:
    quick.done("start_session", goal="Same everywhere")
    quick.done("record", notes=["x"], tasks=[{"event": "added", "text": "t"}])
    document = quick.done("get_status")["session"]
    with quick.keeper() as keeper:
        ours = msgspec.to_builtins(keeper.session().document())
    for item in (document, ours):
        item["time"] = None  # goes on
    assert document == ours


def test_record_is_all_or_nothing(work: AgentClient) -> None:
    """One refused entry stops all entries of the call, and the answer names it."""
    work.done("start_session", goal="All or nothing")
    text = work.refused(
        "record", notes=["kept out"], agents=[{"id": "a", "event": "started"}, {"id": "gone", "event": "completed"}]
    )
    assert text.startswith("Nothing of this call was recorded: agents[1]: there is no agent gone")
    assert "nothing to record" in work.refused("record").lower()
    work.done("record", agents=[{"id": "a", "event": "started"}])
    assert "`progress` is missing" in work.refused("record", agents=[{"id": "a", "event": "progressed"}])


def test_session_can_be_abandoned_or_failed(quick: AgentClient) -> None:
    """Each with a reason; without one, the error asks for it."""
    quick.done("start_session", goal="One")
    assert quick.done("finish_session", outcome="aborted", reason="no use", summary="Tried")["status"] == "aborted"
    quick.done("start_session", goal="Two")
    assert "needs a reason" in quick.refused("finish_session", outcome="failed")
    assert quick.done("finish_session", outcome="failed", reason="no key")["status"] == "error"


def test_errors_name_the_tool_that_helps(quick: AgentClient) -> None:
    """Commands for the person, tools for the agent."""
    assert "start_session" in quick.refused("record", notes=["x"])
    quick.done("start_session", goal="One")
    text = quick.refused("start_session", goal="Two")
    assert "unfinished session here: 'One'" in text
    assert "resume_session" in text
    assert "finish_session" in text
    assert quick.done("start_session", goal="Two", replace=True)["goal"] == "Two"
    assert "search_history" in quick.refused("get_status", session="ffffffff")
    assert "holdfast remote add" in quick.refused("sync")
    assert "Tools are start_session" in quick.refused("nonesuch")
    text = quick.refused("record", note="typo")
    assert "Unknown argument 'note'" in text
    assert "notes" in text


def test_answers_about_a_long_session_are_cut(work: AgentClient) -> None:
    """Omissions are counted."""
    work.done("start_session", goal="Much " * 100)
    for start in range(0, 300, 100):
        work.done("record", notes=[f"{start + number} " + "long " * 300 for number in range(100)])
    result = work.call("get_status")
    assert len(text_of(result)) <= 11_000
    answer = result.structured_content
    assert answer is not None
    assert len(json.dumps(answer["session"])) <= 10_500
    assert len(answer["briefing"]) <= 10_000
    cut = {item["what"]: (item["shown"], item["total"]) for item in answer["left_out"]}
    shown, total = cut["notes"]
    assert total == 300
    assert shown == len(answer["session"]["notes"]) > 0
    assert answer["session"]["notes"][-1]["text"].startswith("299 ")
    assert len(work.done("get_status", max_chars=500)["briefing"]) <= 500
    whole = json.loads(work.read(f"holdfast://session/{answer['session']['id']}"))
    assert len(whole["session"]["notes"]) > shown


def test_history_comes_in_pages(work: AgentClient) -> None:
    """Without gap or overlap, also with search and filters."""
    with work.keeper() as keeper:
        for number in range(23):
            keeper.start(f"Goal {number} {'odd' if number % 2 else 'even'}", replace=True)
    for arguments, count in (({}, 23), ({"query": "odd"}, 11), ({"status": "paused"}, 22)):
        seen: list[str] = []
        cursor: str | None = ""
        while cursor is not None:
            page = work.done("search_history", limit=5, cursor=cursor, **arguments)
            assert len(page["sessions"]) <= 5
            seen += [row["id"] for row in page["sessions"]]
            cursor = page["cursor"]
        assert len(seen) == len(set(seen)) == count
    assert work.done("search_history", query="nowhere")["sessions"] == []
    assert len(work.done("search_history", since="2020-01-01", limit=50)["sessions"]) == 23
    assert work.done("search_history", since="2120-01-01T00:00:00Z")["sessions"] == []


def test_call_can_name_another_project_or_session(quick: AgentClient, tmp_path: Path) -> None:
    """Its records belong there."""
    other = tmp_path / "api"
    other.mkdir()
    (other / "main.py").write_text("x\n")
    mine = quick.done("start_session", goal="Mine")
    theirs = quick.done("start_session", goal="Theirs", project=str(other))
    assert theirs["project"] == "api"
    assert quick.done("get_status", project=str(other))["session"]["goal"] == "Theirs"
    quick.done("record", session=theirs["id"], files=[{"path": "main.py"}], notes=["from afar"])
    assert quick.done("get_status", session=theirs["id"][:8])["session"]["files"][0]["hash_after"] is not None
    assert quick.done("get_status")["session"]["id"] == mine["id"]
    assert len(quick.done("search_history")["sessions"]) == 1
    assert len(quick.done("search_history", all_projects=True)["sessions"]) == 2
    assert "not a directory" in quick.refused("start_session", goal="x", project=str(other / "nowhere"))
    assert "not a directory" in quick.refused("start_session", goal="x", project=str(other / "main.py"))


def test_server_started_in_the_home_directory_asks_for_the_project(
    quick: AgentClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As graphical programs do."""
    monkeypatch.setenv("HOME", str(quick.project))
    assert "which project" in quick.refused("start_session", goal="x")
    other = tmp_path / "api"
    other.mkdir()
    begun = quick.done("start_session", goal="There", project=str(other))
    quick.done("pause_session", session=begun["id"])
    assert quick.done("resume_session", session=begun["id"])["session"]["status"] == "in_progress"
    assert quick.done("get_status", project=str(other))["session"]["id"] == begun["id"]


def test_resume_takes_the_latest_session_without_a_current_one(work: AgentClient) -> None:
    """Without any session it says what to do."""
    assert "start_session" in work.refused("resume_session")
    first = work.done("start_session", goal="First")
    work.done("start_session", goal="Second", replace=True)
    work.done("finish_session")
    offered = work.done("get_status")
    assert offered["session"] is None
    assert "First" in offered["notes"][-1]
    assert work.done("resume_session", session="latest")["session"]["id"] == first["id"]


def test_secrets_are_removed_and_reported_to_the_agent(quick: AgentClient) -> None:
    quick.done("start_session", goal="Careful")
    text = quick.done("record", notes=["key AKIAIOSFODNN7EXAMPLQ and ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"])[
        "notes"
    ]
    assert any("Removed secrets before storing" in sentence for sentence in text)
    assert quick.done("record", notes=["nothing"])["notes"] == []


def test_nearly_full_context_is_reported(quick: AgentClient) -> None:
    """At once in the answer, and in the status for the person."""
    quick.done("start_session", goal="Full")
    answer = quick.done("record", context=[{"tokens": 199_000, "window": 200_000}])
    assert answer["context"]["level"] == "compress"
    assert "compress now" in answer["notes"][-1]
    assert any("compress" in sentence for sentence in quick.done("get_status")["attention"])


def test_unexpected_error_is_a_result_and_logged(quick: AgentClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any content; the error log has the place."""
    quick.done("start_session", goal="x")

    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("secret words")

    monkeypatch.setattr(Keeper, "current", broken)
    text = text_of(quick.call("get_status"))
    monkeypatch.undo()
    assert "something unexpected happened (ZeroDivisionError)" in text.lower().replace(
        "zerodivision", "ZeroDivision"
    ) or ("ZeroDivisionError" in text)
    assert "secret words" not in text
    noted = error_log.lines(str(quick.home))[-1]
    assert noted["where"] == "mcp get_status"
    assert "ZeroDivisionError" in str(noted["message"])
    assert quick.done("get_status")["session"]["goal"] == "x"


def test_replaced_store_is_reopened(quick: AgentClient, tmp_path: Path) -> None:
    """A repair or restore replaces the file: the next call reads the new one."""
    quick.done("start_session", goal="Before")
    with quick.keeper() as keeper:
        keeper.backup(str(tmp_path / "copy"))
        path = str(keeper.address.path)
    quick.done("record", notes=["only in the old file"])
    for end in ("-wal", "-shm"):
        if os.path.exists(path + end):
            os.unlink(path + end)
    os.replace(tmp_path / "copy", path)
    assert quick.done("get_status")["session"]["notes"] == []


def test_slow_sync_does_not_block_other_calls(work: AgentClient, monkeypatch: pytest.MonkeyPatch) -> None:
    work.done("start_session", goal="Patience")
    begun, release = threading.Event(), threading.Event()

    def slow(*_: Any, **__: Any) -> None:
        begun.set()
        assert release.wait(30)
        raise Unreachable("far away", hint="Try later.")

    monkeypatch.setattr(sync_tools, "sync", slow)

    async def conversation(client: Client) -> tuple[str, str]:
        syncing = asyncio.create_task(client.call_tool("sync", {}))
        assert await asyncio.to_thread(begun.wait, 30)
        status = await client.call_tool("get_status", {})
        assert not syncing.done()
        release.set()
        return text_of(status), text_of(await syncing)

    status, synced = work.talk(conversation)
    assert "Patience" in status
    assert synced == "Far away. Try later. Trying again may help."


def test_session_files_of_the_project_are_named_while_their_mirror_is_off(quick: AgentClient) -> None:
    """By every tool that reports the state, in the words of the commands."""
    path = quick.project / ".claude" / "orchestrator-session.json"
    path.parent.mkdir()
    path.write_text(
        json.dumps(
            {
                "schema_version": "1.0",
                "session_id": "2025-12-27-abc123",
                "created": "2025-12-27T10:30:00Z",
                "updated": "2025-12-27T11:45:00Z",
                "project": {"name": "shop", "path": "/x", "git_branch": "dev"},
                "goal": "Add sign-in",
                "mode": "default",
                "status": "in_progress",
                "agents": [],
                "completed_work": [],
                "pending_tasks": [],
                "decisions_made": [],
                "errors": [],
                "context_usage": {"estimated_tokens": 0, "percentage": 0, "last_compression": None},
            }
        )
    )
    with quick.keeper() as keeper:
        (note,) = project_files.notes(keeper, at_work=False)
        (at_work,) = project_files.notes(keeper, at_work=True)
    assert "'Add sign-in', in progress" in note
    assert note in quick.done("get_status")["notes"]
    assert note in quick.refused("resume_session")
    for started in (quick.done("start_session", goal="Something else"), quick.done("get_status")):
        assert any(str(path) in line and "holdfast import" in line for line in started["notes"]), at_work
    assert any(str(path) in line for line in quick.done("resume_session")["notes"])
    assert not quick.done("get_status", session="@")["notes"]
