"""Windows of one shared browser: each test gets its own pages, in a browser profile that is kept for all tests.

Creating a profile, and starting a process for its first page, costs several times what showing a page costs. Nothing
of one test remains for the next: its pages are closed and its cookies removed, and local storage belongs to one
dashboard's address.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from playwright.sync_api import Browser, BrowserContext, Page

from holdfast.web.serve import Dashboard

_Kept = dict[tuple[int, int, bool], tuple[BrowserContext, Page]]
_kept: WeakKeyDictionary[Browser, _Kept] = WeakKeyDictionary()


def warm(context: BrowserContext) -> Page:
    """A page that stays open, so that the process that shows pages does not end with each test."""
    page = context.new_page()
    page.route("**/*", lambda route: route.fulfill(body=""))
    page.goto("http://127.0.0.1/")
    return page


@contextmanager
def window(
    browser: Browser, *, width: int = 1280, height: int = 720, touch: bool = False
) -> Iterator[BrowserContext]:
    """A window of this size, without pages or cookies."""
    there, wanted = _kept.setdefault(browser, {}), (width, height, touch)
    if wanted not in there:
        made = browser.new_context(viewport={"width": width, "height": height}, has_touch=touch)
        there[wanted] = made, warm(made)
    context, idle = there[wanted]
    try:
        yield context
    finally:
        for page in context.pages:
            if page is not idle:
                page.close()
        context.clear_cookies()


@contextmanager
def page_in(
    browser: Browser, dashboard: Dashboard, *, width: int = 1280, height: int = 900, touch: bool = False
) -> Iterator[Page]:
    """An empty page that may load anything of the dashboard."""
    with window(browser, width=width, height=height, touch=touch) as context:
        context.request.get(dashboard.address, max_redirects=0)  # sets the cookie
        yield context.new_page()
