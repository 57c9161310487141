"""How a tool is offered: its description, arguments, answer, and honest hints about what it does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from mcp.server.mcpserver.tools import Tool
from mcp_types import ToolAnnotations
from pydantic import BeforeValidator, Field

from holdfast.core.text import MAX_NAME_LENGTH, MAX_PATH_LENGTH
from holdfast.mcp import answers

MAX_TEXT_LENGTH = 20_000
MAX_ENTRIES = 100

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
Text = Annotated[str, Field(max_length=MAX_TEXT_LENGTH)]


def _refuse_bool(value: Any) -> Any:
    """Refuse booleans, which Python takes for numbers."""
    if isinstance(value, bool):
        raise ValueError("expected a number, not true or false")  # noqa: TRY004 (pydantic wants it)
    return value


Fraction = Annotated[float, BeforeValidator(_refuse_bool), Field(ge=0, le=1)]
Count = Annotated[int, BeforeValidator(_refuse_bool), Field(ge=0, le=10**12)]

Body = Callable[..., Any]


def make_tool(
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
    """`reads`: it changes nothing. `destroys`: it cannot be undone. `repeatable`: twice has the same effect as once.
    `outside`: it reaches beyond this machine.
    """
    hints = ToolAnnotations(
        title=title, read_only_hint=reads, destructive_hint=destroys, idempotent_hint=repeatable or reads,
        open_world_hint=outside,
    )  # fmt: skip
    tool = Tool.from_function(
        body, name=body.__name__, title=title, description=description, annotations=hints, structured_output=False
    )
    tool.fn_metadata.output_schema = answers.schema(answer)
    # The server refuses unknown arguments, so the schema says so.
    tool.parameters = {
        **_simplified(tool.parameters, tool.parameters.get("$defs", {})),
        "additionalProperties": False,
    }
    return tool


def _simplified(schema: Any, definitions: dict[str, Any]) -> Any:
    """The schema of the arguments without references and nulls, which some clients cannot read, and without titles,
    which cost every agent tokens. A null argument still counts as absent.
    """
    if isinstance(schema, list):
        return [_simplified(item, definitions) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        schema = {
            **definitions[schema["$ref"].rpartition("/")[2]],
            **{key: schema[key] for key in schema if key != "$ref"},
        }
    alternatives = [alternative for alternative in schema.get("anyOf", []) if alternative != {"type": "null"}]
    if len(alternatives) == 1:
        return _simplified(
            {**alternatives[0], **{key: schema[key] for key in schema if key not in ("anyOf", "default")}},
            definitions,
        )
    plain: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "properties":
            plain[key] = {name: _simplified(item, definitions) for name, item in value.items()}
        elif key not in ("$defs", "title"):
            plain[key] = value if key in ("default", "enum", "required") else _simplified(value, definitions)
    return plain
