"""Comments and key order of YAML that no longer parses."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.canonical import Json
from holdfast.formats.text import yaml
from holdfast.formats.text.read import read_yaml
from holdfast.formats.text.yaml_edit import comments

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
        yaml.written(DOCUMENT, over=TORN)
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
def test_whatever_stood_there_the_document_is_written_whole(text: str) -> None:
    made = yaml.written(DOCUMENT, over=text)
    assert read_yaml(made.encode("utf-8", "replace"), "-").value == DOCUMENT


@given(st.lists(st.sampled_from(TORN.splitlines()), unique=True))
def test_no_comment_line_is_lost(lines: list[str]) -> None:
    torn = "\n".join(["a: [", *lines])
    made = comments(yaml.written(DOCUMENT, over=torn))
    assert {line.strip() for line in lines if line.strip().startswith("#")} <= set(made)
