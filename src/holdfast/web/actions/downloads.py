"""Taking a session along as a file: in one of the four formats, or as a report."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast.formats import registry
from holdfast.formats.export import exported
from holdfast.formats.import_context import configured, models
from holdfast.web import responses
from holdfast.web.pages import PageExtra

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper
    from holdfast.web.keeper_pool import KeeperPool

_YAML: Final = "application/yaml"
_JSON: Final = "application/json"
# A report is read where it was saved to. In here it would be a page of ours that others wrote.
_REPORTS: Final = {"md": "text/markdown; charset=utf-8", "html": "text/html; charset=utf-8"}


def routes(desk: KeeperPool) -> list[Route]:
    async def export(request: Request) -> Response:
        return responses.part(await desk.ask(lambda keeper: _exported(keeper, *_asked(request))))

    async def report(request: Request) -> Response:
        return responses.part(await desk.ask(lambda keeper: _reported(keeper, *_asked(request))))

    return [Route("/session/{id}/export", export), Route("/session/{id}/report", report)]


def _asked(request: Request) -> tuple[str, str]:
    return request.path_params["id"], request.query_params.get("format", "")


def _exported(keeper: Keeper, reference: str, form: str) -> PageExtra:
    rules = configured(registry.named(form), models(keeper))
    state = keeper.session(reference).state()
    document, _ = exported(keeper, state, rules)
    content = rules.write(document)
    kind, end = (_JSON, "json") if content[:1] in b"{[" else (_YAML, "yaml")
    return PageExtra(content, kind, f"{_named(state.session)}-{rules.name}.{end}")


def _reported(keeper: Keeper, reference: str, form: str) -> PageExtra:
    session = keeper.session(reference)
    text = session.report(form or "md")
    return PageExtra(text.encode(), _REPORTS[form or "md"], f"{_named(session.id)}-report.{form or 'md'}")


def _named(session: str) -> str:
    """Nothing of what somebody wrote is in the name of a file."""
    return "session-" + (re.sub(r"[^0-9a-z-]", "", session.lower())[:36] or "file")
