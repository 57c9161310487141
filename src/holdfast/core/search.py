"""What a search finds, defined once so that every store finds the same.

A word is a run of letters and digits, compared without case and without accents; where a script puts no
spaces between words, every character is a word. A session matches when each word of the query is a word of
its text; the last one may be unfinished. Results come newest first: by creation, then by id.
"""

from __future__ import annotations

import re
import unicodedata

MAX_WORD_LENGTH = 40
MAX_WORDS = 2_000  # of one text; a pasted log needs no more to be found again

# Compiled when first used: looking at a session must not pay for searching.
_ASCII = r"[a-z0-9]+"
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_ANY = rf"(?!_)(?:[{_UNSPACED}](?<=\w)|[^\W_{_UNSPACED}]+)"


def split_words(text: str) -> list[str]:
    """The distinct words of a text, in order of first appearance."""
    if text.isascii():
        found = re.findall(_ASCII, text.lower())
    else:
        decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
        plain = "".join(character for character in decomposed if not unicodedata.combining(character))
        found = re.findall(_ANY, plain)
    return list(dict.fromkeys(word[:MAX_WORD_LENGTH] for word in found))[:MAX_WORDS]


def parse_query(text: str) -> tuple[list[str], str]:
    """Whole words that must be there, and the beginning of one more (empty when the query has no word)."""
    found = split_words(text)
    if not found:
        return [], ""
    return found[:-1], found[-1]
