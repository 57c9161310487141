"""Live pages: an open page is sent its changes within a moment.

One `ChangeFeed` reports all changes. Each open page is a `View`: after a change that concerns it,
it is rendered once for all its viewers, and each of them is sent the regions that differ from what they have. A
browser has one stream for all of its pages, because it opens only a handful of connections to one server.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from holdfast.core.errors import HoldfastError, NotFound
from holdfast.keeper.change_feed import ChangeFeed, Changes, state_fingerprint
from holdfast.web.pages import PageContent
from holdfast.web.render import encoded

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper
    from holdfast.keeper.pool import KeeperPool
    from holdfast.web.pages import Page, PageRequest

T = TypeVar("T")
_GATHER_SECONDS: Final = 0.1  # seconds in which changes are collected and shown together
_REDRAW_SECONDS: Final = 30.0  # seconds after which a page is redrawn without a change: times on it move on
_RETRY_SECONDS: Final = 2.0  # seconds until a failed page is drawn again
_HEARTBEAT_SECONDS: Final = 10.0  # seconds of silence after which a beat is sent
_MAX_PAGES: Final = 64  # of one browser


class LivePage(NamedTuple):
    """A page at an address."""

    address: str
    page: Page
    request: PageRequest


class View:
    """A page that is open in a browser."""

    def __init__(self, live_page: LivePage) -> None:
        self.live_page = live_page
        self.content: PageContent | None = None
        self.error: str | None = None
        self.version = ""
        # Nothing is left to show: an erased session must not stay readable.
        self.deleted = False
        self.viewers: set[Viewer] = set()
        # Viewers who came after the last drawing, and do not know its state yet.
        self.newcomers: set[Viewer] = set()
        self.stale = asyncio.Event()
        self.task: asyncio.Task[None] | None = None


class Viewer:
    """One stream, and what it was last sent for each of its pages."""

    def __init__(self) -> None:
        self.sent: dict[View, PageContent | None] = {}
        self.browser_version: dict[View, str] = {}
        self.stale_views: set[View] = set()
        self.wake = asyncio.Event()

    def refresh(self, view: View) -> None:
        self.stale_views.add(view)
        self.wake.set()


class Live:
    def __init__(self, keepers: KeeperPool) -> None:
        self._keepers = keepers
        self._feed: ChangeFeed | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._views: dict[str, View] = {}
        # Distinguishes runs of the server.
        self.run = secrets.token_hex(4)
        self._ending = asyncio.Event()

    def with_version(self, keeper: Keeper, read: Callable[[], T]) -> tuple[T, str]:
        """What `read` returns, and its version; an empty version if something changed meanwhile.

        Equal versions mean equal content. So the version comes from the store itself, not from reported changes: a
        change not reported yet may be in one look and not in another.
        """
        before = state_fingerprint(keeper)
        content = read()
        return content, f"{self.run}-{before}" if state_fingerprint(keeper) == before else ""

    # ── changes ──────────────────────────────────────────────────────────────────────────────────────────

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._feed = ChangeFeed(self._keepers.open_keeper, self._on_change)
        await asyncio.to_thread(self._feed.__enter__)

    def end(self) -> None:
        """End all streams, so that the server can end."""
        self._ending.set()
        for view in self._views.values():
            for viewer in view.viewers:
                viewer.wake.set()

    async def stop(self) -> None:
        for view in list(self._views.values()):
            if view.task is not None:
                view.task.cancel()
        if self._feed is not None:
            await asyncio.to_thread(self._feed.__exit__, None, None, None)

    def _on_change(self, change: Changes) -> None:
        assert self._loop is not None
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._mark_stale, change)

    def _mark_stale(self, change: Changes) -> None:
        for view in self._views.values():
            if view.live_page.page.concerns(change, view.live_page.request):
                view.stale.set()

    # ── showing ──────────────────────────────────────────────────────────────────────────────────────────

    async def _keep_current(self, view: View) -> None:
        """Keep a view up to date while it is open in a browser."""
        live_page = view.live_page

        def draw(keeper: Keeper) -> tuple[PageContent, str]:
            return self.with_version(keeper, lambda: live_page.page.content(keeper, live_page.request))

        while True:
            view.stale.clear()
            content, version, failure, deleted = view.content, view.version, None, False
            try:
                content, version = await self._keepers.ask(draw)
            except NotFound as error:
                content, failure, deleted = None, error.message, True
            except HoldfastError as error:
                failure = error.message
            except Exception as error:  # noqa: BLE001 (a page that cannot be drawn must not stop the others)
                failure = f"this page could not be drawn: {type(error).__name__}"
            changed = content != view.content or failure != view.error
            view.content, view.version, view.error, view.deleted = content, version, failure, deleted
            for viewer in view.viewers if changed else view.newcomers:
                viewer.refresh(view)
            view.newcomers.clear()
            if not version and not failure:
                view.stale.set()  # something changed meanwhile: draw again, to get a version
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(
                    view.stale.wait(), _RETRY_SECONDS if failure and not deleted else _REDRAW_SECONDS
                )
                await asyncio.sleep(_GATHER_SECONDS)

    def _join(self, viewer: Viewer, live_page: LivePage, browser_version: str) -> None:
        view = self._views.get(live_page.address)
        if view is None:
            view = self._views[live_page.address] = View(live_page)
            view.task = asyncio.create_task(self._keep_current(view))
        view.viewers.add(viewer)
        view.newcomers.add(viewer)
        view.stale.set()
        viewer.browser_version[view] = browser_version

    def _leave(self, viewer: Viewer, view: View) -> None:
        view.viewers.discard(viewer)
        view.newcomers.discard(viewer)
        if not view.viewers and self._views.get(view.live_page.address) is view:
            del self._views[view.live_page.address]
            if view.task is not None:
                view.task.cancel()

    async def stream(self, pages: Iterable[tuple[LivePage, str]]) -> AsyncIterator[bytes]:
        """Changes to these pages as server-sent events. Each page comes with the version the browser has."""
        viewer = Viewer()
        for live_page, browser_version in list(pages)[:_MAX_PAGES]:
            self._join(viewer, live_page, browser_version)
        try:
            yield b"retry: 1000\n\n"
            while not self._ending.is_set():
                try:
                    await asyncio.wait_for(viewer.wake.wait(), _HEARTBEAT_SECONDS)
                except TimeoutError:
                    yield _event("beat", {})  # shows that the server is alive
                viewer.wake.clear()
                while viewer.stale_views:
                    view = viewer.stale_views.pop()
                    for event in self._changes_for(viewer, view):
                        yield event
        finally:
            for view in list(viewer.browser_version):
                self._leave(viewer, view)

    def _changes_for(self, viewer: Viewer, view: View) -> Iterable[bytes]:
        if view.error is not None:
            yield _event("failure", {"page": view.live_page.address, "message": view.error, "gone": view.deleted})
        if view.content is None:
            viewer.sent.pop(view, None)
            viewer.browser_version[view] = ""
            return
        before = viewer.sent.get(view)
        if before is None and view.version and viewer.browser_version[view] == view.version:
            before = view.content  # it has this very drawing
        viewer.sent[view] = view.content
        changes = difference(before, view.content)
        if changes is not None or before is None:
            yield _event("news", {"page": view.live_page.address, "version": view.version, **(changes or {})})


def difference(before: PageContent | None, after: PageContent) -> dict[str, object] | None:
    """What turns one content into the other; None if nothing differs."""
    regions: Mapping[str, str] = {} if before is None else before.regions
    lists = {} if before is None else before.lists
    changed = {name: html for name, html in after.regions.items() if regions.get(name) != html}
    moved = {name: order for name, order in after.lists.items() if lists.get(name) != order}
    return {"put": changed, "lists": moved} if changed or moved else None


def _event(kind: str, data: object) -> bytes:
    return b"event: " + kind.encode() + b"\ndata: " + encoded(data) + b"\n\n"
