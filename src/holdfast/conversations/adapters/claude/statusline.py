"""What Claude Code hands to a status line: the only live word on how full the context is, on cost and on limits."""

from __future__ import annotations

from holdfast.conversations.adapters.base import HookEvent, Payload
from holdfast.conversations.adapters.claude.hooks import resume
from holdfast.conversations.adapters.fields import amount, conversation_of, number, part, word
from holdfast.conversations.signals import AnySignal, Chosen, Measured
from holdfast.core.canonical import Json

EVENT = "Status"
_MOST_LIMITS = 10


def parse(payload: Payload) -> HookEvent | None:
    """What a status line's input says; None when it is of no conversation."""
    conversation = conversation_of(payload, "session_id")
    if conversation is None:
        return None
    context = part(payload, "context_window")
    cost = amount(part(payload, "cost"), "total_cost_usd")
    tokens, window, limits = tokens_of(context), number(context, "context_window_size"), limits_of(payload)
    signals: list[AnySignal] = []
    if tokens is not None or cost is not None or limits is not None:
        signals.append(Measured(tokens=tokens, window=window, cost_usd=cost, limits=limits))
    if model := word(part(payload, "model"), "id"):
        signals.append(Chosen(model=model))
    return HookEvent(
        agent="claude",
        conversation=conversation,
        event=EVENT,
        signals=tuple(signals),
        cwd=word(part(payload, "workspace"), "current_dir") or word(payload, "cwd"),
        resume=resume(conversation),
    )


def tokens_of(context: Payload) -> int | None:
    """What the context holds, counted as its percentage is: all input of the last request, without the answer."""
    usage = part(context, "current_usage")
    counts = [
        number(usage, name) for name in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    ]
    if any(count is not None for count in counts):
        return sum(count or 0 for count in counts)
    # Before the first answer the total is zero and means nothing.
    return number(context, "total_input_tokens") or None


def limits_of(payload: Payload) -> dict[str, Json] | None:
    """How much of each limit is used and when it is lifted, by the names the agent gives them."""
    found: dict[str, Json] = {}
    for name, limit in part(payload, "rate_limits").items():
        if type(limit) is dict and len(name) <= 40 and len(found) < _MOST_LIMITS:
            used, resets = amount(limit, "used_percentage"), number(limit, "resets_at")
            if used is not None:
                told: dict[str, Json] = {"used_percentage": used}
                found[name] = told if resets is None else told | {"resets_at": resets}
    return found or None
