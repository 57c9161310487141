"""Routes of actions: forms sent by POST, dialogs, and downloads of a session.

A form carries the word that only our own pages know, and is answered with a sentence. With scripts, forms are sent in
the background and answered as JSON. Without them they work as plain forms: a dialog is a separate page, and the
result is a page with a link back.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast.core.errors import HoldfastError, Invalid, NotFound, Refused, Unreachable
from holdfast.formats import registry
from holdfast.formats.export import export_document
from holdfast.formats.import_context import configured, models
from holdfast.web import responses
from holdfast.web.actions import DIALOGS, VERBS, ActionAnswer, Form, NeedsDialog, Verb, clear_notices
from holdfast.web.pages import PageExtra
from holdfast.web.render import render
from holdfast.web.security import WORD_HEADER, equal_secrets
from holdfast.workspace.unit import explain_outage

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper
    from holdfast.keeper.pool import KeeperPool
    from holdfast.web.security import Secrets

_FORM: Final = "application/x-www-form-urlencoded"
_MAX_FIELDS: Final = 100
_YAML: Final = "application/yaml"
_JSON: Final = "application/json"
# Reports are downloaded, not shown: in here their text, which others wrote, would be a page of ours.
_REPORTS: Final = {"md": "text/markdown; charset=utf-8", "html": "text/html; charset=utf-8"}


def routes(keepers: KeeperPool, secrets: Secrets, is_page: Callable[[str], bool]) -> list[Route]:
    """Actions, dialogs and downloads. `is_page` says of a path whether it is one of our pages."""

    def act(work: Verb) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            form = await read_form(request, secrets)
            session: str = request.path_params.get("id", "")

            def do(keeper: Keeper) -> ActionAnswer | str:
                clear_notices(keeper)
                try:
                    return work(keeper, session, form)
                except Unreachable as error:
                    raise explain_outage(keeper, error) from None

            try:
                outcome = await keepers.ask(do)
            except NeedsDialog as refusal:
                if responses.wants_document(request):
                    return responses.error(request, refusal.error, dialog=refusal.dialog)
                return await draw_dialog(session, refusal.dialog, refusal.error)
            result = outcome if isinstance(outcome, ActionAnswer) else ActionAnswer(outcome)
            if responses.wants_document(request):
                return responses.document(
                    {"holdfast": 1, "said": result.text, "more": result.more, "copy": result.command}
                )
            return responses.page(render("dialog-done.html", result=result, back=_back(request, is_page)))

        return answer

    async def dialog(request: Request) -> Response:
        session, name = request.path_params["id"], request.path_params["name"]
        return await draw_dialog(session, name, None, alone="piece" not in request.query_params)

    async def draw_dialog(session: str, name: str, error: HoldfastError | None, *, alone: bool = True) -> Response:
        if name not in DIALOGS:
            raise NotFound("unknown dialog")

        def draw(keeper: Keeper) -> str:
            inner = render(f"dialog-{name}.html", **DIALOGS[name](keeper, session))
            return render("dialog-alone.html", dialog=inner, error=error) if alone else inner

        return responses.page(await keepers.ask(draw), 200 if error is None else responses.code_of(error))

    return [
        Route("/session/{id}/dialog/{name}", dialog),
        *_downloads(keepers),
        *(Route(path, act(work), methods=["POST"]) for path, work in VERBS.items()),
    ]


async def read_form(request: Request, secrets: Secrets) -> Form:
    """The form's fields. Refused unless it came from one of our pages."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
        raise Invalid("expected a form", hint=f"Send it as {_FORM}.")
    try:
        pairs = parse_qsl(
            (await request.body()).decode(), keep_blank_values=True, max_num_fields=_MAX_FIELDS, errors="strict"
        )
    except ValueError:
        raise Invalid("the form cannot be read") from None
    # Browsers send line breaks as CRLF.
    form = {name: value.replace("\r\n", "\n") for name, value in pairs}
    word = form.pop("word", "")
    if not request.scope.get("program") and not equal_secrets(request.headers.get(WORD_HEADER) or word, secrets.word):
        raise Refused("this form does not come from this dashboard", hint="Reload the page.")
    if any("\0" in value for value in form.values()):
        raise Invalid("a field contains a null character")
    return form


def _back(request: Request, is_page: Callable[[str], bool]) -> str:
    """The page the person came from, if it is one of ours."""
    origin = f"http://{request.headers.get('host')}"
    referer = request.headers.get("referer", "")
    path = referer.removeprefix(origin)
    if referer.startswith(origin) and is_page(path.partition("?")[0]):
        return path
    session = request.path_params.get("id")
    return f"/session/{quote(session, safe='')}" if session else "/now"


# ── downloads ────────────────────────────────────────────────────────────────────────────────────────────


def _downloads(keepers: KeeperPool) -> list[Route]:
    async def export(request: Request) -> Response:
        return responses.part(await keepers.ask(lambda keeper: _export(keeper, *_download_of(request))))

    async def report(request: Request) -> Response:
        return responses.part(await keepers.ask(lambda keeper: _report(keeper, *_download_of(request))))

    return [Route("/session/{id}/export", export), Route("/session/{id}/report", report)]


def _download_of(request: Request) -> tuple[str, str]:
    return request.path_params["id"], request.query_params.get("format", "")


def _export(keeper: Keeper, reference: str, form: str) -> PageExtra:
    rules = configured(registry.format_named(form), models(keeper))
    state = keeper.session(reference).state()
    document, _ = export_document(keeper, state, rules)
    content = rules.write(document)
    kind, end = (_JSON, "json") if content[:1] in b"{[" else (_YAML, "yaml")
    return PageExtra(content, kind, f"{_file_name(state.session)}-{rules.name}.{end}")


def _report(keeper: Keeper, reference: str, form: str) -> PageExtra:
    session = keeper.session(reference)
    text = session.report(form or "md")
    return PageExtra(text.encode(), _REPORTS[form or "md"], f"{_file_name(session.id)}-report.{form or 'md'}")


def _file_name(session: str) -> str:
    """Recorded text never becomes part of a file name."""
    return "session-" + (re.sub(r"[^0-9a-z-]", "", session.lower())[:36] or "file")
