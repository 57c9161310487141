"""Fingerprints as words: laws of the word list, round trips, and errors for mistakes."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import Invalid
from holdfast.workspace.keys.device_keys import parse_words, spell_words, wordlist

VECTORS = json.loads((Path(__file__).parent / "vectors" / "words.json").read_text("utf-8"))
KNOWN = wordlist()


def misspellings(word: str) -> set[str]:
    """Every word with one letter wrong, missing or swapped."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    cuts = [(word[:at], word[at:]) for at in range(len(word) + 1)]
    missing = {left + right[1:] for left, right in cuts if right}
    wrong = {left + letter + right[1:] for left, right in cuts if right for letter in letters}
    swapped = {left + right[1] + right[0] + right[2:] for left, right in cuts if len(right) > 1}
    return (missing | wrong | swapped) - {word}


def test_word_list_follows_its_laws() -> None:
    """1,024 sorted words of 3 to 7 letters, distinct in the first four, none a prefix of another."""
    assert len(KNOWN) == 1024
    assert list(KNOWN) == sorted(set(KNOWN))
    assert all(word.isascii() and word.isalpha() and word.islower() and 3 <= len(word) <= 7 for word in KNOWN)
    assert len({word[:4] for word in KNOWN}) == 1024
    assert not any(after.startswith(before) for before, after in pairwise(KNOWN))


def test_misspelled_word_is_never_another_word() -> None:
    """One wrong, missing or swapped letter."""
    all_words = set(KNOWN)
    assert not any(misspellings(word) & all_words for word in KNOWN)


def test_vectors_match_the_list() -> None:
    """The frozen examples, recomputed digit by digit from the list."""
    for vector in VECTORS:
        bits = "".join(f"{byte:08b}" for byte in bytes.fromhex(vector["bytes"])) + "00"
        spelled = "-".join(KNOWN[int(bits[at : at + 10], 2)] for at in range(0, 130, 10))
        assert spelled == vector["words"] == spell_words(bytes.fromhex(vector["bytes"]))
        assert parse_words(vector["words"]).hex() == vector["bytes"]


@given(st.binary(min_size=16, max_size=16), st.sampled_from("- _.,:\n\t/—"), st.booleans(), st.integers(4, 9))
def test_words_round_trip(data: bytes, apart: str, upper: bool, kept: int) -> None:
    """Any case and separator, words cut after four letters, and hex digits are accepted."""
    spelled = spell_words(data)
    assert spelled.count("-") == 12
    given_ = apart.join(word[:kept] for word in spelled.split("-"))
    assert parse_words(f" {given_.upper() if upper else given_}\n") == data
    digits = apart.join((data.hex()[:8], data.hex()[8:]))
    assert parse_words(digits.upper() if upper else digits) == data


@given(st.text(max_size=200))
def test_any_text_is_a_fingerprint_or_invalid(text: str) -> None:
    caught = None
    try:
        parsed = parse_words(text)
    except Invalid as error:
        parsed, caught = b"", error
    assert len(parsed) == 16 or (caught is not None and caught.hint)


def test_error_names_the_unknown_word_and_the_closest_one() -> None:
    good = spell_words(bytes(16)).split("-")
    with pytest.raises(Invalid, match="'abzorb' is not one of the words of a recovery code") as caught:
        parse_words(" ".join([*good[:4], "abzorb", *good[5:]]), subject="recovery code")
    assert caught.value.hint == "Did you mean 'absorb'?"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("absorb-absorb", "has 2 words"),
        ("absorb " * 14, "has 14 words"),
        ("absorb", "has 1 word"),
        ("", "has 0 words"),
        ("0a" * 15, "has 30 hex digits"),
        ("absorb " * 12 + "accent", "last word cannot be 'accent'"),
        ("absorb " * 300, "too long"),
    ],
)
def test_wrong_lengths_have_different_errors(text: str, message: str) -> None:
    """Too few, too many, too short, and bits that no fingerprint has."""
    with pytest.raises(Invalid, match=message):
        parse_words(text)


def test_only_sixteen_bytes_can_be_spelled() -> None:
    """As thirteen words."""
    for size in (0, 15, 17, 32):
        with pytest.raises(ValueError, match="bytes"):
            spell_words(bytes(size))
