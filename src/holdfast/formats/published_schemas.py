"""The JSON Schemas as they are published: one per kind of file, and the contract's four in one document.

They are written in JSON Schema 2020-12 and translated for validators of draft-07 (such as Ajv): definitions have
another name, nothing is next to a reference, and formats become patterns, since a validator may refuse unknown ones.
"""

from __future__ import annotations

import json
from typing import Final

from holdfast.core.canonical import Json
from holdfast.formats.schema import schema_text
from holdfast.formats.text.json import render_json

# The kinds of file of formats that have more than one.
_KINDS: Final = {
    "contract": ("contract-state", "contract-plan", "contract-registry", "contract-history"),
}  # fmt: skip
DRAFTS: Final = ("7", "2020-12")
_DATE: Final = r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
_TIME: Final = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:(?:[0-5][0-9]|60)(?:\.[0-9]+)?"
_PATTERNS: Final = {
    "date-time": rf"^{_DATE}[Tt]{_TIME}(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])$",
    "utc-date-time": rf"^{_DATE}T{_TIME}Z$",
}
# Keywords that hold values, not schemas; and those that hold schemas by name.
_VALUES: Final = frozenset({"enum", "const", "required", "examples", "default"})
_NAMED: Final = frozenset({"properties", "patternProperties", "$defs"})
NAMES: Final = ("orchestrator", "timer", "contract", "craft", *_KINDS["contract"], "craft-index")


def schema_of(name: str, draft: str = "2020-12") -> bytes:
    """The schema of a format, or of one of its kinds of file, in one of `DRAFTS`."""
    if draft == "7":
        return render_json(_in_draft_7(name))
    if name not in _KINDS:
        return schema_text(name)
    inner: dict[str, Json] = {}
    for kind in _KINDS[name]:
        schema = json.loads(schema_text(kind))
        # With its own id, references of a part are resolved inside it.
        inner[kind] = {"$id": f"{kind}.json", **schema}
    return render_json(
        {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": name,
            "description": f"Any file of the format {name}: {', '.join(inner)}.",
            "anyOf": [{"$ref": f"#/$defs/{kind}"} for kind in inner],
            "$defs": inner,
        }
    )


def _in_draft_7(name: str) -> dict[str, Json]:
    if name not in _KINDS:
        result = _translate(json.loads(schema_text(name)), "#")
    else:
        inner = {kind: _translate(json.loads(schema_text(kind)), f"#/definitions/{kind}") for kind in _KINDS[name]}
        for part in inner.values():
            assert isinstance(part, dict)
            del part["$schema"]
        result = {
            "title": name,
            "description": f"Any file of the format {name}: {', '.join(inner)}.",
            "anyOf": [{"$ref": f"#/definitions/{kind}"} for kind in inner],
            "definitions": inner,
        }
    assert isinstance(result, dict)
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        **{k: v for k, v in result.items() if k != "$schema"},
    }


def _translate(schema: Json, root: str) -> Json:
    """A 2020-12 schema in draft-07. `root` is its place in the document, where its references start."""
    if isinstance(schema, list):
        return [_translate(item, root) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result: dict[str, Json] = {}
    for key, value in schema.items():
        if key in _VALUES:
            result[key] = value
        elif key in _NAMED and isinstance(value, dict):
            inner = {name: _translate(item, root) for name, item in value.items()}
            result["definitions" if key == "$defs" else key] = inner
        elif key == "format" and isinstance(value, str):
            result["pattern"] = _PATTERNS[value]
        elif key == "$ref" and isinstance(value, str):
            reference: dict[str, Json] = {"$ref": value.replace("#/$defs/", f"{root}/definitions/")}
            if len(schema) == 1:
                return reference
            result["allOf"] = [reference]
        else:
            result[key] = _translate(value, root)
    return result
