"""Cline's own store: `sessions/<conversation>/` with a manifest, `<conversation>.messages.json`, and the messages of
each subagent in a file of its own beside them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from holdfast.capture.cline.records import MANIFEST, MESSAGES, Message, document, message
from holdfast.capture.cline.telling import Telling
from holdfast.capture.lines import Problems
from holdfast.capture.places import Places
from holdfast.capture.sources import names, stamp
from holdfast.capture.storytelling import with_problems
from holdfast.capture.transcripts import Source, Story

_MESSAGES: Final = ".messages.json"


class Transcripts:
    name = "cline"

    def sources(self, places: Places) -> Iterator[Source]:
        top = _top(places)
        for name in names(top):
            directory = os.path.join(top, name)
            stamps = [
                f"{one}={found}"
                for one in names(directory)
                if one.endswith(".json") and (found := stamp(os.path.join(directory, one))) is not None
            ]
            if stamps:
                yield Source(directory, ";".join(stamps))

    def read(self, source: Source) -> Iterator[Story]:
        name = os.path.basename(source.path)
        problems = Problems()
        manifest_path = os.path.join(source.path, f"{name}.json")
        manifest = document(manifest_path, MANIFEST, problems) if stamp(manifest_path) is not None else None
        telling = Telling(name, manifest)
        for number, one in enumerate(_heard(os.path.join(source.path, name + _MESSAGES), problems)):
            telling.hear(one, number)
        for other in names(source.path):
            if other.endswith(_MESSAGES) and other != name + _MESSAGES:
                messages = _heard(os.path.join(source.path, other), problems)
                telling.hear_agent(other.removesuffix(_MESSAGES), messages)
        yield from with_problems(telling.story(), problems, self.name, name)


def _top(places: Places) -> str:
    """Where conversations are: named, below a data directory that is named, or below Cline's own."""
    for variable, below in (("CLINE_SESSION_DATA_DIR", ()), ("CLINE_DATA_DIR", ("sessions",))):
        if places.environ.get(variable, "").strip():
            return os.path.join(places.under(variable), *below)
    return os.path.join(places.under("CLINE_DIR", ".cline"), "data", "sessions")


def _heard(path: str, problems: Problems) -> list[Message]:
    found = document(path, MESSAGES, problems) if stamp(path) is not None else None
    if found is None:
        return []
    heard = [message(raw) for raw in found.messages]
    if None in heard:
        problems.add(f"{heard.count(None)} messages in {os.path.basename(path)} cannot be understood")
    return [one for one in heard if one is not None]


READER: Final = Transcripts()
