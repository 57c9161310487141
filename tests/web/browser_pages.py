"""Windows of the one browser: each test has pages of its own, in a browser's profile that is kept for all of them.

Making a profile, and starting a process for its first page, cost a browser several times what showing a page costs.
Nothing of one test is left for the next: its pages are closed and its cookies gone, and what scripts may keep belongs
to one dashboard's address.
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
    """A page of nobody's that stays open: the process that shows such pages does not end with each test."""
    page = context.new_page()
    page.route("**/*", lambda route: route.fulfill(body=""))
    page.goto("http://127.0.0.1/")
    return page


@contextmanager
def window(
    browser: Browser, *, width: int = 1280, height: int = 720, touch: bool = False
) -> Iterator[BrowserContext]:
    """Of this size, with no page of a test yet and no cookie."""
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
    """A page that may go anywhere on the dashboard, and is nowhere yet."""
    with window(browser, width=width, height=height, touch=touch) as context:
        context.request.get(dashboard.address, max_redirects=0)  # leaves the cookie there
        yield context.new_page()
