"""The reader of TOML: what it takes is what Python's own reader takes, within bounds."""

from __future__ import annotations

import tomllib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.limits import MAX_KEY_PARTS
from holdfast.core.toml_text import loads

PIECES = [
    "a",
    "b.c",
    '"x.y"',
    "'z'",
    " . ",
    "=",
    "1.5",
    "[",
    "]",
    "{",
    "}",
    ",",
    "\n",
    "#",
    '"""',
    "'''",
    '"',
    "'",
    "\\",
]


@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_toml_is_read_as_python_reads_it_when_it_is_small(text: str) -> None:
    """Nothing within the bounds is refused or read in another way."""
    assert _read(loads, text) == _read(tomllib.loads, text)


def _read(reader: Callable[[str], object], text: str) -> object:
    try:
        return reader(text)
    except ValueError as error:
        return type(error), str(error)


@pytest.mark.parametrize(
    "text",
    [
        'a = "' + "b." * 1_000 + '"',
        "a = '''\n" + "b." * 1_000 + "\n'''''",
        'a = """x"""""\nb = """' + "c." * 1_000 + '"""',
        "# " + "a." * 1_000,
        "a = [" + "0.1, " * 1_000 + "]",
        ".".join(["a"] * MAX_KEY_PARTS) + " = 1",
        'a = "' + '\\"' * 1_000 + '"',
    ],
)
def test_toml_with_many_dots_is_read_when_they_are_in_no_key(text: str) -> None:
    """Dots in strings, comments and numbers are no parts of a key."""
    assert loads(text) == tomllib.loads(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (".".join(["a"] * (MAX_KEY_PARTS + 1)) + " = 1", "more than 50 parts"),
        ("[" + " . ".join(['"a"'] * 5_000) + "]", "more than 50 parts"),
        ("x = {" + ".".join(["'a.b'"] * 5_000) + " = 1}", "more than 50 parts"),
        ('y = """a"""""\n' + ".".join(["a"] * 5_000) + " = 1", "more than 50 parts"),
        ("a = " + "9" * 5_000, "too large"),
        ("a = " + "[" * 5_000, "nested too deeply"),
        ("a = " + "{a = " * 5_000, "nested too deeply"),
    ],
)
def test_toml_beyond_a_limit_is_refused_in_words(text: str, words: str) -> None:
    """A key of too many parts, a number of too many digits, too many levels."""
    with pytest.raises(ValueError, match=words):
        loads(text)
