"""The small files in which agents keep settings and notes, read as they come. What is missing, too large, no regular
file or not what it should be holds nothing: nobody is stopped by a file of another program.
"""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.conversations.adapters.base import Payload
from holdfast.conversations.adapters.fields import DECODE_ERRORS
from holdfast.conversations.adapters.json_tree import JsonText
from holdfast.conversations.adapters.jsonl import ReadProblems, read_whole
from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid

LARGEST: Final = 4 << 20  # bytes
_BOM: Final = b"\xef\xbb\xbf"


def content(path: str, largest: int = LARGEST) -> bytes:
    return read_whole(path, ReadProblems(), largest)


def settings_in(path: str, *, comments: bool = False) -> Payload:
    """What stands in a JSON file; `comments` where the agent passes over them, as over a comma too many."""
    try:
        value = _with_comments(path) if comments else msgspec.json.decode(content(path).removeprefix(_BOM))
    except (*DECODE_ERRORS, Invalid):
        return {}
    return value if type(value) is dict else {}


def _with_comments(path: str) -> Json:
    document = JsonText(content(path).decode(), path)
    return None if document.root is None else document.plain(document.root)
