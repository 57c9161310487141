"""The meaning of agents' errors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.conversations.adapters.errors import (
    CATEGORY_OF_WORD,
    LIMIT_WORDS,
    MAX_MESSAGE_LENGTH,
    categorize,
    classify,
    is_limit,
)
from holdfast.conversations.signals import Erred, Limited
from holdfast.core.failures import CATEGORIES

# All error names of Claude Code.
CLAUDE = {
    "authentication_failed": "configuration",
    "oauth_org_not_allowed": "configuration",
    "account_on_hold": "permanent",
    "verification_required": "configuration",
    "cloud_credential_error": "configuration",
    "overloaded": "transient",
    "invalid_request": "permanent",
    "model_not_found": "configuration",
    "server_error": "transient",
    "unknown": "logical",
    "max_output_tokens": "resource",
}


@pytest.mark.parametrize(("kind", "meant"), CLAUDE.items())
def test_error_name_gives_its_category(kind: str, meant: str) -> None:
    signal = classify(kind, "Something happened")
    assert signal == Erred(message=f"{kind}: Something happened", category=meant)


@pytest.mark.parametrize(
    "kind", ["rate_limit", "billing_error", "UsageLimitExceeded", "usage-limit-exceeded", "quota"]
)
def test_limit_name_gives_a_limit(kind: str) -> None:
    """An account's limit is not a failure, in any spelling."""
    assert classify(kind, "Wait until 3pm", agent="a") == Limited(agent="a", reason="Wait until 3pm")
    assert classify(kind) == Limited(reason=kind)


@pytest.mark.parametrize(
    "sentence",
    [
        "Claude AI usage limit reached|1760000000",
        "5-hour limit reached ∙ resets 3pm",
        "You've hit your session limit · resets 3pm (Europe/Berlin)",
        "You've reached your weekly limit",
        "You've hit your usage limit. Upgrade to Pro or try again at 4:12 PM.",
        "Credit balance is too low",
        "You exceeded your current quota, please check your plan and billing details.",
        "API Error: Rate limit reached",
        "error 429: too many requests",
        "RESOURCE_EXHAUSTED: Quota exceeded for metric",
        "You're out of extra usage · resets 5pm",
    ],
)
def test_message_about_a_limit_gives_a_limit(sentence: str) -> None:
    assert classify(None, sentence) == Limited(reason=sentence)
    assert categorize(None, sentence) == "resource"


@pytest.mark.parametrize(
    ("sentence", "meant"),
    [
        ("ENOSPC: no space left on device, write", "resource"),
        ("Prompt is too long", "resource"),
        ("Connection error.", "transient"),
        ("Command timed out after 2m", "transient"),
        ("API Error: 529 overloaded", "transient"),
        ("HTTP 503", "transient"),
        ("Not logged in · Please run /login", "configuration"),
        ("Invalid API key", "configuration"),
        ("EACCES: permission denied, open '/etc/x'", "configuration"),
        ("http status 400", "permanent"),
        ("String to replace not found in file.", "logical"),
        ("expected 429 rows, got 5", "logical"),
        ("Time limit of the function is 3 s", "logical"),
        ("", "logical"),
    ],
)
def test_message_gives_a_category(sentence: str, meant: str) -> None:
    """An unnamed error is recognized by its message; otherwise the work itself failed."""
    assert categorize(None, sentence) == meant
    assert not is_limit(None, sentence)


def test_error_name_precedes_its_message() -> None:
    """A message that mentions limits does not change another error."""
    assert isinstance(classify("server_error", "The rate limit reached its maximum"), Erred)


def test_each_error_name_is_in_one_table() -> None:
    """Limit or failure, in its normalized spelling."""
    assert not LIMIT_WORDS & set(CATEGORY_OF_WORD)
    assert all(classify(word) == Limited(reason=word) for word in LIMIT_WORDS)
    assert all(categorize(word) == meant for word, meant in CATEGORY_OF_WORD.items())


@given(st.none() | st.text(), st.none() | st.text())
def test_any_error_raises_nothing(kind: str | None, text: str | None) -> None:
    """It becomes a short message with a known category."""
    signal = classify(kind, text)
    if isinstance(signal, Erred):
        assert 0 < len(signal.message) <= MAX_MESSAGE_LENGTH + 70
        assert signal.category in CATEGORIES
    else:
        assert 0 < len(signal.reason) <= MAX_MESSAGE_LENGTH


def test_very_long_message_is_classified_quickly() -> None:
    """By its start."""
    signal = classify(None, "usage limit reached " * 1_000_000)
    assert isinstance(signal, Limited)
    assert signal.reason.startswith("usage limit reached")
    assert isinstance(classify("x" * 1_000_000, "y" * 1_000_000), Erred)
