"""Markdown handovers read as data, and as hand-made session files."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.formats.conformance import GROUND
from holdfast.formats.text.markdown import TEXT, outline
from holdfast.formats.unknown.reading import reading

HANDOFF = """\
# Session Handoff - 2024-01-15

## What Was Built
- Paging of the list endpoint
- [x] Index on `created_at`

## Current State
- Branch: feature/paging
- Tests pass

## What Remains
1. **Cursor in the client** - pass it on
2. Update the docs

## Blockers
- Waiting for the staging database

## Key Decisions
- Cursor instead of offset

## Files Modified
- `src/list.py` - endpoint
"""

PROGRESS = """\
---
session_id: monday-1
tags: [billing]
---
# Session Progress: Billing

## Current Task

**Task**: Move billing to the new queue
**Status**: in_progress

## Steps

| # | Step | Status | Notes |
|---|------|--------|-------|
| 1 | Read the old worker | completed | |
| 2 | Write the consumer | in_progress | |
| 3 | Remove the worker | pending | |

```sh
# no heading
- no entry
```

## 🚧 Blockers

None
"""


def test_handoff_in_markdown_tells_work_decisions_branch_and_files() -> None:
    found = reading(outline(HANDOFF), GROUND)
    assert [(task.text, task.status) for task in found.tasks] == [
        ("Paging of the list endpoint", "done"), ("Index on created_at", "done"),
        ("Waiting for the staging database", "blocked"), ("Cursor in the client - pass it on", "to do"),
        ("Update the docs", "to do"),
    ]  # fmt: skip
    assert (found.branch, [file.path for file in found.files]) == ("feature/paging", ["src/list.py"])
    assert len(found.decisions) == 1
    assert found.goal is None


def test_progress_in_markdown_tells_the_goal_a_table_and_front_matter() -> None:
    found = reading(outline(PROGRESS), GROUND)
    assert (found.goal, found.alias, found.tags) == ("Move billing to the new queue", "monday-1", ("billing",))
    assert [(task.text, task.status) for task in found.tasks] == [
        ("Read the old worker", "done"), ("Write the consumer", "doing"), ("Remove the worker", "to do"),
    ]  # fmt: skip


def test_title_of_markdown_is_what_the_document_is_about() -> None:
    assert outline("# Session Handoff: Rate limits\n")["title"] == "Rate limits"
    assert outline("# Claude Session State\n").get("title") is None
    assert outline("# Session Handoff - 2024-01-15\n") == {
        "date": "2024-01-15", TEXT: "# Session Handoff - 2024-01-15\n",
    }  # fmt: skip


@given(st.text(alphabet="#-*|:` \n\tax1[]>_", max_size=300))
def test_any_markdown_is_read_and_its_text_kept(text: str) -> None:
    value = outline(text)
    assert value[TEXT] == text
    reading(value, GROUND)
