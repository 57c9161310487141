"""Classify an agent's errors: a usage limit that lifts by itself, or a failure of a known category.

Agents name errors by a word, or only by a sentence written for people. Both are looked up in tables; what is in
neither is `logical`: the work itself went wrong, and trying again does not help.
"""

from __future__ import annotations

import re
from typing import Final

from holdfast.conversations.signals import Erred, Limited
from holdfast.core.failures import Category
from holdfast.core.text import shorten

MAX_MESSAGE_LENGTH: Final = 500

# Words that mean that the account may not use more for now.
LIMIT_WORDS: Final = frozenset(
    {"rate_limit", "billing_error", "usage_limit", "quota", "usage_limit_reached", "usage_limit_exceeded",
     "usage_not_included", "insufficient_quota", "quota_exceeded", "resource_exhausted", "rate_limit_exceeded",
     "rate_limit_error", "rate_limited", "too_many_requests", "workspace_owner_credits_depleted",
     "credits_depleted", "session_budget_exceeded"}
)  # fmt: skip

# Words of agents and of the services behind them.
CATEGORY_OF_WORD: Final[dict[str, Category]] = {
    "authentication_failed": "configuration",
    "authentication_error": "configuration",
    "oauth_org_not_allowed": "configuration",
    "account_on_hold": "permanent",
    "verification_required": "configuration",
    "cloud_credential_error": "configuration",
    "permission_error": "configuration",
    "unauthorized": "configuration",
    "forbidden": "configuration",
    "model_not_found": "configuration",
    "not_found_error": "configuration",
    "bad_request": "permanent",
    "invalid_request": "permanent",
    "invalid_request_error": "permanent",
    "cyber_policy": "permanent",
    "overloaded": "transient",
    "overloaded_error": "transient",
    "server_overloaded": "transient",
    "server_error": "transient",
    "api_error": "transient",
    "internal_server_error": "transient",
    "timeout": "transient",
    "connection_error": "transient",
    "http_connection_failed": "transient",
    "response_stream_connection_failed": "transient",
    "response_stream_disconnected": "transient",
    "response_too_many_failed_attempts": "transient",
    "max_output_tokens": "resource",
    "context_window_exceeded": "resource",
    "context_length_exceeded": "resource",
    "request_too_large": "resource",
}

_LIMIT_PATTERN: Final = (
    r"(?:usage|session|weekly|daily|monthly|spend(?:ing)?|rate|5-hour|request) limit (?:has been |was |is )?"
    r"(?:reached|exceeded|hit)"
    r"|limit reached\b.{0,12}\bresets?\b|reached your .{0,30}\blimit\b|hit your .{0,30}\blimit\b"
    r"|quota (?:has been |was |is )?(?:exceeded|exhausted|reached)|exceeded your (?:current )?quota"
    r"|insufficient_quota|resource_exhausted|credit balance is too low|out of (?:extra )?(?:usage|credits)"
    r"|too many requests|\brate[_ -]limit(?:ed|_error|_exceeded)?\b|\b(?:status|error|http)\W{0,3}(?:code )?429\b"
)
_HTTP: Final = r"\b(?:status|error|http)\W{0,3}(?:code )?"
_CATEGORY_PATTERNS: Final[dict[Category, str]] = {  # the first that matches decides
    "resource": r"out of memory|no space left|disk quota|cannot allocate|too many open files|\boom\b|heap limit"
    r"|prompt is too long|context (?:window|length)|maximum context|ENOSPC|ENOMEM|EMFILE",
    "transient": r"timed? ?out|timeout|overloaded|temporarily|unavailable|network|socket hang up|fetch failed"
    r"|connection (?:reset|refused|error|closed|aborted)|internal server error|bad gateway|stream disconnected"
    rf"|ECONN\w+|ETIMEDOUT|EAI_AGAIN|ENETUNREACH|{_HTTP}(?:5\d\d|408)\b",
    "configuration": r"not logged in|/login|log ?in again|authenticat|unauthori[sz]ed|api key|credential"
    r"|command not found|no such tool|not (?:installed|configured)|permission denied|EACCES|EPERM|forbidden"
    rf"|model .{{0,40}}not found|{_HTTP}40[13]\b",
    "permanent": rf"invalid[_ ]request|content policy|usage policy|{_HTTP}400\b",
}


def is_limit(kind: str | None, text: str | None) -> bool:
    """Whether this is a usage limit of the account, not a fault of the work."""
    if kind and _normalize(kind) in LIMIT_WORDS:
        return True
    if kind and _normalize(kind) in CATEGORY_OF_WORD:
        return False  # the word is surer than the sentence
    return _matches(_LIMIT_PATTERN, _beginning(text) or _beginning(kind))


def categorize(kind: str | None, text: str | None = None) -> Category:
    """The category of an error, from the agent's word for it and its message."""
    named = CATEGORY_OF_WORD.get(_normalize(kind)) if kind else None
    if named:
        return named
    words = f"{_beginning(kind)} {_beginning(text)}"
    if _matches(_LIMIT_PATTERN, words) or (kind and _normalize(kind) in LIMIT_WORDS):
        return "resource"
    return next((name for name, pattern in _CATEGORY_PATTERNS.items() if _matches(pattern, words)), "logical")


def classify(kind: str | None, text: str | None = None, *, agent: str | None = None) -> Limited | Erred:
    """The signal for an error. `kind` is the agent's word for it, `text` its message; one may be missing."""
    reason = shorten(_beginning(text) or _beginning(kind), MAX_MESSAGE_LENGTH) or "an error without a message"
    if is_limit(kind, text):
        return Limited(agent=agent, reason=reason)
    message = reason if not kind or not text or kind in reason else f"{shorten(kind, 60)}: {reason}"
    return Erred(agent=agent, message=message, category=categorize(kind, text))


def _matches(pattern: str, text: str) -> bool:
    # `re` caches compiled patterns; hooks that meet no error do not pay for them.
    return re.search(pattern, text, re.IGNORECASE | re.DOTALL) is not None


def _normalize(kind: str) -> str:
    """`UsageLimitExceeded`, `usage-limit-exceeded` and `usage_limit_exceeded` are one word."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind[:100].strip())
    return re.sub(r"[^a-z0-9]+", "_", spaced.lower()).strip("_")


def _beginning(text: str | None) -> str:
    # A message can be a whole log; what went wrong is at its beginning.
    return (text or "")[: 4 * MAX_MESSAGE_LENGTH].strip()
