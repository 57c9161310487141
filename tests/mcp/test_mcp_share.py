"""Sharing asks the person, by a question of the client in both revisions, and cannot be approved by an argument."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CallToolResult,
    ElicitRequestFormParams,
    ElicitResult,
    ErrorData,
    InputRequiredResult,
    InputResponses,
)

from holdfast.keeper.keeper import Keeper
from holdfast.sync import devices, people, remote_setup, shares
from mcp import Client
from tests.mcp.agent_client import CURRENT, PREVIOUS, AgentClient, text_of

ADA = "ada@example.org"
EVE = "eve@example.org"


class Person:
    """A person at the client: records the questions and gives these answers."""

    def __init__(self, action: str = "accept", content: dict[str, Any] | None = None) -> None:
        self.questions: list[ElicitRequestFormParams] = []
        self.action = action
        self.content = content
        self.meanwhile: Callable[[], object] = lambda: None

    async def __call__(self, _context: Any, params: Any) -> ElicitResult:
        assert isinstance(params, ElicitRequestFormParams)
        self.questions.append(params)
        await asyncio.to_thread(self.meanwhile)
        return ElicitResult.model_validate({"action": self.action, "content": self.content})


@pytest.fixture(params=[CURRENT, PREVIOUS])
def work(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AgentClient]:
    monkeypatch.setattr("holdfast.sync.remotes.wrappers._FIRST_WAIT", 0.0)  # retries need not wait here
    at_work = AgentClient(tmp_path, request.param)
    with at_work.keeper() as keeper:
        keeper.start("Build the shop")
        remote_setup.add(keeper, "home", f"folder:{tmp_path / 'remote'}")
        for email in (ADA, EVE):
            with Keeper.open(str(tmp_path), home=str(tmp_path / email)) as theirs:
                people.add(keeper.home, email, devices.public_keys(theirs).age)
    yield at_work
    at_work.close()


def shared_with(work: AgentClient) -> list[str]:
    with work.keeper() as keeper:
        row = keeper.history(search="Build")[0]
        return keeper.session(row.id).document().sync.shared_with


def yes() -> Person:
    return Person("accept", {"share": True})


def test_share_happens_after_a_yes(work: AgentClient) -> None:
    """One question says who, what and how; the other person can accept the share."""
    work.options["elicitation_callback"] = asked = yes()
    done = work.done("share_session", email=ADA.upper(), read_only=True, days=7)["share"]
    assert len(asked.questions) == 1
    words = asked.questions[0].message
    for part in (ADA, "read it, for 7 days", done["session"][:8], "Build the shop"):
        assert part in words
    assert (done["with"], done["remote"], done["write"]) == (ADA, "home", False)
    assert done["expires"] is not None
    assert shared_with(work) == [ADA]
    with Keeper.open(str(work.root), home=str(work.root / ADA)) as theirs:
        url = f"folder:{work.root / 'remote'}"
        (offer,) = shares.offers(theirs, url=url)
        assert shares.accept(theirs, url=url, name=offer.name)[0].session == done["session"]


def test_share_is_refused_without_a_clear_yes(work: AgentClient) -> None:
    """Declined, closed, unticked or answered differently: nothing is shared, and the agent gets the reason."""
    for person in (
        Person("decline"), Person("cancel"), Person("accept", {"share": False}), Person("accept", {}),
        Person("accept"), Person("accept", {"share": "certainly not"}), Person("accept", {"share": "true"}),
        Person("accept", {"share": 1}),
    ):  # fmt: skip
        work.options["elicitation_callback"] = person
        text = work.refused("share_session", email=ADA)
        assert text.startswith(
            ("The person did not agree; nothing was shared", "The client answered in an unexpected form")
        )
        assert len(person.questions) == 1
    assert shared_with(work) == []


def test_client_without_questions_gets_the_command(work: AgentClient) -> None:
    """Nothing is shared; the error contains a command for the person."""
    text = work.refused("share_session", email=ADA, read_only=True, days=3, remote="home")
    with work.keeper() as keeper:
        short = keeper.session().id[:8]
    assert f"holdfast share {short} --with {ADA} --read-only --expires 3d --remote home" in text
    assert "nothing was shared" in text
    assert shared_with(work) == []


def test_no_argument_replaces_the_persons_answer(work: AgentClient) -> None:
    for extra in ("confirmed", "confirm", "share", "answer", "wish"):
        assert "Unknown argument" in work.refused("share_session", email=ADA, **{extra: {"share": True}})
    assert shared_with(work) == []


def test_share_concerns_the_session_the_person_was_asked_about(work: AgentClient) -> None:
    """Another session becomes current meanwhile: the answer does not count for that one."""
    work.options["elicitation_callback"] = person = yes()

    def meanwhile() -> None:
        if len(person.questions) == 1:
            with work.keeper() as keeper:
                keeper.start("Private thoughts", replace=True)

    person.meanwhile = meanwhile
    with work.keeper() as keeper:
        asked_about = keeper.session().id
    done = work.done("share_session", email=ADA)["share"]
    about = [question.message for question in person.questions]
    assert "Build the shop" in about[0]
    # In the current revision the call is repeated and asks about the new session; in earlier ones the first counts.
    last = "Private thoughts" if work.mode == CURRENT else "Build the shop"
    assert last in about[-1]
    assert (done["session"] == asked_about) is (work.mode != CURRENT)


def test_stored_text_cannot_change_the_question(work: AgentClient) -> None:
    """A malicious goal is one quoted line, cut and defused."""
    with work.keeper() as keeper:
        keeper.session().edit(goal="nothing” at all.\n\nJust press yes \x1b[2J\u202e" + "x" * 5000)
    work.options["elicitation_callback"] = person = Person("decline")
    work.refused("share_session", email=ADA)
    words = person.questions[0].message
    assert "\n" not in words
    assert "\x1b" not in words
    assert "\u202e" not in words
    assert len(words) < 600
    assert words.endswith("What they have read cannot be taken back.")


def test_person_is_not_asked_about_an_impossible_share(work: AgentClient) -> None:
    """Unknown people and sessions are refused first."""
    work.options["elicitation_callback"] = person = yes()
    assert "holdfast people add" in work.refused("share_session", email="nobody@example.org")
    assert "No session" in work.refused("share_session", email=ADA, session="ffffffff")
    assert person.questions == []


@pytest.mark.parametrize("work", [CURRENT], indirect=True)  # the previous revisions ask within the call
def test_yes_counts_only_for_the_question_asked(work: AgentClient) -> None:
    """An answer about Ada sent with a call about Eve is ignored."""

    async def conversation(client: Client) -> str:
        first = await client.session.call_tool("share_session", {"email": ADA}, allow_input_required=True)
        assert isinstance(first, InputRequiredResult)
        assert first.input_requests is not None
        answers: InputResponses = {
            key: ElicitResult(action="accept", content={"share": True}) for key in first.input_requests
        }
        for state in (first.request_state, None, "forged", json.dumps({"v": 3, "outcomes": {}})):
            try:
                again = await client.session.call_tool(
                    "share_session", {"email": EVE}, input_responses=answers, request_state=state,
                    allow_input_required=True,
                )  # fmt: skip
            except MCPError:
                continue
            assert isinstance(again, InputRequiredResult) or again.is_error
        right = await client.session.call_tool(
            "share_session", {"email": ADA}, input_responses=answers, request_state=first.request_state
        )
        assert isinstance(right, CallToolResult)
        return text_of(right)

    text = work.talk(conversation, elicitation_callback=yes())
    assert ADA in text
    assert shared_with(work) == [ADA]


@pytest.mark.parametrize("work", [CURRENT], indirect=True)
def test_yes_is_valid_for_one_share(work: AgentClient) -> None:
    """Repeating the answer shares nothing; asked again, the person may agree again."""

    async def conversation(client: Client) -> list[CallToolResult]:
        done = []
        for _ in range(2):
            first = await client.session.call_tool("share_session", {"email": ADA}, allow_input_required=True)
            assert isinstance(first, InputRequiredResult)
            answers: InputResponses = {
                key: ElicitResult(action="accept", content={"share": True}) for key in first.input_requests or {}
            }
            for _ in range(2):
                result = await client.session.call_tool(
                    "share_session", {"email": ADA}, input_responses=answers, request_state=first.request_state
                )
                assert isinstance(result, CallToolResult)
                done.append(result)
        return done

    results = work.talk(conversation, elicitation_callback=yes())
    assert [tool.is_error for tool in results] == [False, True, False, True]
    assert "used before; nothing more was shared" in text_of(results[1])


@pytest.mark.parametrize("work", [PREVIOUS], indirect=True)  # the current revision has no such answer
def test_failed_question_gives_a_result(work: AgentClient) -> None:
    """The question returns a protocol error: the call is answered, nothing is shared."""

    async def fails(_context: Any, _params: Any) -> ErrorData:
        return ErrorData(code=-32000, message="no window")

    work.options["elicitation_callback"] = fails
    text = work.refused("share_session", email=ADA)
    assert "nothing was shared" in text
    assert "holdfast share" in text
    assert shared_with(work) == []


def test_sync_exchanges_and_reports_the_result(work: AgentClient) -> None:
    """A second sync has nothing to send; a missing remote is an error."""
    first = work.done("sync")
    assert first["pushed"] > 0
    assert first["remotes"] == [{"name": "home", "error": None}]
    assert work.done("sync", remote="home")["pushed"] == 0
    (work.root / "remote").rename(work.root / "away")
    text = work.call("sync")
    assert text.is_error
    assert text_of(text).startswith("Could not sync with home: ")
