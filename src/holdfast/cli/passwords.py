"""Remove passwords from the process's arguments, which every user of a machine can read.

The program restarts with arguments that have none. The full addresses go with it in its environment, which only its
owner can read, and from there into the memory of this module. All code that parses, shows or repeats arguments gets
them without passwords; only code that opens a store asks for the full address.
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
_ADVICE: Final = "Pass it in HOLDFAST_STORE, PGPASSWORD or ~/.pgpass."
_removed: dict[str, str] = {}  # full addresses, by what the arguments have in their place


def full_url(url: str) -> str:
    """The address with its password, if one was removed from it."""
    return _removed.get(url, url)


def without_passwords(arguments: list[str]) -> list[str]:
    """The arguments without passwords. Those that this process, or the one before it, removed are remembered."""
    while (full := os.environ.pop(f"{_VARIABLE}{len(_removed) + 1}", None)) is not None:
        _removed[_without_secret(full)] = full
    return [_without_password(argument) for argument in arguments]


def redact(text: str) -> str:
    """A message without the password of an address that it repeats."""
    return _WITH_PASSWORD.sub(r"\1…@", text)


def reexec(arguments: list[str], without: list[str], *, silent: bool) -> None:
    """Restart this program with the arguments `without` passwords; returns where that is not possible."""
    program = list(sys.orig_argv[: -len(arguments)])
    possible = os.name != "nt" and program and sys.executable and sys.orig_argv[len(program) :] == arguments
    if not silent:
        exposure = "could read it briefly" if possible else "can read it as long as this runs"
        sys.stderr.write(
            f"holdfast: a password was given as an argument: other users of this machine {exposure}. {_ADVICE}\n"
        )
        sys.stderr.flush()
    if possible:
        variables = {f"{_VARIABLE}{number}": url for number, url in enumerate(_removed.values(), 1)}
        try:
            os.execve(sys.executable, [sys.executable, *program[1:], *without], {**os.environ, **variables})  # noqa: S606
        except OSError:
            return


def _without_password(argument: str) -> str:
    match = _URL.fullmatch(argument)
    if match is None:
        return argument
    from holdfast.core.errors import Invalid
    from holdfast.store.address import address

    try:
        parsed = address(match[2])
    except Invalid:
        return argument  # opening the store reports it, without repeating it
    if not parsed.hides:
        return argument
    _removed[parsed.url] = parsed.secret
    return (match[1] or "") + parsed.url


def _without_secret(url: str) -> str:
    from holdfast.store.address import address

    return address(url).url
