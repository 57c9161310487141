"""Answers cut to the limits of agents."""

from __future__ import annotations

import json
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from holdfast.conversations.adapters.clean_text import MAX_REPLY_LENGTH, reply_json, without_controls


@given(
    st.dictionaries(st.sampled_from("abc"), st.text(st.characters(), max_size=300) | st.none()), st.integers(60, 400)
)
def test_reply_json_fits_and_decodes(texts: dict[str, str | None], longest: int) -> None:
    """Valid JSON within the limit, for any text, without control characters."""
    written = reply_json(texts, longest=longest)
    assert len(written) <= longest
    written.encode()
    for text in json.loads(written or "{}").values():
        assert not any(unicodedata.category(item) == "Cc" and item not in "\n\t" for item in text)


def test_short_texts_are_unchanged() -> None:
    """Empty ones too."""
    assert json.loads(reply_json({"a": "facts\n✓", "b": None, "c": " "}, cancel=False)) == {
        "cancel": False,
        "a": "facts\n✓",
    }
    assert reply_json({"a": "", "b": "\x1b"}, cancel=True) == ""


def test_longest_text_is_cut_first() -> None:
    """A sentence stays whole next to a far too long text, which loses whole lines."""
    fields = json.loads(reply_json({"context": "one line of many\n" * 10_000, "say": "a break is due"}))
    assert fields["say"] == "a break is due"
    assert fields["context"].endswith("one line of many\n…")
    assert len(fields["context"]) > MAX_REPLY_LENGTH * 0.8


def test_control_characters_are_removed() -> None:
    """Line breaks stay."""
    assert without_controls("a\x1b[31m\r\n\tb\x9b\u202e" + chr(0xD800)) == "a[31m\n\tb\ufffd"
    assert without_controls(None) == ""
