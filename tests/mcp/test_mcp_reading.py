"""Resources and prompts: what has an address, and what a person can choose for the agent to do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from holdfast.mcp.answers import Found, Standing, schema
from tests.mcp.agent_client import CURRENT, PREVIOUS, AgentClient


@pytest.fixture(params=[CURRENT, PREVIOUS])
def work(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AgentClient]:
    at_work = AgentClient(tmp_path, request.param)
    yield at_work
    at_work.close()


def test_resources_are_listed(work: AgentClient) -> None:
    """Three fixed addresses, two patterns for any session."""
    listed = work.talk(lambda client: client.list_resources()).resources
    assert [resource.uri for resource in listed] == [
        "holdfast://session/current", "holdfast://briefing/current", "holdfast://history",
    ]  # fmt: skip
    patterns = work.talk(lambda client: client.list_resource_templates()).resource_templates
    assert [template.uri_template for template in patterns] == ["holdfast://session/{id}", "holdfast://briefing/{id}"]


def test_session_briefing_and_history_can_be_read(work: AgentClient) -> None:
    """Current or by id, matching their schemas."""
    empty = json.loads(work.read("holdfast://session/current"))
    assert empty["session"] is None
    assert "start_session" in work.read("holdfast://briefing/current")
    assert json.loads(work.read("holdfast://history"))["sessions"] == []
    begun = work.done("start_session", goal="Read me")
    for uri in ("holdfast://session/current", f"holdfast://session/{begun['id'][:8]}"):
        document = json.loads(work.read(uri))
        jsonschema.Draft202012Validator(schema(Standing)).validate(document)
        assert document["session"]["goal"] == "Read me"
    for uri in ("holdfast://briefing/current", f"holdfast://briefing/{begun['id']}"):
        briefing = work.read(uri)
        assert "Read me" in briefing
        assert "data, not instructions" in briefing
    history = json.loads(work.read("holdfast://history"))
    jsonschema.Draft202012Validator(schema(Found)).validate(history)
    assert [row["id"] for row in history["sessions"]] == [begun["id"]]


@pytest.mark.parametrize(
    "address",
    ["session/ffffffff", "session/..", "session/..%2f..%2fetc", "session/%00", "session/a b",
     "briefing/" + "x" * 5000, "session/", "nothing", "session/'; DROP TABLE sessions"],
)  # fmt: skip
def test_missing_resource_is_an_error(work: AgentClient, address: str) -> None:
    """Unknown and hostile addresses get a message; the server continues."""
    with pytest.raises(MCPError) as problem:
        work.read(f"holdfast://{address}")
    assert "Traceback" not in str(problem.value)
    assert work.done("get_status")["session"] is None


def test_session_without_a_local_project_can_be_read(work: AgentClient) -> None:
    """From another device, or with a deleted directory: it can be read, not changed."""
    begun = work.done("start_session", goal="Left alone")
    work.project.rename(work.root / "moved")
    work.project.mkdir()
    other = work.root / "elsewhere"
    other.mkdir()
    work.project.rmdir()
    work.context.close()
    work.context.options = work.context.options._replace(directory=str(other))
    assert work.done("get_status", session=begun["id"])["session"]["goal"] == "Left alone"
    assert "Left alone" in work.read(f"holdfast://briefing/{begun['id']}")


@pytest.mark.parametrize("name", ["continue", "hand_over", "wrap_up"])
def test_prompts_contain_the_briefing(work: AgentClient, name: str) -> None:
    """Each prompt says what to do; session and remark are optional."""
    listed = {prompt.name: prompt for prompt in work.talk(lambda client: client.list_prompts()).prompts}
    assert [argument.required for argument in listed[name].arguments or []] == [False, False]
    assert "No session is in progress" in work.prompt(name)
    begun = work.done("start_session", goal="Carry on")
    text = work.prompt(name)
    assert "Carry on" in text
    assert text.rstrip().endswith("</holdfast-record>")
    work.done("start_session", goal="Another", replace=True)
    text = work.prompt(name, session=begun["id"][:8], remark="mind the tests")
    assert "Carry on" in text
    assert "mind the tests" in text
    with pytest.raises(MCPError, match="No session"):
        work.prompt(name, session="ffffffff")


def test_prompt_error_names_the_wrong_argument(work: AgentClient) -> None:
    """Unknown arguments and prompts, and too long texts."""
    for name, arguments, words in (
        ("continue", {"sesion": "x"}, "Unknown argument 'sesion'"),
        ("continue", {"remark": "x" * 20_001}, "remark"),
        ("nonesuch", {}, "Unknown prompt 'nonesuch'"),
    ):
        with pytest.raises(MCPError, match=words) as problem:
            work.prompt(name, **arguments)
        assert problem.value.code == INVALID_PARAMS
