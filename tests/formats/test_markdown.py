"""Markdown handovers read as data, and as hand-made session files."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import to_builtins

from holdfast.core.events import ExtraKept
from holdfast.core.times import format_time as text_of
from holdfast.formats.conformance import CONTEXT
from holdfast.formats.detect import NOTES
from holdfast.formats.salvage import beginning
from holdfast.formats.unknown import table
from holdfast.formats.unknown.markdown import outline
from holdfast.formats.unknown.read import read_document
from holdfast.formats.unknown.table import words_of

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
    found = read_document(outline(HANDOFF), CONTEXT)
    assert [(task.text, task.status) for task in found.tasks] == [
        ("Paging of the list endpoint", "done"), ("Index on created_at", "done"),
        ("Waiting for the staging database", "blocked"), ("Cursor in the client - pass it on", "to do"),
        ("Update the docs", "to do"),
    ]  # fmt: skip
    assert (found.branch, [file.path for file in found.files]) == ("feature/paging", ["src/list.py"])
    assert len(found.decisions) == 1
    assert found.goal is None


def test_progress_in_markdown_tells_the_goal_a_table_and_front_matter() -> None:
    found = read_document(outline(PROGRESS), CONTEXT)
    assert (found.goal, found.alias, found.tags) == ("Move billing to the new queue", "monday-1", ("billing",))
    assert [(task.text, task.status) for task in found.tasks] == [
        ("Read the old worker", "done"), ("Write the consumer", "doing"), ("Remove the worker", "to do"),
    ]  # fmt: skip


def test_title_of_markdown_is_what_the_document_is_about() -> None:
    assert outline("# Session Handoff: Rate limits\n")["title"] == "Rate limits"
    assert outline("# Claude Session State\n").get("title") is None
    assert outline("# Session Handoff - 2024-01-15\n") == {
        "date": "2024-01-15", NOTES: "# Session Handoff - 2024-01-15\n",
    }  # fmt: skip


def told(text: str) -> tuple[str | None, dict[str, str]]:
    """The goal and the work that are read from notes."""
    found = read_document(outline(text), CONTEXT)
    return found.goal, {task.text: task.status for task in found.tasks}


def test_checklist_under_a_title_is_work() -> None:
    lines = ["- [x] Saw", "- [ ] Sand", "- [~] Glue", "- [ ] ~~Varnish~~"]
    work = {"Saw": "done", "Sand": "to do", "Glue": "doing", "Varnish": "dropped"}
    for title in ("# TODO", "# Shelf checklist", "", "# Shelf\n\n## This week", "SHELF\n====="):
        assert told("\n".join([title, "", *lines]))[1] == work, title


@pytest.mark.parametrize("title", ["", "# Progress\n\n", "# Progress\n\n## Pages\n\n"])
def test_table_with_a_column_of_statuses_is_work(title: str) -> None:
    table = """\
| Page | Status | Notes |
| --- | :---: | --- |
| Login | ✅ Done | merged |
| Profile | 🚧 In progress | |
| Settings | ❌ Not started | |
| Search | ⛔ Blocked | no index |
"""
    task = table.replace("Page ", "Task ")
    assert told(title + task)[1] == {"Login": "done", "Profile": "doing", "Settings": "to do", "Search": "blocked"}


def test_table_of_anything_else_is_no_work() -> None:
    table = "| Shop | Price | Hotel |\n|---|---|---|\n| north | 5 | ✅ |\n| south | 7 | ❌ |\n"
    assert told(f"# Prices\n\n{table}") == ("Work on Prices", {})


LOG = """\
# Session Notes

## {first}
Working on: the shutters
- Done: hinges
- Done: paint
- Next: hooks
- Blocked: none

## {second}
Working on: the door
- Done: lock
"""


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("2024-11-05 (latest)", "2024-11-04"), ("2024-11-05", "2024-11-05"), ("Session 12", "Session 7"),
        ("Session 12 - Nov 5, 2024", "Session 7 - Nov 4, 2024"), ("[2024-11-05 04:10] - Session: A", "2024-10-31"),
        ("Session — 2024-11-05 (shutters)", "Session — 2024-11-04 (door)"),
    ],
)  # fmt: skip
def test_latest_session_of_a_log_is_what_it_is_about(first: str, second: str) -> None:
    text = LOG.format(first=first, second=second)
    assert told(text) == ("the shutters", {"hinges": "done", "paint": "done", "hooks": "to do"})
    found = read_document(outline(text), CONTEXT)
    assert found.began == CONTEXT.now or text_of(found.began)[:10] == "2024-11-05"
    assert found.remarks == []


def test_latest_session_of_a_log_that_grows_at_its_end_is_the_last() -> None:
    assert told(LOG.format(first="2024-11-03", second="2024-11-04")) == ("the door", {"lock": "done"})
    days = "## 2024-11-03\nGoal: the roof\n\n## 2024-11-04\nGoal: the shutters\n\n## 2024-11-04\nGoal: the door\n"
    assert told(days)[0] == "the door"


PLAIN = """\
CURRENT GOAL: Port the parser
Session 7 (2024-11-03)
DONE:
- lexer ported, with
  all of its tests
TODO:
- error recovery
  - of strings
BLOCKED:
- need samples from Kim

Known issues:
1. It is slow
"""


def test_plain_text_is_read_by_its_labels_and_lists() -> None:
    found = read_document(outline(PLAIN), CONTEXT)
    assert told(PLAIN) == (
        "Port the parser",
        {"lexer ported, with all of its tests": "done", "error recovery": "to do",
         "need samples from Kim": "blocked"},
    )  # fmt: skip
    assert text_of(found.began)[:10] == "2024-11-03"
    assert [note.text for note in found.remarks] == ["It is slow"]


def test_underlined_headings_and_lines_with_signs_are_read() -> None:
    text = """\
Shed - Development Progress
===========================

Session 3: Doors and locks
Date: 2024-11-05

COMPLETED TASKS (Session 3):
----------------------------
1. ✅ Hung the door
   - with three hinges
✅ Fitted the lock

NEXT STEPS
----------
1. Oil it

Session 2: Roof
COMPLETED TASKS:
----------------
1. ✅ Nailed the felt
"""
    assert told(text) == (
        "Doors and locks", {"Hung the door": "done", "Fitted the lock": "done", "Oil it": "to do"},
    )  # fmt: skip


def test_list_named_by_an_entry_is_read_by_that_name() -> None:
    entries = "- **Done:**\n  - Saw\n  - Sand\n- Next:\n  - Oil\n- Weather was fine\n"
    text = f"# Session Handoff: A shed\n\n## Today\n{entries}"
    assert told(text) == ("A shed", {"Saw": "done", "Sand": "done", "Oil": "to do"})


def test_lists_under_lines_that_end_in_a_colon_are_read() -> None:
    text = "# Next session prompt\n\nGo on with the shed.\n\nCompleted last time:\n* Roof\n\nTo do:\n* Door\n* Lock\n"
    assert told(text) == (None, {"Roof": "done", "Door": "to do", "Lock": "to do"})
    assert read_document(outline(text), CONTEXT).summary == "Go on with the shed."


def test_notes_between_fences_are_read_and_code_is_not() -> None:
    text = "```markdown\n# Handoff: A shed\n\n## Next steps\n- Oil it\n```\n\n```sh\n## Next steps\n- make all\n```\n"
    assert told(text) == ("A shed", {"Oil it": "to do"})


def test_section_that_comes_twice_is_read_twice() -> None:
    text = "## Monday\n### Done\n- Saw\n## Done\n- Sand\n## Done\n- Oil\n# Done\n- Hang\n"
    assert told(text)[1] == dict.fromkeys(["Saw", "Sand", "Oil", "Hang"], "done")


@pytest.mark.parametrize(
    ("title", "said"),
    [
        ("Active Context", {}), ("Memory Bank: Progress", {}), ("Next session prompt", {}), ("TODO", {}),
        ("Next.js migration", {"title": "Next.js migration"}), ("Shed — Progress", {"project": "Shed"}),
        ("Next Session Guide - Shed", {"project": "Shed"}), ("Progress tracker", {}),
        ("Handoff: Search: new scorer", {"title": "Search: new scorer"}),
        ("Session Notes - January 11, 2025", {"date": "January 11, 2025"}),
    ],
)  # fmt: skip
def test_title_that_names_the_kind_of_document_is_no_goal(title: str, said: dict[str, str]) -> None:
    assert {key: value for key, value in outline(f"# {title}\n").items() if key != NOTES} == said


@given(st.text(alphabet="#-*|:` \n\tax1[]>_=~✅", max_size=300))
def test_any_markdown_is_read_and_its_text_kept(text: str) -> None:
    value = outline(text)
    assert value[NOTES] == text
    read_document(value, CONTEXT)


# ── other languages ──────────────────────────────────────────────────────────────────────────────────────

# Headings for goal, done, to do, at work, decisions and notes.
LANGUAGES = {
    "German": ("Ziel", "Erledigte Aufgaben", "Nächste Schritte", "In Arbeit", "Entscheidungen", "Notizen"),
    "German, short": ("Ziele", "Erledigt", "Offene Punkte", "in arbeit", "Entscheidung", "Anmerkungen"),
    "French": ("Objectif", "Tâches terminées", "Prochaines étapes", "En cours", "Décisions", "Remarques"),
    "French, plain": ("OBJECTIFS", "Fait", "A faire", "En cours", "Decisions", "Notes"),
    "Spanish": ("Objetivo", "Tareas completadas", "Próximos pasos", "En curso", "Decisiones", "Notas"),
    "Spanish, plain": ("Objetivos", "Hecho", "Proximos pasos", "En progreso", "Decisión", "Observaciones"),
    "Portuguese": ("Objetivo", "Tarefas concluídas", "Próximos passos", "Em andamento", "Decisões", "Observações"),
    "Italian": ("Obiettivo", "Attività completate", "Prossimi passi", "In corso", "Decisioni", "Appunti"),
    "Chinese": ("目标", "已完成的任务", "下一步", "进行中", "决定", "备注"),
    "Chinese, other words": ("🎯 目標：", "完成", "待办事项", "進行中", "技术决策", "笔记"),
    "Japanese": ("目的", "完了したタスク", "次のステップ", "作業中", "決定事項", "メモ"),
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_headings_of_other_languages_mean_what_the_english_ones_do(language: str) -> None:
    goal, done, to_do, doing, decisions, notes = LANGUAGES[language]
    text = (
        f"## {goal}\nBuild the login\n\n## {done}\n- The form\n\n## {to_do}\n- The tests\n\n"
        f"## {doing}\n- The table\n\n## {decisions}\n- Keys instead of passwords\n\n## {notes}\nThe port is 8080\n"
    )
    found = read_document(outline(text), CONTEXT)
    assert found.goal == "Build the login"
    assert {task.text: task.status for task in found.tasks} == {
        "The form": "done", "The tests": "to do", "The table": "doing",
    }  # fmt: skip
    assert [heard.data.chosen for heard in found.decisions] == ["Keys instead of passwords"]  # type: ignore[attr-defined]
    assert [note.text for note in found.remarks] == ["The port is 8080"]


def test_what_is_not_done_is_to_do_in_scripts_without_spaces() -> None:
    found = read_document(outline("未完成：\n- 写测试\n已完成：\n- 表单\n备注：端口是 8080\n"), CONTEXT)
    assert {task.text: task.status for task in found.tasks} == {"写测试": "to do", "表单": "done"}
    assert [note.text for note in found.remarks] == ["端口是 8080"]


def test_every_word_of_another_language_has_the_meaning_of_the_english_one() -> None:
    for english, said in table.LANGUAGES.items():
        for spelled in said.split(", "):
            if spelled.isalpha() or spelled.replace(" ", "").isalpha():
                assert words_of(spelled) == words_of(english), spelled


# ── nothing is lost ──────────────────────────────────────────────────────────────────────────────────────


def test_text_under_an_unknown_heading_is_a_note() -> None:
    text = "## Goal\nBuild the login\n\n## Wetterlage\nEs regnet.\n- und schneit\n\n### Wind\nAus Norden\n"
    found = read_document(outline(text), CONTEXT)
    assert {note.text for note in found.remarks} == {"Es regnet.", "und schneit", "Aus Norden"}


def test_note_after_a_list_is_none_of_its_entries() -> None:
    found = read_document(outline("Next steps:\n- Tests\nNotes: The port is 8080\n"), CONTEXT)
    assert [task.text for task in found.tasks] == ["Tests"]
    assert [note.text for note in found.remarks] == ["The port is 8080"]


LINES = st.sampled_from(
    ["# Handover", "## Done", "## Wetterlage", "## 下一步", "### Part", "- [x] one", "- two", "  - three", "1. four",
     "Goal: five", "**Notes**: six", "Offen:", "plain words", "| a | b |", "|---|---|", "| c | d |", "```", "code()",
     "---", "===", "> said", "<!-- hidden -->", "## Session 3 - 2026-01-05", "    indented", "key: [1, 2"]
) | st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12)  # fmt: skip


@given(st.lists(LINES, max_size=20))
def test_every_line_is_in_what_was_imported(lines: list[str]) -> None:
    """In the session's events or in the document that is kept with them, to the letter."""
    text = "\n".join(lines)
    document = outline(text)
    heard = beginning(read_document(document, CONTEXT), document, CONTEXT)
    (kept,) = [event.data.value for event in heard if isinstance(event.data, ExtraKept)]
    said = json.dumps([kept, *(to_builtins(event.data) for event in heard)], ensure_ascii=False)
    for line in text.splitlines():
        assert json.dumps(line.strip(), ensure_ascii=False)[1:-1] in said
