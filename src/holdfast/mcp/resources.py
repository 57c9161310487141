"""Resources (sessions, briefings and history by address) and prompts (continue, hand over, wrap up)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final

import msgspec
from mcp.server.mcpserver import MCPServer, UserMessage
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS
from pydantic import Field

from holdfast.core.errors import NotFound
from holdfast.keeper.keeper import Keeper
from holdfast.keeper.session import SessionHandle
from holdfast.mcp import errors
from holdfast.mcp.answers import Found, Standing
from holdfast.mcp.context import McpContext, session_to_read
from holdfast.mcp.results import NO_SESSION, most_urgent, short_rows, trim
from holdfast.mcp.tool import Name, Text
from holdfast.sessions.overview import session_card

_MAX_CHARS: Final = 30_000  # more than a tool returns: a resource is read for its detail
_MAX_ROWS: Final = 50
_JSON: Final = "application/json"
_MARKDOWN: Final = "text/markdown"
_SESSION_FIELD: Final = Field(description="A session by id; the current one by default")
_REMARK_FIELD: Final = Field(description="Anything you want to add")


def add_resources(server: MCPServer[Any], context: McpContext) -> None:
    async def read(work: Callable[[Keeper], str]) -> str:
        try:
            return await context.read("", work)
        except NotFound as error:
            raise ResourceNotFoundError(errors.error_text(error, context.home(), "mcp resource")) from None
        except Exception as error:  # noqa: BLE001 (reported in one form)
            raise ResourceError(errors.error_text(error, context.home(), "mcp resource")) from None

    @server.resource(
        "holdfast://session/current", name="current-session", title="The current session", mime_type=_JSON,
        description="The project's current session as JSON; null if there is none.",
    )  # fmt: skip
    async def current_session() -> str:
        return await read(lambda keeper: _document(keeper.current()))

    @server.resource(
        "holdfast://briefing/current", name="current-briefing", title="The current briefing", mime_type=_MARKDOWN,
        description="The briefing of the current session: the text an agent needs to continue it.",
    )  # fmt: skip
    async def current_briefing() -> str:
        return await read(lambda keeper: briefing_of(keeper.current()))

    @server.resource(
        "holdfast://history", name="history", title="Past and present sessions", mime_type=_JSON,
        description=f"The project's latest {_MAX_ROWS} sessions as JSON; search_history looks further.",
    )  # fmt: skip
    async def history() -> str:
        return await read(_history)

    @server.resource(
        "holdfast://session/{id}", name="session", title="A session", mime_type=_JSON,
        description="Any session as JSON, by its id, a unique prefix of it, or an alias.",
    )  # fmt: skip
    async def session(id: str) -> str:  # noqa: A002 (the name in the address)
        return await read(lambda keeper: _document(session_to_read(keeper, id)))

    @server.resource(
        "holdfast://briefing/{id}", name="briefing", title="A session's briefing", mime_type=_MARKDOWN,
        description="The briefing of a session, by its id, a unique prefix of it, or an alias.",
    )  # fmt: skip
    async def briefing(id: str) -> str:  # noqa: A002
        return await read(lambda keeper: briefing_of(session_to_read(keeper, id)))


def add_prompts(server: MCPServer[Any], context: McpContext) -> None:
    async def prompt(instructions: str, session: str, remark: str) -> list[UserMessage]:
        def work(keeper: Keeper) -> str:
            return briefing_of(
                session_to_read(keeper, session) if session else keeper.current() or keeper.latest_unfinished()
            )

        try:
            briefing = await context.read("", work)
        except Exception as error:  # noqa: BLE001 (reported in one form)
            raise MCPError(INVALID_PARAMS, errors.error_text(error, context.home(), "mcp prompt")) from None
        return [UserMessage("\n\n".join([instructions, *([remark] if remark else []), briefing]))]

    @server.prompt(name="continue", title="Continue", description="Continue the session where it stopped.")
    async def continue_(
        session: Annotated[Name, _SESSION_FIELD] = "", remark: Annotated[Text, _REMARK_FIELD] = ""
    ) -> list[UserMessage]:
        return await prompt(
            "Continue this session. Call resume_session first; it settles what an interruption left behind and "
            "gives the latest briefing. Say in two sentences where things stand and what you will do next, then do "
            "it, and call record after each step.",
            session, remark,
        )  # fmt: skip

    @server.prompt(
        name="hand_over",
        title="Hand over",
        description="Write down everything the next person or agent needs, and pause.",
    )
    async def hand_over(
        session: Annotated[Name, _SESSION_FIELD] = "", remark: Annotated[Text, _REMARK_FIELD] = ""
    ) -> list[UserMessage]:
        return await prompt(
            "Hand this session over. Look at what was actually done since the briefing below, and call record with "
            "what is missing in it: tasks done and left, decisions and their reasons, files changed, and one note "
            "that tells the next agent what to do first and what to watch out for. Then call pause_session, and show "
            "me that note.",
            session, remark,
        )  # fmt: skip

    @server.prompt(
        name="wrap_up", title="Wrap up", description="Check that the goal is reached, and finish the session."
    )
    async def wrap_up(
        session: Annotated[Name, _SESSION_FIELD] = "", remark: Annotated[Text, _REMARK_FIELD] = ""
    ) -> list[UserMessage]:
        return await prompt(
            "Wrap this session up. Compare its goal and its plan with what was actually done; call record for what "
            "is missing. If something is left, tell me and stop there. Otherwise call finish_session with a summary "
            "of one or two lines, and show it to me.",
            session, remark,
        )  # fmt: skip


def briefing_of(session: SessionHandle | None) -> str:
    return f"{NO_SESSION} Start one with start_session." if session is None else session.briefing(reader="agent")


def _document(session: SessionHandle | None) -> str:
    if session is None:
        return _json(Standing(session=None, briefing=None, attention=[], notes=[], left_out=[]))
    card = session_card(session.keeper, session.id)
    shown, left_out = trim(card.session, _MAX_CHARS)
    return _json(
        Standing(session=shown, briefing=None, attention=most_urgent(card.attention), notes=[], left_out=left_out)
    )


def _history(keeper: Keeper) -> str:
    rows = keeper.history(limit=_MAX_ROWS + 1)
    return _json(
        Found(sessions=short_rows(rows[:_MAX_ROWS]), cursor=rows[_MAX_ROWS - 1].id if len(rows) > _MAX_ROWS else None)
    )


def _json(answer: Standing | Found) -> str:
    return msgspec.json.encode(answer).decode()
