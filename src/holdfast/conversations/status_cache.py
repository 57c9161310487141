"""The small files from which a status line is drawn, as it finds and reads them.

Written by `keeper.captures.glance`, which says what they are for. A status line has a few milliseconds: only the
standard library is loaded here, and of that little.
"""

from __future__ import annotations

import os

from holdfast.workspace.server_outage import store_mark

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Final, TypeAlias

    # What a file holds is looked at field by field: it may be of another version, or half a file.
    Fields: TypeAlias = Mapping[str, object]

DIRECTORY: Final = "glances"
VERSION: Final = 4
SESSION, TREE, _CONVERSATION, _TOLD = "s-", "t-", "c-", "told-"
TIME_LIMIT: Final = "time limit"  # the pause that may hold prompts back
PAUSED: Final = "paused"  # the one that a person set, and that their prompt ends
NOBODY: Final = "dir:"  # begins the name of what is asked for a directory, by no conversation
_LARGEST: Final = 64 * 1024
_PLAIN: Final = frozenset("0123456789abcdefghijklmnopqrstuvwxyz-_")


def directory(home: str) -> str:
    return os.path.join(home, DIRECTORY)


def of_session(home: str, session: str) -> str:
    return os.path.join(home, DIRECTORY, f"{SESSION}{_key(session)}.json")


def of_conversation(home: str, name: str) -> str:
    """The file of a conversation, `agent:id`."""
    return os.path.join(home, DIRECTORY, f"{_CONVERSATION}{_key(name)}.json")


def note_conversation(home: str, name: str) -> str:
    """Where is kept what a conversation's status line handed over last."""
    return os.path.join(home, DIRECTORY, f"{_TOLD}{_key(name)}")


def _key(name: str) -> str:
    word = name.replace(":", "_", 1)
    if len(word) <= 80 and _PLAIN.issuperset(word):
        return word
    from hashlib import sha256

    return "x" + sha256(name.encode(errors="surrogatepass")).hexdigest()[:40]


def read(path: str, decode: Callable[[bytes], object] | None = None) -> Fields | None:
    """What a file holds; None when it is not there, or nothing that this version wrote.

    Whoever has loaded another reader of JSON brings it: the standard library's takes milliseconds to load.
    """
    if decode is None:
        import json

        decode = json.loads

    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        handle = os.open(path, flags)
        try:
            value = decode(os.read(handle, _LARGEST))
        finally:
            os.close(handle)
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and value.get("v") == VERSION else None


class CachedStatus:
    """What there is to show: `glance` is None where a conversation is in no session."""

    __slots__ = ("glance",)

    def __init__(self, glance: Fields | None) -> None:
        self.glance = glance


def find(home: str, name: str, where: str, store: str) -> CachedStatus | None:
    """The session of a conversation while it is unfinished, else that of its work tree; None: nobody knows yet."""
    asked = read(of_conversation(home, name))
    if asked is None or (asked.get("name"), asked.get("dir"), asked.get("store")) != (name, where, store_mark(store)):
        return None
    tree = read(os.path.join(home, DIRECTORY, os.path.basename(str(asked.get("tree")))))
    if tree is None:
        return None
    for session in (asked.get("session"), tree.get("session")):
        if isinstance(session, str):
            glance = read(of_session(home, session))
            if glance is None or not isinstance(glance.get("pieces"), list):
                return None
            if glance.get("finished") is not True:
                return CachedStatus(glance)
    return CachedStatus(None)


def of_talk(home: str, name: str) -> Fields | None:
    """The session of a conversation, `agent:id`, if somebody asked for it before."""
    asked = read(of_conversation(home, name))
    session = None if asked is None or asked.get("name") != name else asked.get("session")
    return read(of_session(home, session)) if isinstance(session, str) else None


def is_silent(glance: Fields, now: int) -> bool:
    """Whether a prompt at this moment needs no word: it ends no pause, and no line of working time is crossed that
    was not told.
    """
    lines = glance.get("lines")
    if glance.get("finished") is not False or not isinstance(lines, list):
        return False
    _, pause, _, counted = _at(glance, now)
    if pause in (TIME_LIMIT, PAUSED):
        return False
    return all(told or (not reached and counted < limit) for limit, _, reached, told in lines)


def crossed(glance: Fields, now: int) -> list[str]:
    """The lines of working time that are crossed at a moment, in words, whether or not that was recorded yet."""
    lines = glance.get("lines")
    counted = _at(glance, now)[3]
    # Nothing counts during a break and at its end: what was crossed before it is over.
    return [
        str(words)
        for limit, words, reached, _ in (lines if isinstance(lines, list) else ())
        if counted >= limit or (reached and counted > 0)
    ]


def made(glance: Fields) -> int:
    """When a glance was written, in milliseconds."""
    pieces = glance["pieces"]
    assert isinstance(pieces, list)
    return int(pieces[0][0])


def working(glance: Fields, now: int) -> tuple[int, str, int]:
    """Working time at a moment from the glance on, in milliseconds, the pause that lasts then, and for how long."""
    return _at(glance, now)[:3]


def _at(glance: Fields, now: int) -> tuple[int, str, int, int]:
    """The same, with the working time that counts towards the limits."""
    pieces = glance["pieces"]
    assert isinstance(pieces, list)
    time, pause, paused, counted = 0, "", 0, 0
    for number, (since, worked, grows, word, began, count) in enumerate(pieces):
        if since > now and number:
            break
        grown = grows * max(now - since, 0)
        time, pause, counted = worked + grown, word, count + grown
        paused = max(now - began, 0) if word else 0
    return time, pause, paused, counted
