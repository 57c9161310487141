"""Answers: a page, and what is said when there is none. A program is told what `--json` would tell it."""

from __future__ import annotations

import contextlib
import re
from typing import Final

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from holdfast.core.errors import HoldfastError, Invalid, NotFound, Usage
from holdfast.core.event_line import error_document
from holdfast.machine import error_log
from holdfast.machine.wall import Wall
from holdfast.web.pages import PageExtra
from holdfast.web.render import render

# The kinds of `core.errors` in HTTP's words.
CODES: Final = {
    "usage": 400, "invalid": 400, "not_found": 404, "refused": 409, "conflict": 409, "busy": 503, "damaged": 500,
    "unreachable": 502, "failed": 500,
}  # fmt: skip
API: Final = "/api/"


def page(html: str, code: int = 200) -> Response:
    return HTMLResponse(html, code)


def document(content: object, code: int = 200) -> Response:
    return Response(msgspec.json.encode(content), code, media_type="application/json")


def part(found: PageExtra) -> Response:
    """Something that a page asked for later; with a name, it is a file to keep."""
    answer = Response(found.content, media_type=found.media_type)
    if found.filename is not None:
        name = re.sub(r"[^0-9A-Za-z._-]", "-", found.filename)  # nothing that ends the name, or the header
        answer.headers["content-disposition"] = f'attachment; filename="{name}"'
    return answer


def wants_document(request: Request) -> bool:
    return request.url.path.startswith(API) or "application/json" in request.headers.get("accept", "")


def code_of(error: HoldfastError) -> int:
    return CODES.get(error.kind, 500)


def error(request: Request, found: HoldfastError, *, code: int | None = None, **more: object) -> Response:
    """The document that says what happened and what to do."""
    told = error_document(found, operation=request.url.path.strip("/") or None, now=Wall().now())
    return document({"holdfast": 1, "error": told, **more}, code or code_of(found))


async def refused(request: Request, found: Exception) -> Response:
    """Something of Holdfast's own: it says what happened and what to do."""
    assert isinstance(found, HoldfastError)
    return _answer(request, found, code_of(found))


def _answer(request: Request, found: HoldfastError, code: int) -> Response:
    if wants_document(request):
        return error(request, found, code=code)
    return page(render("trouble.html", error=found, kind=found.kind), code)


async def turned_away(request: Request, found: Exception) -> Response:
    """What the machinery of HTTP does not take: nothing is there, another method is meant, too much was sent."""
    assert isinstance(found, HTTPException)
    if found.status_code == 404:
        where = (
            "/api/v1/openapi.json names what there is."
            if request.url.path.startswith(API)
            else "See the pages above."
        )
        said: HoldfastError = NotFound("there is nothing at this address", hint=where)
    elif found.status_code == 405:
        allowed = (found.headers or {}).get("Allow", "")
        said = Usage(f"this address is not for {request.method[:20]!a}", hint=f"It answers to {allowed}.")
    else:
        said = Invalid(f"the request cannot be read: {found.detail}")
    answer = _answer(request, said, found.status_code)
    answer.headers.update(found.headers or {})
    return answer


async def broken(request: Request, found: Exception) -> Response:
    """Nobody expected this: it is noted where `doctor` finds it, and the page says so."""
    with contextlib.suppress(Exception), request.app.state.desk.open_keeper() as keeper:
        error_log.note(keeper.home.path, "ui", f"{type(found).__name__}: {found}")
    said = HoldfastError("something unexpected went wrong", hint="holdfast doctor shows what was noted.")
    return _answer(request, said, 500)
