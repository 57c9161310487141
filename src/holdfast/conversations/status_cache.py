"""Read the small files from which a status line is drawn.

`status_cache_writer` writes them and says what they are for. A status line has a few milliseconds, so this module
loads only the standard library, and little of that.
"""

from __future__ import annotations

import os

from holdfast.workspace.server_outage import store_mark

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Final, TypeAlias

    # Every field is checked: a file may be of another version, or half written.
    Fields: TypeAlias = Mapping[str, object]

DIRECTORY: Final = "glances"
VERSION: Final = 4
SESSION, TREE, _CONVERSATION, _INPUT = "s-", "t-", "c-", "told-"
TIME_LIMIT: Final = "time limit"  # the pause that may block prompts
PAUSED: Final = "paused"  # the pause that a person set, and that their prompt ends
DIRECTORY_PREFIX: Final = "dir:"  # of the name under which a directory is asked for, not a conversation
_MAX_SIZE: Final = 64 * 1024
_FILE_NAME_CHARACTERS: Final = frozenset("0123456789abcdefghijklmnopqrstuvwxyz-_")


def directory(home: str) -> str:
    return os.path.join(home, DIRECTORY)


def session_path(home: str, session: str) -> str:
    return os.path.join(home, DIRECTORY, f"{SESSION}{_key(session)}.json")


def conversation_path(home: str, name: str) -> str:
    """The file of a conversation, `agent:id`."""
    return os.path.join(home, DIRECTORY, f"{_CONVERSATION}{_key(name)}.json")


def input_path(home: str, name: str) -> str:
    """The file with the latest input of a conversation's status line."""
    return os.path.join(home, DIRECTORY, f"{_INPUT}{_key(name)}")


def _key(name: str) -> str:
    word = name.replace(":", "_", 1)
    if len(word) <= 80 and _FILE_NAME_CHARACTERS.issuperset(word):
        return word
    from hashlib import sha256

    return "x" + sha256(name.encode(errors="surrogatepass")).hexdigest()[:40]


def read(path: str, decode: Callable[[bytes], object] | None = None) -> Fields | None:
    """The fields of a file; None when it is missing, or was not written by this version.

    A caller that has loaded another JSON decoder passes it: the standard library's takes milliseconds to load.
    """
    if decode is None:
        import json

        decode = json.loads

    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        handle = os.open(path, flags)
        try:
            value = decode(os.read(handle, _MAX_SIZE))
        finally:
            os.close(handle)
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and value.get("v") == VERSION else None


class CachedStatus:
    """What there is to show: `fields` is None where a conversation is in no session."""

    __slots__ = ("fields",)

    def __init__(self, fields: Fields | None) -> None:
        self.fields = fields


def find(home: str, name: str, directory: str, store: str) -> CachedStatus | None:
    """The session of a conversation while it is unfinished, else that of its work tree; None if not cached yet."""
    cached = read(conversation_path(home, name))
    key = (name, directory, store_mark(store))
    if cached is None or (cached.get("name"), cached.get("dir"), cached.get("store")) != key:
        return None
    tree = read(os.path.join(home, DIRECTORY, os.path.basename(str(cached.get("tree")))))
    if tree is None:
        return None
    for session in (cached.get("session"), tree.get("session")):
        if isinstance(session, str):
            status = read(session_path(home, session))
            if status is None or not isinstance(status.get("pieces"), list):
                return None
            if status.get("finished") is not True:
                return CachedStatus(status)
    return CachedStatus(None)


def find_session(home: str, name: str) -> Fields | None:
    """The cached status of a conversation's session (`agent:id`), if a status line asked for it before."""
    cached = read(conversation_path(home, name))
    session = None if cached is None or cached.get("name") != name else cached.get("session")
    return read(session_path(home, session)) if isinstance(session, str) else None


def is_silent(status: Fields, now: int) -> bool:
    """Whether a prompt at this time needs no answer: it ends no pause, and there is no reminder due."""
    lines = status.get("lines")
    if status.get("finished") is not False or not isinstance(lines, list):
        return False
    _, pause, _, towards_limits = _times_at(status, now)
    if pause in (TIME_LIMIT, PAUSED):
        return False
    return all(reminded or (not recorded and towards_limits < limit) for limit, _, recorded, reminded in lines)


def crossed_limits(status: Fields, now: int) -> list[str]:
    """The limits of working time that are crossed at a time, as text, whether or not that is recorded yet."""
    lines = status.get("lines")
    towards_limits = _times_at(status, now)[3]
    # Nothing counts during a break and at its end: limits crossed before it no longer matter.
    return [
        str(words)
        for limit, words, recorded, _ in (lines if isinstance(lines, list) else ())
        if towards_limits >= limit or (recorded and towards_limits > 0)
    ]


def written_at(status: Fields) -> int:
    """When a status was written, in milliseconds."""
    pieces = status["pieces"]
    assert isinstance(pieces, list)
    return int(pieces[0][0])


def work_at(status: Fields, now: int) -> tuple[int, str, int]:
    """Working time at a time in milliseconds, the pause at that time, and how long it has lasted."""
    return _times_at(status, now)[:3]


def _times_at(status: Fields, now: int) -> tuple[int, str, int, int]:
    """The same, with the working time that counts towards the limits."""
    pieces = status["pieces"]
    assert isinstance(pieces, list)
    time, pause, paused, towards_limits = 0, "", 0, 0
    for number, (since, worked, grows, word, began, towards_at_start) in enumerate(pieces):
        if since > now and number:
            break
        grown = grows * max(now - since, 0)
        time, pause, towards_limits = worked + grown, word, towards_at_start + grown
        # A pause has no length yet while entered work covers its moments.
        paused = max(now - began, 0) if word and not grows else 0
    return time, pause, paused, towards_limits
