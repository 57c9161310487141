"""How the API answers: by GET, with one document."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast.web import answering
from holdfast.web.api.asked import Asked, read
from holdfast.web.api.describing import description
from holdfast.web.api.endpoints import BASE, ENDPOINTS, Endpoint

if TYPE_CHECKING:
    from holdfast.web.desk import Desk


def routes(desk: Desk) -> list[Route]:
    def answering_with(one: Endpoint) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            words = read(one.asked, request.query_params.multi_items())
            return answering.document(await desk.ask(lambda keeper: one.work(keeper, request.path_params, words)))

        return answer

    async def openapi(request: Request) -> Response:
        read(Asked, request.query_params.multi_items())
        return answering.document(description())

    return [
        Route(f"{BASE}/openapi.json", openapi),
        *(Route(path, answering_with(one)) for path, one in ENDPOINTS.items()),
    ]
