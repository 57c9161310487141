"""Private text: which fields contain it, and that no adapter keeps it among unknown fields."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.conversations.adapters import index
from holdfast.conversations.adapters.base import HookEvent
from holdfast.conversations.adapters.fields import is_private, unknown_fields, without_private
from holdfast.conversations.signals import Prompted, Ran
from holdfast.core.canonical import Json

WORDS = "private words"
ADDRESS: dict[str, Json] = {
    "session_id": "g", "conversation_id": "g", "taskId": "g", "cwd": "/home/anna/shop",
}  # fmt: skip


def parse(agent: str, event: str, **fields: Json) -> HookEvent:
    names: dict[str, Json] = {"hook_event_name": event, "hookName": event}
    parsed = index.load_adapter(agent).parse({**ADDRESS, **names, **fields})
    assert parsed is not None
    return parsed


def test_goose_prompt_in_other_dialect_is_not_kept() -> None:
    """Under Claude Code's name for it, it is the prompt."""
    parsed = parse("goose", "UserPromptSubmit", prompt=WORDS)
    assert parsed.signals == (Prompted(text=WORDS),)
    assert "prompt" not in parsed.rest


def test_goose_tool_output_is_not_kept() -> None:
    """Under the other dialect's name, it only shows the result."""
    parsed = parse(
        "goose", "PostToolUse", tool_name="developer__shell", tool_input={"command": "make"},
        tool_response={"exit_code": 2, "stdout": WORDS},
    )  # fmt: skip
    assert parsed.signals == (Ran(command="make", code=2),)
    assert WORDS not in repr(parsed.rest)


@pytest.mark.parametrize("agent", index.NAMES)
def test_unknown_event_keeps_no_private_text(agent: str) -> None:
    """At any depth; everything else is kept."""
    inner: dict[str, Json] = {"text": WORDS, "kind": "long", "parts": [{"content": WORDS, "at": 3}]}
    parsed = parse(agent, "Dreamt", prompt=WORDS, toolResult={"a": WORDS}, messages=[WORDS], dream=inner, depth=7)
    assert WORDS not in repr(parsed.rest)
    assert parsed.rest["dream"] == {"kind": "long", "parts": [{"at": 3}]}
    assert parsed.rest["depth"] == 7


@pytest.mark.parametrize(
    "name",
    ["prompt", "Prompts", "user-prompt", "lastAssistantMessage", "tool_result", "toolresult", "STDOUT", "content_2",
     "HTTPBody", "outputText", "userId", "text_result_for_llm", "customInstructions", "patches", "thinking"],
)  # fmt: skip
def test_private_field_is_recognized_by_its_last_word(name: str) -> None:
    """In any spelling."""
    assert is_private(name)


@pytest.mark.parametrize(
    "name",
    ["prompt_id", "messageID", "message_count", "transcript_path", "context", "status", "output_tokens", "model",
     "taskStart", "resultType", "errorCode", "file_path", "", "_", "42", "текст"],
)  # fmt: skip
def test_ids_counts_paths_and_kinds_are_not_private(name: str) -> None:
    assert not is_private(name)


def test_numbers_are_not_private() -> None:
    """Token counts are kept under any name."""
    assert without_private({"tokens": {"input": 3, "output": 4.5, "reasoning": None}, "summary": False}) == {
        "tokens": {"input": 3, "output": 4.5, "reasoning": None}, "summary": False,
    }  # fmt: skip


def test_deeply_nested_fields_are_left_out() -> None:
    """Nothing is raised."""
    buried: Json = WORDS
    for _ in range(5_000):
        buried = [{"a": buried}]
    assert WORDS not in repr(without_private({"deep": buried}))


_names = st.text(max_size=6) | st.sampled_from(["prompt", "toolResult", "id", "text", "a"])
_values: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda some: st.lists(some, max_size=3) | st.dictionaries(_names, some, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(_names, _values, max_size=5))
def test_removing_private_fields_is_idempotent(fields: dict[str, Json]) -> None:
    """The result is part of the input."""
    parsed = unknown_fields(fields, ())
    assert unknown_fields(parsed, ()) == parsed
    assert set(parsed) <= set(fields)
    assert all(parsed[name] == value for name, value in fields.items() if name in parsed and type(value) is not dict
               and type(value) is not list)  # fmt: skip
    assert not any(is_private(name) and type(value) in (str, list, dict) for name, value in parsed.items())
