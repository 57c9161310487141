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
_GATHER_FOR: Final = 0.1  # seconds in which changes are collected and shown together
_REDRAW_AFTER: Final = 30.0  # seconds after which a page is redrawn without a change: times on it move on
_RETRY_AFTER: Final = 2.0  # seconds until a failed page is drawn again
_HEARTBEAT: Final = 10.0  # seconds of silence after which a beat is sent
_MAX_PAGES: Final = 64  # of one browser


class LivePage(NamedTuple):
    """A page at an address."""

    address: str
    page: Page
    asked: PageRequest


class View:
    """A page that is open in a browser."""

    def __init__(self, place: LivePage) -> None:
        self.place = place
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
        self.has: dict[View, PageContent | None] = {}
        self.known: dict[View, str] = {}
        self.due: set[View] = set()
        self.wake = asyncio.Event()

    def look(self, view: View) -> None:
        self.due.add(view)
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

    def seen(self, keeper: Keeper, look: Callable[[], T]) -> tuple[T, str]:
        """What `look` returns, and its version; an empty version if something changed meanwhile.

        Equal versions mean equal content. So the version comes from the store itself, not from reported changes: a
        change not reported yet may be in one look and not in another.
        """
        before = state_fingerprint(keeper)
        content = look()
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
            if view.place.page.concerns(change, view.place.asked):
                view.stale.set()

    # ── showing ──────────────────────────────────────────────────────────────────────────────────────────

    async def _keep_current(self, view: View) -> None:
        """Keep a view up to date while it is open in a browser."""
        place = view.place

        def draw(keeper: Keeper) -> tuple[PageContent, str]:
            return self.seen(keeper, lambda: place.page.content(keeper, place.asked))

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
                viewer.look(view)
            view.newcomers.clear()
            if not version and not failure:
                view.stale.set()  # something changed meanwhile: draw again, to get a version
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(view.stale.wait(), _RETRY_AFTER if failure and not deleted else _REDRAW_AFTER)
                await asyncio.sleep(_GATHER_FOR)

    def _join(self, viewer: Viewer, place: LivePage, known: str) -> None:
        view = self._views.get(place.address)
        if view is None:
            view = self._views[place.address] = View(place)
            view.task = asyncio.create_task(self._keep_current(view))
        view.viewers.add(viewer)
        view.newcomers.add(viewer)
        view.stale.set()
        viewer.known[view] = known

    def _leave(self, viewer: Viewer, view: View) -> None:
        view.viewers.discard(viewer)
        view.newcomers.discard(viewer)
        if not view.viewers and self._views.get(view.place.address) is view:
            del self._views[view.place.address]
            if view.task is not None:
                view.task.cancel()

    async def stream(self, places: Iterable[tuple[LivePage, str]]) -> AsyncIterator[bytes]:
        """Changes to these pages as server-sent events. Each page comes with the version the browser has."""
        viewer = Viewer()
        for place, known in list(places)[:_MAX_PAGES]:
            self._join(viewer, place, known)
        try:
            yield b"retry: 1000\n\n"
            while not self._ending.is_set():
                try:
                    await asyncio.wait_for(viewer.wake.wait(), _HEARTBEAT)
                except TimeoutError:
                    yield _event("beat", {})  # shows that the server is alive
                viewer.wake.clear()
                while viewer.due:
                    view = viewer.due.pop()
                    for event in self._changes_for(viewer, view):
                        yield event
        finally:
            for view in list(viewer.known):
                self._leave(viewer, view)

    def _changes_for(self, viewer: Viewer, view: View) -> Iterable[bytes]:
        if view.error is not None:
            yield _event("trouble", {"page": view.place.address, "message": view.error, "gone": view.deleted})
        if view.content is None:
            viewer.has.pop(view, None)
            viewer.known[view] = ""
            return
        before = viewer.has.get(view)
        if before is None and view.version and viewer.known[view] == view.version:
            before = view.content  # it has this very drawing
        viewer.has[view] = view.content
        changes = difference(before, view.content)
        if changes is not None or before is None:
            yield _event("news", {"page": view.place.address, "version": view.version, **(changes or {})})


def difference(before: PageContent | None, after: PageContent) -> dict[str, object] | None:
    """What turns one content into the other; None if nothing differs."""
    had: Mapping[str, str] = {} if before is None else before.regions
    lists = {} if before is None else before.lists
    put = {name: html for name, html in after.regions.items() if had.get(name) != html}
    moved = {name: order for name, order in after.lists.items() if lists.get(name) != order}
    return {"put": put, "lists": moved} if put or moved else None


def _event(kind: str, data: object) -> bytes:
    return b"event: " + kind.encode() + b"\ndata: " + encoded(data) + b"\n\n"
