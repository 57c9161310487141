"""Convert a written word to a value, and find the words that a misspelt one may mean."""

from __future__ import annotations

import math

from holdfast.core.errors import Invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal, TypeAlias

    # `path` and `dir` are texts that completion and help know more about. `time` and `date` are checked and
    # stay as written: placing them needs the clock and the zone. A `span` becomes milliseconds.
    Kind: TypeAlias = Literal["text", "int", "float", "flag", "time", "date", "span", "path", "dir"]

_SPANS = {"s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_DIGITS = 15  # what a double, and so every JSON reader, holds exactly


def parse_value(kind: Kind, choices: Sequence[str], word: str, label: str, operation: str | None) -> object:
    """The value of a word, or `Invalid` naming `label`, the option or argument it was given for."""
    if choices and word not in choices:
        similar = similar_words(word, choices)
        start = f"Did you mean {' or '.join(similar)}? " if similar else ""
        raise Invalid(
            f"{label}: invalid value {quoted(word)}",
            hint=f"{start}Valid values: {', '.join(choices)}.",
            operation=operation,
        )
    try:
        if kind == "int":
            return _integer(word)
        if kind == "float":
            return _number(word)
        if kind == "span":
            return _span(word)
        if kind in ("time", "date"):
            return _time(word, date=kind == "date")
    except Invalid as error:
        raise Invalid(f"{label}: {error.message}", hint=error.hint, operation=operation) from None
    return word


def _integer(word: str) -> int:
    digits = word[1:] if word[:1] in ("-", "+") else word
    # int() alone would also take 1_000, surrounding blanks and the digits of every script.
    if not (digits.isascii() and digits.isdigit()):
        raise Invalid(f"{quoted(word)} is not a whole number")
    if len(digits) > _DIGITS:
        raise Invalid(f"{quoted(word)} is too large a number", hint=f"At most {_DIGITS} digits.")
    return int(word)


def _number(word: str) -> float:
    try:
        # float() alone would also take nan, inf, 1_000, surrounding blanks and the digits of every script.
        value = float(word) if word and not set(word) - set("+-.0123456789eE") else math.nan
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise Invalid(f"{quoted(word)} is not a number")
    return value


def _span(word: str) -> int:
    digits = word.rstrip("smindhw")
    unit = _SPANS.get(word[len(digits) :])
    if unit is None or not (digits.isascii() and digits.isdigit()) or len(digits) > 6:
        raise Invalid(f"expected a duration, got {quoted(word)}", hint="Write it as 90s, 30m, 12h, 7d or 2w.")
    return int(digits) * unit


def _time(word: str, *, date: bool) -> str:
    from datetime import timedelta

    from holdfast.core import times

    if not word.isascii():
        raise Invalid(
            f"{quoted(word)} is not a time", hint="Write it as 2026-11-15 09:30, as HH:MM of today, or as RFC 3339."
        )
    # A date alone is its first moment, so what makes that moment valid makes the date valid.
    date_only = date and len(word) == 10
    try:
        times.parse_typed_time(f"{word}T00:00:00Z" if date_only else word, now=0, local=lambda _: timedelta(0))
    except Invalid as error:
        if not date:
            raise
        raise Invalid(
            f"{quoted(word)} is not a date",
            hint="Write it as 2026-11-15, or as a time in RFC 3339.",
        ) from error
    return word


def similar_words(word: str, candidates: Sequence[str]) -> list[str]:
    """Up to three candidates close to a misspelt word, closest first, otherwise in their given order."""
    if not 1 < len(word) <= 40:
        return []
    max_distance = 1 if len(word.lstrip("-")) < 4 else 2
    ranked: list[tuple[int, int]] = []
    for order, candidate in enumerate(candidates):
        if candidate.startswith(word) and len(word.lstrip("-")) > 1:
            ranked.append((1, order))
        elif (
            abs(len(candidate) - len(word)) <= max_distance and (steps := _distance(word, candidate)) <= max_distance
        ):
            ranked.append((steps, order))
    return [candidates[order] for _, order in sorted(ranked)[:3]]


def _distance(word: str, other: str) -> int:
    """How many letters to add, drop, replace or swap with a neighbour to turn one word into the other."""
    before: list[int] = []
    previous = list(range(len(other) + 1))
    for row, letter in enumerate(word, start=1):
        current = [row]
        for column, other_letter in enumerate(other, start=1):
            steps = min(previous[column] + 1, current[-1] + 1, previous[column - 1] + (letter != other_letter))
            if row > 1 and column > 1 and letter == other[column - 2] and word[row - 2] == other_letter:
                steps = min(steps, before[column - 2] + 1)
            current.append(steps)
        before, previous = previous, current
    return previous[-1]


def quoted(word: str) -> str:
    """A word to repeat in a message: shortened, with invisible characters escaped and without passwords."""
    for scheme in ("postgres://", "postgresql://"):
        before, address, _ = word.partition(scheme)
        word = f"{before}{address}…" if address else word
    return repr(word if len(word) <= 60 else word[:59] + "…")
