"""The read API: every answer follows its description and equals what the commands give."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import negative_data_rejection

from holdfast.core.envelope import event_document
from holdfast.core.model import Agent
from holdfast.core.times import DAY, format_time
from holdfast.machine.wall import local_offset
from holdfast.sessions import overview
from holdfast.sessions.hours import table as hours_table
from holdfast.web.api import documents
from holdfast.web.api.endpoints import BASE, ENDPOINTS, description
from holdfast.web.serve import Dashboard
from tests.web.dashboard import Site, serving
from tests.web.sample_sessions import typical

TORTURE: Final = "HOLDFAST_TORTURE"


class Api:
    """A dashboard with a typical day, queried by a program."""

    def __init__(self, site: Site, dashboard: Dashboard, session: str) -> None:
        self.site = site
        self.session = session
        self.headers = {"Authorization": f"Bearer {dashboard.secrets.token}"}
        self.origin = dashboard.origin
        self.client = httpx.Client(base_url=f"{dashboard.origin}{BASE}", headers=self.headers)

    def get(self, address: str, code: int = 200, /, **words: Any) -> dict[str, object]:
        answer = self.client.get(address, params=words)
        assert answer.status_code == code, answer.text
        assert answer.headers["content-type"] == "application/json"
        result: dict[str, object] = answer.json()
        assert result["holdfast"] == 1
        return result


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    site = Site(tmp_path_factory.mktemp("api"))
    session = typical(site)
    with serving(site) as dashboard:
        made = Api(site, dashboard, session)
        yield made
        made.client.close()


# ── description ──────────────────────────────────────────────────────────────────────────────────────────


DESCRIBED = schemathesis.openapi.from_dict(msgspec.json.decode(msgspec.json.encode(description())))
EVERYTHING = settings(
    max_examples=500 if os.environ.get(TORTURE) else 20, deadline=None,
    suppress_health_check=list(HealthCheck), derandomize=not os.environ.get(TORTURE),
)  # fmt: skip


@DESCRIBED.parametrize()
@EVERYTHING
def test_every_answer_follows_the_description(case: schemathesis.Case[Any], api: Api) -> None:
    """Status, type, document and headers, for valid and invalid requests."""
    case.call_and_validate(base_url=api.origin, headers=api.headers)


@DESCRIBED.include(path_regex="{id}").parametrize()
@EVERYTHING
def test_every_answer_about_a_session_follows_the_description(case: schemathesis.Case[Any], api: Api) -> None:
    """For an existing session: documents for valid requests, errors for others."""
    case.path_parameters = {"id": api.session}
    answer = case.call(base_url=api.origin, headers=api.headers)
    case.validate_response(
        answer, excluded_checks=[negative_data_rejection]
    )  # the id is not the invalid one it generated


def test_api_serves_its_description(api: Api) -> None:
    """It names every address, and is the one these tests use."""
    answer = api.client.get("/openapi.json")
    assert answer.json() == msgspec.json.decode(msgspec.json.encode(description()))
    assert set(answer.json()["paths"]) == {*ENDPOINTS, f"{BASE}/openapi.json"}


def test_documentation_names_every_address_and_parameter() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
    for address, endpoint in ENDPOINTS.items():
        row = next(line for line in page.splitlines() if line.startswith(f"| `{address.removeprefix(BASE)}` |"))
        assert {f"`{name}`" for name in endpoint.parameters.__struct_encode_fields__} <= set(
            re.findall(r"`[^`]+`", row)
        )


# ── equal to the commands ────────────────────────────────────────────────────────────────────────────────


def _same(answer: object, library: object) -> None:
    assert answer == msgspec.json.decode(msgspec.json.encode(library))


def test_session_equals_the_document_of_the_library(api: Api) -> None:
    """Now (except for elapsed time) and at a past moment."""
    with api.site.keeper() as keeper:
        then = keeper.now() - DAY // 24
        _same(
            api.get(f"/sessions/{api.session}", at=format_time(then))["session"],
            keeper.session(api.session).document(at=then),
        )
        now = api.get(f"/sessions/{api.session[:8]}")["session"]
        assert isinstance(now, dict)
        document = keeper.session(api.session).document()
        document.time = msgspec.convert(now["time"], type(document.time))
        document.agents = msgspec.convert(now["agents"], list[Agent])
        _same(now, document)


def test_listing_equals_history(api: Api) -> None:
    """Rows, filters and order; following `next` shows each session once."""
    with api.site.keeper() as keeper:
        rows = keeper.history(all_projects=True)
        here = keeper.history()
    assert [row["id"] for row in api.get("/sessions")["sessions"]] == [row.id for row in rows]  # type: ignore[attr-defined]
    _same(api.get("/sessions", status="completed")["sessions"], [row for row in rows if row.status == "completed"])
    assert len(api.get("/sessions", all_projects="false")["sessions"]) == len(here)  # type: ignore[arg-type]
    assert len(api.get("/sessions", project="lighthouse")["sessions"]) == 2  # type: ignore[arg-type]
    assert len(api.get("/sessions", search="passkeys")["sessions"]) == 1  # type: ignore[arg-type]
    assert len(api.get("/sessions", unfinished="true")["sessions"]) == 3  # type: ignore[arg-type]
    shown: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = api.get("/sessions", limit=2, **cursor)
        shown += [row["id"] for row in page["sessions"]]  # type: ignore[attr-defined]
        if page["next"] is None:
            break
        cursor = {"cursor": str(page["next"])}
    assert shown == [row.id for row in rows]


def test_events_equal_the_log(api: Api) -> None:
    """Every field; by type, the last few, and those after a known one."""
    with api.site.keeper() as keeper:
        log = [event_document(event) for event in keeper.events(api.session)]
    address = f"/sessions/{api.session}/events"
    _same(api.get(address)["events"], log)
    _same(api.get(address, limit=3)["events"], log[-3:])
    _same(
        api.get(address, type="agent.started")["events"], [event for event in log if event["type"] == "agent.started"]
    )
    _same(api.get(address, after=str(log[4]["hash"]), limit=2)["events"], log[5:7])
    assert api.get(address, after=str(log[-1]["hash"]))["events"] == []
    api.get(address, 404, after="0" * 64)
    assert set(documents.LoggedEvent.__struct_fields__) == set(log[0])


def test_other_answers_equal_the_library(api: Api) -> None:
    """Briefing, sessions in progress, hours, hills and devices."""
    with api.site.keeper() as keeper:
        now = [card.session.id for card in overview.current_cards(keeper)]
        table = hours_table.table(
            [keeper.state(row.id) for row in keeper.history(limit=None, all_projects=True)],
            "agent", now=keeper.now(), offset=local_offset,
        )  # fmt: skip
    briefing = api.get(f"/sessions/{api.session}/briefing", max_chars=400, **{"for": "agent"})
    assert briefing["for"] == "agent"
    assert len(str(briefing["briefing"])) <= 400
    result = api.get("/now")["now"]
    assert isinstance(result, list)
    assert [match["session"]["id"] for match in result] == now
    assert any("test-1" in sentence for sentence in result[0]["attention"])
    for by in ("scope", "day", "project"):
        hours = api.get("/hours", by=by)
        total = hours["total"]
        assert isinstance(total, dict)
        assert total["working_ms"] + total["paused_ms"] == total["elapsed_ms"]
    agents = api.get("/hours", by="agent")["total"]
    assert isinstance(agents, dict)
    assert agents["runs"] == table.total.runs  # type: ignore[union-attr]
    assert {"auth", "exports"} <= {item["scope"] for item in api.get("/hills")["hills"]}  # type: ignore[attr-defined]
    assert api.get("/devices")["device"] == {
        "name": "desk", "fingerprint": None, "age": None, "signing": None, "vaults": [],
    }  # fmt: skip


# ── refusals ─────────────────────────────────────────────────────────────────────────────────────────────

WRONG = {
    "sessions?limit=0": 400, "sessions?limit=1001": 400, "sessions?limit=two": 400, "sessions?limit=1&limit=2": 400,
    "sessions?since=yesterday": 400, "sessions?at=2026-13-01T00:00:00Z": 400, "sessions?status=asleep": 400,
    "sessions?all_projects=perhaps": 400, "sessions?cursor=nobody": 404, "sessions?what=ever": 400, "sessions/": 404,
    "sessions/none-such": 404, "sessions/ab": 404, "sessions/%00": 400, "sessions/..%2f..%2fnow": 404,
    "sessions/none-such/events": 404, "sessions/none-such/briefing": 404, "hours?by=moon": 400, "now?x=1": 400,
    "nothing": 404, "": 404,
}  # fmt: skip


@pytest.mark.parametrize(("address", "code"), WRONG.items())
def test_wrong_parameter_gives_the_documented_error(api: Api, address: str, code: int) -> None:
    """So do unknown sessions."""
    answer = api.client.get(f"/{address}")
    assert answer.status_code == code, answer.text
    assert set(answer.json()["error"]) == {
        "kind", "message", "hint", "operation", "file", "session", "feature_id", "details", "timestamp",
    }  # fmt: skip
    assert answer.json()["error"]["message"]


def test_session_is_missing_before_its_start(api: Api) -> None:
    """As with `show --at`."""
    assert "had not begun" in str(api.get(f"/sessions/{api.session}", 404, at="2001-01-01T00:00:00Z")["error"])


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"])
def test_api_is_read_only(api: Api, method: str) -> None:
    """Every other method is refused, and the answer names the allowed ones."""
    for address in ("/sessions", f"/sessions/{api.session}", "/openapi.json"):
        answer = api.client.request(method, address)
        assert answer.status_code == 405
        assert {name.strip() for name in answer.headers["allow"].split(",")} == {"GET", "HEAD"}


def test_head_equals_get_without_its_body(api: Api) -> None:
    head, get = api.client.head("/hills"), api.client.get("/hills")
    assert head.status_code == 200
    assert head.content == b""
    assert head.headers["content-length"] == str(len(get.content))


def test_api_requires_the_token(api: Api) -> None:
    """The answer says how to get it."""
    for headers in ({}, {"Authorization": "Bearer no"}, {"Authorization": "Basic eA=="}):
        answer = httpx.get(f"{api.origin}{BASE}/now", headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert "holdfast ui" in answer.json()["error"]["hint"]


def test_reading_creates_no_store_and_no_keys(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Every address answers in an empty home."""
    site = Site(tmp_path_factory.mktemp("empty"))
    with serving(site) as dashboard:
        headers = {"Authorization": f"Bearer {dashboard.secrets.token}"}
        for address in ENDPOINTS:
            answer = httpx.get(dashboard.origin + address.replace("{id}", "@"), headers=headers)
            assert answer.status_code == (404 if "{id}" in address else 200), answer.text
    assert not list(site.home.rglob("*"))
