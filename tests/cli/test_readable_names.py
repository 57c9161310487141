"""Agents and tasks with generated ids are shown and accepted under readable names; JSON keeps the ids."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.keeper import Keeper
from tests.support.command_line import Calling

OPAQUE = "a55cae90-daa8-4ec4-9b81-a177f4ac06a7"
OTHER = "toolu_01A09q90qw90lq917835lq9"
TODO = "claude-ab12-1234abcd"


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Calling:
    cli = Calling(tmp_path, monkeypatch, capsys)
    assert cli("start", "Carts").code == 0
    with Keeper.open(str(cli.project), home=str(cli.home)) as keeper:
        session = keeper.session()
        session.agent(OPAQUE, type="reviewer", task="Look at carts")
        session.agent(OTHER, type="reviewer", task="Look at tests")
        session.agent("mine", type="tester")
        session.add_task("Empty carts", task_id=TODO, agent=OPAQUE)
        session.add_task("Fill carts")
        session.changed("cart.py", "deleted", agent=OPAQUE)
        session.measure_context(1_000, agent=OPAQUE)
    return cli


@pytest.mark.parametrize(
    "words",
    [("status",), ("show", "@"), ("agent", "list"), ("timeline",), ("budget",), ("report",), ("briefing",),
     ("task", "list"), ("plan", "show"), ("resume",)],
    ids=" ".join,
)  # fmt: skip
def test_output_shows_readable_names_for_generated_ids(cli: Calling, words: tuple[str, ...]) -> None:
    """On every screen."""
    code, shown, _ = cli(*words)
    assert code == 0
    for id_ in (OPAQUE, OTHER, TODO):
        assert id_ not in shown
        assert id_[:12] not in shown


def test_status_names_agents_by_type_and_number(cli: Calling) -> None:
    """In the order in which they began; chosen ids stay."""
    shown = cli("status").out
    assert "reviewer-1" in shown
    assert "reviewer-2" in shown
    assert "mine" in shown


def test_readable_names_are_accepted_as_arguments(cli: Calling) -> None:
    """Wherever an agent or task is given; the ids still work."""
    assert cli.document("agent", "done", "reviewer-1", "--summary", "Fine")["agent"]["id"] == OPAQUE
    assert cli.document("agent", "progress", OTHER, "0.5")["agent"]["id"] == OTHER
    assert (
        cli.document("agent", "start", "next", "--type", "tester", "--blocking-on", "reviewer-2")["agent"][
            "blocking_on"
        ]
        == OTHER
    )
    assert cli.document("task", "done", "1")["task"]["id"] == TODO
    cli.document("task", "reopen", TODO)
    assert cli.document("task", "add", "More", "--agent", "reviewer-2")["task"]["agent"] == OTHER
    cli.document("context", "--tokens", "5", "--agent", "reviewer-2")
    session = cli.document("status")["session"]
    assert session["context"]["by_agent"] == {OPAQUE: 1_000, OTHER: 5}
    assert [agent["id"] for agent in session["agents"]] == [OPAQUE, OTHER, "mine", "next"]


def test_unknown_names_are_refused(cli: Calling) -> None:
    cli.refused(3, "agent", "done", "reviewer-3")
    cli.refused(3, "task", "done", "2")


def test_stats_by_agent_distinguishes_agents_of_one_name(cli: Calling) -> None:
    """By the beginning of the id, only where two sessions have the name."""
    shown = cli("stats", "--by", "agent").out
    assert "reviewer-1, reviewer-2" in shown
    assert OPAQUE[:8] not in shown
    another = "b77cae90-daa8-4ec4-9b81-a177f4ac06a7"
    assert cli("start", "More carts", "--replace").code == 0
    with Keeper.open(str(cli.project), home=str(cli.home)) as keeper:
        keeper.session().agent(another, type="reviewer")
    cli.patch.setenv("COLUMNS", "160")
    shown = cli("stats", "--by", "agent").out
    assert f"reviewer-1 ({another[:8]})" in shown
    assert f"reviewer-1 ({OPAQUE[:8]})" in shown
    assert " reviewer-2" in shown
    assert OTHER[:8] not in shown
    lines = cli.document("stats", "--by", "agent")["lines"]
    assert {id_ for line in lines for id_ in line["agents"]} == {OPAQUE, OTHER, another, "mine"}
