"""Pages generated from code are current."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from holdfast.core.events import EVENT_TYPES
from holdfast.core.lifecycle import TABLES

DOCS = Path(__file__).parents[2] / "docs"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GENERATOR = load()


@pytest.mark.parametrize(("path", "make"), GENERATOR.PAGES, ids=[path for path, _ in GENERATOR.PAGES])
def test_generated_page_is_current(path: str, make: object) -> None:
    """`make docs` updates it."""
    assert callable(make)
    assert (DOCS / path).read_text(encoding="utf-8") == make(), f"docs/{path} is stale: run `make docs`"


def test_generated_pages_contain_every_event_and_transition() -> None:
    """On the events page and in the diagrams."""
    written = (DOCS / "reference/events.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^### `(\S+)`$", written, re.MULTILINE)) == set(EVENT_TYPES)
    drawn = (DOCS / "reference/lifecycle.md").read_text(encoding="utf-8")
    for table in TABLES.values():
        for before, row in table.items():
            for event, after in row.items():
                assert f"| `{before}` | `{event}` | `{after}` |" in drawn
                assert re.search(rf"    {before} --> {after}: [^\n]*{event.partition('.')[2]}", drawn)
