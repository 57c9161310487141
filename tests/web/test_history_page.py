"""The History page: live search, endless scrolling, live updates, and speed with thousands of sessions."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from holdfast.core.errors import Invalid
from holdfast.core.times import HOUR, MINUTE, format_duration
from holdfast.keeper.keeper import Keeper
from holdfast.machine.wall import Wall
from holdfast.web.pages import PageRequest
from holdfast.web.pages.history import HISTORY, ROWS_PER_PAGE, more, with_times
from holdfast.web.render import render
from holdfast.web.serve import Dashboard
from tests.web.browser_pages import page_in
from tests.web.dashboard import Site, serving
from tests.web.sample_sessions import HOSTILE, LONG, hostile, many

MANY = 1_000


class Listing:
    def __init__(self, site: Site, dashboard: Dashboard) -> None:
        self.site = site
        self.dashboard = dashboard

    def keeper(self, project: str = "harbour") -> Keeper:
        return self.site.keeper(project)


@pytest.fixture(scope="module")
def listing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listing]:
    """Many sessions of one project, an archived and a long one of another."""
    site = Site(tmp_path_factory.mktemp("history"))
    many(site, MANY)
    with site.keeper("lighthouse") as keeper:
        keeper.start("Polish the lens", tags=["brass"], at=keeper.now() - 5_000).complete(at=keeper.now() - 4_000)
        keeper.archive(keeper.history(limit=1)[0].id)
        keeper.start(LONG, at=keeper.now() - 3_000)
    with serving(site) as dashboard:
        yield Listing(site, dashboard)


@contextmanager
def opened(browser: Browser, dashboard: Dashboard, where: str = "/history", *, width: int = 1280) -> Iterator[Page]:
    """The page in its own window; any browser error is a failure."""
    with page_in(browser, dashboard, width=width, height=800) as page:
        bad: list[str] = []
        page.on("console", lambda message: bad.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: bad.append(str(error)))
        page.goto(dashboard.origin + where)
        expect(page.locator("#pulse")).to_have_attribute("data-state", "live")
        yield page
        assert page.evaluate("window.hurt") is None
        assert bad == []


def until(page: Page, true: str) -> None:
    """Poll for something that the page's policy would not let a waiting script evaluate."""
    deadline = time.monotonic() + 20
    while not page.evaluate(true):
        assert time.monotonic() < deadline, true
        page.wait_for_timeout(20)


def goals(page: Page) -> list[str]:
    return page.locator("#history tbody .goal").all_inner_texts()


# ── search ───────────────────────────────────────────────────────────────────────────────────────────────


def test_search_updates_while_typing(browser: Browser, listing: Listing) -> None:
    """Rows and address follow, and a reload shows the same."""
    with opened(browser, listing.dashboard) as page:
        page.keyboard.press("/")
        page.keyboard.type("polish len", delay=20)
        expect(page.locator("#history tbody tr")).to_have_count(1)
        expect(page.locator("#history-count")).to_have_text("1 session")
        assert goals(page) == ["Polish the lens"]
        page.wait_for_url("**/history?q=polish+len")
        page.reload()
        assert goals(page) == ["Polish the lens"]
        expect(page.locator("#history-q")).to_have_value("polish len")


def test_filters_are_in_the_address_and_back_undoes_them(browser: Browser, listing: Listing) -> None:
    with opened(browser, listing.dashboard) as page:
        page.select_option("#history-project", "lighthouse")
        expect(page.locator("#history tbody tr")).to_have_count(2)
        page.select_option("#history-archived", "no")
        expect(page.locator("#history tbody tr")).to_have_count(1)
        assert page.url.endswith("/history?project=lighthouse&archived=no")
        page.go_back()
        expect(page.locator("#history tbody tr")).to_have_count(2)
        expect(page.locator("#history-archived")).to_have_value("")
        page.select_option("#history-status", "unfinished")
        expect(page.locator("#history tbody tr")).to_have_count(1)


def test_late_answer_to_an_earlier_search_is_ignored(browser: Browser, listing: Listing) -> None:
    with opened(browser, listing.dashboard) as page:
        delayed_routes: list[Route] = []

        def hold(route: Route) -> None:
            if "q=number&" in route.request.url + "&":
                delayed_routes.append(route)
            else:
                route.continue_()

        page.route("**/history/rows?*", hold)
        page.fill("#history-q", "number")
        page.wait_for_timeout(250)
        page.fill("#history-q", "polish")
        expect(page.locator("#history tbody tr")).to_have_count(1)
        for route in delayed_routes:
            route.abort()
        assert len(delayed_routes) == 1
        page.wait_for_timeout(100)
        assert goals(page) == ["Polish the lens"]
        expect(page.locator(".toast")).to_have_count(0)


def test_search_without_results_offers_to_show_all(browser: Browser, listing: Listing) -> None:
    """It differs from an empty home."""
    with opened(browser, listing.dashboard, "/history?q=zeppelin") as page:
        expect(page.get_by_role("heading", name="Nothing found")).to_be_visible()
        expect(page.locator("#history")).to_be_hidden()
        page.get_by_role("link", name="Show all sessions").click()
        expect(page.locator("#history tbody tr")).to_have_count(ROWS_PER_PAGE)
        assert page.url.endswith("/history")
        expect(page.locator("#history-q")).to_have_value("")


def test_empty_history_says_how_to_start(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The first session appears without a reload."""
    site = Site(tmp_path_factory.mktemp("nothing"))
    with serving(site) as dashboard, opened(browser, dashboard) as page:
        expect(page.get_by_role("heading", name="No sessions yet")).to_be_visible()
        expect(page.get_by_text("holdfast start")).to_be_visible()
        with site.keeper() as keeper:
            keeper.start("The very first")
        expect(page.locator("#history tbody .goal")).to_have_text(["The very first"])
        expect(page.get_by_role("heading", name="No sessions yet")).to_have_count(0)


# ── scrolling ────────────────────────────────────────────────────────────────────────────────────────────


def test_scrolling_shows_every_session_once(browser: Browser, listing: Listing) -> None:
    """In order, and the count says when that is all."""
    with opened(browser, listing.dashboard) as page:
        page.evaluate(
            """async () => {
                const end = document.getElementById("history-end"), until = performance.now() + 20000;
                while (!end.hidden && performance.now() < until) {
                    scrollTo(0, document.documentElement.scrollHeight);
                    await new Promise((go) => setTimeout(go, 10));
                }
            }"""
        )
        expect(page.locator("#history-count")).to_have_text(f"{MANY + 2:,} sessions")
        ids = page.eval_on_selector_all("#history tbody tr", "rows => rows.map((one) => one.id)")
        with listing.keeper() as keeper:
            assert ids == [f"row-{row.id}" for row in keeper.history(limit=None, all_projects=True)]


def test_back_restores_rows_and_scroll_position(browser: Browser, listing: Listing) -> None:
    with opened(browser, listing.dashboard) as page:
        for rows in (2 * ROWS_PER_PAGE, 3 * ROWS_PER_PAGE):
            page.locator("#history tbody tr").last.scroll_into_view_if_needed()
            until(page, f"document.querySelectorAll('#history tbody tr').length >= {rows}")
        row = page.locator("#history tbody tr").nth(150)
        row.scroll_into_view_if_needed()
        name = row.get_attribute("id")
        page.wait_for_timeout(100)
        place = f"document.getElementById('{name}').getBoundingClientRect().top"
        before = page.evaluate(place)
        page.goto(listing.dashboard.origin + "/now")
        page.go_back()
        until(page, f"document.getElementById('{name}') !== null")
        until(page, f"Math.abs({place} - {before}) < 60")


def test_history_works_without_scripts(browser: Browser, listing: Listing) -> None:
    """More rows are a link, the search is a form."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(listing.dashboard.address)
    page.goto(listing.dashboard.origin + "/history?q=number")
    first = page.locator("#history tbody tr").first.get_attribute("id")
    page.get_by_role("link", name="Earlier sessions").click()
    expect(page.locator("#history tbody tr")).to_have_count(ROWS_PER_PAGE)
    assert page.locator(f"#{first}").count() == 0
    page.fill("#history-q", "polish")
    page.get_by_role("button", name="Search").click()
    expect(page.locator("#history tbody tr")).to_have_count(1)
    context.close()


def test_rows_can_be_reached_by_keys(browser: Browser, listing: Listing) -> None:
    """j and k move, an arrow leaves the search, Enter opens the session."""
    with opened(browser, listing.dashboard) as page:
        page.keyboard.press("/")
        page.keyboard.press("ArrowDown")
        rows = page.locator("#history tbody tr")
        expect(rows.nth(0)).to_be_focused()
        page.keyboard.press("j")
        page.keyboard.press("j")
        page.keyboard.press("k")
        expect(rows.nth(1)).to_be_focused()
        session = (rows.nth(1).get_attribute("id") or "").removeprefix("row-")
        page.keyboard.press("Enter")
        page.wait_for_url(f"**/session/{session}")


# ── live ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_new_session_appears_in_place(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> None:
    """On top, with none lost below; typed text and the scroll position stay."""
    site = Site(tmp_path_factory.mktemp("meanwhile"))
    many(site, 200)
    with serving(site) as dashboard, opened(browser, dashboard) as page:
        page.locator("#history tbody tr").last.scroll_into_view_if_needed()
        until(page, "document.querySelectorAll('#history tbody tr').length >= 120")
        watched = page.locator("#history tbody tr").nth(70)
        watched.scroll_into_view_if_needed()
        name = watched.get_attribute("id")
        page.wait_for_timeout(100)
        place = f"document.getElementById('{name}').getBoundingClientRect().top"
        before = page.evaluate(place)
        with site.keeper("shed") as keeper:
            keeper.start("Hang the oars up")
        expect(page.locator("#history-latest tr .goal").first).to_have_text("Hang the oars up")
        assert abs(page.evaluate(place) - before) < 2
        ids = page.eval_on_selector_all("#history tbody tr", "rows => rows.map((one) => one.id)")
        with site.keeper() as keeper:
            wanted = [f"row-{row.id}" for row in keeper.history(limit=len(ids), all_projects=True)]
        assert ids == wanted
        assert page.locator("#history-latest tr").count() == ROWS_PER_PAGE

        page.fill("#history-q", "oars")
        expect(page.locator("#history tbody tr")).to_have_count(1)
        page.focus("#history-q")
        with site.keeper("shed") as keeper:
            keeper.session().complete(summary="They hang")
        expect(page.locator("#history tbody .status")).to_have_text("completed")
        with site.keeper("boat") as keeper:
            keeper.start("New oars")
        expect(page.locator("#history tbody .goal")).to_have_text(["New oars", "Hang the oars up"])
        with site.keeper("shed") as keeper:
            keeper.start("Something else", replace=True)
        page.wait_for_timeout(300)
        expect(page.locator("#history tbody tr")).to_have_count(2)
        expect(page.locator("#history-q")).to_have_value("oars")
        expect(page.locator("#history-q")).to_be_focused()


# ── hostile, long, narrow ────────────────────────────────────────────────────────────────────────────────


def test_hostile_text_is_only_text(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Goals, project names and the search itself."""
    site = Site(tmp_path_factory.mktemp("hostile"))
    hostile(site)
    with site.keeper("<img src=x onerror=window.hurt=1>") as keeper:
        keeper.start("A project with a name", replace=True)
    with serving(site) as dashboard:
        with opened(browser, dashboard) as page:
            assert HOSTILE[0] in goals(page)
            page.select_option("#history-project", "<img src=x onerror=window.hurt=1>")
            expect(page.locator("#history tbody tr")).to_have_count(1)
            page.fill("#history-q", HOSTILE[2])
            expect(page.get_by_role("heading", name="Nothing found")).to_be_visible()
        with opened(browser, dashboard, "/history?q=%22%3E%3Cscript%3Ewindow.hurt%3D1%3C%2Fscript%3E&status=%22%3E"):
            pass


@pytest.mark.parametrize("width", [1280, 390, 360])
def test_history_is_never_wider_than_the_window(browser: Browser, listing: Listing, width: int) -> None:
    """A goal of 300 characters takes two lines."""
    with opened(browser, listing.dashboard, "/history?project=lighthouse", width=width) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        height = page.locator("#history tbody tr .goal a").first.bounding_box()
        assert height is not None
        assert height["height"] < 60


# ── server ───────────────────────────────────────────────────────────────────────────────────────────────


def test_page_is_small_and_unchanged_rows_are_rendered_once(listing: Listing) -> None:
    with listing.keeper() as keeper:
        asked = PageRequest()
        shot = HISTORY.content(keeper, asked)
        again = HISTORY.content(keeper, asked)
        assert len(shot.lists["history-latest"]) == ROWS_PER_PAGE
        assert all(shot.regions[name] is again.regions[name] for name in shot.lists["history-latest"])
        words = HISTORY.extras(keeper, asked)
        html = render(
            "history.html",
            page=HISTORY,
            content=shot,
            asked=asked,
            version="",
            run="",
            word="",
            address="/history",
            **words,
        )
    assert len(html) < 100_000


def test_worked_time_equals_the_listing(tmp_path_factory: pytest.TempPathFactory) -> None:
    """For open sessions, the browser counts the time since the last event."""
    site = Site(tmp_path_factory.mktemp("worked"))
    with site.keeper("at-work") as keeper:
        start = keeper.now() - MINUTE
        running = keeper.start("At work", at=start).id
    with site.keeper("resting") as keeper:
        resting = keeper.start("Idle since", at=keeper.now() - 5 * HOUR).id
    with site.keeper() as keeper:
        shot = HISTORY.content(keeper, PageRequest())
        row = shot.regions[f"row-{running}"]
        assert f'data-since="{start}"' in row
        assert "2 min<" in with_times(row, start + 2 * MINUTE)
        listed = {entry.id: entry.working_ms for entry in keeper.history(all_projects=True)}
        assert f'class="worked">{format_duration(listed[resting])}</td>' in shot.regions[f"row-{resting}"]
        keeper.wall = Wall(lambda: (start + 90_000) * 1_000_000)
        assert HISTORY.content(keeper, PageRequest()) == shot  # nothing is sent because time passes


def test_rows_after_a_row_come_in_pages(listing: Listing) -> None:
    """At most as many as requested, until there are no more."""
    with listing.keeper() as keeper:
        last = keeper.history(limit=MANY, all_projects=True)[-1].id
        piece = json.loads(more(keeper, PageRequest({}, {"before": last, "limit": "1"})).content)
        assert piece["more"] is True
        assert piece["rows"].count("<tr") == 1
        rest = json.loads(more(keeper, PageRequest({}, {"before": last, "limit": "9"})).content)
        assert rest["more"] is False
        assert rest["rows"].count("<tr") == 2


def test_invalid_search_is_explained(listing: Listing) -> None:
    """Invalid dates and choices are refused, not ignored."""
    with listing.keeper() as keeper:
        for words in ({"since": "yesterday"}, {"since": "2026-13-40"}, {"archived": "perhaps"}):
            with pytest.raises(Invalid):
                HISTORY.content(keeper, PageRequest({}, words))
        page_shot = HISTORY.content(keeper, PageRequest({}, {"since": "2026-01-01", "limit": "x"}))
        assert page_shot.lists["history-latest"]
