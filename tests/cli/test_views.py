"""The commands that show something: their documents, and their screens at two widths."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli.clock import Clock
from holdfast.cli.gantt import Scale, TimelineChart, TimelineLane, TimelinePause, chart
from holdfast.cli.main import main
from holdfast.cli.paint import Paint, width_of
from holdfast.cli.session_view import full_view
from holdfast.cli.status_view import render_status
from holdfast.core.events import EventData, NativeLinked, WaitingStarted
from holdfast.core.times import HOUR, MINUTE, parse_time
from holdfast.keeper import Keeper
from holdfast.machine.wall import Wall, midnight

BEGAN = parse_time("2026-10-05T09:00:00.000Z")  # in the past for every clock that the program accepts
NOW = BEGAN + 170 * MINUTE
AT = "2026-10-05T11:50:00Z"
GOAL = "Add OAuth with PKCE to the login page, with refresh tokens and a sign-out that revokes them"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def build(home: Path, project: Path) -> str:
    """A session of three hours with every kind of event; returns its id."""
    moment = [BEGAN]
    keeper = Keeper.open(
        str(project), home=str(home), wall=Wall(read=lambda: moment[0] * 1_000_000), actor="ada", device="laptop"
    )
    # A clock before the build date is not accepted, so every step passes its time.
    session = keeper.start(GOAL, scope="auth", mode="optimize", model="opus", tags=["security"], at=BEGAN)

    def at(minutes: int) -> int:
        return BEGAN + minutes * MINUTE

    def record(minutes: int, *data: EventData) -> None:
        keeper.recorder.record(session.id, lambda _: data, at=at(minutes))

    for text, phase in (
        ("Threat model of the flow", "Design"), ("Authorisation endpoint", "Build"), ("Token refresh", "Build"),
        ("Sign-out revokes tokens", "Build"), ("Browser tests", "Verify"),
    ):  # fmt: skip
        session.add_task(text, phase=phase, at=at(1))
    first, second, _, fourth, _ = (task.id for task in session.document().tasks)
    design = session.agent("arch-1", type="architect", task="Design the flow", pid=None, at=at(2))
    design.done(summary="Hybrid chosen", tokens=18_400, at=at(6))
    session.finish_task(first, outcome="12 threats", at=at(6))
    session.decide("Hybrid tokens", context="Token kind", options=["JWT", "Hybrid"], why="Can be revoked", at=at(7))
    session.agent("code-1", type="coder", task="Authorisation endpoint", pid=None, at=at(8))
    session.start_task(second, at=at(8))
    session.find_agent("code-1").progress(0.6, at=at(12))
    session.pause("lunch", at=at(20))
    session.resume(at=at(65))
    session.note("The sandbox rejects ports.\nAsk them.", at=at(66))
    docs = session.agent("docs-1", type="writer", task="Security notes", background=True, pid=None, at=at(70))
    docs.fail("connection reset by peer", category="transient", at=at(73))
    docs.retry(at=at(75))
    docs.fail("connection reset again", category="transient", at=at(78))
    session.block_task(fourth, outcome="waits for the provider", at=at(80))
    session.measure_context(93_000, window=128_000, at=at(81))
    session.measure_context(41_000, agent="code-1", at=at(81))
    (project / "auth.md").write_text("x\n")
    session.changed("auth.md", "created", agent="arch-1", at=at(82))
    record(90, NativeLinked(agent="claude", id="0a1b", resume="claude --resume 0a1b"))
    record(90, WaitingStarted(id="w1", for_="permission", text="Run: npm install"))
    session.hill("auth", 4, at=at(91))
    session.note("the key is AKIA" + "IOSFODNN7EXAMPLE", at=at(165))
    keeper.close()
    return session.id


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "shop").mkdir()
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "shop")
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "HOLDFAST_STORE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    return build(tmp_path / "home", tmp_path / "shop")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*words: str) -> tuple[int, str, str]:
        code = main(list(words))
        result = capsys.readouterr()
        return code, result.out, result.err

    return call


def document(run: Run, *words: str) -> Any:
    code, out, _ = run(*words, "--json")
    assert code == 0
    assert out.count("\n") == 1
    read = json.loads(out)
    assert read["holdfast"] == 1
    return read


def drawn(name: str, where: Path, session: str, width: int, **how: Any) -> str:
    """A screen as a terminal of that width would show it."""
    paint = Paint(width, tty=True, **how)
    with Keeper.open(str(where / "shop"), home=str(where / "home")) as keeper:
        state = keeper.state(session, at=NOW)
        answer = keeper.session(session).document(at=NOW)
    if name == "timeline":
        from holdfast.cli.commands import views
        from holdfast.core import view

        return str(chart(paint, views._timeline_chart(state, view.worktime(state, NOW), NOW)))
    draw = render_status if name == "glance" else full_view
    return str(draw(paint, answer, Clock(NOW))).replace(session[:8], "01234567")


STATUS_80 = """\
Add OAuth with PKCE to the login page, with refresh tokens and a sign-out that
revokes them
in progress  ████················  20%  01234567, shop, scope auth

Time     8 min worked, 2 h 42 min paused (2 pauses so far), since 09:00
         Agent at work: Authorisation endpoint since 10:05
Context  ██████████████▌·····  93,000 of 128,000 tokens (72.7%)  filling up
Mode     optimize: 4 agents at once, compress at 60%, 2 retries
Model    opus
Tags     security
Secrets  1 removed before storing (aws_access_key_id)

Waiting for you
  permission  Run: npm install  1 hour ago

Agents  1 running, 1 failed, 1 done
  ✗  docs-1  error                          8 min  transient: connection reset …
  ●  code-1  running    ████▊···  60%  2 h 42 min  Authorisation endpoint
  ✓  arch-1  completed                      4 min  Design the flow  Hybrid chos…

Plan  1 of 5 done
  ●  t2  in progress  Authorisation endpoint
  ◐  t4  blocked      Sign-out revokes tokens  waits for the provider
  ○  t3  pending      Token refresh
  ○  t5  pending      Browser tests

Next  answer the agent that waits for you"""

AGENTS_140 = """\
Agents  1 running, 1 failed, 1 done
  ✗  docs-1  error                          8 min  transient: connection reset again  Security notes
  ●  code-1  running    ████▊···  60%  2 h 42 min  Authorisation endpoint
  ✓  arch-1  completed                      4 min  Design the flow  Hybrid chosen
"""

TIMELINE_80 = """\
          09:00     09:30     10:00     10:30     11:00          now
          ┬─────────┬─────────┬─────────┬─────────┬──────────┬──────
you       ██▒▒▒▒░░░░░░░░░░░░░░░░▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒       8 min
arch-1 ✓  ━━                                                               4 min
code-1 ●    ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━  2 h 42 min
docs-1 ✗                         ━✗━✗                                      6 min

          █ worked 8 min   ░ paused 45 min   ▒ agent at work 1 h 57 min"""

PLAIN_80 = """\
Add OAuth with PKCE to the login page, with refresh tokens and a sign-out that
revokes them
in progress  20%  01234567, shop, scope auth

Time     8 min worked, 2 h 42 min paused (2 pauses so far), since 09:00
         Agent at work: Authorisation endpoint since 10:05
Context  93,000 of 128,000 tokens (72.7%)  filling up
"""


def test_status_screen_at_80_columns_matches_verbatim(shop: str, tmp_path: Path) -> None:
    """Without colour."""
    assert drawn("glance", tmp_path, shop, 80) == STATUS_80


def test_status_screen_at_140_columns_shows_what_was_cut_at_80(shop: str, tmp_path: Path) -> None:
    assert AGENTS_140 in drawn("glance", tmp_path, shop, 140)


def test_timeline_screen_at_80_columns_matches_verbatim(shop: str, tmp_path: Path) -> None:
    """A row for the person, one per agent, an axis and a legend."""
    assert drawn("timeline", tmp_path, shop, 80) == TIMELINE_80


@pytest.mark.parametrize("name", ["glance", "whole", "timeline"])
@pytest.mark.parametrize("width", [40, 80, 140])
def test_screens_are_no_wider_than_the_terminal(shop: str, tmp_path: Path, name: str, width: int) -> None:
    """At any width, also in ASCII."""
    for ascii_only in (False, True):
        screen = drawn(name, tmp_path, shop, width, ascii_only=ascii_only)
        assert max(width_of(line) for line in screen.split("\n")) <= width
        assert not ascii_only or screen.isascii()


@pytest.mark.parametrize("name", ["glance", "whole", "timeline"])
def test_screens_are_the_same_without_colour_codes(shop: str, tmp_path: Path, name: str) -> None:
    coloured = drawn(name, tmp_path, shop, 80, colour=True)
    first, *others = coloured.split("\x1b[")
    assert first + "".join(part.split("m", 1)[1] for part in others) == drawn(name, tmp_path, shop, 80)
    assert others


def test_output_without_a_terminal_has_no_bars(shop: str, run: Run) -> None:
    """Only numbers and words."""
    code, out, err = run("status", "--at", AT)
    assert (code, err) == (0, "")
    assert out.replace(shop[:8], "01234567").startswith(PLAIN_80)
    assert not set(out) & set("█·●✓✗◐○")
    assert not set(run("timeline", "--at", AT)[1]) & set("█▒░━┬")


def test_status_fits_a_screen_with_a_long_goal_and_sixty_agents(run: Run, shop: str) -> None:
    """Three lines of goal, and lists that say how much they leave out."""
    assert run("edit", "--goal", "word " * 60, "--at", AT)[0] == 0
    for number in range(60):
        run("agent", "start", f"worker-{number}", "--type", "worker", "--at", AT)
    _, out, _ = run("status", "--at", AT)
    assert out.split("\n")[2].endswith("…")
    assert "and 54 more: holdfast agent list" in out
    assert "61 running (the mode is meant for 4)" in out
    assert len(out.split("\n")) < 45


def test_hostile_text_is_escaped_on_every_screen(run: Run, shop: str) -> None:
    """Escape sequences and direction marks."""
    hostile = "evil \x1b[2J\u202e\x9b31m"
    run("note", hostile, "--at", AT)
    run("decide", hostile, "--why", hostile, "--at", AT)
    run("task", "add", hostile, "--at", AT)
    run("edit", "--goal", hostile, "--at", AT)
    for words in (["status"], ["show", "@"], ["log"], ["history"], ["timeline"], ["briefing"], ["task", "list"]):
        code, out, _ = run(*words, "--at", AT)
        assert code == 0
        assert not set(out) & set("\x1b\u202e\x9b"), words


def test_status_without_a_session_is_null_with_a_next_step(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And creates nothing."""
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "none"))
    monkeypatch.chdir(tmp_path)
    assert document(run, "status")["session"] is None
    assert run("status") == (0, "No session is in progress here. Start one: holdfast start GOAL\n", "")
    assert document(run, "history")["sessions"] == []
    assert "No sessions" in run("history")[1]
    assert run("log")[0] == 3
    assert not (tmp_path / "none").exists()


def test_status_names_the_latest_unfinished_session_when_none_is_current(run: Run, shop: str) -> None:
    run("start", "Something else", "--replace")
    run("stop")
    _, out, _ = run("status")
    assert "holdfast continue" in out
    assert shop[:8] in out


def test_status_accepts_a_session_and_a_time(run: Run, shop: str) -> None:
    assert document(run, "status", shop[:8])["session"]["id"] == shop
    then = document(run, "status", "--at", "2026-10-05T09:10:00Z")["session"]
    assert (then["status"], len(then["agents"]), then["notes"]) == ("in_progress", 2, [])
    assert document(run, "status", "--at", "2026-10-05T08:00:00Z")["session"] is None


@pytest.mark.parametrize(
    ("verb", "words", "next_step"),
    [
        (["pause", "lunch"], "paused since 11:50 (lunch)", "holdfast resume"),
        (["fail", "no disk"], "Stopped by an error", "holdfast resume, once it is fixed"),
        (["stop"], "09:00 to 11:50", "--continues"),
    ],
)
def test_status_has_a_next_step_for_every_status(
    run: Run, shop: str, verb: list[str], words: str, next_step: str
) -> None:
    """`--quiet` omits it."""
    assert run(*verb, "--at", AT)[0] == 0
    _, out, _ = run("status", shop, "--at", AT)
    assert words in out
    assert next_step in out.split("\n")[-2]
    assert "Next" not in run("status", shop, "--at", AT, "--quiet")[1]


def test_show_has_every_section(run: Run, shop: str) -> None:
    """Its document is that of `status`."""
    _, out, _ = run("show", shop, "--at", AT)
    for words in (
        shop, "Agents", "Plan", "Design  1 of 1 done", "Decisions", "Can be revoked", "Files", "auth.md", "Pauses",
        "paused (lunch)", "Context by agent", "Notes", "Ask them.", "Errors", "claude --resume 0a1b",
    ):  # fmt: skip
        assert words in out
    assert document(run, "show", shop, "--at", AT) == document(run, "status", "--at", AT)
    assert run("show", "ffffffff")[0] == 3


HISTORY = """\
Session   Goal                                  Status       Done  Worked    Age
────────  ────────────────────────────────────  ───────────  ────  ──────  ─────
01234567  Add OAuth with PKCE to the login pa…  in progress   20%   8 min  5 min
"""


def test_history_table_has_its_columns(run: Run, shop: str) -> None:
    """The project only when several are asked for."""
    _, out, _ = run("history", "--at", "2026-10-05T11:50:00Z")
    assert out.replace(shop[:8], "01234567") == HISTORY
    assert " shop " in run("history", "--all-projects")[1]
    assert run("history", "--search", "oau")[1].count("\n") == 3
    assert run("history", "--search", "zebra")[1].startswith("Nothing found for 'zebra' in this project")


def test_history_rows_have_exactly_the_contracts_fields(run: Run, shop: str) -> None:
    """A limit below one is invalid."""
    (row,) = document(run, "history")["sessions"]
    assert list(row) == [
        "id", "goal", "status", "progress", "project", "device", "created_at", "updated_at", "working_ms", "archived",
        "over", "aliases",
    ]  # fmt: skip
    assert (row["id"], row["project"], row["device"]) == (shop, "shop", "laptop")
    assert document(run, "history", "--status", "completed")["sessions"] == []
    assert run("history", "--limit", "0")[0] == 4
    assert run("history", "--limit", "0", "--at", AT)[0] == 4
    assert run("history", "--since", "yesterday")[0] == 4


def test_history_can_be_shown_as_of_a_past_time(run: Run, shop: str) -> None:
    run("stop", "--at", AT)
    (row,) = document(run, "history", "--at", "2026-10-05T09:10:00Z")["sessions"]
    assert (row["status"], row["working_ms"], row["archived"]) == ("in_progress", 10 * MINUTE, False)
    assert document(run, "history", "--at", "2026-10-05T08:59:00Z")["sessions"] == []
    assert document(run, "history", "--at", "2026-10-05T09:10:00Z", "--status", "completed")["sessions"] == []


def test_history_since_a_date_starts_at_local_midnight(run: Run, shop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(document(run, "history", "--since", "2026-10-05")["sessions"]) == 1
    assert document(run, "history", "--since", "2026-10-06")["sessions"] == []
    monkeypatch.setenv("TZ", "XXX-16")  # 16 hours ahead, where it is already the 6th
    time.tzset()
    assert len(document(run, "history", "--since", "2026-10-06")["sessions"]) == 1
    assert midnight("2026-10-06") == parse_time("2026-10-05T08:00:00Z")


def test_log_lists_events_oldest_first(run: Run, shop: str) -> None:
    """With all fields; filtered by type; the last N in the same order."""
    events = document(run, "log")["events"]
    assert events[0]["type"] == "session.started"
    assert [event["seq"] for event in events] == sorted(event["seq"] for event in events)
    assert set(events[0]) == {
        "v", "session", "writer", "seq", "clock", "at", "seen", "key", "actor", "type", "body", "prev", "hash",
        "data", "salt",
    }  # fmt: skip
    assert document(run, "log", "--limit", "2")["events"] == events[-2:]
    notes = document(run, "log", "--type", "note.added")["events"]
    assert [event["data"]["text"][:11] for event in notes] == ["The sandbox", "the key is "]
    assert document(run, "log", "--type", "note.added", "--limit", "1")["events"] == notes[1:]
    assert document(run, "log", "--type", "no.such")["events"] == []
    assert run("log", "--limit", "0")[0] == 4
    assert "AKIA" not in run("log")[1]


def test_budget_lists_the_agents_that_use_the_context(run: Run, shop: str) -> None:
    """Tokens, the mode's threshold, and agents, the largest first."""
    result = document(run, "budget", "--at", AT)
    assert result["context"]["tokens"] == 93_000
    assert result["compress_at_percent"] == 60
    _, out, _ = run("budget", "--at", AT)
    assert "reached" in out
    assert out.index("code-1") < out.index("arch-1")


def test_timeline_document_has_runs_and_pauses(run: Run, shop: str) -> None:
    """With times that add up."""
    line = document(run, "timeline", "--at", AT)["timeline"]
    assert line["working_ms"] + line["paused_ms"] == line["elapsed_ms"] == 170 * MINUTE
    assert sum(pause["duration_ms"] for pause in line["pauses"]) == line["paused_ms"]
    assert [len(agent["runs"]) for agent in line["agents"]] == [1, 1, 2]


def test_report_prints_markdown_or_html(run: Run, shop: str) -> None:
    """The same text inside JSON."""
    _, out, _ = run("report", "--at", AT)
    assert out.startswith(f"# {GOAL}\n")
    assert document(run, "report", "--at", AT) == {"holdfast": 1, "format": "md", "report": out}
    assert run("report", "--at", AT, "--format", "html")[1].startswith("<!DOCTYPE html>")


@pytest.mark.parametrize("by", ["scope", "day", "project", "agent"])
def test_stats_are_printed_as_table_json_and_csv(run: Run, shop: str, by: str) -> None:
    result = document(run, "stats", "--by", by, "--at", AT)
    assert result["by"] == by
    _, out, _ = run("stats", "--by", by, "--at", AT)
    assert "Total" in out
    _, table, _ = run("stats", "--by", by, "--csv", "--at", AT)
    head, *lines = table.splitlines()
    assert head.split(",")[0] == by
    assert len(lines) == len(result["lines"])
    if by == "scope":
        assert lines == [f"auth,1,{65 * MINUTE},{8 * MINUTE},{57 * MINUTE},0,0,4"]


def test_corrections_accept_and_show_local_time(run: Run, shop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in refusals."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    code, _, err = run("away", "--from", "2026-10-05 12:15", "--to", "2026-10-05T12:20", "--at", "2026-10-05 13:50")
    assert (code, err) == (0, ""), err
    for words in (("away", "--from", "2026-10-05 10:59"), ("worked", "--from", "2026-10-05T10:59")):
        code, _, err = run(*words, "--to", "2026-10-05 11:20", "--at", AT)
        what = "the pause" if words[0] == "away" else "the work"
        assert code == 4
        assert f"the session began at 2026-10-05 11:00:00+02:00; {what} must lie within it" in err
    _, _, err = run("note", "x", "--at", "2026-10-05 11:05")
    assert "2026-10-05 11:05:00+02:00 is before the session's last event (2026-10-05 13:50:00+02:00)" in err
    assert run("note", "x", "--at", "2026-10-05 13:50:00+02:00")[0] == 0


def test_stats_omit_nights_and_days_without_work(run: Run, shop: str) -> None:
    """In a session left open for two nights."""
    run("message", "--role", "user", "--at", "2026-10-07T09:00:00Z")
    run("message", "--role", "user", "--at", "2026-10-07T09:03:00Z")
    for by in ("scope", "day", "project"):
        words = ("stats", "--by", by, "--at", "2026-10-07T09:03:00Z")
        code, out, _ = run(*words)
        assert code == 0
        assert "Worked" in out
        assert not re.search(r"paused|in all|\b4\d h|\d d \d+ h", out, re.IGNORECASE), out
        result = document(run, *words)
        assert result["total"]["working_ms"] + result["total"]["paused_ms"] == result["total"]["elapsed_ms"]
        if by == "day":
            assert [line["key"] for line in result["lines"]] == ["2026-10-05", "2026-10-06", "2026-10-07"]
            assert "2026-10-06" not in out
            assert "1 day without worked time not shown" in out


def test_csv_escapes_formulas(run: Run, shop: str) -> None:
    """A scope that a spreadsheet would compute."""
    run("edit", "--scope", "=HYPERLINK(1)", "--at", AT)
    assert "\n'=HYPERLINK(1)," in run("stats", "--csv", "--at", AT)[1]


def test_process_uses_the_width_and_encoding_of_its_environment(shop: str, tmp_path: Path) -> None:
    """An encoding that has only ASCII."""
    environ = {**os.environ, "COLUMNS": "60", "PYTHONIOENCODING": "ascii"}
    for words in (["status"], ["history"], ["show", "@"], ["timeline"]):
        done = subprocess.run(
            [sys.executable, "-m", "holdfast", *words, "--at", AT], env=environ, capture_output=True, check=True
        )
        assert done.stderr == b""
        assert max(len(line) for line in done.stdout.decode("ascii").splitlines()) <= 60


# ── the chart ────────────────────────────────────────────────────────────────────────────────────────────

NIGHT = """\
          Oct 5                         Oct 6
          09:00    12:00    15:00       09:00    12:00          now
          ┬────────┬────────┬───── 16 h ┬────────┬──────── 19 h ───
you       █████████░░█████████████······██████████████████░░░░░░███  14 h 15 min
code-1 ✓  ━━✗   ━━━                                                   2 h 00 min
tests  ●                                            ━━━               1 h 00 min

          █ worked 14 h 15 min   ░ paused 19 h 45 min   · idle 16 h 00 min"""


def test_chart_folds_long_idle_stretches() -> None:
    """To six cells, with their length on the axis."""
    b = BEGAN
    pauses = (
        TimelinePause("manual", b + 3 * HOUR, b + 3 * HOUR + 45 * MINUTE, "lunch"),
        TimelinePause("idle", b + 8 * HOUR, b + 24 * HOUR),
        TimelinePause("manual", b + 30 * HOUR, b + 49 * HOUR),
    )
    lanes = (
        TimelineLane("code-1", "completed", ((b, b + HOUR), (b + 2 * HOUR, b + 3 * HOUR)), (b + HOUR,)),
        TimelineLane("tests", "running", ((b + 28 * HOUR, b + 29 * HOUR),)),
    )
    line = TimelineChart(b, b + 50 * HOUR, True, pauses, lanes)
    assert str(chart(Paint(80, tty=True), line)) == NIGHT
    ascii_only = chart(Paint(80, tty=True, ascii_only=True), line)
    assert "###--#####" in ascii_only
    assert ascii_only.isascii()


spans = st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)).map(lambda pair: (min(pair), max(pair)))


@given(
    st.integers(1, 10**9),
    st.lists(spans, max_size=6),
    st.lists(st.tuples(st.text(max_size=30), st.lists(spans, max_size=3)), max_size=5),
    st.integers(40, 200),
)
def test_chart_of_any_timeline_fits_the_terminal(
    length: int, pauses: list[tuple[int, int]], lanes: list[Any], width: int
) -> None:
    edges = sorted({min(edge, length) for pair in pauses for edge in pair})
    apart = [TimelinePause("idle", BEGAN + a, BEGAN + b) for a, b in zip(edges[::2], edges[1::2], strict=False)]
    rows = tuple(
        TimelineLane(label, "running", tuple((BEGAN + a, BEGAN + b) for a, b in runs)) for label, runs in lanes
    )
    line = TimelineChart(BEGAN, BEGAN + length, True, tuple(apart), rows)
    screen = chart(Paint(width, tty=True), line)
    assert max(width_of(row) for row in screen.split("\n")) <= width


@given(st.integers(1, 10**10), st.integers(1, 150), st.lists(st.integers(0, 10**10), min_size=2, max_size=20))
def test_chart_axis_is_monotonic(length: int, cells: int, moments: list[int]) -> None:
    """With and without folds."""
    fold = [(length // 3, length // 2)] if length > 10 and cells > 20 else []
    scale = Scale(0, length, fold, cells)
    places = [scale.cell(moment) for moment in sorted(min(moment, length) for moment in moments)]
    assert places == sorted(places)
    assert all(0 <= place <= cells for place in places)
