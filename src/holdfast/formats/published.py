"""The JSON Schemas as they are published: one per kind of file, and the contract's four in one document."""

from __future__ import annotations

import json
from typing import Final

from holdfast.core.canonical import Json
from holdfast.formats.schema import schema_text
from holdfast.formats.text.jsontext import written

# Which kinds of file a format has, where it is more than the one of its own name.
_SEVERAL: Final = {
    "contract": ("contract-state", "contract-plan", "contract-registry", "contract-history"),
}  # fmt: skip
NAMES: Final = ("orchestrator", "timer", "contract", "craft", *_SEVERAL["contract"], "craft-index")


def schema_of(name: str) -> bytes:
    """The schema of a format, or of one of its kinds of file."""
    if name not in _SEVERAL:
        return schema_text(name)
    inner: dict[str, Json] = {}
    for kind in _SEVERAL[name]:
        schema = json.loads(schema_text(kind))
        # With an id of its own, what a part refers to is looked for inside it.
        inner[kind] = {"$id": f"{kind}.json", **schema}
    return written(
        {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": name,
            "description": f"Any file of the format {name}: {', '.join(inner)}.",
            "anyOf": [{"$ref": f"#/$defs/{kind}"} for kind in inner],
            "$defs": inner,
        }
    )
