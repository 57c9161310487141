"""The fuzz targets, one per parser: each takes any bytes and must return."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from holdfast.formats import registry
from tests.faults.fuzz import document_path, payload_path
from tests.support import spec_examples

Target = Callable[[bytes], None]


def read_json(raw: bytes) -> None:
    document_path.read(raw, "x.json")


def read_yaml(raw: bytes) -> None:
    document_path.read(raw, "x.yaml")


def read_lines(raw: bytes) -> None:
    document_path.read(raw, "x.jsonl")


def recover(raw: bytes) -> None:
    document_path.recover(raw)


def salvage(raw: bytes) -> None:
    value = _data(raw)
    if value is not None:
        document_path.salvage(value)


def _format(name: str) -> Target:
    def repair(raw: bytes) -> None:
        rules = registry.format_named(name)
        for kind in rules.kinds:
            rules.is_sound(raw, kind)
        value = _data(raw)
        if value is not None:
            document_path.process(value, rules)

    return repair


def _data(raw: bytes) -> Any:
    """The bytes as data: as JSON, or what can be recovered from them."""
    documents = document_path.read(raw, "x.json")
    if documents:
        return documents[0]
    from holdfast.formats.recovery.parse import recover_document

    return recover_document(raw).value


TARGETS: Final[dict[str, Target]] = {
    "json": read_json,
    "yaml": read_yaml,
    "lines": read_lines,
    "recover": recover,
    "salvage": salvage,
    **{name: _format(name) for name in registry.NAMES},
    "hooks": payload_path.process_payload,
}

HAND_MADE: Final = json.dumps(
    {
        "working_on": "x",
        "next_steps": ["a"],
        "done": [{"task": "b"}],
        "progress": "60%",
        "notes": "n",
        "status": "done",
    }
).encode()


def seeds(name: str) -> list[bytes]:
    """The initial corpus of a target."""
    if name == "yaml":
        return list(spec_examples.YAML_FILES.values())
    if name == "lines":
        return [spec_examples.CONTRACT_HISTORY * 2]
    if name == "salvage":
        return [HAND_MADE]
    if name == "hooks":
        return payload_path.seeds()
    own = [
        raw for kind, raw in spec_examples.JSON_FILES.items() if name in ("json", "recover") or kind.startswith(name)
    ]
    return own or [HAND_MADE, json.dumps({"state": {"feature_id": "a-2025-01-09", "current_state": {}}}).encode()]
