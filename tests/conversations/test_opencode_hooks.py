"""Payloads of opencode's plugin, beyond the conformance suite."""

from __future__ import annotations

import json

import pytest

from holdfast.conversations.adapters.base import HookAnswer, HookEvent
from holdfast.conversations.adapters.opencode.hooks import AGENT, context_of
from holdfast.conversations.signals import Active, AgentBegan, AgentEnded, Chosen, Erred, Limited, Opened, Prompted
from holdfast.core.canonical import Json


def parse(event: str, **more: Json) -> HookEvent:
    parsed = AGENT.parse({"hook_event_name": event, "session_id": "ses_1", "cwd": "/home/anna/shop", **more})
    assert parsed is not None
    return parsed


def test_default_title_is_none() -> None:
    """opencode's default title is a date."""
    assert parse("session.created", title="New session - 2026-11-15T16:05:04.031Z").signals == (Opened(),)
    assert parse("session.created", title="Sitemap", model="p/m").signals == (
        Opened(title="Sitemap"), Chosen(model="p/m"),
    )  # fmt: skip


def test_subagent_task_is_its_title() -> None:
    """The title of its conversation, without opencode's addition."""
    began = parse("session.created", agent_id="ses_2", agent_type="explore", title="look around (@explore subagent)")
    assert began.signals == (AgentBegan(agent="ses_2", type="explore", task="look around"),)
    assert began.occasion is None


def test_subagent_end_signals() -> None:
    """Its last message, or its error, which is no error of the session."""
    error: Json = {"name": "APIError", "data": {"message": "Overloaded", "statusCode": 529, "isRetryable": True}}
    assert parse("session.error", agent_id="ses_2", error=error).signals == (Active(agent="ses_2"),)
    (ended,) = parse("session.idle", agent_id="ses_2", error=error, reply="half").signals
    assert type(ended) is AgentEnded
    assert (ended.failed, ended.summary) == ("Overloaded (status 529)", None)


@pytest.mark.parametrize(
    ("error", "kind", "category"),
    [
        ({"name": "APIError", "data": {"message": "Overloaded", "isRetryable": True}}, Erred, "transient"),
        (
            {"name": "APIError", "data": {"message": "Slow down", "statusCode": 429, "isRetryable": True}},
            Limited,
            None,
        ),
        ({"name": "ProviderAuthError", "data": {"message": "no API key"}}, Erred, "configuration"),
        ({"name": "MessageAbortedError", "data": {"message": "aborted"}}, Active, None),
        ({}, Erred, "logical"),
    ],
)
def test_error_code_decides_category(error: Json, kind: type, category: str | None) -> None:
    """An agent stopped by a person is no failure."""
    (signal,) = parse("session.error", error=error).signals
    assert type(signal) is kind
    assert category is None or getattr(signal, "category", None) == category


def test_synthetic_prompt_is_no_persons() -> None:
    """All its parts were made by programs."""
    assert parse("chat.message", prompt="", person=False).signals == (Prompted(person=False),)


def test_event_through_two_plugins_has_one_mark() -> None:
    """By opencode's ids; without one the whole payload decides."""
    assert parse("session.idle", event_id="evt_1").mark == parse("session.idle", event_id="evt_1", cost=1).mark
    assert parse("tool.execute.before", call_id="c").mark != parse("tool.execute.after", call_id="c").mark
    assert parse("session.closed").mark == ""
    assert parse("session.idle", event_id="e" * 10_000).mark == ""


def test_reply_uses_plugin_fields() -> None:
    """Context, a message and a reason, each only where the plugin can use it."""
    whole = HookAnswer(context="facts", say="a word", block="no")
    assert json.loads(AGENT.reply(whole, "chat.message").stdout) == {
        "block": "no",
        "context": "facts",
        "say": "a word",
    }
    assert json.loads(AGENT.reply(whole, "session.created").stdout) == {"context": "facts", "say": "a word"}
    assert json.loads(AGENT.reply(whole, "session.compacting").stdout) == {"context": "facts"}


def test_context_is_measured() -> None:
    """Input and output, cached or not; reasoning is not kept in the context."""
    tokens: dict[str, Json] = {"input": 1, "output": 2, "reasoning": 100, "cache": {"read": 4, "write": 8}}
    assert context_of(tokens) == 15
    assert context_of({}) is None
    assert context_of({"input": "many", "cache": 7}) is None


def test_subagent_end_has_tokens() -> None:
    """Those of its last answer, counted as in its store."""
    tokens: Json = {"input": 100, "output": 30, "reasoning": 9, "cache": {"read": 20, "write": 0}}
    parsed = parse("session.idle", agent_id="ses_2", reply="Done.", tokens=tokens)
    assert parsed.signals == (AgentEnded(agent="ses_2", summary="Done.", tokens=150),)
    assert parsed.rest == {}
