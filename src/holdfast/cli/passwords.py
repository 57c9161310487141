"""Remove passwords from the process's arguments, which every user of a machine can read.

The program runs anew with words that hold none; what was in them comes along in its environment, which only its owner
can read, and from there into the memory of this module. Everything that parses, shows or repeats words has those
without a password; only what opens a store asks for the full address.
"""

from __future__ import annotations

import os
import re
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

_URL: Final = re.compile(r"(--[a-z-]+=)?(postgres(?:ql)?://\S+)")
_WITH_PASSWORD: Final = re.compile(r"(postgres(?:ql)?://)[^\s@]*:\S*@")
_VARIABLE: Final = "HOLDFAST_URL_"
_INSTEAD: Final = "Say it by HOLDFAST_STORE, PGPASSWORD or ~/.pgpass."
_moved: dict[str, str] = {}  # full addresses, by what stands in the words


def full(url: str) -> str:
    """The address that a word means."""
    return _moved.get(url, url)


def moved(words: list[str]) -> list[str]:
    """The words without passwords. What this process, or the one before it, took out of them is remembered."""
    while (known := os.environ.pop(f"{_VARIABLE}{len(_moved) + 1}", None)) is not None:
        _moved[_shown(known)] = known
    return [_without(word) for word in words]


def cut(text: str) -> str:
    """A sentence that may repeat a word of somebody who mistook an address for something else."""
    return _WITH_PASSWORD.sub(r"\1…@", text)


def run_anew(words: list[str], without: list[str], *, silent: bool) -> None:
    """Let this program begin again with words that hold no password; comes back where that is not possible."""
    program = list(sys.orig_argv[: -len(words)])
    possible = os.name != "nt" and program and sys.executable and sys.orig_argv[len(program) :] == words
    if not silent:
        seen = "could read it for a moment" if possible else "can read it as long as this runs"
        sys.stderr.write(f"holdfast: a password was given as an argument: others here {seen}. {_INSTEAD}\n")
        sys.stderr.flush()
    if possible:
        around = {f"{_VARIABLE}{number}": url for number, url in enumerate(_moved.values(), 1)}
        try:
            os.execve(sys.executable, [sys.executable, *program[1:], *without], {**os.environ, **around})  # noqa: S606
        except OSError:
            return  # as it is on Windows


def _without(word: str) -> str:
    match = _URL.fullmatch(word)
    if match is None:
        return word
    from holdfast.core.errors import Invalid
    from holdfast.store.address import PostgresAddress, address

    try:
        named = address(match[2])
    except Invalid:
        return word  # whoever wants to open it says so, without repeating it
    if not isinstance(named, PostgresAddress) or not named.hides:
        return word
    _moved[named.url] = named.secret
    return (match[1] or "") + named.url


def _shown(url: str) -> str:
    from holdfast.store.address import address

    return address(url).url
