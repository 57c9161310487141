"""Gemini CLI's own store: `tmp/<project>/chats/session-<time>-<id>.jsonl`, each subagent in a file of its own below
`chats/<session>`, and in older versions one JSON document for each conversation. The project's directory is named
after it, or by a hash of its path; a note in it says where the project is.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from typing import Final

import msgspec

from holdfast.capture.gemini.telling import Telling
from holdfast.capture.gemini.wiring import own_directory
from holdfast.capture.lines import Problems, records, whole
from holdfast.capture.payload import part
from holdfast.capture.places import Places
from holdfast.capture.settings import content, settings_in
from holdfast.capture.sources import Found, directories, files
from holdfast.capture.storytelling import with_problems
from holdfast.capture.transcripts import Source, Story
from holdfast.capture.values import WRONG
from holdfast.core.canonical import Json
from holdfast.core.decoding import decodable

LARGEST: Final = 256 << 20  # bytes of a conversation that is one document
_NOTE: Final = 64 << 10
_LINES: Final = ".jsonl"
_WHOLE: Final = ".json"
_BEGINNING: Final = 8
_DECODER: Final = msgspec.json.Decoder(decodable(dict[str, Json]))
_MESSAGES: Final = re.compile(r'"messages"\s*:\s*\[')
_BETWEEN: Final = re.compile(r"[\s,]*")
_READ: Final = json.JSONDecoder(strict=False)


class Transcripts:
    name = "gemini"

    def sources(self, places: Places) -> Iterator[Source]:
        for project in directories(os.path.join(own_directory(places), "tmp")):
            chats = os.path.join(project, "chats")
            found = [one for one in files(chats, _LINES, _WHOLE) if one.name.startswith("session-")]
            names = {name for _, name, _ in found}
            # A file's name ends with the beginning of the conversation's id; its subagents' directory is the whole.
            agents = {name[:_BEGINNING]: name for name in map(os.path.basename, directories(chats))}
            for path, name, stamp in found:
                if name.endswith(_LINES):
                    own = _agent_files(path, agents.get(name.removesuffix(_LINES).rpartition("-")[2]))
                    yield Source(path, ";".join([stamp, *(one for _, _, one in own)]))
                elif name + "l" not in names:  # what was begun as a document goes on in lines
                    yield Source(path, stamp)

    def read(self, source: Source) -> Iterator[Story]:
        telling, problems = Telling(), Problems()
        if source.path.endswith(_WHOLE):
            for number, record in _document(source.path, problems):
                telling.hear(record, number)
        else:
            for number, record in records(source.path, _DECODER, problems):
                telling.hear(record, number)
        # A resumed conversation leaves an empty file behind; its subagents belong to the other.
        for path, name, _ in _agent_files(source.path, telling.conversation) if telling.anything else ():
            trouble = Problems()
            for number, record in records(path, _DECODER, trouble):
                telling.hear_agent(record, number, name.removesuffix(_LINES))
            problems.extend(trouble, f"in {name}, ")
        conversation = telling.conversation or os.path.basename(source.path).rpartition(".")[0]
        story = telling.story(conversation, _project(source.path) or next(iter(telling.directories), None))
        yield from with_problems(story, problems, self.name, conversation)


def _document(path: str, problems: Problems) -> Iterator[tuple[int, dict[str, Json]]]:
    """A conversation that is one document; of a damaged one, as many messages as can be had."""
    written = whole(path, problems, LARGEST).strip(b"\0 \t\r\n").removeprefix(b"\xef\xbb\xbf")
    if not written:
        return
    try:
        yield 1, _DECODER.decode(written)
    except WRONG:
        problems.add("is not a JSON document to its end")
        yield from _salvaged(written.decode(errors="replace"))


def _salvaged(text: str) -> Iterator[tuple[int, dict[str, Json]]]:
    begin = _MESSAGES.search(text)
    head: dict[str, Json] = {}
    for name in ("sessionId", "startTime"):
        found = re.search(rf'"{name}"\s*:\s*"([^"\\]{{1,200}})"', text[: begin.start() if begin else 10_000])
        if found:
            head[name] = found[1]
    if head:
        yield 1, head
    at = begin.end() if begin else len(text)
    number = 1
    while at < len(text):
        at = _BETWEEN.match(text, at).end()  # type: ignore[union-attr]
        try:
            message, at = _READ.raw_decode(text, at)
        except (ValueError, RecursionError):
            return
        number += 1
        if type(message) is dict:
            yield number, message


def _project(path: str) -> str | None:
    """Where the project of a conversation is: by the note in its directory, or as the path that has its name."""
    directory = os.path.dirname(os.path.dirname(path))
    note = _note(os.path.join(directory, ".project_root"))
    if note:
        return note
    name, own = os.path.basename(directory), os.path.dirname(os.path.dirname(directory))
    listed = part(settings_in(os.path.join(own, "projects.json")), "projects")
    named = next((place for place, slug in listed.items() if slug == name), None)
    if named is not None:
        return named
    for place in (*listed, *settings_in(os.path.join(own, "trustedFolders.json"))):
        if hashlib.sha256(place.encode(errors="replace")).hexdigest() == name:
            return place
    return None


def _note(path: str) -> str | None:
    try:
        return content(path, _NOTE).decode().strip()
    except UnicodeDecodeError:
        return None


def _agent_files(path: str, conversation: str | None) -> list[Found]:
    if conversation is None or not conversation.replace("-", "").isalnum():
        return []
    return files(os.path.join(os.path.dirname(path), conversation), _LINES)


READER: Final = Transcripts()
