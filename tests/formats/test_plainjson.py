"""The quick look at JSON: whatever it lets pass, the careful reader takes too, as the same data."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.formats.text.json import plain
from holdfast.formats.text.read import read_json

# Built to collide: few keys, quotes and colons in texts, every spelling of both, blanks where they are allowed.
_BLANK = st.sampled_from(["", " ", "\n", "\t", "  "])
_STRING = st.sampled_from(
    ['"a"', '"b"', '"\\u0061"', '"\\":"', '"\\" :"', '"\\u0022:"', '"\\"\\u003a"', '":"', '"\\\\"', '""', '"\u2028"']
)
_SCALAR = st.one_of(_STRING, st.sampled_from(["1", "-0.5", "true", "null", "1e400", "NaN", "9" * 31, '"\\ud800"']))


def _pairs(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pair = st.builds(lambda key, gap, value: f"{key}{gap}:{value}", _STRING, _BLANK, inner)
    return st.lists(pair, max_size=4).map(lambda pairs: "{" + ",".join(pairs) + "}")


TEXTS = st.recursive(
    _SCALAR,
    lambda inner: _pairs(inner) | st.lists(inner, max_size=3).map(lambda a: f"[{','.join(a)}]"),
    max_leaves=12,
)


@given(TEXTS)
@settings(max_examples=1000)
def test_what_passes_is_what_the_careful_reader_reads(text: str) -> None:
    value = plain(text.encode())
    if value is not None:
        read = read_json(text.encode(), "x.json")
        assert (read.value, read.notes) == (value, [])


@pytest.mark.parametrize(
    "text",
    ['{"a":1,"a":2}', '{"a":1,"a" :2}', '{"a":1,"a"\n:"\\u0022:"}', '{"a":{"b":1,"b":2},"c":"\\u0022:"}', "",
     '\ufeff{"a":1}', '{"a":1}\r\n', "[" * 101 + "]" * 101, "[" * 5000 + "]" * 5000, "1" * 31, "[NaN]",
     "[" + "0," * 200_000 + "0]"],
)  # fmt: skip
def test_what_must_not_pass_does_not(text: str) -> None:
    assert plain(text.encode()) is None


@pytest.mark.parametrize(
    "value", [{"a": 1, "b": {"a": 2}}, {"text": 'he said ":" and left'}, {"a": [{"b": [{}] * 200}]}, {"ü": "\u2014"}]
)
def test_ordinary_documents_pass(value: object) -> None:
    """Otherwise the quick look would be no help."""
    for indent in (None, 2):
        assert plain(json.dumps(value, indent=indent).encode()) == value
