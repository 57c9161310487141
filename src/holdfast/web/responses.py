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
from holdfast.core.wording import error_document
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


def part(extra: PageExtra) -> Response:
    """Something that a page asked for later; with a name, it is a file to keep."""
    answer = Response(extra.content, media_type=extra.media_type)
    if extra.filename is not None:
        name = re.sub(r"[^0-9A-Za-z._-]", "-", extra.filename)  # nothing that ends the name, or the header
        answer.headers["content-disposition"] = f'attachment; filename="{name}"'
    return answer


def wants_document(request: Request) -> bool:
    return request.url.path.startswith(API) or "application/json" in request.headers.get("accept", "")


def code_of(error: HoldfastError) -> int:
    return CODES.get(error.kind, 500)


def error(request: Request, problem: HoldfastError, *, code: int | None = None, **more: object) -> Response:
    """The document that says what happened and what to do."""
    explained = error_document(problem, operation=request.url.path.strip("/") or None, now=Wall().now())
    return document({"holdfast": 1, "error": explained, **more}, code or code_of(problem))


async def holdfast_error(request: Request, problem: Exception) -> Response:
    """Something of Holdfast's own: it says what happened and what to do."""
    assert isinstance(problem, HoldfastError)
    return _answer(request, problem, code_of(problem))


def _answer(request: Request, problem: HoldfastError, code: int) -> Response:
    if wants_document(request):
        return error(request, problem, code=code)
    return page(render("trouble.html", error=problem, kind=problem.kind), code)


async def http_error(request: Request, problem: Exception) -> Response:
    """What the machinery of HTTP does not take: nothing is there, another method is meant, too much was sent."""
    assert isinstance(problem, HTTPException)
    if problem.status_code == 404:
        where = (
            "/api/v1/openapi.json names what there is."
            if request.url.path.startswith(API)
            else "See the pages above."
        )
        explained: HoldfastError = NotFound("there is nothing at this address", hint=where)
    elif problem.status_code == 405:
        allowed = (problem.headers or {}).get("Allow", "")
        explained = Usage(f"this address is not for {request.method[:20]!a}", hint=f"It answers to {allowed}.")
    else:
        explained = Invalid(f"the request cannot be read: {problem.detail}")
    answer = _answer(request, explained, problem.status_code)
    answer.headers.update(problem.headers or {})
    return answer


async def unexpected_error(request: Request, problem: Exception) -> Response:
    """Nobody expected this: it is noted where `doctor` finds it, and the page says so."""
    with contextlib.suppress(Exception), request.app.state.keepers.open_keeper() as keeper:
        error_log.note(keeper.home.path, "ui", f"{type(problem).__name__}: {problem}")
    explained = HoldfastError("something unexpected went wrong", hint="holdfast doctor shows what was noted.")
    return _answer(request, explained, 500)
