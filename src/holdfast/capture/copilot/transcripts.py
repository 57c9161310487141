"""Copilot's own store: `session-state/<conversation>/events.jsonl` with a `workspace.yaml` beside it; in older
versions one file `session-state/<conversation>.jsonl`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from holdfast.capture.copilot.records import DECODER
from holdfast.capture.copilot.telling import Telling
from holdfast.capture.lines import Problems, records
from holdfast.capture.places import Places
from holdfast.capture.settings import content
from holdfast.capture.sources import names, stamp
from holdfast.capture.storytelling import with_problems
from holdfast.capture.transcripts import Source, Story

_EVENTS: Final = "events.jsonl"
_WORKSPACE: Final = "workspace.yaml"
_LINE: Final = re.compile(r"([a-z_]+):[ \t]+(.+?)[ \t]*\Z")


class Transcripts:
    name = "copilot"

    def sources(self, places: Places) -> Iterator[Source]:
        top = os.path.join(places.under("COPILOT_HOME", ".copilot"), "session-state")
        for name in names(top):
            path = os.path.join(top, name)
            if name.endswith(".jsonl"):
                if (found := stamp(path)) is not None:
                    yield Source(path, found)
            elif (found := stamp(os.path.join(path, _EVENTS))) is not None:
                yield Source(os.path.join(path, _EVENTS), f"{found};{stamp(os.path.join(path, _WORKSPACE))}")

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
        yield from with_problems(telling.story(), problems, self.name, telling.conversation)


def workspace(path: str) -> dict[str, str]:
    """The plain entries of a `workspace.yaml`: a name and a value on one line, the value perhaps in quotes."""
    found: dict[str, str] = {}
    written = content(path) if stamp(path) is not None else b""
    for line in written.decode("utf-8", "replace").splitlines():
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


READER: Final = Transcripts()
