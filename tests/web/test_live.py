"""Live pages: what is sent, to which pages, and that nothing is missed."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from playwright.sync_api import Browser, BrowserContext, Page

from holdfast.keeper.pool import KeeperPool
from holdfast.web.live import Live, LivePage, difference
from holdfast.web.pages import PageContent, PageRequest
from holdfast.web.pages.session import SESSION
from holdfast.web.serve import Dashboard
from tests.web.browser_pages import window
from tests.web.dashboard import Site, serving
from tests.web.sample_sessions import typical

_NAMES = st.sampled_from(["a", "b", "c", "d", "e"])
_SHOTS = st.builds(
    PageContent,
    st.dictionaries(_NAMES, st.sampled_from(["<p>1", "<p>2"])),
    st.dictionaries(st.sampled_from(["rows", "cards"]), st.lists(_NAMES, unique=True).map(tuple)),
)


def _applied(before: PageContent | None, news: Mapping[str, object] | None) -> PageContent:
    had = PageContent({}, {}) if before is None else before
    if news is None:
        return had
    put, lists = news["put"], news["lists"]
    assert isinstance(put, dict)
    assert isinstance(lists, dict)
    return PageContent({**had.regions, **put}, {**had.lists, **lists})


@given(st.none() | _SHOTS, _SHOTS)
def test_applied_difference_gives_the_later_version(before: PageContent | None, after: PageContent) -> None:
    """Regions and lists are complete, and unchanged parts were not sent."""
    news = difference(before, after)
    there = _applied(before, news)
    assert all(there.regions[name] == html for name, html in after.regions.items())
    assert all(there.lists[name] == order for name, order in after.lists.items())
    if before is not None and news is not None:
        put = news["put"]
        assert isinstance(put, dict)
        assert not any(before.regions.get(name) == html for name, html in put.items())


@pytest.fixture
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return Site(tmp_path_factory.mktemp("live"))


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    with window(browser) as made:
        yield made


def _opened(context: BrowserContext, dashboard: Dashboard, path: str = "/now") -> Page:
    page = context.new_page()
    page.goto(dashboard.address if not context.cookies() else dashboard.origin + path)
    page.locator("#pulse[data-state=live]").wait_for()
    return page


def test_change_made_elsewhere_appears_without_a_reload(site: Site, context: BrowserContext) -> None:
    """A first session, a note, a pause and an end."""
    with serving(site) as dashboard:
        page = _opened(context, dashboard)
        page.get_by_text("Nothing is in progress").wait_for()
        page.evaluate("window.same = true")
        with site.keeper() as keeper:
            session = keeper.start("Paint the lighthouse")
            card = page.locator(f"#card-{session.id}")
            card.get_by_text("Paint the lighthouse").wait_for()
            session.pause("rain")
            card.get_by_text("paused", exact=True).wait_for()
            session.resume()
            session.complete()
            card.wait_for(state="detached")
        page.get_by_text("Nothing is in progress").wait_for()
        assert page.evaluate("window.same") is True


def test_more_tabs_than_browser_connections_are_all_live(site: Site, context: BrowserContext) -> None:
    """Nine tabs in one browser all show a change."""
    with serving(site) as dashboard:
        pages = [_opened(context, dashboard) for _ in range(9)]
        with site.keeper() as keeper:
            session = keeper.start("Seen everywhere")
        for page in pages:
            page.locator(f"#card-{session.id}").wait_for()


def test_unchanged_cards_are_not_replaced(site: Site, context: BrowserContext) -> None:
    """A note in one session keeps the other cards' DOM elements."""
    typical(site)
    with serving(site) as dashboard:
        page = _opened(context, dashboard)
        page.evaluate("for (const one of document.querySelectorAll('.card')) one.kept = true")
        with site.keeper("harbour-docs") as keeper:
            session = keeper.session()
            session.edit(progress=0.9)
        page.locator(f"#card-{session.id}").get_by_text("90%").wait_for()
        kept = page.evaluate("[...document.querySelectorAll('.card')].map(one => [one.id, one.kept === true])")
        assert [item for item, stayed in kept if not stayed] == [f"card-{session.id}"]


def test_page_catches_up_after_a_server_restart(site: Site, context: BrowserContext) -> None:
    """It reloads, since the server is another run."""
    with serving(site) as dashboard:
        page = _opened(context, dashboard)
    page.locator("#offline").wait_for(state="visible")
    with site.keeper() as keeper:
        keeper.start("Begun while nobody looked")
    with serving(site, like=dashboard):
        page.get_by_text("Begun while nobody looked").wait_for()
        page.locator("#pulse[data-state=live]").wait_for()
        assert page.locator("#offline").is_hidden()


def test_old_page_says_that_the_server_was_restarted(site: Site, context: BrowserContext) -> None:
    """Not that the server is unreachable: another run on the same port does not know the page."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with serving(site, port=port) as dashboard:
        page = _opened(context, dashboard)
    with serving(site, port=port):
        page.locator("#unknown").wait_for(state="visible")
        assert page.locator("#offline").is_hidden()


def test_page_of_a_deleted_session_shows_nothing_of_it(site: Site, context: BrowserContext) -> None:
    """It says that the session was deleted."""
    session = typical(site)
    with serving(site) as dashboard:
        page = _opened(context, dashboard)
        page.goto(f"{dashboard.origin}/session/{session}")
        page.locator("#pulse[data-state=live]").wait_for()
        with site.keeper() as keeper:
            keeper.delete(session, force=True)
        page.get_by_text("It is no longer here").wait_for()
        assert "passkeys" not in page.locator("body").inner_text()
        assert "passkeys" not in page.title()


def test_replaced_store_is_used_at_once(site: Site) -> None:
    """Whoever moves the store away and puts another in its place gets that one."""
    old = typical(site)
    pool = KeeperPool(site.keeper)
    with pool.keeper() as keeper:
        assert keeper.session(old).id == old
    site.home.rename(site.home.with_name("elsewhere"))
    with site.keeper() as keeper:
        new = keeper.start("In a new store").id
    with pool.keeper() as keeper:
        assert [row.id for row in keeper.history(all_projects=True)] == [new]
    pool.close()


# ── versions ─────────────────────────────────────────────────────────────────────────────────────────────


def _first_message(live: Live, place: LivePage, known: str) -> dict[str, Any]:
    """The first message for a page of this version."""

    async def ask() -> dict[str, Any]:
        stream = live.stream([(place, known)])
        async for event in stream:
            if event.startswith(b"event: news"):
                data: dict[str, Any] = json.loads(event.split(b"data: ")[1])
                return data
        raise AssertionError

    with ThreadPoolExecutor(1) as thread:  # in this thread the browser's event loop may be running
        return thread.submit(asyncio.run, ask()).result(timeout=30)


def test_change_between_page_and_stream_is_sent(site: Site) -> None:
    with site.keeper() as keeper:
        session = keeper.start("Loaded a moment ago")
        live, page = Live(KeeperPool(site.keeper)), SESSION
        asked = PageRequest({"id": session.id})
        place = LivePage(f"/session/{session.id}", page, asked)
        _, version = live.with_version(keeper, lambda: page.content(keeper, asked))
        assert version
        session.note("While it loaded")
        news = _first_message(live, place, version)
        assert any("While it loaded" in html for html in news["put"].values())
        assert news["version"] != version


def test_page_changed_during_rendering_has_no_version(site: Site) -> None:
    """One rendering may show the change and another not."""
    with site.keeper() as keeper:
        session = keeper.start("Drawn just now")
        live = Live(KeeperPool(site.keeper))
        assert live.with_version(keeper, lambda: session.note("Meanwhile"))[1] == ""
        assert live.with_version(keeper, lambda: None)[1] != ""


def test_page_says_offline_when_the_server_ended(site: Site, context: BrowserContext) -> None:
    """It keeps its content and says of which moment it is."""
    typical(site)
    with serving(site) as dashboard:
        page = _opened(context, dashboard)
    page.locator("#offline").wait_for(state="visible")
    assert page.locator("#pulse").text_content() == "offline"
    assert page.locator(".card").count() == 2


def test_open_dialog_keeps_typed_text_during_updates(site: Site, context: BrowserContext) -> None:
    typical(site)
    with serving(site) as dashboard:
        page = _opened(context, dashboard)
        with site.keeper("harbour-docs") as keeper:
            session = keeper.session()
            card = page.locator(f"#card-{session.id}")
            card.get_by_role("button", name="Note").click()
            page.locator("#note-text").fill("half a thou")
            session.edit(progress=0.95)
            card.get_by_text("95%").wait_for()
            assert page.locator("#note-text").input_value() == "half a thou"
            page.locator("#note-text").fill("half a thought, and the rest")
            page.get_by_role("button", name="Keep").click()
            page.get_by_text("Noted.").wait_for()
            assert [note.text for note in session.document().notes] == ["half a thought, and the rest"]


def test_last_of_many_fast_changes_is_shown(site: Site, context: BrowserContext) -> None:
    """After sixty changes in a burst."""
    with site.keeper() as keeper, serving(site) as dashboard:
        session = keeper.start("Count to sixty")
        page = _opened(context, dashboard)
        for number in range(1, 61):
            session.edit(progress=number / 100)
        page.locator(f"#card-{session.id}").get_by_text("60%").wait_for()
        time.sleep(0.3)
        assert page.locator(f"#card-{session.id} .number").first.text_content() == "60%"
