"""The map of the dashboard: which address is answered by what."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from holdfast.core.errors import HoldfastError
from holdfast.web import responses
from holdfast.web.actions import handler
from holdfast.web.api import routes as api
from holdfast.web.keeper_pool import KeeperPool
from holdfast.web.live import Live, LivePage
from holdfast.web.pages import GivesPart, Page, PageRequest
from holdfast.web.pages.map import ADDRESSES, PARTS, parts
from holdfast.web.render import render
from holdfast.web.security import Gate, Secrets

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from holdfast.keeper.keeper import Keeper


def make_app(open_keeper: Callable[[], Keeper], secrets: Secrets) -> Starlette:
    desk = KeeperPool(open_keeper)
    live = Live(desk)

    @asynccontextmanager
    async def running(_: Starlette) -> AsyncIterator[None]:
        await live.start()
        try:
            yield
        finally:
            await live.stop()
            desk.close()

    def shown(page: Page) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            asked = PageRequest(dict(request.path_params), dict(request.query_params))

            def draw(keeper: Keeper) -> str:
                shot, version = live.seen(keeper, lambda: page.shot(keeper, asked))
                return render(
                    f"{page.name}.html", page=page, shot=shot, asked=asked, version=version, run=live.run,
                    word=secrets.word, address=address(request), **page.extras(keeper, asked),
                )  # fmt: skip

            return responses.page(await desk.ask(draw))

        return answer

    def given(part: GivesPart) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            asked = PageRequest(dict(request.path_params), dict(request.query_params))
            found, version = await desk.ask(lambda keeper: live.seen(keeper, lambda: part(keeper, asked)))
            made = responses.part(found)
            made.headers["x-holdfast-version"] = version  # for a page that goes on from this part
            return made

        return answer

    async def stream(request: Request) -> Response:
        """`page` and `version`, once for each page that is open, in turn."""
        if request.method == "HEAD":  # which would never end
            return Response(media_type="text/event-stream")
        asked = zip(request.query_params.getlist("page"), request.query_params.getlist("version"), strict=False)
        places = [(place, version) for where, version in asked if (place := placed(where)) is not None]
        return StreamingResponse(
            live.stream(places), media_type="text/event-stream", headers={"x-accel-buffering": "no"}
        )

    static = StaticFiles(directory=str(files("holdfast.web") / "static"))
    app = Starlette(
        routes=[
            Route("/", lambda _: RedirectResponse("/now", 303)),
            *(Route(where, shown(page)) for where, page in ADDRESSES.items()),
            *(Route(where, given(part)) for where, part in PARTS.items()),
            Route("/live", stream),
            *handler.routes(desk, secrets),
            *api.routes(desk),
            Mount("/static", static),
        ],
        middleware=[Middleware(Gate, secrets=secrets)],
        exception_handlers={HoldfastError: responses.refused, HTTPException: responses.turned_away},
        lifespan=running,
    )
    app.router.redirect_slashes = False  # an address has one spelling
    app.state.desk = desk
    app.state.live = live
    return app


def address(request: Request) -> str:
    query = request.url.query
    return request.url.path + (f"?{query}" if query else "")


def placed(where: str) -> LivePage | None:
    """The page that an address means."""
    path, _, query = where.partition("?")
    found = parts(path)
    if found is None:
        return None
    page, words = found
    return LivePage(where, page, PageRequest(words, dict(parse_qsl(query, keep_blank_values=True))))
