"""The Now page: sessions in progress, what waits for the person, and a bounded size."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from markupsafe import escape
from playwright.sync_api import Browser, Page, expect

from holdfast.core.times import HOUR
from holdfast.formats import project_files
from holdfast.web.pages import PageRequest
from holdfast.web.pages.now import MAX_CARDS, NOW
from holdfast.web.serve import Dashboard
from tests.web.browser_pages import window
from tests.web.dashboard import Site, serving
from tests.web.sample_sessions import LONG, many, rich, typical


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, Dashboard]]:
    site = Site(tmp_path_factory.mktemp("now"))
    typical(site)
    rich(site, "other", LONG)
    with serving(site) as dashboard:
        yield site, dashboard


@pytest.fixture
def page(browser: Browser, served: tuple[Site, Dashboard]) -> Iterator[Page]:
    wrong: list[str] = []
    with window(browser) as context:
        page = context.new_page()
        page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(served[1].address)
        yield page
    assert not wrong


def test_card_shows_the_essentials(page: Page) -> None:
    """Goal, project, progress, context, time with its pauses, running agents, and what waits."""
    card = page.locator(".card", has_text="Add sign-in with passkeys")
    for words in ("harbour", "in progress", "55%", "81%", "paused", "1 running:", "build-1"):
        expect(card).to_contain_text(words)
    expect(card.get_by_label("Waiting for you")).to_contain_text("Agent test-1 failed: the browser did not start")
    expect(card.locator(".small-strip")).to_have_attribute("aria-label", "Worked 11 min, with 4 pauses")
    # What waits for the person comes first.
    expect(page.locator(".card").first).to_contain_text("Agent test-1 failed")
    expect(page.locator(".card").last).to_contain_text("Rewrite the page on backups")


def test_long_goal_stays_in_its_card(page: Page) -> None:
    """300 characters are cut after three lines, within the window."""
    for width in (1280, 360):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        box = page.locator(".card h2", has_text="billing pipeline").bounding_box()
        assert box is not None
        assert box["height"] < 100


def test_now_page_works_by_keys(page: Page, served: tuple[Site, Dashboard]) -> None:
    """j goes to the next card, n notes, p pauses and resumes, Enter opens, 2 leads to History."""
    site, _ = served
    page.locator("#pulse[data-state=live]").wait_for()
    page.keyboard.press("p")  # no card has the focus yet: nothing is paused
    for _ in range(3):
        page.keyboard.press("j")
    focused = page.locator(".card:focus")
    expect(focused).to_contain_text("Rewrite the page on backups")
    page.keyboard.press("n")
    expect(page.locator("dialog[open] textarea")).to_be_focused()
    page.keyboard.type("By keys alone")
    page.keyboard.press("Tab")
    page.get_by_role("button", name="Keep").press("Enter")
    expect(page.locator("#toasts")).to_contain_text("Noted")
    with site.keeper("harbour-docs") as keeper:
        assert keeper.session().document().notes[-1].text == "By keys alone"
    page.locator(".card", has_text="Rewrite the page on backups").focus()
    page.keyboard.press("p")
    expect(page.locator("#toasts")).to_contain_text("Resumed")
    card = page.locator(".card", has_text="Rewrite the page on backups")
    expect(card.locator(".status")).to_have_text("in progress")
    card.focus()
    page.keyboard.press("p")
    expect(card.locator(".status")).to_have_text("paused")
    page.keyboard.press("?")
    expect(page.get_by_role("heading", name="Keys", exact=True)).to_be_visible()
    page.keyboard.press("Escape")
    card.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/session/*")
    page.keyboard.press("2")
    page.wait_for_url("**/history")


def test_focus_moves_on_when_a_card_disappears(page: Page) -> None:
    """To the card in its place; after the last one, to the heading."""
    page.locator("#pulse[data-state=live]").wait_for()
    left = page.locator(".card").count()
    while left:
        card = page.locator(".card").first
        card.locator("details.more summary").focus()
        page.keyboard.press("Enter")
        card.get_by_role("button", name="Stop…").press("Enter")
        page.locator("dialog[open]").get_by_role("button", name="Complete").press("Enter")
        left -= 1
        expect(page.locator(".card")).to_have_count(left)
        expect(page.locator(".card:focus" if left else "h1:focus")).to_have_count(1)


def test_old_unfinished_sessions_do_not_displace_the_rest(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Of hundreds some are cards, some lines, and the rest a number; the page stays small."""
    site = Site(tmp_path_factory.mktemp("piled-up"))
    many(site, 400, unfinished=400)
    with site.keeper() as keeper:
        latest = keeper.start("The one that is worked on", at=keeper.now() - HOUR)
        shot = NOW.content(keeper, PageRequest())
    assert len(shot.lists["cards"]) == MAX_CARDS
    assert f"card-{latest.id}" in shot.lists["cards"]
    assert "401 sessions in progress" in shot.regions["now-heading"]
    assert "and 277 more" in shot.regions["others"]
    assert sum(map(len, shot.regions.values())) < 150_000


def test_session_files_of_the_project_are_named_while_their_mirror_is_off(tmp_path: Path) -> None:
    """In the words of the commands, as text."""
    site = Site(tmp_path)
    path = site.project() / ".claude" / "orchestrator-session.json"
    path.parent.mkdir()
    path.write_text('{"schema_version": "1.0", "session_id": "2025-12-27-abc123", "goal": "Show <b>all</b>"}')
    with site.keeper() as keeper:
        (note,) = project_files.notes(keeper, at_work=False)
        shown = NOW.content(keeper, PageRequest()).regions["now-heading"]
    assert "Show <b>all</b>" in note
    assert str(escape(note)) in shown
