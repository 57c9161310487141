"""Cursor's own store: `projects/<slug>/agent-transcripts/<id>/<id>.jsonl` from the editor, `…/<id>.jsonl` from the
command line, subagents below `<id>/subagents`. What it notes about conversations of the command line (where, since
when, under which title) lies apart from them, in `chats/<hash>/<id>/meta.json`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from holdfast.capture.cursor.telling import Telling
from holdfast.capture.lines import Problems, records
from holdfast.capture.moments import in_millis
from holdfast.capture.payload import word
from holdfast.capture.places import Places
from holdfast.capture.settings import settings_in
from holdfast.capture.sources import Found, directories, files
from holdfast.capture.storytelling import with_problems
from holdfast.capture.transcripts import Source, Story
from holdfast.core.canonical import Json
from holdfast.core.decoding import decodable

_END: Final = ".jsonl"
_MOST_CHATS: Final = 10_000
_DECODER: Final = msgspec.json.Decoder(decodable(dict[str, Json]))


class _Noted(NamedTuple):
    """What Cursor notes beside a conversation."""

    title: str | None = None
    cwd: str | None = None
    began: int | None = None
    ended: int | None = None


class Transcripts:
    name = "cursor"

    def sources(self, places: Places) -> Iterator[Source]:
        for project in directories(places.in_home(".cursor", "projects")):
            top = os.path.join(project, "agent-transcripts")
            found = files(top, _END)
            for directory in directories(top):
                own = os.path.basename(directory) + _END
                found += [one for one in files(directory, _END) if one.name == own]
            seen = set()
            for path, name, stamp in sorted(found, key=lambda one: len(one[0]), reverse=True):
                if name not in seen:
                    seen.add(name)
                    yield Source(path, ";".join([stamp, *(one for _, _, one in _agent_files(path))]))

    def read(self, source: Source) -> Iterator[Story]:
        conversation = os.path.basename(source.path).removesuffix(_END)
        project = _project_directory(source.path)
        noted = _noted(os.path.dirname(os.path.dirname(project)), conversation)
        ended = noted.ended or _last_written(source.path)
        telling = Telling(conversation, os.path.basename(project), noted.began, ended)
        problems = Problems()
        for line, record in records(source.path, _DECODER, problems):
            telling.hear(record, line)
        for path, name, _ in _agent_files(source.path) if telling.anything else ():
            trouble = Problems()
            for line, record in records(path, _DECODER, trouble):
                telling.hear_agent(record, line, name.removesuffix(_END))
            problems.extend(trouble, f"in {name}, ")
        telling.cwd = noted.cwd or telling.cwd
        yield from with_problems(telling.story(noted.title), problems, self.name, conversation)


def _project_directory(path: str) -> str:
    directory = os.path.dirname(path)
    while os.path.basename(directory) != "agent-transcripts":
        above = os.path.dirname(directory)
        if above == directory:
            return above
        directory = above
    return os.path.dirname(directory)


def _noted(own: str, conversation: str) -> _Noted:
    if not conversation.replace("-", "").isalnum():
        return _Noted()
    for chats in directories(os.path.join(own, "chats"))[:_MOST_CHATS]:
        path = os.path.join(chats, conversation, "meta.json")
        if not os.path.isfile(path):
            continue
        meta = settings_in(path)
        began, ended = in_millis(meta.get("createdAtMs")), in_millis(meta.get("updatedAtMs"))
        return _Noted(word(meta, "title"), word(meta, "cwd"), began, ended)
    return _Noted()


def _last_written(path: str) -> int:
    try:
        return os.stat(path, follow_symlinks=False).st_mtime_ns // 1_000_000
    except (OSError, ValueError):
        return 0


def _agent_files(path: str) -> list[Found]:
    directory = os.path.dirname(path)
    own = os.path.basename(path).removesuffix(_END)
    top = directory if os.path.basename(directory) == own else os.path.join(directory, own)
    return files(os.path.join(top, "subagents"), _END)


READER: Final = Transcripts()
