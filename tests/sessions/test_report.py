"""A report is complete, adds up, and stays a mere document whatever text was stored."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from html.parser import HTMLParser

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core import view
from holdfast.core.canonical import canonical_json
from holdfast.core.envelope import Event, make_event
from holdfast.core.events import (
    TYPE_OF,
    AgentCompleted,
    AgentFailed,
    AgentStarted,
    ContextMeasured,
    DecisionMade,
    EventData,
    FileChanged,
    NoteAdded,
    PhaseAdded,
    ProjectFacts,
    SessionCompleted,
    SessionEdited,
    SessionPaused,
    SessionResumed,
    SessionStarted,
    TaskAdded,
    TaskCompleted,
)
from holdfast.core.fold import fold
from holdfast.core.model import Session
from holdfast.core.times import DAY, HOUR, MINUTE, parse_time
from holdfast.sessions import report

BEGAN = parse_time("2026-10-05T09:00:00.000Z")
SESSION = "01234567-89ab-4def-8123-456789abcdef"
HOSTILE = (
    "<script>alert(1)</script></style></title><img src=x onerror=alert(1)> | `x` [a](javascript:alert(1)) "
    "\"'&lt; ![i](http://e.example/x.png) <!-- \u202egnp.exe\x1b[2J\n\n# Heading\n| a | b |\n---\n* item https://e.example"
)  # fmt: skip
VOID = {"meta", "br", "link", "img", "rect", "line"}


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine two hours east of UTC in October."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def events(*steps: tuple[int, EventData]) -> list[Event]:
    chain: list[Event] = []
    for number, (minutes, data) in enumerate(steps, start=1):
        kind = TYPE_OF[type(data)]
        chain.append(make_event(
            session=SESSION, writer="w1", seq=number, prev=chain[-1].hash if chain else None, clock=number,
            at=BEGAN + minutes * MINUTE, actor="ada", type=kind.name, version=kind.version,
            data=canonical_json(msgspec.to_builtins(data)), salt=bytes(16),
        ))  # fmt: skip
    return chain


def full_session(text: str = "Add OAuth") -> Session:
    """A session with every kind of fact, in which each text is `text`."""
    state = fold(events(
        (0, SessionStarted(goal=text, project=ProjectFacts(id="p", name=text, path="/x"), device=text, scope=text,
                           tags=(text,))),
        (1, PhaseAdded(id="p1", name=text)),
        (1, TaskAdded(id="t1", text=text, phase="p1", agent="a1")),
        (1, TaskAdded(id="t2", text=text)),
        (2, AgentStarted(id="a1", type=text, task=text)),
        (5, AgentCompleted(id="a1", summary=text, tokens=1_200)),
        (5, TaskCompleted(id="t1", outcome=text)),
        (6, DecisionMade(chosen=text, context=text, options=(text, "other"), why=text)),
        (7, AgentStarted(id="a2", type=text, background=True)),
        (9, AgentFailed(id="a2", category="transient", message=text)),
        (10, FileChanged(path="src/a.py", action="created", agent="a1", hash_after="ab" * 32, lines_added=3,
                         lines_removed=0)),
        (11, SessionPaused(reason=text)),
        (41, SessionResumed()),
        (42, NoteAdded(text=text)),
        (43, ContextMeasured(tokens=93_000)),
        (44, SessionEdited(summary=text)),
    ))  # fmt: skip
    return view.session(state, BEGAN + HOUR)


class Page(HTMLParser):
    """Parses a page strictly: every opened element is closed, in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID or tag == "rect":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.mark.usefixtures("berlin")
def test_markdown_report_is_complete() -> None:
    """Facts, times that add up, pauses, agents, plan, decisions, files, context, notes and errors."""
    text = report.markdown(full_session())
    headings = [line for line in text.splitlines() if line.startswith("#")]
    assert headings == [
        "# Add OAuth", "## Time", "## Pauses", "## Agents", "## Plan", "### Add OAuth", "## Decisions", "## Files",
        "## Context", "## Notes", "## Errors",
    ]  # fmt: skip
    for line in (
        "| Worked | 0:14:00 |", "| Paused | 0:46:00 |", "| Elapsed | 1:00:00 |",
        "- [x] Add OAuth: Add OAuth, by a1", "- [ ] Add OAuth",
        "| src/a.py | created | a1 | +3 -0 | abababababab | 2026-10-05 11:10 |",
        "| 2026-10-05 11:11 | 2026-10-05 11:41 | 0:30:00 | paused (Add OAuth) |",
        "  - Options: Add OAuth, other", "  - Why: Add OAuth", "  > Add OAuth",
    ):  # fmt: skip
        assert line in text.splitlines()
    assert "transient: Add OAuth" in text
    assert text.splitlines()[:3] == ["# Add OAuth", "", "Times are local, UTC+02:00."]
    assert not re.search(r"UTC(?!\+02:00)| 09:", text)


@pytest.mark.usefixtures("berlin")
def test_report_over_a_clock_change_names_both_offsets() -> None:
    state = fold(events((0, SessionStarted(goal="x", project=ProjectFacts(id="p", name="x"), device="d"))))
    page = report.html(view.session(state, BEGAN + 30 * DAY))
    assert "Times are local, UTC+02:00, at the end UTC+01:00." in page
    assert "as of 2026-11-04 10:00." in page


def test_markdown_report_contains_hostile_text_as_text() -> None:
    """It makes no heading, row, link, image, element or rule."""
    text = report.markdown(full_session(HOSTILE))
    plain = report.markdown(full_session())
    assert _shape(text) == _shape(plain)
    bare = re.sub(r"\\.", "", text)
    assert not re.search(r"[<`\[]", bare.replace("- [x]", "").replace("- [ ]", ""))
    assert "https://" not in text
    assert not set(text) & set("\x1b\u202e\r")


def _shape(text: str) -> list[str]:
    """The kind of each line, without blank and quoted ones."""
    return [_kind(line) for line in text.splitlines() if line.strip() and not line.startswith("  >")]


def _kind(line: str) -> str:
    if line.startswith("|"):
        return "|" * len(re.findall(r"(?<!\\)[|]", line))
    return line[: len(line) - len(line.lstrip("#"))] or line[:2]


def test_html_report_is_one_self_contained_file() -> None:
    """No script, nothing loaded, a policy against both; light and dark, phone and print."""
    text = report.html(full_session())
    page = Page(text)
    tags = {tag for tag, _ in page.elements}
    assert not tags & {"script", "link", "img", "iframe", "object", "form", "a"}
    assert not any(name in ("src", "href") or name.startswith("on") for _, had in page.elements for name in had)
    assert "url(" not in text
    assert "@import" not in text
    policy = next(had for tag, had in page.elements if had.get("http-equiv") == "Content-Security-Policy")
    assert str(policy["content"]).startswith("default-src 'none'")
    for words in ("prefers-color-scheme: dark", "@media print", "max-width: 40rem", 'name="viewport"', "<svg "):
        assert words in text


def test_html_report_contains_hostile_text_as_text() -> None:
    """The page has the same elements, and no direction mark or escape."""
    plain, hostile = Page(report.html(full_session())), Page(report.html(full_session(HOSTILE)))
    assert [tag for tag, _ in hostile.elements] == [tag for tag, _ in plain.elements]
    assert [set(had) for _, had in hostile.elements] == [set(had) for _, had in plain.elements]
    assert any("<script>alert(1)</script>" in words for words in hostile.words)
    assert not set(report.html(full_session(HOSTILE))) & set("\x1b\u202e")


def test_chart_has_a_bar_for_the_person_each_pause_and_each_agent() -> None:
    """None outside the chart."""
    page = Page(report.html(full_session()))
    bars = [had for tag, had in page.elements if tag == "rect"]
    kinds = [had["class"] for had in bars]
    assert kinds == ["work", "pause manual", "pause idle", "run", "failed"]
    for had in bars:
        assert 150 <= float(had["x"] or 0) <= float(had["x"] or 0) + float(had["width"] or 0) <= 960


@pytest.mark.parametrize("minutes", [0, 1, 59, 60, 61, 10_000])
def test_report_times_add_up_as_printed(minutes: int) -> None:
    """Worked, paused and away make elapsed."""
    state = fold(events((0, SessionStarted(goal="x", project=ProjectFacts(id="p", name="x"), device="d"))))
    rows = dict(report.time_table(view.session(state, BEGAN + minutes * MINUTE + 999)))
    seconds = {}
    for name, clock in rows.items():
        hours, minute, second = (int(part.replace(",", "")) for part in clock.split(":"))
        seconds[name] = hours * 3600 + minute * 60 + second
    assert seconds["Elapsed"] == minutes * 60 == sum(seconds.values()) - seconds["Elapsed"]
    assert list(seconds) == ["Worked", "Paused", *(["Away"] if minutes == 10_000 else []), "Elapsed"]


def test_report_counts_a_night_as_away_and_not_as_paused() -> None:
    """With the words of `show`."""
    state = fold(events(
        (0, SessionStarted(goal="x", project=ProjectFacts(id="p", name="x"), device="d")),
        (20, NoteAdded(text="back")),
        (20 + 11 * 60, NoteAdded(text="next day")), (24 + 11 * 60, SessionCompleted()),
    ))  # fmt: skip
    session = view.session(state, BEGAN + DAY)
    text = report.markdown(session)
    for line in ("| Worked | 0:04:00 |", "| Paused | 0:20:00 |", "| Away | 11:00:00 |", "| Elapsed | 11:24:00 |"):
        assert line in text.splitlines()
    assert "| 11:00:00 | away |" in text
    assert "away, 11 h 00 min" in report.html(session)


PLAIN_SHAPE = _shape(report.markdown(full_session()))
PLAIN_TAGS = [tag for tag, _ in Page(report.html(full_session())).elements]


@given(st.text(st.one_of(st.characters(codec="utf-8"), st.sampled_from("\n|<>`#*_[]()!\\&-=+~\"'.:1")), min_size=1))
def test_reports_keep_their_structure_for_any_text(stored: str) -> None:
    stored = f"x{stored}x"
    assert _shape(report.markdown(full_session(stored))) == PLAIN_SHAPE
    assert [tag for tag, _ in Page(report.html(full_session(stored))).elements] == PLAIN_TAGS
