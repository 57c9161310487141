"""Prompts: what a person picks to have the agent go on, hand over or wrap up, each with the present briefing."""

from __future__ import annotations

from typing import Annotated, Any, Final

from mcp.server.mcpserver import MCPServer, UserMessage
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS
from pydantic import Field

from holdfast.keeper.keeper import Keeper
from holdfast.mcp import refusing
from holdfast.mcp.ground import Ground, looked_at
from holdfast.mcp.offering import Name, Text
from holdfast.mcp.resources import briefing_of

_SESSION: Final = Field(description="A session by id; the current one by default")
_REMARK: Final = Field(description="Anything you want to add")


def add(server: MCPServer[Any], ground: Ground) -> None:
    async def asked(words: str, session: str, remark: str) -> list[UserMessage]:
        def work(keeper: Keeper) -> str:
            return briefing_of(
                looked_at(keeper, session) if session else keeper.current() or keeper.latest_unfinished()
            )

        try:
            briefing = await ground.look("", work)
        except Exception as error:  # noqa: BLE001 (all of it is told, in one form)
            raise MCPError(INVALID_PARAMS, refusing.told(error, ground.home(), "mcp prompt")) from None
        return [UserMessage("\n\n".join([words, *([remark] if remark else []), briefing]))]

    @server.prompt(name="continue", title="Go on", description="Go on with the session where it stopped.")
    async def go_on(
        session: Annotated[Name, _SESSION] = "", remark: Annotated[Text, _REMARK] = ""
    ) -> list[UserMessage]:
        return await asked(
            "Go on with this session. Call resume_session first; it settles what an interruption left behind and "
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
        session: Annotated[Name, _SESSION] = "", remark: Annotated[Text, _REMARK] = ""
    ) -> list[UserMessage]:
        return await asked(
            "Hand this session over. Look at what was really done since the briefing below, and call record with "
            "what is missing in it: tasks done and left, decisions and their reasons, files changed, and one note "
            "that tells whoever goes on what to do first and what to beware of. Then call pause_session, and show "
            "me that note.",
            session, remark,
        )  # fmt: skip

    @server.prompt(
        name="wrap_up", title="Wrap up", description="Check that the goal is reached, and finish the session."
    )
    async def wrap_up(
        session: Annotated[Name, _SESSION] = "", remark: Annotated[Text, _REMARK] = ""
    ) -> list[UserMessage]:
        return await asked(
            "Wrap this session up. Compare its goal and its plan with what was really done; call record for what is "
            "missing. If something is left, tell me and stop there. Otherwise call finish_session with a summary of "
            "one or two lines, and show it to me.",
            session, remark,
        )  # fmt: skip
