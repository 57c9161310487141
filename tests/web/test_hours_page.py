"""The Hours page: the calendar, sums that add up, the tables and their files."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest
from playwright.sync_api import Browser, Page, expect

from holdfast.core.events import ProjectFacts, SessionCompleted, SessionStarted
from holdfast.core.times import DAY, HOUR, MINUTE
from holdfast.keeper.change_feed import Changes
from holdfast.machine.wall import local_offset
from holdfast.store.interface import Draft
from holdfast.web.pages import PageRequest
from holdfast.web.pages.hours import HOURS, HOURS_CSV, HoursPage
from holdfast.web.serve import Dashboard
from tests.web.browser_pages import page_in
from tests.web.dashboard import Site, serving
from tests.web.sample_sessions import HOSTILE, LONG, many, typical


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    made = Site(tmp_path_factory.mktemp("hours"))
    typical(made)
    with made.keeper("lamp") as keeper:
        now = keeper.now()
        for number, scope in enumerate((*HOSTILE, "=1+1", LONG[:200])):
            at = now - (number + 3) * DAY
            session = keeper.start("Something", scope=scope.replace("\x1b", ""), replace=True, at=at)
            session.message("user", at=at + 7 * MINUTE)
            session.pause("tea", at=at + 9 * MINUTE)
            session.resume(at=at + 20 * MINUTE)
            session.complete(at=at + HOUR + 123)
    return made


@pytest.fixture(scope="module")
def dashboard(site: Site) -> Iterator[Dashboard]:
    with serving(site) as made:
        yield made


@contextmanager
def opened(browser: Browser, dashboard: Dashboard, where: str, width: int = 1280) -> Iterator[Page]:
    with page_in(browser, dashboard, width=width) as page:
        bad: list[str] = []
        page.on("console", lambda message: bad.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: bad.append(str(error)))
        page.goto(dashboard.origin + where)
        yield page
        assert bad == []
        assert page.evaluate("window.hurt") is None
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def seconds(clocked: str) -> int:
    hours, minutes, rest = clocked.replace(",", "").split(":")
    return int(hours) * 3600 + int(minutes) * 60 + int(rest)


def test_tables_show_only_worked_time_and_add_up(browser: Browser, dashboard: Dashboard) -> None:
    """No sums of pauses, which overlap and include nights, and no milliseconds."""
    with opened(browser, dashboard, "/hours?period=year") as page:
        assert page.locator("table.hours tbody tr").count() > 20
        projects, scopes = (
            sum(map(seconds, page.locator(f"{table} tbody tr > :nth-child(3)").all_text_contents()))
            for table in ("#hours-projects", "#hours-scopes")
        )
        assert projects == scopes > 0
        assert not re.search(r"\d\.\d{3} s|paused", page.locator("main").inner_text(), re.IGNORECASE)


def test_days_without_worked_time_are_left_out(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A session from Friday to Monday was not worked on at the weekend: neither page nor calendar show it."""
    site = Site(tmp_path_factory.mktemp("weekend"))
    with site.keeper() as keeper:
        friday = keeper.now() - 3 * DAY
        session = keeper.start("Over the weekend", at=friday)
        session.message("user", at=friday + 4 * MINUTE)
        session.message("user", at=friday + 3 * DAY - 4 * MINUTE)
        session.complete(at=friday + 3 * DAY)
        regions = HoursPage().content(keeper, PageRequest()).regions
    days = "".join(str(html) for name, html in regions.items() if name.startswith("month-"))
    assert 2 <= days.count('id="day-') <= 4  # a run around midnight splits both
    assert "0:00:00" not in days
    assert "0s worked" not in str(regions["heat-past"]) + str(regions["heat-week"])


def test_calendar_day_leads_to_its_row(browser: Browser, dashboard: Dashboard) -> None:
    """By keys, from today backwards; Enter shows the table row with the same numbers."""
    with opened(browser, dashboard, "/hours?period=year") as page:
        today = page.locator(".heat .today")
        expect(today).to_have_count(1)
        today.focus()
        expect(page.locator("#heat-text")).to_contain_text("(today)")
        page.keyboard.press("ArrowLeft")
        title = page.evaluate("document.activeElement.querySelector('title').textContent")
        day = page.evaluate("document.activeElement.dataset.day")
        expect(page.locator("#heat-text")).to_have_text(title)
        assert re.fullmatch(r"\w{3} \d+ \w{3} \d{4}: .* worked, .*\d+ sessions?", title)
        page.keyboard.press("Enter")
        row = page.locator(f"#day-{day}")
        expect(row).to_be_in_viewport()
        assert seconds(row.locator("td").nth(1).text_content() or "") > 0


def test_period_and_project_can_be_chosen(browser: Browser, dashboard: Dashboard) -> None:
    """By links and a list; page and address show the choice."""
    with opened(browser, dashboard, "/hours") as page:
        expect(page.locator(".periods [aria-current]")).to_have_text("30 days")
        page.get_by_role("link", name="7 days").click()
        expect(page.locator("#hours-heading")).to_contain_text("in the last 7 days")
        page.wait_for_load_state()  # the script that handles a choice is loaded
        page.get_by_label("Project", exact=True).select_option("lighthouse")
        page.wait_for_url("**/hours?*project=lighthouse*")
        expect(page.locator("#hours-heading")).to_contain_text("on lighthouse")
        expect(page.locator("#hours-projects tbody tr")).to_have_count(1)
        assert "period=7d" in page.url


def test_hours_page_is_updated_live(browser: Browser, site: Site, dashboard: Dashboard) -> None:
    """A session that ends in a terminal appears within a moment; unchanged parts are not sent."""
    with opened(browser, dashboard, "/hours?period=year") as page:
        expect(page.locator("#pulse[data-state=live]")).to_be_visible()
        page.evaluate("document.querySelector('#heat-past').same = true")
        with site.keeper("brand-new") as keeper:
            at = keeper.now()
            keeper.start("Just now", scope="fresh", at=at).complete(at=at + MINUTE)
        expect(page.locator("#hours-projects")).to_contain_text("brand-new")
        expect(page.locator("#hours-scopes")).to_contain_text("fresh")
        assert page.evaluate("document.querySelector('#heat-past').same") is True


def test_tables_can_be_downloaded(browser: Browser, dashboard: Dashboard) -> None:
    """With the page's numbers to the millisecond, and no formulas."""
    with opened(browser, dashboard, "/hours?period=year") as page:
        with page.expect_download() as waited:
            page.locator("#hours-scopes").get_by_role("link", name="CSV").click()
        assert waited.value.suggested_filename.startswith("hours-by-scope-year-to-")
        rows = list(csv.DictReader(io.StringIO(waited.value.path().read_text())))
        assert "'=1+1" in [row["scope"] for row in rows]
        for row in rows:
            assert int(row["working_ms"]) + int(row["paused_ms"]) == int(row["elapsed_ms"])
        answer = page.request.get(f"{dashboard.origin}/hours.csv?by=nothing")
        assert answer.status == 400


def test_hours_page_fits_a_phone(browser: Browser, dashboard: Dashboard) -> None:
    """The calendar scrolls by itself, starting at today."""
    with opened(browser, dashboard, "/hours?period=all", width=360) as page:
        expect(page.locator(".heat .today")).to_be_in_viewport(ratio=0.5)
        assert page.evaluate("document.querySelector('.heat').scrollLeft") > 100


def test_empty_hours_page_says_how_to_start(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No empty charts; the first session appears without a reload."""
    site = Site(tmp_path_factory.mktemp("idle"))
    with serving(site) as dashboard, opened(browser, dashboard, "/hours") as page:
        expect(page.locator(".empty")).to_contain_text("holdfast start")
        expect(page.locator(".calendar")).to_be_hidden()
        expect(page.locator("#pulse[data-state=live]")).to_be_visible()
        with site.keeper() as keeper:
            at = keeper.now() - MINUTE
            keeper.start("The first", scope="one", at=at).complete(at=at + 30_000)
        expect(page.locator(".calendar")).to_be_visible()
        expect(page.locator("#hours-scopes")).to_contain_text("one")


def test_page_with_thousands_of_sessions_loads_before_its_sums(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """It says so; the numbers follow by the stream and are cached."""
    site = Site(tmp_path_factory.mktemp("years"))
    many(site, 700)
    with serving(site) as dashboard, opened(browser, dashboard, "/hours?period=all") as page:
        answer = page.request.get(f"{dashboard.origin}/static/hours.js")
        assert answer.ok
        expect(page.locator("#hours-heading")).to_contain_text("700 sessions", timeout=30_000)
        expect(page.locator("#hours-projects")).to_be_visible(timeout=30_000)
        expect(page.locator(".adding")).to_have_count(0)
        page.reload()
        expect(page.locator("#hours-projects")).to_be_visible()


def test_first_page_of_many_sessions_shows_that_sums_are_pending(
    site: Site, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A request for the complete page waits for them; later requests have them."""
    there = Site(tmp_path_factory.mktemp("first"))
    many(there, 501)
    fresh = HoursPage()
    with there.keeper() as keeper:
        assert "Adding up 501 sessions" in fresh.content(keeper, PageRequest()).regions["hours-heading"]
        assert "hours-projects" in fresh.content(keeper, PageRequest(query={"whole": "yes"})).regions
        assert "hours-projects" in fresh.content(keeper, PageRequest()).regions


def test_page_with_two_years_stays_small(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Worked on every day, it is under 200 kB, and a change sends little of it."""
    site = Site(tmp_path_factory.mktemp("long"))
    with site.keeper() as keeper:
        now = keeper.now()
        where = ProjectFacts(id="p" * 32, name="harbour")
        with keeper.transaction() as transaction:
            for number in range(730, 0, -1):
                session = f"{number:08x}-0000-7000-8000-{number:012x}"
                at = now - number * DAY
                started = SessionStarted(goal="Long", project=where, device="desk", scope=f"scope {number % 90}")
                transaction.record(session, Draft(started, at, "ada"))
                transaction.record(session, Draft(SessionCompleted(), at + 4 * MINUTE, "ada"))
        page = HoursPage()
        asked = PageRequest(query={"period": "all", "whole": "yes"})
        before = page.content(keeper, asked)
        assert sum(map(len, before.regions.values())) < 190_000
        keeper.start("Now", scope="scope 7", replace=True, at=keeper.now()).note("x")
        after = page.content(keeper, asked)
        sent = {name for name, html in after.regions.items() if before.regions.get(name) != html}
        assert "heat-past" not in sent
        assert sum(len(after.regions[name]) for name in sent) < 60_000


def test_file_by_day_uses_local_days(site: Site) -> None:
    """Cut at local midnights, none before the period."""
    with site.keeper() as keeper:
        text = HOURS_CSV(keeper, PageRequest(query={"by": "day", "period": "7d"})).content.decode()
        now = keeper.now()
        today = (datetime.fromtimestamp(now / 1000, UTC) + local_offset(now)).date()
        days = [row["day"] for row in csv.DictReader(io.StringIO(text))]
    assert days
    assert all(0 <= (today - datetime.fromisoformat(day).date()).days < 7 for day in days)


def test_hours_page_ignores_changes_without_sessions() -> None:
    assert HOURS.concerns(Changes(3, frozenset({"a"}), other_changes=False), PageRequest())
    assert not HOURS.concerns(Changes(3, frozenset(), other_changes=False), PageRequest())
