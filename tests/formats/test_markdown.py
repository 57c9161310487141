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
from holdfast.formats.salvage import first_events
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


def test_markdown_handoff_gives_work_decisions_branch_and_files() -> None:
    recognised = read_document(outline(HANDOFF), CONTEXT)
    assert [(task.text, task.status) for task in recognised.tasks] == [
        ("Paging of the list endpoint", "done"), ("Index on created_at", "done"),
        ("Waiting for the staging database", "blocked"), ("Cursor in the client - pass it on", "to do"),
        ("Update the docs", "to do"),
    ]  # fmt: skip
    assert (recognised.branch, [file.path for file in recognised.files]) == ("feature/paging", ["src/list.py"])
    assert len(recognised.decisions) == 1
    assert recognised.goal is None


def test_markdown_progress_gives_goal_table_and_front_matter() -> None:
    recognised = read_document(outline(PROGRESS), CONTEXT)
    assert (recognised.goal, recognised.alias, recognised.tags) == (
        "Move billing to the new queue",
        "monday-1",
        ("billing",),
    )
    assert [(task.text, task.status) for task in recognised.tasks] == [
        ("Read the old worker", "done"), ("Write the consumer", "doing"), ("Remove the worker", "to do"),
    ]  # fmt: skip


def test_title_of_markdown_is_what_the_document_is_about() -> None:
    assert outline("# Session Handoff: Rate limits\n")["title"] == "Rate limits"
    assert outline("# Claude Session State\n").get("title") is None
    assert outline("# Session Handoff - 2024-01-15\n") == {
        "date": "2024-01-15", NOTES: "# Session Handoff - 2024-01-15\n",
    }  # fmt: skip


def read_notes(text: str) -> tuple[str | None, dict[str, str]]:
    """The goal and the work that are read from notes."""
    recognised = read_document(outline(text), CONTEXT)
    return recognised.goal, {task.text: task.status for task in recognised.tasks}


def test_checklist_under_a_title_is_work() -> None:
    lines = ["- [x] Saw", "- [ ] Sand", "- [~] Glue", "- [ ] ~~Varnish~~"]
    work = {"Saw": "done", "Sand": "to do", "Glue": "doing", "Varnish": "dropped"}
    for title in ("# TODO", "# Shelf checklist", "", "# Shelf\n\n## This week", "SHELF\n====="):
        assert read_notes("\n".join([title, "", *lines]))[1] == work, title


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
    assert read_notes(title + task)[1] == {
        "Login": "done",
        "Profile": "doing",
        "Settings": "to do",
        "Search": "blocked",
    }


def test_other_table_is_not_work() -> None:
    table = "| Shop | Price | Hotel |\n|---|---|---|\n| north | 5 | ✅ |\n| south | 7 | ❌ |\n"
    assert read_notes(f"# Prices\n\n{table}") == ("Work on Prices", {})


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
    assert read_notes(text) == ("the shutters", {"hinges": "done", "paint": "done", "hooks": "to do"})
    recognised = read_document(outline(text), CONTEXT)
    assert recognised.began == CONTEXT.now or text_of(recognised.began)[:10] == "2024-11-05"
    assert recognised.remarks == []


def test_latest_session_of_a_log_that_grows_at_its_end_is_the_last() -> None:
    assert read_notes(LOG.format(first="2024-11-03", second="2024-11-04")) == ("the door", {"lock": "done"})
    days = "## 2024-11-03\nGoal: the roof\n\n## 2024-11-04\nGoal: the shutters\n\n## 2024-11-04\nGoal: the door\n"
    assert read_notes(days)[0] == "the door"


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
    recognised = read_document(outline(PLAIN), CONTEXT)
    assert read_notes(PLAIN) == (
        "Port the parser",
        {"lexer ported, with all of its tests": "done", "error recovery": "to do",
         "need samples from Kim": "blocked"},
    )  # fmt: skip
    assert text_of(recognised.began)[:10] == "2024-11-03"
    assert [note.text for note in recognised.remarks] == ["It is slow"]


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
    assert read_notes(text) == (
        "Doors and locks", {"Hung the door": "done", "Fitted the lock": "done", "Oil it": "to do"},
    )  # fmt: skip


def test_list_named_by_an_entry_is_read_by_that_name() -> None:
    entries = "- **Done:**\n  - Saw\n  - Sand\n- Next:\n  - Oil\n- Weather was fine\n"
    text = f"# Session Handoff: A shed\n\n## Today\n{entries}"
    assert read_notes(text) == ("A shed", {"Saw": "done", "Sand": "done", "Oil": "to do"})


def test_lists_under_lines_that_end_in_a_colon_are_read() -> None:
    text = "# Next session prompt\n\nGo on with the shed.\n\nCompleted last time:\n* Roof\n\nTo do:\n* Door\n* Lock\n"
    assert read_notes(text) == (None, {"Roof": "done", "Door": "to do", "Lock": "to do"})
    assert read_document(outline(text), CONTEXT).summary == "Go on with the shed."


def test_notes_between_fences_are_read_and_code_is_not() -> None:
    text = "```markdown\n# Handoff: A shed\n\n## Next steps\n- Oil it\n```\n\n```sh\n## Next steps\n- make all\n```\n"
    assert read_notes(text) == ("A shed", {"Oil it": "to do"})


def test_section_that_comes_twice_is_read_twice() -> None:
    text = "## Monday\n### Done\n- Saw\n## Done\n- Sand\n## Done\n- Oil\n# Done\n- Hang\n"
    assert read_notes(text)[1] == dict.fromkeys(["Saw", "Sand", "Oil", "Hang"], "done")


@pytest.mark.parametrize(
    ("title", "written_text"),
    [
        ("Active Context", {}), ("Memory Bank: Progress", {}), ("Next session prompt", {}), ("TODO", {}),
        ("Next.js migration", {"title": "Next.js migration"}), ("Shed — Progress", {"project": "Shed"}),
        ("Next Session Guide - Shed", {"project": "Shed"}), ("Progress tracker", {}),
        ("Handoff: Search: new scorer", {"title": "Search: new scorer"}),
        ("Session Notes - January 11, 2025", {"date": "January 11, 2025"}),
    ],
)  # fmt: skip
def test_title_that_names_the_kind_of_document_is_no_goal(title: str, written_text: dict[str, str]) -> None:
    assert {key: value for key, value in outline(f"# {title}\n").items() if key != NOTES} == written_text


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
    recognised = read_document(outline(text), CONTEXT)
    assert recognised.goal == "Build the login"
    assert {task.text: task.status for task in recognised.tasks} == {
        "The form": "done", "The tests": "to do", "The table": "doing",
    }  # fmt: skip
    assert [events.data.chosen for events in recognised.decisions] == ["Keys instead of passwords"]  # type: ignore[attr-defined]
    assert [note.text for note in recognised.remarks] == ["The port is 8080"]


def test_unfinished_work_is_to_do_in_scripts_without_spaces() -> None:
    recognised = read_document(outline("未完成：\n- 写测试\n已完成：\n- 表单\n备注：端口是 8080\n"), CONTEXT)
    assert {task.text: task.status for task in recognised.tasks} == {"写测试": "to do", "表单": "done"}
    assert [note.text for note in recognised.remarks] == ["端口是 8080"]


def test_each_word_of_another_language_has_the_meaning_of_the_english_one() -> None:
    for english, written_text in table.LANGUAGES.items():
        for spelled in written_text.split(", "):
            if spelled.isalpha() or spelled.replace(" ", "").isalpha():
                assert words_of(spelled) == words_of(english), spelled


# ── nothing is lost ──────────────────────────────────────────────────────────────────────────────────────


def test_text_under_an_unknown_heading_is_a_note() -> None:
    text = "## Goal\nBuild the login\n\n## Wetterlage\nEs regnet.\n- und schneit\n\n### Wind\nAus Norden\n"
    recognised = read_document(outline(text), CONTEXT)
    assert {note.text for note in recognised.remarks} == {"Es regnet.", "und schneit", "Aus Norden"}


def test_note_after_a_list_is_not_an_entry() -> None:
    recognised = read_document(outline("Next steps:\n- Tests\nNotes: The port is 8080\n"), CONTEXT)
    assert [task.text for task in recognised.tasks] == ["Tests"]
    assert [note.text for note in recognised.remarks] == ["The port is 8080"]


LINES = st.sampled_from(
    ["# Handover", "## Done", "## Wetterlage", "## 下一步", "### Part", "- [x] one", "- two", "  - three", "1. four",
     "Goal: five", "**Notes**: six", "Offen:", "plain words", "| a | b |", "|---|---|", "| c | d |", "```", "code()",
     "---", "===", "> said", "<!-- hidden -->", "## Session 3 - 2026-01-05", "    indented", "key: [1, 2"]
) | st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12)  # fmt: skip


@given(st.lists(LINES, max_size=20))
def test_each_line_is_in_what_was_imported(lines: list[str]) -> None:
    """In the session's events or in the document that is kept with them, to the letter."""
    text = "\n".join(lines)
    document = outline(text)
    events = first_events(read_document(document, CONTEXT), document, CONTEXT)
    (kept,) = [event.data.value for event in events if isinstance(event.data, ExtraKept)]
    written_text = json.dumps([kept, *(to_builtins(event.data) for event in events)], ensure_ascii=False)
    for line in text.splitlines():
        assert json.dumps(line.strip(), ensure_ascii=False)[1:-1] in written_text
