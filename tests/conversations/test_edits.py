"""The effect of an edit, as far as an agent's data is certain."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.conversations.adapters import edits, tools
from holdfast.conversations.adapters.edits import (
    LineCounts,
    count_changed_lines,
    hash_content,
    parse_patch,
    replace_text,
)
from holdfast.conversations.signals import Active, Edited, Erred, Planned, Ran, Todo
from holdfast.core.canonical import Json

LINES = st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=30).map(
    lambda some: "".join(f"{name}\n" for name in some)
)
PATCH = """*** Begin Patch
*** Add File: src/new.py
+one
+two
*** Update File: old.py
@@ def f():
-    return 1
+    return 2
+    # done
 context
*** Update File: here.py
*** Move to: there.py
@@
-a
+b
*** Delete File: gone.py
*** End Patch
"""
DIFF = """diff --git a/old.py b/old.py
--- a/old.py
+++ b/old.py
@@ -1,2 +1,3 @@
 one
--- two
+++ two
+three
--- /dev/null
+++ b/new.py
@@ -0,0 +1 @@
+x
--- a/gone.py\t2026-01-01
+++ /dev/null
@@ -1 +0,0 @@
-x
"""


def sha(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def test_hash_is_that_of_file() -> None:
    """As `sha256sum` prints it."""
    assert hash_content("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert hash_content("") == sha("")


@pytest.mark.parametrize("text", [None, "a\ufffdb", "lone " + chr(0xD800)])
def test_hash_of_lost_characters_is_none(text: str | None) -> None:
    """If the bytes are not certain, there is no hash."""
    assert hash_content(text) is None


@given(LINES, LINES)
def test_lines_add_up(before: str, after: str) -> None:
    """Added minus removed lines is the growth of the file."""
    lines = count_changed_lines(before, after)
    assert lines.added is not None
    assert lines.removed is not None
    assert lines.added - lines.removed == after.count("\n") - before.count("\n")
    assert (lines == LineCounts(0, 0)) == (before == after)


def test_counting_stops_at_large_differences() -> None:
    """The number of lines is then unknown rather than wrong."""
    before = "".join(f"{number}\n" for number in range(5000))
    assert count_changed_lines(before, before.replace("\n", "!\n")) == LineCounts()
    assert count_changed_lines(before, before + "more\n") == LineCounts(1, 0)


@pytest.mark.parametrize(
    ("content", "old", "new", "every", "grown", "after"),
    [
        ("one two\n", "two", "2", False, None, "one 2\n"),
        ("a a\n", "a", "b", False, None, None),
        ("a a\n", "a", "b", True, None, "b b\n"),
        ("a\n", "z", "b", False, None, None),
        ("", "", "new\n", False, None, "new\n"),
        ("there\n", "", "new\n", False, None, None),
        ("a\nb\nc\n", "b", "", False, None, None),
        ("a\nb\nc\n", "b", "", False, -1, "a\nc\n"),
        ("a\nb\nc\n", "b", "", False, 0, "a\n\nc\n"),
        ("a\nb\nc\n", "b\n", "", False, None, "a\nc\n"),
        ("a\nb", "b", "", False, None, "a\n"),
    ],
)
def test_replace_text_is_unambiguous(
    content: str, old: str, new: str, every: bool, grown: int | None, after: str | None
) -> None:
    """No content if the replacement could be understood in two ways."""
    assert replace_text(content, old, new, every=every, grown=grown) == after


@given(st.text(max_size=50), st.text(max_size=5), st.text(max_size=5), st.booleans())
def test_replace_text_equals_replacement(content: str, old: str, new: str, every: bool) -> None:
    after = replace_text(content, old, new, every=every)
    if after is not None and old:
        assert after == content.replace(old, new)
        assert every or content.count(old) == 1


def test_patch_with_envelope_is_parsed() -> None:
    """Each file of an `apply_patch`, with what is certain."""
    assert parse_patch(PATCH, agent="a") == (
        Edited(
            agent="a", path="src/new.py", action="created", after=sha("one\ntwo\n"), lines_added=2, lines_removed=0
        ),
        Edited(agent="a", path="old.py", lines_added=2, lines_removed=1),
        Edited(agent="a", path="here.py", action="deleted"),
        Edited(agent="a", path="there.py", action="created"),
        Edited(agent="a", path="gone.py", action="deleted"),
    )


def test_patch_ignores_line_ends() -> None:
    assert parse_patch(PATCH.replace("\n", "\r\n")) == parse_patch(PATCH)


def test_unified_diff_is_parsed() -> None:
    """Each file; lines that look like headers are content where content is due."""
    assert parse_patch(DIFF) == (
        Edited(path="old.py", lines_added=2, lines_removed=1),
        Edited(path="new.py", action="created", lines_added=1, lines_removed=0),
        Edited(path="gone.py", action="deleted", lines_added=0, lines_removed=1),
    )


@given(st.text(st.sampled_from("*+-@ \n\tabUpdateFile:/"), max_size=300))
def test_any_text_as_patch_raises_nothing(text: str) -> None:
    for edited in (
        *parse_patch(text),
        *parse_patch(f"*** Begin Patch\n{text}"),
        *parse_patch(f"--- a\n+++ b\n{text}"),
    ):
        assert edited.path.strip()


def test_patch_has_limited_number_of_files() -> None:
    assert len(parse_patch("*** Begin Patch\n" + "*** Delete File: a\n" * 100_000)) == edits.MAX_PATCH_FILES


def test_several_edits_apply_in_turn() -> None:
    (edited,) = tools.signals_of(
        "MultiEdit",
        {"file_path": "a", "edits": [{"old_string": "x", "new_string": "y"}, {"old_string": "y", "new_string": "z"}]},
        {"filePath": "a", "originalFile": "x\n"},
    )
    assert edited == Edited(path="a", before=sha("x\n"), after=sha("z\n"), lines_added=1, lines_removed=1)


def test_stored_empty_content_is_ignored() -> None:
    """Claude Code stores changes without the file's content: such changes get no hash."""
    (written,) = tools.signals_of(
        "Write",
        {"file_path": "a", "content": "new\n"},
        {"type": "update", "filePath": "a", "content": "", "originalFile": None, "structuredPatch": []},
    )
    assert written == Edited(path="a", after=sha("new\n"))
    (edited,) = tools.signals_of(
        "Edit",
        {"file_path": "a", "old_string": "x", "new_string": "y"},
        {"filePath": "a", "oldString": "x", "newString": "y", "originalFile": ""},
    )
    assert isinstance(edited, Edited)
    assert (edited.before, edited.after, edited.old, edited.new) == (None, None, "x", "y")


def test_edit_modified_by_person_has_no_hash() -> None:
    """The person changed it before allowing it."""
    (edited,) = tools.signals_of(
        "Edit",
        {"file_path": "a", "old_string": "x", "new_string": "y"},
        {"originalFile": "x", "userModified": True},
    )
    assert isinstance(edited, Edited)
    assert (edited.before, edited.after) == (sha("x"), None)


@pytest.mark.parametrize(("path", "sure"), [("/home/anna/a", True), ("C:\\shop\\a", False), ("c:/shop/a", False)])
def test_windows_line_ends_give_no_hash(path: str, sure: bool) -> None:
    """The agent does not show the file's line ends."""
    result: dict[str, Json] = {"filePath": path, "oldString": "x", "newString": "y", "originalFile": "x\nz\n"}
    (edited,) = tools.signals_of("Edit", {}, result)
    assert isinstance(edited, Edited)
    assert (edited.before, edited.after) == ((sha("x\nz\n"), sha("y\nz\n")) if sure else (None, None))
    assert (edited.old, edited.new, edited.lines_added) == ("x", "y", 1)
    whole: dict[str, Json] = {"type": "update", "filePath": path, "content": "new\n", "originalFile": "old\nz\n"}
    (written,) = tools.signals_of("Write", {}, whole)
    assert isinstance(written, Edited)
    assert (written.before, written.after) == (sha("old\nz\n") if sure else None, sha("new\n"))


@pytest.mark.parametrize(
    ("given_", "response", "failed", "ran"),
    [
        ({"command": "ls"}, {"stdout": ""}, None, Ran(command="ls")),
        ({"command": ["bash", "-lc", "ls | wc"]}, {"exit_code": 2}, None, Ran(command="ls | wc", code=2)),
        ({"cmd": ["ls", "a b"]}, "text", None, Ran(command="ls 'a b'")),
        ({"command": "x"}, None, "Exit code 127\nx: not found", Ran(command="x", code=127)),
        ({"command": "x"}, None, "it broke", Ran(command="x", code=1)),
        ({"command": "x"}, {"interrupted": True}, None, Ran(command="x", code=130)),
        ({"command": "x"}, {"metadata": {"exitCode": 4}}, None, Ran(command="x", code=4)),
        ({"command": 5}, {}, None, Active()),
    ],
)
def test_command_gives_a_ran_signal(given_: Json, response: Json, failed: str | None, ran: Ran | Active) -> None:
    """With its exit code, in any form."""
    assert tools.signals_of("Bash", given_, response, failed=failed) == (ran,)


def test_failed_tool_is_activity() -> None:
    """External failures are recorded; the work's own are not, and a tool's limit is not the account's."""
    assert tools.signals_of("Grep", {}, failed="No such pattern") == (Active(),)
    assert tools.signals_of("WebFetch", {}, failed="rate limit exceeded", agent="a") == (
        Active(agent="a"),
        Erred(agent="a", message="WebFetch: rate limit exceeded", category="resource"),
    )


def test_command_carrying_patch_is_edit() -> None:
    """A shell used only to pass a patch is the patch."""
    result = tools.signals_of("Bash", {"command": f"apply_patch <<'EOF'\n{PATCH}EOF"}, {"exit_code": 0})
    assert [line.path for line in result if isinstance(line, Edited)] == [
        "src/new.py",
        "old.py",
        "here.py",
        "there.py",
        "gone.py",
    ]


def test_agent_brings_own_table() -> None:
    """Other tool names lead to the same meanings."""
    table = {"write_file": tools.writes, "replace": tools.edits, "write_todos": tools.plans}
    assert tools.signals_of("write_file", {"file_path": "a", "content": "x"}, {}, table=table) == (
        Edited(path="a", after=sha("x")),
    )
    assert tools.signals_of("replace", {"file_path": "a", "old_string": "", "new_string": "x"}, table=table) == (
        Edited(path="a", action="created", after=sha("x"), lines_added=1, lines_removed=0),
    )
    assert tools.signals_of("Edit", {"file_path": "a"}, table=table) == (Active(),)


def test_checklist_is_parsed() -> None:
    """To-dos may be check boxes."""
    result = tools.signals_of("TodoWrite", {"todos": "# Plan\n- [x] Cart\n- [ ] Totals \n* [-] Wish\n1. [~] Ship"})
    assert result == (
        Planned(
            todos=(Todo("Cart", "completed"), Todo("Totals"), Todo("Wish", "dropped"), Todo("Ship", "in_progress"))
        ),
    )


def test_long_blank_checklist_is_quick() -> None:
    """Megabytes of blanks are scanned once."""
    for blank in ("\n", " ", "- [ ] \n", "\t\n"):
        assert tools.signals_of("TodoWrite", {"todos": blank * 300_000}) == (Active(),)
