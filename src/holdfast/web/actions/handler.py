"""How an action is done: by POST, with the word our own pages know; its answer is a sentence.

With scripts, forms are sent and answered in the background as JSON. Without them the same forms work as forms do: a
dialog is a page of its own, and what came of an action is told on one that leads back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast.core.errors import HoldfastError, Invalid, NotFound, Refused, Unreachable
from holdfast.web import responses
from holdfast.web.actions import downloads
from holdfast.web.actions.verbs import DIALOGS, VERBS, ActionAnswer, AskFirst, Form, Verb, forget
from holdfast.web.pages.map import parts
from holdfast.web.render import render
from holdfast.web.security import WORD, same
from holdfast.workspace.unit import explain_outage

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper
    from holdfast.web.keeper_pool import KeeperPool
    from holdfast.web.security import Secrets

_FORM: Final = "application/x-www-form-urlencoded"
_MOST: Final = 100  # fields of a form


def routes(desk: KeeperPool, secrets: Secrets) -> list[Route]:
    def act(work: Verb) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            form = await words(request, secrets)
            session: str = request.path_params.get("id", "")

            def do(keeper: Keeper) -> ActionAnswer | str:
                forget(keeper)
                try:
                    return work(keeper, session, form)
                except Unreachable as error:
                    raise explain_outage(keeper, error) from None

            try:
                done = await desk.ask(do)
            except AskFirst as asked:
                if responses.wants_document(request):
                    return responses.error(request, asked.error, dialog=asked.dialog)
                return await shown(session, asked.dialog, asked.error)
            said = done if isinstance(done, ActionAnswer) else ActionAnswer(done)
            if responses.wants_document(request):
                return responses.document({"holdfast": 1, "said": said.text, "more": said.more, "copy": said.command})
            return responses.page(render("dialog-done.html", said=said, back=_back(request)))

        return answer

    async def dialog(request: Request) -> Response:
        session, name = request.path_params["id"], request.path_params["name"]
        return await shown(session, name, None, alone="piece" not in request.query_params)

    async def shown(session: str, name: str, error: HoldfastError | None, *, alone: bool = True) -> Response:
        if name not in DIALOGS:
            raise NotFound("there is no such dialog")

        def draw(keeper: Keeper) -> str:
            inner = render(f"dialog-{name}.html", **DIALOGS[name](keeper, session))
            return render("dialog-alone.html", dialog=inner, error=error) if alone else inner

        return responses.page(await desk.ask(draw), 200 if error is None else responses.code_of(error))

    return [
        Route("/session/{id}/dialog/{name}", dialog),
        *downloads.routes(desk),
        *(Route(where, act(work), methods=["POST"]) for where, work in VERBS.items()),
    ]


async def words(request: Request, secrets: Secrets) -> Form:
    """What the form says, once it has shown that it is one of ours."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
        raise Invalid("this is not a form", hint=f"It is sent as {_FORM}.")
    try:
        pairs = parse_qsl(
            (await request.body()).decode(), keep_blank_values=True, max_num_fields=_MOST, errors="strict"
        )
    except ValueError:
        raise Invalid("the form cannot be read") from None
    # Forms break lines in their own way.
    found = {name: value.replace("\r\n", "\n") for name, value in pairs}
    said = found.pop("word", "")
    if not request.scope.get("program") and not same(request.headers.get(WORD) or said, secrets.word):
        raise Refused("this form is not from a page of this dashboard", hint="Load the page again.")
    if any("\0" in value for value in found.values()):
        raise Invalid("a text holds a character that no text may hold")
    return found


def _back(request: Request) -> str:
    """Where the person was: our own pages only."""
    origin = f"http://{request.headers.get('host')}"
    came = request.headers.get("referer", "")
    if came.startswith(origin) and parts(came.removeprefix(origin).partition("?")[0]) is not None:
        return came.removeprefix(origin)
    session = request.path_params.get("id")
    return f"/session/{quote(session, safe='')}" if session else "/now"
