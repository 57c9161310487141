"""An agent that uses the server: a project, a home, and the library's own client in the same process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import jsonschema
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, TextContent, TextResourceContents, Tool

from holdfast.core.envelope import Event
from holdfast.keeper.keeper import Keeper
from holdfast.mcp.context import McpContext, ServerOptions
from holdfast.mcp.server import HoldfastServer
from mcp import Client

T = TypeVar("T")
CURRENT, PREVIOUS = "2026-07-28", "legacy"


class AgentClient:
    def __init__(self, root: Path, mode: str = CURRENT, **options: Any) -> None:
        self.root = root
        self.project = root / "webshop"
        self.home = root / "home"
        self.project.mkdir(exist_ok=True)
        self.home.mkdir(mode=0o700, exist_ok=True)
        (self.home / "config.toml").write_text('[device]\nname = "laptop"\n\n[sync]\nbackground = false\n')
        self.context = McpContext(ServerOptions(directory=str(self.project), home=str(self.home), actor="ada"))
        self.server = HoldfastServer(self.context)
        self.mode = mode
        self.options = options

    def close(self) -> None:
        self.context.close()

    def talk(self, work: Callable[[Client], Awaitable[T]], **options: Any) -> T:
        """One conversation of a client with the server."""

        async def conversation() -> T | MCPError:
            async with Client(self.server, mode=self.mode, **{**self.options, **options}) as client:
                try:
                    return await work(client)
                except MCPError as error:
                    return error  # raised here, it would be wrapped in an exception group

        outcome = asyncio.run(conversation())
        if isinstance(outcome, MCPError):
            raise outcome
        return outcome

    def call(self, tool: str, /, **arguments: Any) -> CallToolResult:
        """Call a tool; a result without an error must match the tool's published schema."""

        tools = self.tools

        async def calling(client: Client) -> CallToolResult:
            result = await client.call_tool(tool, arguments)
            assert isinstance(result, CallToolResult)
            if not result.is_error:
                jsonschema.Draft202012Validator(tools[tool].output_schema or {}).validate(result.structured_content)
            return result

        return self.talk(calling)

    @cached_property
    def tools(self) -> dict[str, Tool]:
        return {tool.name: tool for tool in self.talk(lambda client: client.list_tools()).tools}

    def done(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Call a tool that must succeed; gives its structured answer."""
        result = self.call(tool, **arguments)
        assert not result.is_error, text_of(result)
        answer: dict[str, Any] | None = result.structured_content
        assert answer is not None
        return answer

    def refused(self, tool: str, /, **arguments: Any) -> str:
        """Call a tool that must fail, changing nothing; gives what it says."""
        before = self.events()
        result = self.call(tool, **arguments)
        assert result.is_error, result.structured_content
        assert self.events() == before
        text = text_of(result)
        assert "Traceback" not in text
        assert len(text) <= 2_000
        return text

    def read(self, uri: str) -> str:
        async def reading(client: Client) -> str:
            contents = (await client.read_resource(uri)).contents
            assert isinstance(contents[0], TextResourceContents)
            return contents[0].text

        return self.talk(reading)

    def prompt(self, name: str, **arguments: str) -> str:
        async def prompting(client: Client) -> str:
            prompt = await client.get_prompt(name, arguments)
            content = prompt.messages[0].content
            assert isinstance(content, TextContent)
            return content.text

        return self.talk(prompting)

    def keeper(self, project: Path | None = None) -> Keeper:
        return Keeper.open(str(project or self.project), home=str(self.home), actor="ada")

    def events(self) -> list[Event]:
        """All recorded events."""
        with self.keeper() as keeper:
            store = keeper.existing_store()
            return [] if store is None else [event for name in store.sessions() for event in store.events(name)]


def text_of(result: CallToolResult) -> str:
    assert isinstance(result.content[0], TextContent)
    return result.content[0].text
