"""The names sessions have in the four formats: valid whatever the goal, and the same each time."""

from __future__ import annotations

import re
import uuid
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.events import AliasGiven, EventData, ProjectFacts, SessionStarted
from holdfast.core.state import State
from holdfast.core.times import EARLIEST, LATEST, parse_time
from holdfast.formats.base import TimedEvent
from holdfast.formats.convert import fold_events
from holdfast.sessions import format_names

SESSION = "0b9e3c1a-5a4f-4c6e-9d2b-7f8e6a5d4c3b"
DAY = parse_time("2026-11-15T12:00:00Z")

ORCHESTRATOR = re.compile(r"(\d{4}-\d{2}-\d{2})-[0-9a-f]{6}", re.ASCII)
TIMER = re.compile(r"(\d{4})(\d{2})(\d{2})(?:-[a-z0-9]+){2,}", re.ASCII)
FEATURE = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*-(\d{4}-\d{2}-\d{2})", re.ASCII)

ODD = (
    "", " ", "\0", "🦄🦄🦄", "日本語だけ", "x" * 300, "../../etc/passwd", "a/b\\c", "C:\\temp", "-rf", "--", "...",
    "Größe: über 9000!", "ALL CAPS", "2026-11-15", "a\nb\tc", "é" * 300, "\u202egnp.exe", "0", "con", "İSTANBUL",
    "one two three four five six seven eight nine ten",
)  # fmt: skip
WORDS = st.one_of(st.sampled_from(ODD), st.text(max_size=40))
MOMENTS = st.one_of(st.just(DAY), st.integers(EARLIEST, LATEST))


def state_of(
    goal: str, *, at: int = DAY, session: str = SESSION, project: str = "shop", aliases: dict[str, str] | None = None,
    scope: str | None = None, task: str | None = None, feature: str | None = None,
) -> State:  # fmt: skip
    first: EventData = SessionStarted(
        goal=goal, project=ProjectFacts(id="p", name=project, path="/p"), device="desk", scope=scope, task=task,
        feature=feature,
    )  # fmt: skip
    more: list[TimedEvent] = [
        TimedEvent(at, AliasGiven(format=name, id=alias)) for name, alias in (aliases or {}).items()
    ]
    return fold_events([TimedEvent(at, first), *more], session)


states = st.builds(
    state_of, WORDS, at=MOMENTS, project=WORDS, scope=st.none() | WORDS, task=st.none() | WORDS,
    feature=st.none() | WORDS, session=st.uuids(version=4).map(str) | st.text(max_size=10),
)  # fmt: skip


@given(states, st.integers(1, 200))
def test_each_name_fits_its_format_whatever_the_session_is_called(state: State, number: int) -> None:
    match = ORCHESTRATOR.fullmatch(format_names.orchestrator_id(state, number))
    assert match
    date.fromisoformat(match[1])
    match = TIMER.fullmatch(format_names.timer_id(state, number))
    assert match
    date(int(match[1]), int(match[2]), int(match[3]))
    match = FEATURE.fullmatch(format_names.feature_id(state, number))
    assert match
    date.fromisoformat(match[1])


@given(states, st.integers(1, 200))
def test_each_name_can_be_a_file_and_part_of_a_branch(state: State, number: int) -> None:
    for name in (
        format_names.orchestrator_id(state, number),
        format_names.timer_id(state, number),
        format_names.feature_id(state, number),
    ):
        assert len(name) < 150
        assert re.fullmatch(r"[a-z0-9-]+", name)
        assert not name.startswith("-")


@given(states)
def test_what_a_format_needs_is_never_empty(state: State) -> None:
    assert format_names.scope(state).strip()
    assert format_names.task(state)
    assert format_names.craft_id(state) == state.session
    assert format_names.branch(state) == f"session/{format_names.timer_id(state)}"


@pytest.mark.parametrize("name", [format_names.orchestrator_id, format_names.timer_id, format_names.feature_id])
def test_id_in_use_is_replaced_by_another(name: object) -> None:
    """The same number gives the same name, every number another."""
    assert callable(name)
    state = state_of("Add login")
    made = [name(state, number) for number in range(1, 120)]
    assert len(set(made)) == len(made)
    assert made == [name(state_of("Add login"), number) for number in range(1, 120)]


def test_names_as_people_expect_them() -> None:
    state = state_of("Add OAuth 2.0 to the shop!", project="My Shop")
    assert format_names.orchestrator_id(state) == "2026-11-15-0b9e3c"
    assert format_names.timer_id(state) == "20261115-my-shop-add-oauth-2-0"
    assert format_names.timer_id(state, 2) == "20261115-my-shop-add-oauth-2-0-2"
    assert format_names.feature_id(state) == "add-oauth-2-0-to-the-shop-2026-11-15"
    assert format_names.feature_id(state, 3) == "add-oauth-2-0-to-the-shop-3-2026-11-15"
    assert format_names.task(state) == "Add OAuth 2.0 to"
    assert format_names.scope(state) == "My Shop"


def test_explicit_value_counts_before_a_derived_one() -> None:
    state = state_of("A goal", scope="Checkout", task="Pay later", feature="Pay by card")
    assert format_names.timer_id(state) == "20261115-checkout-pay-later"
    assert format_names.feature_id(state) == "pay-by-card-2026-11-15"
    assert (format_names.scope(state), format_names.task(state)) == ("Checkout", "Pay later")


def test_id_it_came_with_stays() -> None:
    came = {"orchestrator": "2020-01-01-abcdef", "timer": "20200101-x-y", "contract": "x-2020-01-01", "craft": "own"}
    state = state_of("A goal", aliases=came)
    for number in (1, 7):
        assert format_names.orchestrator_id(state, number) == came["orchestrator"]
        assert format_names.timer_id(state, number) == came["timer"]
        assert format_names.feature_id(state, number) == came["contract"]
    assert format_names.craft_id(state) == "own"
    assert format_names.branch(state) == "session/20200101-x-y"


@given(st.sampled_from(["orchestrator", "timer", "contract", "craft"]), st.text(max_size=300), st.integers())
def test_imported_session_has_a_uuid_that_anybody_would_give_it(name: str, alias: str, began: int) -> None:
    made = format_names.imported_id(name, alias, began)
    assert format_names.is_uuid(made)
    assert uuid.UUID(made).version == 4
    assert str(uuid.UUID(made)) == made
    assert made == format_names.imported_id(name, alias, began)
    assert made != format_names.imported_id(name, alias + "x", began)
    assert made != format_names.imported_id(name, alias, began + 1)
    assert made != format_names.imported_id("another", alias, began)


def test_id_of_an_import_never_changes() -> None:
    """A literal example: two devices that import one file must always agree."""
    assert format_names.imported_id("orchestrator", "2025-12-27-a1b2c3", 1_766_831_400_000) == (
        "41598204-2b56-445a-8086-790702b6e93f"
    )


def test_craft_document_brings_its_own_id() -> None:
    assert format_names.imported_id("craft", SESSION.upper(), 1) == SESSION
    assert format_names.imported_id("timer", SESSION, 1) != SESSION
    assert format_names.imported_id("craft", SESSION.replace("-4c6e-", "-1c6e-"), 1) != SESSION


@pytest.mark.parametrize(
    "name", ["", SESSION.upper(), SESSION + "\n", SESSION[:-1], f"{{{SESSION}}}", SESSION.replace("-9d2b-", "-cd2b-")]
)
def test_what_is_no_uuid(name: str) -> None:
    assert not format_names.is_uuid(name)
    assert format_names.is_uuid(SESSION)
