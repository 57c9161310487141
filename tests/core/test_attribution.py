"""A change is attributed by its time and the turns at that time; an uncertain author is never claimed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.attribution import AgentTurn, RanCommand, attribute, maker_of

RAN = RanCommand(110, 150, commits=True)


def turn(name: str = "claude:1", began: int = 100, ended: int | None = 200, **facts: object) -> AgentTurn:
    return AgentTurn(name, f"session of {name}", began, 150, ended, **facts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("turns", "since", "until", "by", "among"),
    [
        ([], 50, 50, "person", ()),
        ([turn()], 99, 99, "person", ()),
        ([turn()], 100, 100, "unknown", ("claude:1",)),
        ([turn(commands=[RAN])], 120, 120, "command", ("claude:1",)),
        ([turn(commands=[RAN])], 105, 105, "unknown", ("claude:1",)),
        ([turn(commands=[RAN])], 201, 201, "person", ()),
        ([turn(ended=None, commands=[RAN])], 999, 999, "command", ("claude:1",)),
        ([turn(commands=[RAN], broken_off=True)], 140, 140, "command", ("claude:1",)),
        ([turn(commands=[RAN], broken_off=True)], 160, 160, "unknown", ("claude:1",)),
        ([turn(commands=[RAN]), turn("codex:2", 120, 300)], 130, 130, "unknown", ("claude:1", "codex:2")),
        ([turn(commands=[RAN]), turn("codex:2", 120, 300)], 115, 115, "command", ("claude:1",)),
        ([turn(commands=[RAN])], 120, 190, "command", ("claude:1",)),
        ([turn(commands=[RAN])], 50, 190, "unknown", ("claude:1",)),
        ([turn(commands=[RAN])], 10, 90, "person", ()),
    ],
)
def test_change_is_attributed_by_its_time(
    turns: list[AgentTurn], since: int, until: int, by: str, among: tuple[str, ...]
) -> None:
    attribution = attribute(turns, since, until)
    assert (attribution.by, attribution.conversations) == (by, among)


@pytest.mark.parametrize(
    ("turns", "since", "until", "expected"),
    [
        ([turn()], 10, 20, (None, "certain", ())),
        ([turn(commands=[RAN])], 120, 130, ("claude:1", "certain", ())),
        ([turn(commands=[RanCommand(110, 150)])], 120, 130, ("claude:1", "likely", ())),
        ([turn()], 120, 130, (None, "uncertain", ("claude:1",))),
        ([turn(commands=[RAN])], 90, 130, (None, "uncertain", ("claude:1",))),
        ([turn(commands=[RAN]), turn("codex:2")], 120, 130, ("claude:1", "likely", ("claude:1", "codex:2"))),
        ([turn(), turn("codex:2")], 120, 130, (None, "uncertain", ("claude:1", "codex:2"))),
        (
            [turn(commands=[RanCommand(110, 150)], broken_off=True)],
            160, 170, (None, "uncertain", ("claude:1",)),
        ),
    ],
)  # fmt: skip
def test_commit_maker_is_certain_only_with_a_single_candidate(
    turns: list[AgentTurn], since: int, until: int, expected: tuple[str | None, str, tuple[str, ...]]
) -> None:
    maker = maker_of(turns, since, until)
    assert (maker.conversation, maker.certainty, maker.among) == expected


_TURNS = st.lists(
    st.builds(
        lambda name, began, length, ran: AgentTurn(
            f"claude:{name}", "s", began, began + length // 2, began + length,
            commands=[RanCommand(began, began + length, commits=True)] if ran else [],
        ),
        st.integers(1, 3), st.integers(0, 50), st.integers(0, 20), st.booleans(),
    ),
    max_size=5,
)  # fmt: skip


@given(_TURNS, st.integers(-5, 80), st.integers(0, 10))
def test_certainty_requires_a_single_working_conversation(turns: list[AgentTurn], since: int, length: int) -> None:
    """For any turns, `command` or a certain commit means that only this conversation was working."""
    until = since + length
    working = {item.conversation for item in turns if item.began <= until and (item.ended or 0) >= since}
    attribution = attribute(turns, since, until)
    if attribution.by == "command":
        assert working == set(attribution.conversations)
        assert len(working) == 1
    if attribution.by == "person":
        assert working == set()
    maker = maker_of(turns, since, until)
    if maker.conversation is not None and maker.certainty == "certain":
        assert working == {maker.conversation}
