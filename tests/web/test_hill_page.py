"""The Hill page: dots moved by mouse, touch and keys, and concurrent changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from holdfast.core.times import DAY
from holdfast.sessions.overview import hills
from holdfast.web.pages import PageRequest
from holdfast.web.pages.hill import HILL
from holdfast.web.serve import Dashboard
from tests.web.browser_pages import page_in
from tests.web.dashboard import Site, serving
from tests.web.sample_sessions import HOSTILE, LONG


class Hills:
    """A project with two hills, and the dashboard that shows them."""

    def __init__(self, site: Site, dashboard: Dashboard) -> None:
        self.site = site
        self.dashboard = dashboard

    def put(self, scope: str, position: int, project: str = "harbour") -> None:
        with self.site.keeper(project) as keeper:
            keeper.session().hill(scope, position)

    def at(self, scope: str, project: str = "harbour") -> int | None:
        with self.site.keeper(project) as keeper:
            return next(
                (hill.position for hill in hills(keeper) if (hill.project, hill.scope) == (project, scope)), None
            )

    def move_count(self, scope: str) -> int:
        """How often the dot was moved."""
        with self.site.keeper() as keeper:
            events = [event for event in keeper.events(keeper.session().id) if event.type == "hill.moved"]
        return sum(msgspec.json.decode(event.data or b"")["scope"] == scope for event in events)


@pytest.fixture(scope="module")
def sample_hills(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hills]:
    site = Site(tmp_path_factory.mktemp("hills"))
    for project in ("harbour", "lighthouse"):
        with site.keeper(project) as keeper:
            session = keeper.start("Something large", scope="all of it")
            session.hill("lamp", 2)
    with serving(site) as dashboard:
        yield Hills(site, dashboard)


@contextmanager
def opened(browser: Browser, sample_hills: Hills, *, width: int = 1280, refused: bool = False) -> Iterator[Page]:
    with page_in(browser, sample_hills.dashboard, width=width, touch=width < 500) as page:
        bad: list[str] = []
        page.on("console", lambda message: bad.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: bad.append(str(error)))
        page.goto(f"{sample_hills.dashboard.origin}/hill")
        expect(page.locator("#pulse[data-state=live]")).to_be_visible()
        yield page
        assert [text for text in bad if not (refused and "409" in text)] == []
        assert page.evaluate("window.hurt") is None
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def project(page: Page, name: str = "harbour") -> Locator:
    return page.locator(".hill-of").filter(has=page.get_by_role("heading", name=name, exact=True))


def dot(page: Page, scope: str, name: str = "harbour") -> Locator:
    return project(page, name).get_by_role("slider", name=scope, exact=True)


def middle(one: Locator) -> tuple[float, float]:
    box = one.locator(".face").bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def x_of(page: Page, position: int, name: str = "harbour") -> float:
    """The screen coordinate of a position."""
    screen_x = (
        project(page, name)
        .locator("svg.hill:visible")
        .evaluate(
            "(svg, at) => new DOMPoint(Number(svg.dataset.left) + at * svg.dataset.pitch, 0)"
            ".matrixTransform(svg.getScreenCTM()).x",
            position,
        )
    )
    return float(screen_x)


def line(page: Page, scope: str) -> Locator:
    return project(page).locator(".scopes li").filter(has=page.get_by_role("link", name=scope, exact=True))


def test_dot_can_be_dragged_with_the_mouse(browser: Browser, sample_hills: Hills) -> None:
    """It snaps to the nearest position when released, is recorded once, and the list agrees."""
    sample_hills.put("mouse", 2)
    with opened(browser, sample_hills) as page:
        one = dot(page, "mouse")
        expect(one).to_have_attribute("aria-valuenow", "2")
        x, y = middle(one)
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x_of(page, 5), y, steps=4)
        expect(one).to_have_attribute("aria-valuenow", "5")
        assert sample_hills.at("mouse") == 2
        page.mouse.move(x_of(page, 7) + 8, y + 60, steps=4)
        page.mouse.up()
        expect(page.locator(".toast")).to_contain_text("mouse: 7 of 10, making it happen.")
        expect(line(page, "mouse")).to_contain_text("making it happen 7/10")
        assert sample_hills.at("mouse") == 7
        assert sample_hills.move_count("mouse") == 2
        expect(dot(page, "mouse")).to_have_attribute("aria-valuetext", "7 of 10, making it happen")


def test_dot_can_be_dragged_by_touch(browser: Browser, sample_hills: Hills) -> None:
    """On a phone: the page does not scroll meanwhile, and the dot stops at the ends of the hill."""
    sample_hills.put("finger", 4)
    with opened(browser, sample_hills, width=390) as page:
        one = dot(page, "finger")
        one.scroll_into_view_if_needed()
        x, y = middle(one)
        touch = page.context.new_cdp_session(page)

        def say(kind: str, *places: tuple[float, float]) -> None:
            points = [{"x": x, "y": y} for x, y in places]
            touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

        say("touchStart", (x, y))
        for step in range(1, 6):
            say("touchMove", (x + step * 20, y + step * 6))
        say("touchMove", (389, y))
        expect(dot(page, "finger")).to_have_attribute("aria-valuenow", "10")
        say("touchEnd")
        expect(page.locator(".toast")).to_contain_text("finger: 10 of 10, done.")
        assert sample_hills.at("finger") == 10


def test_dot_can_be_moved_by_keys(browser: Browser, sample_hills: Hills) -> None:
    """Arrow keys step, Enter records once, Escape reverts; the focus stays."""
    sample_hills.put("keys", 3)
    with opened(browser, sample_hills) as page:
        dot(page, "keys").focus()
        for key in ("ArrowRight", "ArrowUp", "ArrowRight", "ArrowLeft"):
            page.keyboard.press(key)
        expect(dot(page, "keys")).to_have_attribute("aria-valuetext", "5 of 10, at the crest")
        assert sample_hills.at("keys") == 3
        page.keyboard.press("Enter")
        expect(page.locator(".toast")).to_contain_text("keys: 5 of 10, at the crest.")
        expect(line(page, "keys")).to_contain_text("at the crest 5/10")
        expect(page.locator("[data-dragged]")).to_have_count(0)
        expect(dot(page, "keys")).to_be_focused()
        page.keyboard.press("End")
        expect(dot(page, "keys")).to_have_attribute("aria-valuenow", "10")
        page.keyboard.press("Escape")
        expect(dot(page, "keys")).to_have_attribute("aria-valuenow", "5")
        page.keyboard.press("Tab")
        assert sample_hills.at("keys") == 5
        assert sample_hills.move_count("keys") == 2


def test_moved_dot_is_recorded_when_it_loses_the_focus(browser: Browser, sample_hills: Hills) -> None:
    sample_hills.put("left", 3)
    with opened(browser, sample_hills) as page:
        dot(page, "left").focus()
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("Tab")
        expect(page.locator(".toast")).to_contain_text("left: 2 of 10, figuring out.")
        assert sample_hills.at("left") == 2
        assert sample_hills.move_count("left") == 2


def test_refused_move_is_reverted(browser: Browser, sample_hills: Hills) -> None:
    """Dot, list and numbers are as before, and the reason is shown."""
    sample_hills.put("firm", 6)
    with opened(browser, sample_hills, refused=True) as page:
        page.evaluate("document.body.dataset.word = 'wrong'")
        before = dot(page, "firm").get_attribute("transform")
        dot(page, "firm").focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        expect(page.locator(".toast.bad")).to_contain_text("does not come from this dashboard")
        expect(dot(page, "firm")).to_have_attribute("aria-valuenow", "6")
        expect(dot(page, "firm")).to_have_attribute("transform", before or "")
        expect(line(page, "firm")).to_contain_text("making it happen 6/10")
        assert sample_hills.at("firm") == 6


def test_dot_being_dragged_is_not_replaced(browser: Browser, sample_hills: Hills) -> None:
    """Changes by others appear at once, but only after the person releases the dot."""
    sample_hills.put("mine", 3)
    sample_hills.put("yours", 1)
    with opened(browser, sample_hills) as page:
        sample_hills.put("yours", 2)
        expect(dot(page, "yours")).to_have_attribute("aria-valuenow", "2")
        x, y = middle(dot(page, "mine"))
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x_of(page, 6), y, steps=3)
        dragged_transform = dot(page, "mine").get_attribute("transform")
        sample_hills.put("yours", 9)
        sample_hills.put("mine", 1)
        sample_hills.put("lamp", 8, "lighthouse")
        expect(dot(page, "lamp", "lighthouse")).to_have_attribute("aria-valuenow", "8")
        assert dot(page, "mine").get_attribute("transform") == dragged_transform
        expect(dot(page, "mine")).to_have_attribute("aria-valuenow", "6")
        expect(dot(page, "yours")).to_have_attribute("aria-valuenow", "2")
        page.mouse.up()
        expect(dot(page, "yours")).to_have_attribute("aria-valuenow", "9")
        expect(line(page, "mine")).to_contain_text("making it happen 6/10")
        assert sample_hills.at("mine") == 6


def test_scope_can_be_added_by_a_form(browser: Browser, sample_hills: Hills) -> None:
    """With a name, and a position in words."""
    with opened(browser, sample_hills) as page:
        region = project(page, "lighthouse")
        region.get_by_text("Add or move a scope").click()
        region.get_by_label("Position").select_option("6")
        region.get_by_label("Scope", exact=True).fill("  the stairs & <b>steps</b> ")
        page.keyboard.press("Enter")
        expect(page.locator(".toast")).to_contain_text("6 of 10, making it happen.")
        expect(dot(page, "the stairs & <b>steps</b>", "lighthouse")).to_have_attribute("aria-valuenow", "6")
        assert sample_hills.at("the stairs & <b>steps</b>", "lighthouse") == 6


def test_only_valid_positions_are_accepted(browser: Browser, sample_hills: Hills) -> None:
    """Anything else is refused with a message and not recorded."""
    with opened(browser, sample_hills) as page:
        with sample_hills.site.keeper() as keeper:
            session = keeper.session().id
        word = page.evaluate("document.body.dataset.word")
        for position in ("11", "-1", "", "5.5", "٣", "1e1", "9" * 500):
            answer = page.request.post(
                f"{sample_hills.dashboard.origin}/session/{session}/hill",
                form={"scope": "odd", "position": position},
                headers={
                    "Accept": "application/json",
                    "X-Holdfast-Word": word,
                    "Origin": sample_hills.dashboard.origin,
                },
            )
            assert answer.status == 400
            assert "position on the hill" in answer.json()["error"]["message"]
        assert sample_hills.at("odd") is None


def test_empty_hill_page_says_how_to_start(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The first scope appears without a reload."""
    site = Site(tmp_path_factory.mktemp("flat"))
    with serving(site) as dashboard, opened(browser, Hills(site, dashboard)) as page:
        expect(page.locator(".empty")).to_contain_text("holdfast hill SCOPE 3")
        with site.keeper() as keeper:
            session = keeper.start("Something")
            expect(page.locator("#hill-others")).to_contain_text("harbour")
            session.hill("first", 3)
        expect(dot(page, "first")).to_have_attribute("aria-valuenow", "3")
        expect(page.locator(".empty")).to_have_count(0)


def test_hostile_and_very_long_names_are_only_text(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """They displace nothing, and their dots can be moved."""
    site = Site(tmp_path_factory.mktemp("evil"))
    names = [*(words.replace("\x1b", "") for words in HOSTILE[:3]), LONG[:200]]
    with site.keeper() as keeper:
        session = keeper.start("Something")
        for number, words in enumerate(names):
            session.hill(words, number)
    with serving(site) as dashboard:
        evil = Hills(site, dashboard)
        for width in (1280, 360):
            with opened(browser, evil, width=width) as page:
                expect(page.get_by_role("slider")).to_have_count(len(names))
                for locator in page.get_by_role("slider").all():
                    locator.focus()
                    page.keyboard.press("ArrowRight" if width > 500 else "ArrowLeft")
                    page.keyboard.press("Enter")
                    expect(page.locator("[data-dragged]")).to_have_count(0)
        assert [evil.at(words) for words in names] == list(range(len(names)))


def test_scope_done_long_ago_is_folded_away(tmp_path_factory: pytest.TempPathFactory) -> None:
    """After a week it has no dot, but is still named."""
    site = Site(tmp_path_factory.mktemp("done"))
    with site.keeper() as keeper:
        now = keeper.now()
        session = keeper.start("Something", at=now - 30 * DAY)
        session.hill("old", 10, at=now - 8 * DAY)
        session.hill("new", 10, at=now - DAY)
        shot = HILL.content(keeper, PageRequest())
    (region,) = (html for name, html in shot.regions.items() if name in shot.lists["hills"])
    assert region.count('role="slider"') == 2  # wide and narrow
    assert "1 scope done earlier" in region
    assert ">old<" in region
