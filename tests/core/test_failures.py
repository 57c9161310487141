"""Retry waits, failure categories and circuit breakers, with the numbers of the decisions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.failures import CATEGORIES, Attempt, Category, Circuit, category_of, circuit, delay_before

MINUTE = 60_000


def test_retry_wait_doubles_up_to_16_seconds() -> None:
    """Before attempts 1 to 5: 0, 2, 4, 8, 16 seconds."""
    assert [delay_before(attempt) for attempt in range(1, 8)] == [0, 2000, 4000, 8000, 16000, 16000, 16000]
    assert delay_before(0) == delay_before(-3) == 0
    assert delay_before(10**9) == 16000


def test_failure_categories_are_these_five() -> None:
    assert CATEGORIES == ("transient", "resource", "configuration", "logical", "permanent")


@pytest.mark.parametrize(
    ("code", "signal", "timed_out", "out_of_resources", "category"),
    [
        (1, None, False, False, "logical"), (2, None, False, False, "logical"),
        (255, None, False, False, "logical"),
        (137, None, False, False, "transient"), (130, None, False, False, "transient"),
        (126, None, False, False, "configuration"), (127, None, False, False, "configuration"),
        (77, None, False, False, "permanent"), (128, None, False, False, "logical"),
        (-9, None, False, False, "transient"), (0, 15, False, False, "transient"), (77, 9, False, False, "transient"),
        (1, None, True, False, "transient"), (127, None, True, False, "transient"),
        (137, 9, False, True, "resource"), (1, None, True, True, "resource"),
    ],
)  # fmt: skip
def test_failure_category_follows_from_the_commands_end(
    code: int, signal: int | None, timed_out: bool, out_of_resources: bool, category: Category
) -> None:
    """Timeout and signals are transient, 126 and 127 configuration, out of memory or disk resource, 77 permanent."""
    assert category_of(code, signal=signal, timed_out=timed_out, out_of_resources=out_of_resources) == category


def attempts(pattern: str, *, every: int = 1000) -> list[Attempt]:
    """`x` is a failure, `o` a success, `-` a minute without attempts."""
    now, made = 0, []
    for mark in pattern:
        if mark == "-":
            now += MINUTE
        else:
            now += every
            made.append(Attempt(now, mark == "o"))
    return made


@pytest.mark.parametrize("pattern", ["", "o", "x", "xx", "xxo", "xxoxx", "oxxoxxo", "xxx-oo", "xxx-oox", "xxx-ooxx"])
def test_circuit_stays_closed_below_three_failures_in_a_row(pattern: str) -> None:
    """And two successes close it again."""
    made = attempts(pattern)
    assert circuit(made, made[-1].ended_at if made else 0) == Circuit("closed")


@pytest.mark.parametrize("pattern", ["xxx", "oxxx", "xxoxxx", "xxx-x", "xxx-ox", "xxx-ooxxx"])
def test_circuit_stays_open_for_a_minute_after_the_third_failure(pattern: str) -> None:
    """To the millisecond; then one attempt is due."""
    made = attempts(pattern)
    since = made[-1].ended_at
    assert circuit(made, since) == Circuit("open", since + MINUTE)
    assert circuit(made, since + MINUTE - 1) == Circuit("open", since + MINUTE)
    assert circuit(made, since + MINUTE) == Circuit("half-open")


def test_circuit_closes_after_two_successes() -> None:
    """One success leaves it half open."""
    assert circuit(attempts("xxx-o"), 10 * MINUTE).state == "half-open"
    assert circuit(attempts("xxx-oo"), 10 * MINUTE).state == "closed"


def test_half_open_circuit_opens_again_after_one_failure() -> None:
    made = attempts("xxx-ox")
    assert circuit(made, made[-1].ended_at + 1).state == "open"


def test_success_during_the_open_minute_does_not_count() -> None:
    """An agent that was still running when the circuit opened."""
    made = attempts("xxxoo")
    assert circuit(made, made[-1].ended_at) == Circuit("open", 3000 + MINUTE)
    assert circuit(made, 3000 + MINUTE) == Circuit("half-open")


@given(st.lists(st.tuples(st.integers(0, 100_000), st.booleans()), max_size=20), st.integers(0, 200_000))
def test_circuit_opens_only_after_three_failures(made: list[tuple[int, bool]], later: int) -> None:
    """For any attempts; an open circuit becomes half open within a minute."""
    now, tried = 0, []
    for wait, succeeded in made:
        now += wait
        tried.append(Attempt(now, succeeded))
    breaker = circuit(tried, now + later)
    marks = "".join("o" if attempt.succeeded else "x" for attempt in tried)
    if "xxx" not in marks:
        assert breaker.state == "closed"
    if breaker.state == "open":
        assert breaker.until is not None
        assert now + later < breaker.until <= now + MINUTE
    assert circuit(tried, now + later + MINUTE).state in ("closed", "half-open")
