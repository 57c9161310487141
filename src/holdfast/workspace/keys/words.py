"""Sixteen bytes as thirteen words, so that two people can compare them aloud and one can copy them from paper.

The list is Holdfast's own: 1,024 words of 3 to 7 letters that differ in their first four, ten bits each. It is
frozen: changing a word would change every fingerprint people have noted.
"""

from __future__ import annotations

import functools
import os
import re
from typing import Final

from holdfast.core.errors import Invalid
from holdfast.workspace.keys import age
from holdfast.workspace.keys.device_keys import DeviceKeys

SIZE: Final = 16
COUNT: Final = 13
_BITS: Final = 10
_SPARE: Final = COUNT * _BITS - SIZE * 8  # zeros at the end

_APART: Final = re.compile(r"[\W_]+")
_HEX: Final = re.compile(r"[0-9a-f]+\Z")
_LONGEST: Final = 1000


@functools.cache
def wordlist() -> tuple[str, ...]:
    from importlib import resources

    return tuple((resources.files(__package__) / "wordlist.txt").read_text("ascii").split())


def spell(data: bytes) -> str:
    """16 bytes as 13 words joined by dashes."""
    if len(data) != SIZE:
        raise ValueError(f"{len(data)} bytes, not {SIZE}")
    number = int.from_bytes(data, "big") << _SPARE
    known = wordlist()
    return "-".join(known[number >> _BITS * place & 1023] for place in range(COUNT - 1, -1, -1))


def parse_words(text: str, *, what: str = "fingerprint") -> bytes:
    """The 16 bytes of 13 words, or of 32 hex digits: in any case, apart by anything that is no letter.

    A word may be cut short after its fourth letter. `what` names the thing in messages.
    """
    if len(text) > _LONGEST:
        raise Invalid(f"this is too long for a {what}", hint=f"A {what} is {COUNT} words.")
    parts = [part for part in _APART.split(text.lower()) if part]
    joined = "".join(parts)
    if _HEX.match(joined) and (len(joined) == 2 * SIZE or any(letter.isdigit() for letter in joined)):
        if len(joined) != 2 * SIZE:
            raise Invalid(
                f"this {what} has {len(joined)} hex digits", hint=f"It has {2 * SIZE}, or is {COUNT} words: give all."
            )
        return bytes.fromhex(joined)
    number = 0
    for part in parts:
        number = number << _BITS | _place(part, what)
    if len(parts) != COUNT:
        counted = "1 word" if len(parts) == 1 else f"{len(parts)} words"
        raise Invalid(f"this {what} has {counted}", hint=f"It has {COUNT}: give all of them.")
    if number & (1 << _SPARE) - 1:
        raise Invalid(f"this is not a {what}: its last word cannot be {parts[-1]!a}", hint="Compare it word by word.")
    return (number >> _SPARE).to_bytes(SIZE, "big")


def _place(part: str, what: str) -> int:
    found = _places().get(part[:4])
    if found is not None and wordlist()[found].startswith(part):
        return found
    import difflib

    close = difflib.get_close_matches(part[:20], wordlist(), n=1, cutoff=0)
    raise Invalid(
        f"{part[:20]!a} is not one of the words of a {what}",
        hint=f"Did you mean {close[0]!r}?" if close else "Compare it word by word.",
    )


@functools.cache
def _places() -> dict[str, int]:
    return {word[:4]: place for place, word in enumerate(wordlist())}


_SIGNING: Final = b"holdfast recovery signing 1\n"
_AGE: Final = b"holdfast recovery age 1\n"


def new_code() -> str:
    return spell(os.urandom(SIZE))


def keys_from_code(code: str) -> DeviceKeys:
    """The device a code stands for: always the same one. 128 random bits need no slow derivation."""
    secret = parse_words(code, what="recovery code")
    return DeviceKeys(_derived(secret, _SIGNING), age.identity(_derived(secret, _AGE)))


def _derived(secret: bytes, info: bytes) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(SHA256(), 32, None, info).derive(secret)
