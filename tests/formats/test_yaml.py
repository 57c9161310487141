"""YAML as Holdfast writes it: reads back as the same data, and leaves people's comments where they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.canonical import Json
from holdfast.formats.entries import is_same
from holdfast.formats.text import yaml
from holdfast.formats.text.read import read_yaml
from holdfast.formats.text.yaml import render_yaml
from holdfast.formats.text.yaml_edit import comments
from tests.formats.contract_documents import documents, edits

letters = st.characters(exclude_categories=["Cs"])
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(letters, max_size=10)
    | st.sampled_from(
        ["no", "~", "2025-01-09T10:00:00Z", "1e3", "# no comment", "- x", "a: b", "null", " ", "\x85", "%"]
    )
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(letters, max_size=6), inner, max_size=3),
    max_leaves=12,
)
objects = st.dictionaries(st.text(letters, max_size=6) | st.sampled_from(["a", "b", "id", "no"]), values, max_size=4)


def back(text: str) -> Json:
    return read_yaml(text.encode(), "x.yaml").value


@given(objects | values)
def test_what_is_written_reads_back_as_the_same_data(value: Json) -> None:
    assert is_same(back(render_yaml(value)), value)


def test_layout_is_the_one_people_know() -> None:
    value: Json = {"a": "x", "list": [{"b": 1, "c": []}, ["d"]], "no": None, "o": {"p": {}}, "big": 1e16}
    assert render_yaml(value) == (
        'a: "x"\nlist:\n  - b: 1\n    c: []\n  - - "d"\n"no": null\no:\n  p: {}\nbig: 1.0e+16\n'
    )


def test_too_long_key_is_written_with_a_question_mark() -> None:
    value: Json = {"k" * 2000: {"inner": 1}, "l": 2}
    assert is_same(back(render_yaml(value)), value)


# ── over what is there ───────────────────────────────────────────────────────────────────────────────────


def commented(text: str, draw: st.DataObject) -> str:
    """The text with comments: on lines of their own, and at the ends of lines."""
    made: list[str] = []
    for number, line in enumerate(text.splitlines()):
        if draw.draw(st.integers(0, 3)) == 0:
            made.append(" " * draw.draw(st.integers(0, 3)) + f"# over {number}")
        ends = draw.draw(st.integers(0, 3)) == 0
        made.append(line + (f"  # beside {number}" if ends else ""))
        if draw.draw(st.integers(0, 6)) == 0:
            made.append("")
    return "\n".join([*made, "# the end"]) + "\n"


def unordered(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: unordered(value[key]) for key in sorted(value)}
    return [unordered(item) for item in value] if isinstance(value, list) else value


@given(st.data())
def test_over_any_text_the_data_is_right_and_every_comment_is_there(data: st.DataObject) -> None:
    before: dict[str, Json] = {**data.draw(objects)}
    after: dict[str, Json] = {**data.draw(objects)}
    if data.draw(st.booleans()):
        after = {**before, **after}
    old = commented(render_yaml(before), data)
    made = render_yaml(after, over=old)
    assert is_same(unordered(back(made)), unordered(after))
    assert sorted(comments(made)) == sorted(comments(old))


@given(st.data())
def test_over_a_plan_that_another_program_went_on_with(data: st.DataObject) -> None:
    before, after = data.draw(edits())
    part = data.draw(st.sampled_from([name for name in ("state", "plan", "entry") if name in before]))
    old = commented(render_yaml(before[part]), data)
    made = render_yaml(after[part], over=old)
    assert is_same(unordered(back(made)), unordered(after[part]))
    assert sorted(comments(made)) == sorted(comments(old))


@given(st.data())
def test_nothing_changes_where_nothing_differs(data: st.DataObject) -> None:
    document = data.draw(documents())
    old = commented(render_yaml(document["state"]), data)
    assert render_yaml(document["state"], over=old) == old


PLAN = """\
# The plan, by hand
feature:
  id: oauth-2025-01-09   # never change this
  name: 'OAuth'

phases:
- phase_id: one
  name: First
  tasks:
  # the hard one
  - task_id: a
    status: pending  # soon
    note: |
      two
      lines
  - {task_id: b, status: pending}
"""


def test_only_what_differs_is_touched() -> None:
    plan = back(PLAN)
    assert isinstance(plan, dict)
    first = plan["phases"][0]["tasks"]  # type: ignore[index,call-overload]
    first[0]["status"] = "completed"  # type: ignore[index,call-overload]
    first.append({"task_id": "c", "artifacts": ["x.py"]})  # type: ignore[union-attr]
    plan["owner"] = "me"
    expected = PLAN.replace("status: pending  # soon", 'status: "completed"  # soon') + (
        '  - task_id: "c"\n    artifacts:\n      - "x.py"\nowner: "me"\n'
    )
    assert render_yaml(plan, over=PLAN) == expected


def test_removed_key_leaves_its_comments() -> None:
    over = "a: 1\n# about b\nb: 2  # beside b\nc: 3\n"
    assert render_yaml({"a": 1, "c": 4}, over=over) == "a: 1\n# about b\n# beside b\nc: 4\n"


def test_value_that_was_left_out_is_filled_in() -> None:
    assert render_yaml({"a": "x", "b": 1}, over="a:   # nobody yet\nb: 1\n") == 'a: "x"   # nobody yet\nb: 1\n'


def test_windows_line_ends_stay() -> None:
    assert render_yaml({"a": 1, "b": 3, "c": 4}, over="a: 1\r\nb: 2\r\n") == "a: 1\r\nb: 3\r\nc: 4\r\n"


@pytest.mark.parametrize("over", ["a: [", "a: &x 1\nb: *x\n", "<<<<<<< ours\na: 1\n=======\n", "\0", "  \n"])
def test_what_is_no_yaml_that_we_read_is_replaced(over: str) -> None:
    assert render_yaml({"a": 1}, over=over) == "a: 1\n"


DOCUMENT: Json = {
    "version": "1.0", "feature_id": "a-2026-01-05", "current_state": {"active_task": None, "model_in_use": "opus"},
    "tasks": [{"task_id": "one", "status": "pending"}, {"task_id": "two", "status": "pending"}],
}  # fmt: skip
TORN = """\
# head
feature_id: "b # no comment"   # whose
version: [oops
# about now
current_state:
    model_in_use: 'it is # no comment' # cheap
    # what is done
    active_task: null
tasks:
  - task_id: one
    # first
    status: pending
  - task_id: two
    status: {pending  # second
unknown: 1  # nobody's
# tail
"""


def test_broken_text_keeps_comments_next_to_keys_and_the_order_of_keys() -> None:
    assert (
        yaml.render_yaml(DOCUMENT, over=TORN)
        == """\
# nobody's
# head
feature_id: "a-2026-01-05"  # whose
version: "1.0"
# about now
current_state:
  model_in_use: "opus"  # cheap
  # what is done
  active_task: null
tasks:
  - task_id: "one"
    # first
    status: "pending"
  - task_id: "two"
    status: "pending"  # second
# tail
"""
    )


@given(
    st.text(max_size=200)
    | st.text(max_size=30).map("a: [ # {}".format)
    | st.lists(st.sampled_from(TORN.splitlines())).map("\n".join)
)
def test_document_is_written_completely_over_any_content(text: str) -> None:
    made = yaml.render_yaml(DOCUMENT, over=text)
    assert read_yaml(made.encode("utf-8", "replace"), "-").value == DOCUMENT


@given(st.lists(st.sampled_from(TORN.splitlines()), unique=True))
def test_no_comment_line_is_lost(lines: list[str]) -> None:
    torn = "\n".join(["a: [", *lines])
    made = comments(yaml.render_yaml(DOCUMENT, over=torn))
    assert {line.strip() for line in lines if line.strip().startswith("#")} <= set(made)
