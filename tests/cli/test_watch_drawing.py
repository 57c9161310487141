"""What `watch` draws: it fits every screen, contains only painted text, and the keys lead where they should."""

from __future__ import annotations

import os
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli.paint import Paint, Painted
from holdfast.cli.watch.keys import EditedLine, KeyPress
from holdfast.cli.watch.loop import Screen
from holdfast.cli.watch.scene import (
    ActionResult,
    EventLine,
    KeyAction,
    Scene,
    TextPrompt,
    handle_key,
    is_clock_running,
)
from holdfast.cli.watch.view import WatchFrame, frame
from holdfast.core import model
from holdfast.core.agents import FailedAgents
from holdfast.core.text import MAX_TEXT_LENGTH
from holdfast.core.times import HOUR, MINUTE, format_time
from holdfast.sessions.overview import SessionCard

NOW = 1_794_000_000_000
HOSTILE = st.text(
    st.one_of(st.characters(), st.sampled_from("\x1b\x9b\x07[2J\n\r\t\u202e\u200d\u0301漢👩 ab\udcff")), max_size=60
)
SIZES = st.builds(lambda c, r: os.terminal_size((c, r)), st.integers(1, 220), st.integers(1, 60))
PRESSED = st.builds(
    KeyPress,
    st.sampled_from([
        "text", "paste", "enter", "escape", "up", "down", "right", "left", "page down", "home", "end", "ctrl-u",
    ]),
    st.text("pnrjkgGhl? qb漢\x1b", max_size=4),
)  # fmt: skip
PAINTS = st.builds(Paint, st.just(80), st.booleans(), ascii_only=st.booleans(), tty=st.just(True))


def agent(name: str, status: str, text: str = "", progress: float | None = None) -> model.Agent:
    return model.Agent(
        id=name, type="coder", task=text or None, status=status, progress=progress,
        started_at=format_time(NOW - MINUTE),
        completed_at=None, duration_ms=MINUTE, result=None, summary=text or None, blocking_on=None, tokens=None,
        retries=0, pid=None, background=False,
        error=model.AgentError(category="logical", message=text, retry_count=0, last_retry_at=None),
        files=model.AgentFiles(created=[], modified=[], deleted=[]),
    )  # fmt: skip


def make_card(number: int = 0, goal: str = "Add a search box", **facts: Any) -> SessionCard:
    attention = facts.pop("attention", ())
    base: dict[str, Any] = {
        "id": f"{number:08x}-89ab-4def-8123-456789abcdef", "aliases": model.Aliases(), "goal": goal,
        "project": model.Project(name=facts.pop("project", "webshop"), path=None, git_branch=None, git_commit=None,
                                 remote=None),
        "summary": None, "mode": "default", "model": None, "status": "in_progress", "progress": 0.6, "scope": None,
        "task": None, "feature": None, "branch": None, "tags": [], "continues": None,
        "created_at": format_time(NOW - 2 * HOUR), "updated_at": format_time(NOW),
        "started_at": format_time(NOW - 2 * HOUR),
        "ended_at": None, "device": None, "devices": [], "cost_usd": None, "waiting": [], "native": [],
        "conversations": [], "agents": [],
        "phases": [], "tasks": [], "decisions": [], "files": [], "commits": [],
        "context": model.Context(tokens=25_000, window=128_000, percent=19.5, level="normal", compressions=0,
                                 last_compression=None, by_agent={}),
        "time": model.Time(elapsed_ms=2 * HOUR, working_ms=HOUR + 61_000, paused_ms=HOUR - 61_000, idle_since=None,
                           pauses=[],
                           reminders=model.Reminders(break_40=False, warning_60=False, timeout_90=False)),
        "notes": [], "errors": [], "conflicts": [], "commands": model.Commands(total=0, failed=0, last=None),
        "sync": model.Sync(), "extra": {},
    }  # fmt: skip
    session = model.Session(**{**base, **facts})
    resume = "holdfast resume 00000000"
    return SessionCard(session, frozenset(), (), FailedAgents(), here=True, attention=attention, resume=resume)


def task(name: str, words: str, status: str = "pending") -> model.Task:
    return model.Task(
        id=name, text=words, phase=None, agent=None, status=status, outcome=None, artifacts=[],
        created_at=format_time(NOW), started_at=None, completed_at=None,
    )  # fmt: skip


def full(text: str) -> SessionCard:
    """A session with every kind of fact, in which each text is `text`."""
    result = make_card(
        goal=text, project=text, scope=text, attention=(text, text),
        agents=[agent("a1", "running", text, 0.4), agent("a2", "error", text), agent("a3", "completed", text)],
        tasks=[task("t1", text), task("t2", text, "completed"), task("t3", text, "in_progress")],
        notes=[model.Note(at=format_time(NOW), text=text)],
        decisions=[model.Decision(at=format_time(NOW), chosen=text, context=text, options=[text], why=text)],
    )  # fmt: skip
    return result._replace(resume=text)


def draw(scene: Scene, columns: int = 80, rows: int = 24, *, colour: bool = False, plain: bool = False) -> WatchFrame:
    return frame(Paint(80, colour, ascii_only=plain), scene, os.terminal_size((columns, rows)))


def three() -> Scene:
    cards = [make_card(n, f"Goal number {n}") for n in range(3)]
    return Scene(cards, chosen=cards[0].session.id, now=NOW)


def fits(drawn: WatchFrame, size: os.terminal_size) -> None:
    measure = Paint(80)
    assert len(drawn.lines) <= size.lines
    for line in drawn.lines:
        assert type(line) is Painted
        assert measure.width_of(line) <= size.columns
        bare = "".join(part.partition("m")[2] if n else part for n, part in enumerate(line.split("\x1b[")))
        assert not any(char < " " or "\x7f" <= char <= "\x9f" for char in bare)
    if drawn.cursor is not None:
        row, cell = drawn.cursor
        assert row < size.lines
        assert cell < size.columns


@given(
    message=HOSTILE,
    size=SIZES,
    look=PAINTS,
    page=st.sampled_from(["list", "detail", "help"]),
    scroll=st.integers(0, 1 << 31),
    writing=st.none() | HOSTILE,
    only=st.booleans(),
)
def test_picture_fits_any_screen_without_control_characters(
    message: str, size: os.terminal_size, look: Paint, page: Any, scroll: int, writing: str | None, only: bool
) -> None:
    cards = [full(message)] if only else [full(message), *(make_card(n, message) for n in range(1, 12))]
    asking = None if writing is None else TextPrompt("note", cards[0].session.id, EditedLine(writing, message))
    scene = Scene(
        cards, chosen=cards[-1 if len(message) % 2 else 0].session.id,
        events=[EventLine(NOW - n * HOUR * 7, "note.added", message) for n in range(30)], now=NOW, only=only,
        page=page, scroll=scroll, prompt=asking,
        message=ActionResult(message, message, is_error=True) if message else None,
    )  # fmt: skip
    drawn = frame(look, scene, size)
    fits(drawn, size)
    if not look.colour:
        assert not any("\x1b" in line for line in drawn.lines)
    if look.ascii_only:
        assert all(line.isascii() for line in drawn.lines)
    # The screen accepts no other lines.
    assert Screen(look).draw(drawn.lines, drawn.cursor, size)


def test_80x24_terminal_shows_list_session_and_keys() -> None:
    cards = [full("Add a search box"), make_card(7, "Fix the login")]
    lines = draw(Scene(cards, cards[0].session.id, now=NOW)).lines
    assert len(lines) == 24
    assert lines[0].split() == ["holdfast", "watch", "1", "of", "2", "unfinished,", "1", "waits", "for", "you"]
    assert lines[1].startswith(">!  Add a search box  in progress  60%  1:01")
    assert lines[2].startswith("   ")
    assert "Fix the login" in lines[2]
    result = "\n".join(lines)
    for part in (
        "! Add a search box", "1:01:01 worked, 0:58:59 paused, since", "25,000 of 128,000", "Agents  1 running",
        "Plan  1 of 3 done",
    ):  # fmt: skip
        assert part in result
    assert lines[-1] == "p pause  r resume  n note  ↑↓ switch  ↵ detail  ? help  q quit"


def test_wide_terminal_has_two_columns() -> None:
    """The list, a line from top to bottom, and the session."""
    lines = draw(three(), 200, 50).lines
    assert all(" │ " in line for line in lines[1:-1])
    assert "Goal number 2" in lines[3].partition("│")[0]
    assert lines[1].partition("│")[2].strip() == "Goal number 0"
    assert all(" | " in line for line in draw(three(), 200, 50, plain=True).lines[1:-1])


@pytest.mark.parametrize(("columns", "rows", "small"), [(40, 10, False), (39, 10, True), (40, 9, True), (1, 1, True)])
def test_too_small_terminal_is_reported(columns: int, rows: int, small: bool) -> None:
    """Below 40x10, with the size it takes, as far as that fits."""
    result = " ".join(draw(three(), columns, rows).lines)
    assert ("Goal number 0" in result) != small
    assert columns == 1 or ("40x10" in result) == small


def test_picture_without_sessions_names_the_next_step() -> None:
    """Keys that need a session say that there is none."""
    result = "\n".join(draw(Scene(now=NOW)).lines)
    assert "holdfast start GOAL" in result
    for name in "prn":
        scene, action = handle_key(Scene(now=NOW), KeyPress("text", name))
        assert action is None
        assert scene.message is not None
        assert "holdfast start" in scene.message.hint


def test_list_scrolls_with_the_chosen_session() -> None:
    cards = [make_card(n, f"Goal {n:03d}") for n in range(500)]
    for place in (0, 3, 250, 499):
        lines = draw(Scene(cards, cards[place].session.id, now=NOW)).lines
        assert next(line for line in lines if line.startswith(">")).split()[2] == f"{place:03d}"


def test_keys_choose_open_and_close_sessions() -> None:
    """Arrows and letters, Enter and Escape; the choice stops at both ends."""
    scene = three()
    ids = [card.session.id for card in scene.cards]
    for key, chosen in (
        (KeyPress("down"), 1), (KeyPress("text", "j"), 2), (KeyPress("down"), 2), (KeyPress("text", "k"), 1),
        (KeyPress("home"), 0),
        (KeyPress("up"), 0), (KeyPress("text", "jj"), 2),
    ):  # fmt: skip
        scene, action = handle_key(scene, key)
        assert (scene.chosen, action) == (ids[chosen], None)
    scene, _ = handle_key(scene, KeyPress("enter"))
    assert scene.page == "detail"
    scene, _ = handle_key(scene, KeyPress("page down"), 7)
    assert scene.scroll == 7
    assert handle_key(scene, KeyPress("escape"))[0].page == "list"
    assert handle_key(scene, KeyPress("text", "?"))[0].page == "help"
    assert handle_key(scene, KeyPress("text", "q"))[1] == KeyAction("quit")


def test_detail_view_stops_scrolling_at_its_end() -> None:
    """The heading shows the position."""
    scene = three()._replace(page="detail", scroll=1 << 30)
    drawn = draw(scene, 80, 12)
    assert 0 < drawn.scroll < 60
    assert " of " in drawn.lines[0]
    assert draw(scene, 80, 50).scroll == 0
    assert any("Go on" in line for line in drawn.lines)


def test_note_is_sent_to_the_session_chosen_when_it_was_begun() -> None:
    scene, _ = handle_key(three(), KeyPress("text", "n"))
    wanted = scene.chosen
    scene, action = handle_key(scene, KeyPress("text", "quit? p"))
    scene, action = handle_key(scene, KeyPress("paste", "\nmore"))
    assert action is None
    assert draw(scene).lines[-1] == r"Note: quit? p\nmore"
    assert draw(scene).cursor == (23, 19)
    scene, action = handle_key(scene._replace(chosen=None), KeyPress("enter"))
    assert action == KeyAction("note", wanted or "", "quit? p\nmore")
    assert scene.prompt is not None, "what could not be recorded must not be lost"
    assert handle_key(scene, KeyPress("escape"))[0].prompt is None


def test_pasted_text_triggers_no_key() -> None:
    """Even if the terminal does not mark it as pasted."""
    for key in (KeyPress("paste", "q"), KeyPress("text", "prnq and so on")):
        assert handle_key(three(), key) == (three(), None)


def test_pause_is_refused_before_its_question() -> None:
    paused = make_card(status="paused")
    scene, action = handle_key(Scene([paused], paused.session.id, now=NOW), KeyPress("text", "p"))
    assert (scene.prompt, action) == (None, None)
    assert scene.message is not None
    assert scene.message.is_error
    assert "holdfast resume" in " ".join(draw(scene).lines)


@given(st.lists(PRESSED, max_size=12))
def test_any_sequence_of_keys_can_be_drawn(pressed: list[KeyPress]) -> None:
    scene = three()
    for key in pressed:
        scene, _ = handle_key(scene, key)
        fits(draw(scene), os.terminal_size((80, 24)))


def test_clock_ticks_only_while_somebody_works() -> None:
    """A pause stops it, unless an agent runs; ended sessions do not tick."""
    pause = model.Pause(kind="manual", reason=None, started_at=format_time(NOW), ended_at=None, duration_ms=0)
    working = make_card()
    time = msgspec.structs.replace(working.session.time, pauses=[pause])
    with_agent = make_card(time=time, agents=[agent("a", "running")])
    assert is_clock_running(working)
    assert not is_clock_running(make_card(time=time))
    assert is_clock_running(with_agent)
    assert not is_clock_running(with_agent._replace(lost=frozenset({"a"})))
    assert not is_clock_running(make_card(status="completed", ended_at=format_time(NOW)))


def test_only_changed_lines_are_written() -> None:
    """Another size, or another program's output, redraws everything."""
    screen, size = Screen(Paint(20)), os.terminal_size((10, 3))
    first = screen.draw([Painted("one"), Painted("two"), Painted("exactly 10")], None, size)
    assert "\x1b[2J" in first
    assert "\x1b[1;1Hone\x1b[0m\x1b[K" in first
    assert "exactly 10\x1b[0m\x1b[?25l" in first, "erasing behind a full line would take its last character"
    assert screen.draw([Painted("one"), Painted("two"), Painted("exactly 10")], None, size) == ""
    second = screen.draw([Painted("one"), Painted("2"), Painted("exactly 10")], (2, 4), size)
    assert "one" not in second
    assert "\x1b[2;1H2\x1b[0m\x1b[K" in second
    assert second.endswith("\x1b[3;5H\x1b[?25h")
    assert "\x1b[2J" not in second
    screen.forget()
    assert "\x1b[1;1Hone" in screen.draw([Painted("one")], None, size)
    assert "\x1b[2J" in screen.draw([Painted("one")], None, os.terminal_size((10, 4)))


def test_unpainted_line_is_escaped() -> None:
    drawn = Screen(Paint(20)).draw(["\x1b[31mred"], None, os.terminal_size((40, 1)))  # type: ignore[list-item]
    assert r"\x1b[31mred" in drawn


def test_paste_beyond_the_limit_is_refused() -> None:
    """What was written stays."""
    scene, _ = handle_key(three(), KeyPress("text", "n"))
    scene, _ = handle_key(scene, KeyPress("text", "kept"))
    for much in (KeyPress("paste", "x" * (MAX_TEXT_LENGTH - 3)), KeyPress("flood")):
        refused, action = handle_key(scene, much)
        assert action is None
        assert refused.prompt == scene.prompt
        drawn = draw(refused)
        assert any("too long" in line and f"{MAX_TEXT_LENGTH:,}" in line for line in drawn.lines)
        assert drawn.lines[-1].startswith("Note: kept")
        again, _ = handle_key(refused, KeyPress("text", "!"))
        assert again.message is None
    full_line, _ = handle_key(scene, KeyPress("paste", "x" * (MAX_TEXT_LENGTH - 4)))
    assert full_line.prompt is not None
    assert full_line.prompt.line.length == MAX_TEXT_LENGTH
