"""What is a word, and what a query asks for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.text import MAX_WORD_LENGTH, MAX_WORDS, parse_query, split_words


@pytest.mark.parametrize(
    ("text", "found"),
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
def test_words(text: str, found: list[str]) -> None:
    """Runs of letters and digits, without case and accents; where a script has no spaces, every character."""
    assert split_words(text) == found


def test_a_text_has_only_so_many_words() -> None:
    """A pasted log does not fill the index."""
    assert len(split_words(" ".join(str(number) for number in range(10_000)))) == MAX_WORDS


@pytest.mark.parametrize(
    ("text", "asked"),
    [("", ([], "")), ("log", ([], "log")), ("Add log", (["add"], "log")), ("…", ([], "")), ("é", ([], "e"))],
)
def test_the_last_word_of_a_query_may_be_unfinished(text: str, asked: tuple[list[str], str]) -> None:
    """All words but the last must be there whole."""
    assert parse_query(text) == asked


@given(st.text(max_size=60))
def test_words_are_words(text: str) -> None:
    """Distinct, short, without case or separators, and the same when looked at again."""
    found = split_words(text)
    assert len(set(found)) == len(found)
    for word in found:
        assert 0 < len(word) <= MAX_WORD_LENGTH
        assert word == word.casefold()
        assert split_words(word) == [word]


@given(st.text(st.characters(max_codepoint=0x24F), max_size=30))
def test_case_never_matters(text: str) -> None:
    """A Latin text in capitals is found by the same words."""
    assert split_words(text.upper()) == split_words(text.upper().lower())


@given(st.text(max_size=40))
def test_text_matches_a_query_of_its_own_words(text: str) -> None:
    """Asking for any text finds the session that holds it."""
    whole, begun = parse_query(text)
    indexed = set(split_words(text))
    assert set(whole) <= indexed
    assert not begun or begun in indexed
