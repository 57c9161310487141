"""The entry point of the program. Hooks and status lines take a shorter path: they run inside other programs."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

_WITH_VALUE: Final = ("--project", "--store", "--at")
_SHORT_PATH: Final = ("hook", "statusline")


def main(argv: list[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    if any("postgres" in word and "://" in word for word in words):
        words = _remove_passwords(words, program=argv is None)
    short_path = _short_path_words(words)
    if short_path is None:
        from holdfast.cli.main import main as run_command

        return run_command(words)
    from holdfast.cli import hooking

    agent, *more = [word for word in short_path if not word.startswith("-")] or [""]
    if agent in hooking.OWN_WORDS:
        agent = ""  # no agent's name: the payload is kept all the same
    code = hooking.main(["status", agent] if words_from_command(words)[0] == "statusline" else [agent, *more])
    return 2 if code == hooking.BLOCKED else 0


def _remove_passwords(words: list[str], *, program: bool) -> list[str]:
    """The arguments without passwords; a program restarts with them."""
    from holdfast.cli import passwords

    without = passwords.without_passwords(words)
    if program and without != words:
        passwords.reexec(words, without, silent=_short_path_words(without) is not None)
    return without


def _short_path_words(words: list[str]) -> list[str] | None:
    """The words of a hook or status line; None for every other command, and where help or a document is wanted.

    A hook gives no document: what it prints is for the agent.
    """
    rest = words_from_command(words)
    if not rest or rest[0] not in _SHORT_PATH or "--help" in words or "-h" in words:
        return None
    if rest[0] == "statusline" and "--json" in words:
        return None
    return rest[1:]


def words_from_command(words: list[str]) -> list[str]:
    """The words from the command on; a store named by an option goes into the environment, for hooks."""
    index = 0
    while index < len(words) and words[index].startswith("-"):
        name, equals, value = words[index].partition("=")
        if name == "--store" and (equals or index + 1 < len(words)):
            os.environ["HOLDFAST_STORE"] = _full_url(value if equals else words[index + 1])
        index += 2 if name in _WITH_VALUE and not equals else 1
    return words[index:]


def _full_url(url: str) -> str:
    if not url.startswith("postgres"):
        return url
    from holdfast.cli.passwords import full_url

    return full_url(url)
