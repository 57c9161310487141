"""Responses: pages and errors. A program gets the documents of `--json`."""

from __future__ import annotations

import contextlib
import re
from typing import Final

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from holdfast.core.errors import HoldfastError, Invalid, NotFound, Usage
from holdfast.core.wording import error_document
from holdfast.machine import error_log
from holdfast.machine.wall import Wall
from holdfast.web.pages import PageExtra
from holdfast.web.render import render

# The kinds of `core.errors` as HTTP status codes.
CODES: Final = {
    "usage": 400, "invalid": 400, "not_found": 404, "refused": 409, "conflict": 409, "busy": 503, "damaged": 500,
    "unreachable": 502, "failed": 500,
}  # fmt: skip
API_PREFIX: Final = "/api/"


def page(html: str, code: int = 200) -> Response:
    return HTMLResponse(html, code)


def document(content: object, code: int = 200) -> Response:
    return Response(msgspec.json.encode(content), code, media_type="application/json")


def part(extra: PageExtra) -> Response:
    """Something a page asks for later; with a file name, it is a download."""
    answer = Response(extra.content, media_type=extra.media_type)
    if extra.filename is not None:
        name = re.sub(r"[^0-9A-Za-z._-]", "-", extra.filename)  # nothing that could end the name, or the header
        answer.headers["content-disposition"] = f'attachment; filename="{name}"'
    return answer


def wants_document(request: Request) -> bool:
    return request.url.path.startswith(API_PREFIX) or "application/json" in request.headers.get("accept", "")


def code_of(error: HoldfastError) -> int:
    return CODES.get(error.kind, 500)


def error(request: Request, problem: HoldfastError, *, code: int | None = None, **more: object) -> Response:
    """The error document: what happened and what to do."""
    explained = error_document(problem, operation=request.url.path.strip("/") or None, now=Wall().now())
    return document({"holdfast": 1, "error": explained, **more}, code or code_of(problem))


async def holdfast_error(request: Request, problem: Exception) -> Response:
    """One of Holdfast's own errors: what happened and what to do."""
    assert isinstance(problem, HoldfastError)
    return _answer(request, problem, code_of(problem))


def _answer(request: Request, problem: HoldfastError, code: int) -> Response:
    if wants_document(request):
        return error(request, problem, code=code)
    return page(render("error.html", error=problem, kind=problem.kind), code)


async def http_error(request: Request, problem: Exception) -> Response:
    """An error of HTTP itself: unknown address, wrong method, too large."""
    assert isinstance(problem, HTTPException)
    if problem.status_code == 404:
        hint = (
            "/api/v1/openapi.json lists all addresses."
            if request.url.path.startswith(API_PREFIX)
            else "See the pages above."
        )
        explained: HoldfastError = NotFound("no page at this address", hint=hint)
    elif problem.status_code == 405:
        allowed = (problem.headers or {}).get("Allow", "")
        explained = Usage(f"this address does not accept {request.method[:20]!a}", hint=f"It accepts {allowed}.")
    else:
        explained = Invalid(f"the request cannot be read: {problem.detail}")
    answer = _answer(request, explained, problem.status_code)
    answer.headers.update(problem.headers or {})
    return answer


async def unexpected_error(request: Request, problem: Exception) -> Response:
    """An unexpected error: logged where `doctor` finds it, and the page says so."""
    with contextlib.suppress(Exception), request.app.state.keepers.open_keeper() as keeper:
        error_log.note(keeper.home.path, "ui", f"{type(problem).__name__}: {problem}")
    explained = HoldfastError("something unexpected happened", hint="holdfast doctor shows the details.")
    return _answer(request, explained, 500)
