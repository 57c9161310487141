"""Resources: what can be read by its address. The session and its briefing, the current one or by id, and history."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError

from holdfast.core.errors import NotFound
from holdfast.keeper.keeper import Keeper
from holdfast.keeper.session import SessionHandle
from holdfast.mcp import errors
from holdfast.mcp.answers import Found, Standing
from holdfast.mcp.context import McpContext, looked_at
from holdfast.mcp.results import NOTHING, most_urgent, short_rows, trim
from holdfast.sessions.overview import session_card

_ROOM: Final = 30_000  # characters; whoever asks for a resource wants more than a glance
_ROWS: Final = 50
_JSON: Final = "application/json"
_MARKDOWN: Final = "text/markdown"


def add(server: MCPServer[Any], ground: McpContext) -> None:
    async def read(work: Callable[[Keeper], str]) -> str:
        try:
            return await ground.look("", work)
        except NotFound as error:
            raise ResourceNotFoundError(errors.error_text(error, ground.home(), "mcp resource")) from None
        except Exception as error:  # noqa: BLE001 (all of it is told, in one form)
            raise ResourceError(errors.error_text(error, ground.home(), "mcp resource")) from None

    @server.resource(
        "holdfast://session/current", name="current-session", title="The current session", mime_type=_JSON,
        description="The project's current session as JSON; null where there is none.",
    )  # fmt: skip
    async def current_session() -> str:
        return await read(lambda keeper: _document(keeper.current()))

    @server.resource(
        "holdfast://briefing/current", name="current-briefing", title="Its briefing", mime_type=_MARKDOWN,
        description="Where the current session stands: the text that lets an agent go on.",
    )  # fmt: skip
    async def current_briefing() -> str:
        return await read(lambda keeper: briefing_of(keeper.current()))

    @server.resource(
        "holdfast://history", name="history", title="Past and present sessions", mime_type=_JSON,
        description=f"The project's latest {_ROWS} sessions as JSON; search_history looks further.",
    )  # fmt: skip
    async def history() -> str:
        return await read(_history)

    @server.resource(
        "holdfast://session/{id}", name="session", title="A session", mime_type=_JSON,
        description="Any session as JSON, by its id, a unique prefix of it, or an alias.",
    )  # fmt: skip
    async def session(id: str) -> str:  # noqa: A002 (the address's word)
        return await read(lambda keeper: _document(looked_at(keeper, id)))

    @server.resource(
        "holdfast://briefing/{id}", name="briefing", title="A session's briefing", mime_type=_MARKDOWN,
        description="Where a session stands, by its id, a unique prefix of it, or an alias.",
    )  # fmt: skip
    async def briefing(id: str) -> str:  # noqa: A002
        return await read(lambda keeper: briefing_of(looked_at(keeper, id)))


def briefing_of(session: SessionHandle | None) -> str:
    return f"{NOTHING} Begin one with start_session." if session is None else session.briefing(reader="agent")


def _document(session: SessionHandle | None) -> str:
    if session is None:
        return _written(Standing(session=None, briefing=None, attention=[], notes=[], left_out=[]))
    look = session_card(session.keeper, session.id)
    shown, left = trim(look.session, _ROOM)
    return _written(
        Standing(session=shown, briefing=None, attention=most_urgent(look.attention), notes=[], left_out=left)
    )


def _history(keeper: Keeper) -> str:
    rows = keeper.history(limit=_ROWS + 1)
    return _written(
        Found(sessions=short_rows(rows[:_ROWS]), cursor=rows[_ROWS - 1].id if len(rows) > _ROWS else None)
    )


def _written(answer: Standing | Found) -> str:
    return msgspec.json.encode(answer).decode()
