"""Fingerprints as words: the laws of the list, there and back, and what a mistake is told."""

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


def one_slip(word: str) -> set[str]:
    """Everything one wrong, missing or swapped letter makes of a word."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    cuts = [(word[:at], word[at:]) for at in range(len(word) + 1)]
    missing = {left + right[1:] for left, right in cuts if right}
    wrong = {left + letter + right[1:] for left, right in cuts if right for letter in letters}
    swapped = {left + right[1] + right[0] + right[2:] for left, right in cuts if len(right) > 1}
    return (missing | wrong | swapped) - {word}


def test_the_laws_of_the_list() -> None:
    """1,024 words of 3 to 7 letters, sorted, apart in their first four, none the beginning of another."""
    assert len(KNOWN) == 1024
    assert list(KNOWN) == sorted(set(KNOWN))
    assert all(word.isascii() and word.isalpha() and word.islower() and 3 <= len(word) <= 7 for word in KNOWN)
    assert len({word[:4] for word in KNOWN}) == 1024
    assert not any(after.startswith(before) for before, after in pairwise(KNOWN))


def test_no_slip_makes_another_word() -> None:
    """One wrong, missing or swapped letter never turns a word of the list into another one."""
    all_words = set(KNOWN)
    assert not any(one_slip(word) & all_words for word in KNOWN)


def test_the_vectors() -> None:
    """The frozen examples, worked out again digit by digit from the list."""
    for vector in VECTORS:
        bits = "".join(f"{byte:08b}" for byte in bytes.fromhex(vector["bytes"])) + "00"
        spelled = "-".join(KNOWN[int(bits[at : at + 10], 2)] for at in range(0, 130, 10))
        assert spelled == vector["words"] == spell_words(bytes.fromhex(vector["bytes"]))
        assert parse_words(vector["words"]).hex() == vector["bytes"]


@given(st.binary(min_size=16, max_size=16), st.sampled_from("- _.,:\n\t/—"), st.booleans(), st.integers(4, 9))
def test_wrap_round_trips(data: bytes, apart: str, upper: bool, kept: int) -> None:
    """Words are read in any case, apart by anything, cut short after four letters; hex digits too."""
    spelled = spell_words(data)
    assert spelled.count("-") == 12
    given_ = apart.join(word[:kept] for word in spelled.split("-"))
    assert parse_words(f" {given_.upper() if upper else given_}\n") == data
    digits = apart.join((data.hex()[:8], data.hex()[8:]))
    assert parse_words(digits.upper() if upper else digits) == data


@given(st.text(max_size=200))
def test_anything_is_read_or_invalid(text: str) -> None:
    """Whatever was typed, it is 16 bytes or one sentence."""
    caught = None
    try:
        parsed = parse_words(text)
    except Invalid as error:
        parsed, caught = b"", error
    assert len(parsed) == 16 or (caught is not None and caught.hint)


def test_an_unknown_word_is_named_with_the_closest_one() -> None:
    """A mistyped word is named, and the one it is closest to offered."""
    good = spell_words(bytes(16)).split("-")
    with pytest.raises(Invalid, match="'abzorb' is not one of the words of a recovery code") as caught:
        parse_words(" ".join([*good[:4], "abzorb", *good[5:]]), what="recovery code")
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
def test_a_wrong_count_says_so(text: str, message: str) -> None:
    """Too few, too many, too short, and bits that no fingerprint has are told apart."""
    with pytest.raises(Invalid, match=message):
        parse_words(text)


def test_other_sizes_are_not_spelled() -> None:
    """Thirteen words are sixteen bytes, no more and no less."""
    for size in (0, 15, 17, 32):
        with pytest.raises(ValueError, match="bytes"):
            spell_words(bytes(size))
