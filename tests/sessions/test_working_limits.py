"""Limits of working time: where they remind and where they pause, what ends the pause, and what surfaces show."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.conversations import status_cache, status_cache_writer
from holdfast.core.errors import Invalid
from holdfast.core.times import MINUTE
from holdfast.sessions import overview
from holdfast.workspace.settings import change, find_setting, parse
from tests.support.agent_hooks import BEGAN, AgentHooks

LIMITS = ("timer.break_minutes", "timer.warning_minutes", "timer.timeout_minutes")
TIMER_FILE = ".claude/session-state.json"


@pytest.fixture
def agents(tmp_path: Path) -> AgentHooks:
    return AgentHooks(tmp_path)


def set_setting(agents: AgentHooks, name: str, value: float | str | bool) -> None:
    with agents.keeper() as keeper:
        change(keeper.home.config, find_setting(name), value)


def work(agents: AgentHooks, until: float, step: float = 4) -> None:
    """Prompts every few minutes, up to a moment."""
    while agents.minute < until:
        agents.minute = min(agents.minute + step, until)
        agents.prompt(f"Go on {agents.minute}")
        agents.session()


def crossings(agents: AgentHooks) -> list[str]:
    with agents.keeper() as keeper:
        events = keeper.store().events(keeper.session().id)
        return [event.type for event in events if event.type in ("reminder.reached", "session.timed_out")]


# ── what crossing a limit does ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("chosen", [None, "pause", "remind"])
def test_limit_pauses_by_default_only_where_the_timer_mirror_is_on(
    agents: AgentHooks, mirrored: bool, chosen: str | None
) -> None:
    """A chosen setting overrides this; the mirror may be switched on after the start."""
    agents.prompt()
    agents.session()
    if chosen is not None:
        set_setting(agents, "timer.timeout_action", chosen)
    with agents.keeper() as keeper:
        if mirrored:
            keeper.mirrors.switch_on("timer")
        pauses = keeper.limit_rule().pauses
    assert pauses == (chosen == "pause" or (mirrored and chosen is None))
    work(agents, 92)
    session = agents.session()
    assert [pause.kind for pause in session.time.pauses] == (["timeout"] if pauses else [])
    assert session.time.working_ms == 92 * MINUTE
    assert session.status == ("paused" if pauses else "in_progress")
    if mirrored:
        written = json.loads((agents.project / TIMER_FILE).read_text())
        assert written["reminders"] == {"break40min": True, "warning60min": True, "timeout90min": True}
        assert [pause["type"] for pause in written["pauses"]] == (["AUTO_TASK"] if pauses else [])


def test_limit_that_pauses_counts_the_whole_working_time_and_ends_with_the_next_prompt(agents: AgentHooks) -> None:
    """Two stretches of 48 minutes, a night apart, cross it together."""
    set_setting(agents, "timer.timeout_action", "pause")
    agents.prompt()
    work(agents, 48)
    agents.minute = 1000
    agents.prompt("Next day")
    work(agents, 1040)
    assert agents.session().status == "in_progress"
    work(agents, 1044)
    paused = agents.session()
    assert (paused.status, paused.time.pauses[-1].kind) == ("paused", "timeout")
    work(agents, 1300)
    session = agents.session()
    assert session.status == "in_progress"
    pauses = [(pause.kind, pause.duration_ms // MINUTE) for pause in session.time.pauses]
    assert pauses == [("idle", 952), ("timeout", 4)]
    assert crossings(agents).count("session.timed_out") == 1


def test_limit_that_reminds_counts_from_the_last_break(agents: AgentHooks) -> None:
    """48 minutes on Monday and 44 on Tuesday cross nothing."""
    agents.prompt()
    work(agents, 48)
    agents.minute = 1440
    agents.prompt("Tuesday")
    work(agents, 1484)
    session = agents.session()
    assert (session.time.working_ms, session.status) == (92 * MINUTE, "in_progress")
    assert (session.time.reminders.break_40, session.time.reminders.warning_60) == (True, False)
    assert crossings(agents) == ["reminder.reached", "reminder.reached"]


@pytest.mark.parametrize("only_resume", ["capture.block_at_timeout", "timer.message_resumes"])
@pytest.mark.parametrize("by", ["prompt", "message"])
def test_pause_of_a_limit_ends_only_by_resume_when_enforced(agents: AgentHooks, only_resume: str, by: str) -> None:
    set_setting(agents, "timer.timeout_action", "pause")
    set_setting(agents, only_resume, only_resume == "capture.block_at_timeout")
    agents.prompt()
    work(agents, 92)
    assert agents.session().status == "paused"
    agents.minute = 100
    if by == "prompt":
        agents.prompt("Go on")
    with agents.keeper() as keeper:
        if by == "message":
            keeper.session().message()
        assert keeper.session().document().status == "paused"
        agents.minute = 101
        keeper.session().resume()
        assert keeper.session().document().status == "in_progress"


def test_message_ends_a_manual_pause_when_limits_are_enforced(agents: AgentHooks) -> None:
    set_setting(agents, "capture.block_at_timeout", True)
    agents.prompt()
    agents.session()
    agents.minute = 2
    with agents.keeper() as keeper:
        keeper.session().pause("Lunch")
        agents.minute = 3
        keeper.session().message()
        assert keeper.session().document().status == "in_progress"


def test_enforced_pause_stays_when_limits_only_remind(agents: AgentHooks) -> None:
    set_setting(agents, "timer.timeout_action", "pause")
    agents.prompt()
    work(agents, 92)
    agents.minute = 120
    set_setting(agents, "timer.timeout_action", "remind")
    assert [pause.kind for pause in agents.session().time.pauses] == ["timeout"]
    work(agents, 200)
    session = agents.session()
    assert [(pause.kind, pause.duration_ms // MINUTE) for pause in session.time.pauses] == [("timeout", 32)]
    assert session.time.working_ms == 168 * MINUTE


# ── off ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("when", ["before the start", "in the session"])
@pytest.mark.parametrize("action", ["remind", "pause"])
def test_disabled_limits_are_never_crossed(agents: AgentHooks, when: str, action: str) -> None:
    set_setting(agents, "timer.timeout_action", action)
    if when == "in the session":
        agents.prompt()
        agents.session()
    for name in LIMITS:
        set_setting(agents, name, "off")
    agents.prompt()
    work(agents, 120)
    assert crossings(agents) == []
    assert agents.session().time.reminder is None
    with agents.keeper() as keeper:
        assert overview.session_card(keeper, keeper.session().id).attention == ()


@pytest.mark.parametrize("written", ["off", "OFF", " off "])
def test_every_limit_accepts_off(written: str) -> None:
    assert [parse(find_setting(name), written) for name in LIMITS] == ["off"] * 3


@pytest.mark.parametrize("name", ["timer.idle_minutes", "timer.task_minutes", "history.limit"])
def test_other_numbers_refuse_off(name: str) -> None:
    with pytest.raises(Invalid):
        parse(find_setting(name), "off")


# ── surfaces ─────────────────────────────────────────────────────────────────────────────────────────────


def surfaces(agents: AgentHooks) -> dict[str, bool]:
    """Which surfaces show a crossed limit now."""
    name = "claude:talk-1"
    with agents.keeper() as keeper:
        session = keeper.session()
        document = session.document()
        attention = overview.session_card(keeper, session.id).attention
        seen = status_cache_writer.cache_conversation(keeper, name, str(agents.project), store="")
    assert seen is not None
    return {
        "document": document.time.reminder is not None,
        "overview": any("break" in line.lower() or "limit" in line for line in attention),
        "status line": bool(status_cache.crossed_limits(seen, agents.now)),
    }


@pytest.mark.parametrize("action", ["remind", "pause"])
def test_all_surfaces_agree_on_crossed_limits(agents: AgentHooks, action: str) -> None:
    set_setting(agents, "timer.timeout_action", action)
    agents.prompt()
    for until in (36, 44):
        work(agents, until)
        shown = surfaces(agents)
        assert set(shown.values()) == {until == 44}, shown
    agents.minute = 70
    agents.prompt("After a break")
    shown = surfaces(agents)
    assert set(shown.values()) == {action == "pause"}, shown


def test_status_cache_counts_limits_since_the_last_break(agents: AgentHooks) -> None:
    """Hooks read it instead of the store."""
    agents.prompt()
    work(agents, 36)
    surfaces(agents)
    talk = status_cache.find_session(str(agents.home), "claude:talk-1")
    assert talk is not None
    assert [status_cache.is_silent(talk, BEGAN + int(minute * MINUTE)) for minute in (39.9, 40, 41, 60)] == [
        True, False, False, True,
    ]  # fmt: skip


def test_config_shows_the_action_that_is_in_force(agents: AgentHooks) -> None:
    """Also when the mirror decides it."""

    def shown() -> str:
        done = subprocess.run(
            [sys.executable, "-m", "holdfast", "config", "get", "timer.timeout_action"], cwd=agents.project,
            env=os.environ | {"HOLDFAST_HOME": str(agents.home)}, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout.strip()

    agents.prompt()
    agents.session()
    assert shown() == "remind"
    with agents.keeper() as keeper:
        keeper.mirrors.switch_on("timer")
    assert shown() == "pause"
