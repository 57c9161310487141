"""The OpenAPI description, made from the addresses and the types of what they take and give."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast import __version__
from holdfast.core.text import MAX_NAME_LENGTH
from holdfast.web import responses
from holdfast.web.api.documents import ErrorDocument
from holdfast.web.api.endpoints import BASE, ENDPOINTS, Endpoint
from holdfast.web.api.parameters import Parameters, read

if TYPE_CHECKING:
    from holdfast.web.keeper_pool import KeeperPool

_NAME: Final = "^[^\\s/\\u0000-\\u001f\\u007f-\\u00a0]+$"
_REF: Final = "#/components/schemas/{name}"
_FAILURES: Final = {
    "400": "A parameter is not what it must be",
    "401": "The token of this run is missing or wrong",
    "404": "There is no such session, or it had not begun",
    "405": "The API only reads",
    "500": "Stored data is damaged, or something unexpected happened",
    "502": "The server that keeps the store cannot be reached; trying again when it is back helps",
    "503": "Another process held the store too long; trying again helps",
}


@cache
def description() -> dict[str, Any]:
    kinds = [kind for endpoint in ENDPOINTS.values() for kind in (*endpoint.answers, endpoint.asked)]
    _, schemas = msgspec.json.schema_components([*kinds, ErrorDocument], ref_template=_REF)
    paths = {path: {"get": _operation(path, endpoint, schemas)} for path, endpoint in ENDPOINTS.items()}
    for endpoint in ENDPOINTS.values():
        schemas.pop(endpoint.asked.__name__, None)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Holdfast",
            "version": __version__,
            "description": "What the dashboard shows, to read. `holdfast ui --json --no-open` tells the token.",
        },
        "paths": {
            **paths,
            f"{BASE}/openapi.json": {"get": {
                "operationId": "openapi", "summary": "This description",
                "responses": {"200": {"description": "The description", "content": {"application/json": {"schema": {
                    "type": "object"}}}}, **_failures({"400", "401", "405"})},
            }},
        },
        "components": {"schemas": schemas, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{"token": []}],
    }  # fmt: skip


def _operation(path: str, one: Endpoint, schemas: dict[str, Any]) -> dict[str, Any]:
    kinds = [{"$ref": _REF.format(name=kind.__name__)} for kind in one.answers]
    answer = _content(kinds[0] if len(kinds) == 1 else {"oneOf": kinds})
    return {
        "operationId": one.name,
        "summary": one.summary,
        "description": " ".join((one.work.__doc__ or "").split()),
        "parameters": [*_in_path(path), *_in_query(schemas[one.asked.__name__])],
        "responses": {"200": {"description": one.summary, "content": answer}, **_failures(set(_FAILURES))},
    }


def _in_path(path: str) -> list[dict[str, Any]]:
    schema = {"type": "string", "minLength": 1, "maxLength": MAX_NAME_LENGTH, "pattern": _NAME}
    about = "The id of a session, a unique beginning of it, an alias, or @ for the current one"
    return [
        {"name": name, "in": "path", "required": True, "description": about, "schema": schema}
        for name in re.findall(r"{(\w+)}", path)
    ]


def _in_query(struct: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "query", "required": False, "description": schema.get("description", ""),
         "schema": {key: value for key, value in schema.items() if key != "description"}}
        for name, schema in struct["properties"].items()
    ]  # fmt: skip


def _failures(codes: set[str]) -> dict[str, Any]:
    content = _content({"$ref": _REF.format(name=ErrorDocument.__name__)})
    return {code: {"description": about, "content": content} for code, about in _FAILURES.items() if code in codes}


def _content(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def routes(desk: KeeperPool) -> list[Route]:
    def answering_with(one: Endpoint) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            words = read(one.asked, request.query_params.multi_items())
            return responses.document(await desk.ask(lambda keeper: one.work(keeper, request.path_params, words)))

        return answer

    async def openapi(request: Request) -> Response:
        read(Parameters, request.query_params.multi_items())
        return responses.document(description())

    return [
        Route(f"{BASE}/openapi.json", openapi),
        *(Route(path, answering_with(endpoint)) for path, endpoint in ENDPOINTS.items()),
    ]
