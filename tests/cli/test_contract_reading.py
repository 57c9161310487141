"""The contract: reading changes nothing, accepts every way to name a session, and works as of any moment."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_line import Calling, at

OF_ONE = (["status"], ["show"], ["log"], ["timeline"], ["budget"], ["report"], ["report", "--format", "html"],
          ["briefing"], ["briefing", "--for", "agent", "--max-chars", "500"])  # fmt: skip
OF_ALL = (["history"], ["history", "--limit", "1"], ["history", "--search", "goal"],
          ["history", "--status", "paused"], ["history", "--since", "2026-01-01"],
          ["history", "--all-projects"], ["stats"],
          ["stats", "--by", "scope"],
          ["stats", "--by", "day"], ["stats", "--by", "project"], ["stats", "--by", "agent"], ["stats", "--csv"],
          ["agent", "list"], ["task", "list"], ["plan", "show"], ["config", "list"])  # fmt: skip


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Calling:
    return Calling(tmp_path, monkeypatch, capsys)


def test_reading_commands_change_nothing(cli: Calling) -> None:
    """No event, and no byte of the store."""
    session = cli.session("start", "A goal", "--scope", "s", "--at", at(0))["id"]
    cli.session("agent", "start", "a", "--type", "t", "--at", at(1))
    cli.session("task", "add", "x", "--phase", "p", "--at", at(2))
    before = (cli.home / "store.db").read_bytes()
    for words in (*OF_ONE, *OF_ALL):
        name = [session[:8]] if words in OF_ONE else []
        for more in ([], ["--json"], ["--quiet"], ["--at", at(3)], ["--at", at(3), "--json"]):
            answer = cli(*words, *name, *more)
            assert answer.code == 0, (words, more, answer)
            assert answer.out or more == ["--quiet"]
            if "--json" in more:
                cli.document(*words, *name)
    assert (cli.home / "store.db").read_bytes() == before


def test_session_is_named_by_id_prefix_or_at(cli: Calling) -> None:
    """`@` is the default; an unknown one is exit 3."""
    session = cli.session("start", "G", "--at", at(0))["id"]
    for words in OF_ONE:
        answers = {cli(*words, name, "--at", at(1)).out for name in (session, session[:4], "@")}
        assert len(answers) == 1, words
        assert answers == {cli(*words, "--at", at(1)).out}
        cli.refused(3, *words, "0000")


def test_reading_without_id_shows_the_latest_session_and_names_it_when_none_is_current(cli: Calling) -> None:
    """The one with the latest event; `status` says that none is current."""
    older = cli.session("start", "Worked on last", "--at", at(0))["id"]
    cli.session("agent", "start", "a", "--type", "t", "--at", at(1))
    cli.session("task", "add", "x", "--phase", "p", "--at", at(2))
    cli.session("start", "Begun last", "--replace", "--at", at(3))
    cli.session("stop", "--at", at(4))
    cli.session("resume", older, "--at", at(5))
    cli.session("stop", "--at", at(6))
    of_the_current = (["agent", "list"], ["task", "list"], ["plan", "show"])
    for words in (*OF_ONE[1:], ["export", "--format", "craft"], ["conversation", "list"], *of_the_current):
        bare = cli(*words, "--at", at(7))
        assert bare.code == 0, words
        assert f"the latest is {older[:8]}, Worked on last." in bare.err, words
        if words not in of_the_current:
            assert bare.out == cli(*words, older, "--at", at(7)).out, words
        assert cli(*words).code == 0
        assert f"the latest is {older[:8]}" in cli(*words).err
        cli.document(*words)
    assert cli.document("status")["session"] is None
    cli.refused(3, "show", "@")


@pytest.mark.parametrize("verb", ["away", "worked"])
def test_correction_is_refused_when_no_session_is_current(cli: Calling, verb: str) -> None:
    """The hint names the latest one."""
    span = ["--from", at(1), "--to", at(2)]
    assert "history" in cli.refused(3, verb, *span)["hint"]
    session = cli.session("start", "A goal", "--at", at(0))["id"]
    cli.session("stop", "--at", at(5))
    hint = cli.refused(3, verb, *span)["hint"]
    assert hint == f"For the latest one, A goal: --session {session[:8]}"
    assert cli.session(verb, *span, *hint.rpartition(": ")[2].split())["id"] == session


def test_reading_commands_work_before_the_first_session(cli: Calling) -> None:
    """Listings are empty, a session is not found, and nothing is created."""
    for words in (["history"], ["stats"], ["status"], ["config", "list"]):
        assert cli(*words).code == 0
        cli.document(*words)
    for words in (
        ["show"],
        ["show", "@"],
        ["log"],
        ["timeline"],
        ["budget"],
        ["report"],
        ["briefing"],
        ["agent", "list"],
        ["task", "list"],
    ):
        cli.refused(3, *words)
    assert not cli.home.exists()


def test_invalid_limits_and_filters_are_refused(cli: Calling) -> None:
    """Zero, negative, no number, no date, no such status: exit 4."""
    cli.session("start", "G")
    for words in (["history", "--limit", "0"], ["history", "--limit", "-1"], ["history", "--since", "soon"],
                  ["history", "--status", "done"], ["log", "--limit", "0"], ["briefing", "--max-chars", "10"],
                  ["stats", "--by", "colour"], ["report", "--format", "pdf"],
                  ["briefing", "--for", "cat"]):  # fmt: skip
        cli.refused(4, *words)


def test_history_is_newest_first_and_finds_words(cli: Calling) -> None:
    """Words of goal, notes and decisions, without case and accents."""
    ids = []
    for number, goal in enumerate(("Build the bridge", "Paint the café", "Sell the boat")):
        ids.append(cli.session("start", goal, "--replace", "--at", at(number))["id"])
    cli.session("note", "Remember the crème", "--at", at(5))
    assert [row["id"] for row in cli.document("history")["sessions"]] == ids[::-1]
    for words, entry in (("bridge", 0), ("CAFE", 1), ("creme", 2), ("the boa", 2)):
        assert [row["id"] for row in cli.document("history", "--search", words)["sessions"]] == [ids[entry]]
    assert cli.document("history", "--search", "nothing")["sessions"] == []
    assert [row["id"] for row in cli.document("history", "--status", "in_progress")["sessions"]] == [ids[2]]
    assert cli.document("history", "--since", "2026-01-06")["sessions"] == []


def test_session_is_archived_a_week_after_its_end(cli: Calling) -> None:
    """Computed, never recorded."""
    cli.session("start", "G", "--at", at(0))
    session = cli.session("stop", "--at", at(1))["id"]
    assert cli.document("history")["sessions"][0]["archived"] is True
    assert cli.document("history", "--at", "2026-01-12T08:00:00Z")["sessions"][0]["archived"] is False
    assert [event["type"] for event in cli.document("log", session)["events"]][-1] == "session.completed"
