"""The dashboard's application: which address is answered by what."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from holdfast.core.errors import HoldfastError
from holdfast.keeper.pool import KeeperPool
from holdfast.web import action_routes, responses
from holdfast.web.api import endpoints
from holdfast.web.live import Live, LivePage
from holdfast.web.pages import Page, PageRequest, PartProvider
from holdfast.web.pages.devices import DEVICES
from holdfast.web.pages.hill import HILL
from holdfast.web.pages.history import HISTORY, more
from holdfast.web.pages.hours import HOURS, HOURS_CSV
from holdfast.web.pages.now import NOW
from holdfast.web.pages.session import SESSION, as_of, earlier, event_text
from holdfast.web.render import render
from holdfast.web.security import Secrets, SecurityMiddleware

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from holdfast.keeper.keeper import Keeper

PAGES: Final[dict[str, Page]] = {
    "/now": NOW,
    "/session/{id}": SESSION,
    "/history": HISTORY,
    "/devices": DEVICES,
    "/hours": HOURS,
    "/hill": HILL,
}
# What pages ask for later, by GET.
PARTS: Final[dict[str, PartProvider]] = {
    "/session/{id}/as-of": as_of,
    "/session/{id}/events": earlier,
    "/session/{id}/events/{hash}": event_text,
    "/history/rows": more,
    "/hours.csv": HOURS_CSV,
}
_PAGE_PATTERNS: Final = [
    (re.compile(re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+)", re.escape(where))), page) for where, page in PAGES.items()
]


def make_app(open_keeper: Callable[[], Keeper], secrets: Secrets) -> Starlette:
    keepers = KeeperPool(open_keeper)
    live = Live(keepers)

    @asynccontextmanager
    async def running(_: Starlette) -> AsyncIterator[None]:
        await live.start()
        try:
            yield
        finally:
            await live.stop()
            keepers.close()

    def page_route(page: Page) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            page_request = PageRequest(dict(request.path_params), dict(request.query_params))

            def draw(keeper: Keeper) -> str:
                content, version = live.with_version(keeper, lambda: page.content(keeper, page_request))
                return render(
                    f"{page.name}.html", page=page, content=content, version=version, run=live.run, word=secrets.word,
                    address=address(request), **page.extras(keeper, page_request),
                )  # fmt: skip

            return responses.page(await keepers.ask(draw))

        return answer

    def part_route(part: PartProvider) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            page_request = PageRequest(dict(request.path_params), dict(request.query_params))
            extra, version = await keepers.ask(
                lambda keeper: live.with_version(keeper, lambda: part(keeper, page_request))
            )
            response = responses.part(extra)
            response.headers["x-holdfast-version"] = version  # for a page that continues from this part
            return response

        return answer

    async def stream(request: Request) -> Response:
        """Events for each open page, given by one `page` and one `version` each, in order."""
        if request.method == "HEAD":  # a stream would never end
            return Response(media_type="text/event-stream")
        requested = zip(request.query_params.getlist("page"), request.query_params.getlist("version"), strict=False)
        pages = [(page, version) for path, version in requested if (page := live_page(path)) is not None]
        return StreamingResponse(
            live.stream(pages), media_type="text/event-stream", headers={"x-accel-buffering": "no"}
        )

    static = StaticFiles(directory=str(files("holdfast.web") / "static"))
    app = Starlette(
        routes=[
            Route("/", lambda _: RedirectResponse("/now", 303)),
            *(Route(path, page_route(page)) for path, page in PAGES.items()),
            *(Route(path, part_route(part)) for path, part in PARTS.items()),
            Route("/live", stream),
            *action_routes.routes(keepers, secrets, lambda path: page_at(path) is not None),
            *endpoints.routes(keepers),
            Mount("/static", static),
        ],
        middleware=[Middleware(SecurityMiddleware, secrets=secrets)],
        exception_handlers={HoldfastError: responses.holdfast_error, HTTPException: responses.http_error},
        lifespan=running,
    )
    app.router.redirect_slashes = False  # an address has one spelling
    app.state.keepers = keepers
    app.state.live = live
    return app


def address(request: Request) -> str:
    query = request.url.query
    return request.url.path + (f"?{query}" if query else "")


def live_page(url: str) -> LivePage | None:
    """The page at an address."""
    path, _, query = url.partition("?")
    match = page_at(path)
    if match is None:
        return None
    page, parameters = match
    return LivePage(url, page, PageRequest(parameters, dict(parse_qsl(query, keep_blank_values=True))))


def page_at(path: str) -> tuple[Page, dict[str, str]] | None:
    """The page at a path, and the variable parts of the path."""
    for pattern, page in _PAGE_PATTERNS:
        match = pattern.fullmatch(path)
        if match is not None:
            return page, match.groupdict()
    return None
