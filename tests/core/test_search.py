"""What counts as a word, and how a query is read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.text import MAX_WORD_LENGTH, MAX_WORDS, parse_query, split_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []), ("  ,;- ", []), ("Add OAuth 2.0, add PKCE!", ["add", "oauth", "2", "0", "pkce"]),
        ("snake_case kebab-case", ["snake", "case", "kebab"]), ("Ångström CAFÉ cafe\u0301", ["angstrom", "cafe"]),
        ("STRASSE Straße", ["strasse"]), ("İstanbul", ["istanbul"]), ("ℌello ﬁne", ["hello", "fine"]),
        ("漢字を検索", ["漢", "字", "を", "検", "索"]), ("OAuthを追加", ["oauth", "を", "追", "加"]),
        ("v2漢3", ["v2", "漢", "3"]),
        ("Привет МИР", ["привет", "мир"]),
        ("x" * 100, ["x" * MAX_WORD_LENGTH]), ("_a_", ["a"]), ("𠀀𠀁", ["𠀀", "𠀁"]),
        ("naïve\nnaive\tNAÏVE", ["naive"]), ("a\0b", ["a", "b"]),
    ],
)  # fmt: skip
def test_text_is_split_into_words(text: str, words: list[str]) -> None:
    """Runs of letters and digits without case and accents; single characters in scripts without spaces."""
    assert split_words(text) == words


def test_words_of_a_text_are_limited() -> None:
    """A pasted log does not fill the index."""
    assert len(split_words(" ".join(str(number) for number in range(10_000)))) == MAX_WORDS


@pytest.mark.parametrize(
    ("text", "asked"),
    [("", ([], "")), ("log", ([], "log")), ("Add log", (["add"], "log")), ("…", ([], "")), ("é", ([], "e"))],
)
def test_query_matches_its_last_word_as_a_prefix(text: str, asked: tuple[list[str], str]) -> None:
    """All other words must match completely."""
    assert parse_query(text) == asked


@given(st.text(max_size=60))
def test_words_are_distinct_short_and_normalized(text: str) -> None:
    """And splitting a word gives the word itself."""
    words = split_words(text)
    assert len(set(words)) == len(words)
    for word in words:
        assert 0 < len(word) <= MAX_WORD_LENGTH
        assert word == word.casefold()
        assert split_words(word) == [word]


@given(st.text(st.characters(max_codepoint=0x24F), max_size=30))
def test_case_does_not_change_the_words(text: str) -> None:
    assert split_words(text.upper()) == split_words(text.upper().lower())


@given(st.text(max_size=40))
def test_text_matches_a_query_of_its_own_words(text: str) -> None:
    """For any text."""
    whole, begun = parse_query(text)
    indexed = set(split_words(text))
    assert set(whole) <= indexed
    assert not begun or begun in indexed
