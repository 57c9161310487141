"""Waiting, categories and circuits, by the numbers of the decisions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.failures import CATEGORIES, Attempt, Category, Circuit, category_of, circuit, delay_before

MINUTE = 60_000


def test_waits() -> None:
    """Before attempts 1 to 5: 0, 2, 4, 8, 16 seconds; 16 after that."""
    assert [delay_before(attempt) for attempt in range(1, 8)] == [0, 2000, 4000, 8000, 16000, 16000, 16000]
    assert delay_before(0) == delay_before(-3) == 0
    assert delay_before(10**9) == 16000


def test_the_categories() -> None:
    """There are five, and these are their names."""
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
def test_category_from_how_a_command_ended(
    code: int, signal: int | None, timed_out: bool, out_of_resources: bool, category: Category
) -> None:
    """Timeout and signals transient, 126 and 127 configuration, out of memory or disk resource, 77 permanent."""
    assert category_of(code, signal=signal, timed_out=timed_out, out_of_resources=out_of_resources) == category


def attempts(pattern: str, *, every: int = 1000) -> list[Attempt]:
    """`x` is a failure, `o` a success, `-` a minute in which nothing was tried."""
    now, made = 0, []
    for mark in pattern:
        if mark == "-":
            now += MINUTE
        else:
            now += every
            made.append(Attempt(now, mark == "o"))
    return made


@pytest.mark.parametrize("pattern", ["", "o", "x", "xx", "xxo", "xxoxx", "oxxoxxo", "xxx-oo", "xxx-oox", "xxx-ooxx"])
def test_closed(pattern: str) -> None:
    """Fewer than three failures in a row leave it closed, and two successes close it again."""
    made = attempts(pattern)
    assert circuit(made, made[-1].ended_at if made else 0) == Circuit("closed")


@pytest.mark.parametrize("pattern", ["xxx", "oxxx", "xxoxxx", "xxx-x", "xxx-ox", "xxx-ooxxx"])
def test_open_for_a_minute(pattern: str) -> None:
    """The third failure opens it for 60 seconds, to the millisecond; then one try is due."""
    made = attempts(pattern)
    since = made[-1].ended_at
    assert circuit(made, since) == Circuit("open", since + MINUTE)
    assert circuit(made, since + MINUTE - 1) == Circuit("open", since + MINUTE)
    assert circuit(made, since + MINUTE) == Circuit("half-open")


def test_one_success_is_not_enough() -> None:
    """After the minute one success leaves it half open; the second closes it."""
    assert circuit(attempts("xxx-o"), 10 * MINUTE).state == "half-open"
    assert circuit(attempts("xxx-oo"), 10 * MINUTE).state == "closed"


def test_a_failed_try_opens_it_again() -> None:
    """One failure while it is half open is enough for another minute."""
    made = attempts("xxx-ox")
    assert circuit(made, made[-1].ended_at + 1).state == "open"


def test_what_ended_well_while_it_was_open_was_no_try() -> None:
    """An agent still running when the circuit opened does not shorten the minute, nor close it."""
    made = attempts("xxxoo")
    assert circuit(made, made[-1].ended_at) == Circuit("open", 3000 + MINUTE)
    assert circuit(made, 3000 + MINUTE) == Circuit("half-open")


@given(st.lists(st.tuples(st.integers(0, 100_000), st.booleans()), max_size=20), st.integers(0, 200_000))
def test_it_opens_only_after_three_failures(made: list[tuple[int, bool]], later: int) -> None:
    """Without three failures in a row it never opens; an open one opens by itself within a minute."""
    now, tried = 0, []
    for wait, succeeded in made:
        now += wait
        tried.append(Attempt(now, succeeded))
    found = circuit(tried, now + later)
    marks = "".join("o" if attempt.succeeded else "x" for attempt in tried)
    if "xxx" not in marks:
        assert found.state == "closed"
    if found.state == "open":
        assert found.until is not None
        assert now + later < found.until <= now + MINUTE
    assert circuit(tried, now + later + MINUTE).state in ("closed", "half-open")
