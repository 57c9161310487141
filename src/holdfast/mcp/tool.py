"""A tool as it is offered: its words, what it takes, what it answers, and honest hints about what it does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from mcp.server.mcpserver.tools import Tool
from mcp_types import ToolAnnotations
from pydantic import BeforeValidator, Field

from holdfast.core.text import MAX_NAME_LENGTH, MAX_PATH_LENGTH
from holdfast.mcp import answers

LONGEST_TEXT = 20_000
MOST_ENTRIES = 100

Project = Annotated[
    str,
    Field(
        description="The project's directory, absolute. Default: where the server runs.", max_length=MAX_PATH_LENGTH
    ),
]
Reference = Annotated[
    str,
    Field(
        max_length=MAX_NAME_LENGTH, description="A session: id, unique prefix of it, or alias. Default: the current."
    ),
]  # fmt: skip
Name = Annotated[str, Field(max_length=MAX_NAME_LENGTH)]
Text = Annotated[str, Field(max_length=LONGEST_TEXT)]


def _no_flag(value: Any) -> Any:
    """A number is not a flag, though Python takes one for the other."""
    if isinstance(value, bool):
        raise ValueError("a number belongs here, not true or false")  # noqa: TRY004 (what pydantic reads)
    return value


Fraction = Annotated[float, BeforeValidator(_no_flag), Field(ge=0, le=1)]
Count = Annotated[int, BeforeValidator(_no_flag), Field(ge=0, le=10**12)]

Body = Callable[..., Any]


def offer(
    body: Body,
    answer: type[answers.Answer],
    *,
    title: str,
    description: str,
    reads: bool = False,
    destroys: bool = False,
    repeatable: bool = False,
    outside: bool = False,
) -> Tool:
    """`reads`: it changes nothing. `destroys`: what it does cannot be taken back. `repeatable`: twice is as once.
    `outside`: it talks to something beyond this machine.
    """
    hints = ToolAnnotations(
        title=title, read_only_hint=reads, destructive_hint=destroys, idempotent_hint=repeatable or reads,
        open_world_hint=outside,
    )  # fmt: skip
    tool = Tool.from_function(
        body, name=body.__name__, title=title, description=description, annotations=hints, structured_output=False
    )
    tool.fn_metadata.output_schema = answers.schema(answer)
    # What it does not name is refused (server.py), so it says so.
    tool.parameters = {**_plain(tool.parameters, tool.parameters.get("$defs", {})), "additionalProperties": False}
    return tool


def _plain(schema: Any, parts: dict[str, Any]) -> Any:
    """The schema of the arguments without references, nulls and titles: not every client copes with the former two,
    and every agent pays for the latter. A null is as good as absent all the same.
    """
    if isinstance(schema, list):
        return [_plain(item, parts) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        schema = {**parts[schema["$ref"].rpartition("/")[2]], **{key: schema[key] for key in schema if key != "$ref"}}
    arms = [arm for arm in schema.get("anyOf", []) if arm != {"type": "null"}]
    if len(arms) == 1:
        return _plain({**arms[0], **{key: schema[key] for key in schema if key not in ("anyOf", "default")}}, parts)
    plain: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "properties":
            plain[key] = {name: _plain(item, parts) for name, item in value.items()}
        elif key not in ("$defs", "title"):
            plain[key] = value if key in ("default", "enum", "required") else _plain(value, parts)
    return plain
