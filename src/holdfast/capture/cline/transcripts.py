"""Cline's own store: `sessions/<conversation>/` with a manifest, `<conversation>.messages.json`, and the messages of
each subagent in a file of its own beside them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import Final

from holdfast.capture.cline.records import MANIFEST, MESSAGES, Message, document, message
from holdfast.capture.cline.telling import Telling
from holdfast.capture.lines import Problems
from holdfast.capture.places import Places
from holdfast.capture.transcripts import Source, Story

_MESSAGES: Final = ".messages.json"


class Transcripts:
    name = "cline"

    def sources(self, places: Places) -> Iterator[Source]:
        top = _top(places)
        for name in _names(top):
            directory = os.path.join(top, name)
            stamps = [
                f"{one}={stamp}"
                for one in _names(directory)
                if one.endswith(".json") and (stamp := _stamp(os.path.join(directory, one))) is not None
            ]
            if stamps:
                yield Source(directory, ";".join(stamps))

    def read(self, source: Source) -> Iterator[Story]:
        name = os.path.basename(source.path)
        problems = Problems()
        manifest_path = os.path.join(source.path, f"{name}.json")
        manifest = document(manifest_path, MANIFEST, problems) if _stamp(manifest_path) is not None else None
        telling = Telling(name, manifest)
        for number, one in enumerate(_heard(os.path.join(source.path, name + _MESSAGES), problems)):
            telling.hear(one, number)
        for other in _names(source.path):
            if other.endswith(_MESSAGES) and other != name + _MESSAGES:
                messages = _heard(os.path.join(source.path, other), problems)
                telling.hear_agent(other.removesuffix(_MESSAGES), messages)
        story = telling.story()
        if story is not None:
            story.problems = problems.sentences()
            yield story
        elif problems:
            yield Story(agent=self.name, conversation=name, began=0, ended=0, problems=problems.sentences())


def _top(places: Places) -> str:
    """Where conversations are: named, below a data directory that is named, or below Cline's own."""
    for variable, below in (("CLINE_SESSION_DATA_DIR", ()), ("CLINE_DATA_DIR", ("sessions",))):
        if places.environ.get(variable, "").strip():
            return os.path.join(places.under(variable), *below)
    return os.path.join(places.under("CLINE_DIR", ".cline"), "data", "sessions")


def _heard(path: str, problems: Problems) -> list[Message]:
    found = document(path, MESSAGES, problems) if _stamp(path) is not None else None
    if found is None:
        return []
    heard = [message(raw) for raw in found.messages]
    if None in heard:
        problems.add(f"{heard.count(None)} messages in {os.path.basename(path)} cannot be understood")
    return [one for one in heard if one is not None]


def _names(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except (OSError, ValueError):
        return []


def _stamp(path: str) -> str | None:
    try:
        status = os.stat(path, follow_symlinks=False)
    except (OSError, ValueError):
        return None
    return f"{status.st_size}.{status.st_mtime_ns}" if stat.S_ISREG(status.st_mode) else None


READER: Final = Transcripts()
