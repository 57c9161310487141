"""Copilot's own store: `session-state/<conversation>/events.jsonl` with a `workspace.yaml` beside it; in older
versions one file `session-state/<conversation>.jsonl`.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from holdfast.capture.copilot.records import DECODER
from holdfast.capture.copilot.telling import Telling
from holdfast.capture.lines import Problems, chunks, records
from holdfast.capture.places import Places
from holdfast.capture.transcripts import Source, Story

_EVENTS: Final = "events.jsonl"
_WORKSPACE: Final = "workspace.yaml"
_LARGEST: Final = 1 << 20
_LINE: Final = re.compile(r"([a-z_]+):[ \t]+(.+?)[ \t]*\Z")


class Transcripts:
    name = "copilot"

    def sources(self, places: Places) -> Iterator[Source]:
        top = os.path.join(places.under("COPILOT_HOME", ".copilot"), "session-state")
        for name in _names(top):
            path = os.path.join(top, name)
            if name.endswith(".jsonl"):
                if (stamp := _stamp(path)) is not None:
                    yield Source(path, stamp)
            elif (stamp := _stamp(os.path.join(path, _EVENTS))) is not None:
                yield Source(os.path.join(path, _EVENTS), f"{stamp};{_stamp(os.path.join(path, _WORKSPACE))}")

    def read(self, source: Source) -> Iterator[Story]:
        directory, name = os.path.split(source.path)
        alone = name != _EVENTS
        telling = Telling(name.removesuffix(".jsonl") if alone else os.path.basename(directory))
        problems = Problems()
        for number, record in records(source.path, DECODER, problems):
            telling.hear(record, number)
        if not alone:
            beside = workspace(os.path.join(directory, _WORKSPACE))
            telling.cwd = telling.cwd or beside.get("cwd")
            telling.branch = telling.branch or beside.get("branch")
            telling.title = telling.title or beside.get("name") or beside.get("summary")
        story = telling.story()
        if story is not None:
            story.problems = problems.sentences()
            yield story
        elif problems:
            yield Story(
                agent=self.name, conversation=telling.conversation, began=0, ended=0, problems=problems.sentences()
            )


def workspace(path: str) -> dict[str, str]:
    """The plain entries of a `workspace.yaml`: a name and a value on one line, the value perhaps in quotes."""
    found: dict[str, str] = {}
    content = b"".join(chunks(path, Problems())) if _stamp(path) is not None else b""
    for line in content[:_LARGEST].decode("utf-8", "replace").splitlines():
        entry = _LINE.match(line)
        if entry is None:
            continue
        value = entry[2]
        if value[0] == '"':
            with suppress(ValueError):
                value = str(json.loads(value))
        elif value[0] == "'" and value[-1] == "'" and len(value) > 1:
            value = value[1:-1].replace("''", "'")
        if value not in ("null", "~", "|", ">", "|-", ">-"):
            found[entry[1]] = value
    return found


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
