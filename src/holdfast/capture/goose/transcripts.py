"""Goose's own store: one SQLite database, and in versions before it one file of lines per conversation. Goose takes
the files into the database as it is made, so they are read only where there is none.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from typing import Final

import apsw

from holdfast.capture import refusals
from holdfast.capture.database import REFUSALS
from holdfast.capture.goose.database import Database, Row
from holdfast.capture.goose.records import MESSAGE, millis
from holdfast.capture.goose.telling import Telling
from holdfast.capture.goose.wiring import data
from holdfast.capture.lines import Problems, records
from holdfast.capture.payload import word
from holdfast.capture.places import Places
from holdfast.capture.sources import files
from holdfast.capture.storytelling import join
from holdfast.capture.transcripts import Source, Story
from holdfast.capture.values import value

_DATABASE: Final = "sessions.db"
_LOG: Final = "sessions.db-wal"
_END: Final = ".jsonl"
_SESSION: Final = (
    "id", "name", "description", "working_dir", "session_type", "parent_session_id", "model_config_json",
    "accumulated_input_tokens", "accumulated_output_tokens", "accumulated_cost",
)  # fmt: skip
_MESSAGE: Final = ("id", "message_id", "role", "content_json", "created_timestamp", "metadata_json")
_LEDGER: Final = (
    "id", "created_timestamp", "model", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens",
    "cost", "is_compaction",
)  # fmt: skip
# Conversations of the program with itself: it looks for a title, or does somebody else's errand.
_HIDDEN: Final = frozenset({"hidden"})


class Sessions:
    name = "goose"

    def sources(self, places: Places) -> Iterator[Source]:
        top = os.path.join(data(places), "sessions")
        found = {one.name: one.stamp for one in files(top, _DATABASE, _LOG, _END)}
        if _DATABASE in found:
            stamps = [found.get(name, "") for name in (_DATABASE, _LOG)]
            yield Source(os.path.join(top, _DATABASE), ";".join(stamps))
            return
        for name, stamp in found.items():
            if name.endswith(_END):
                yield Source(os.path.join(top, name), stamp)

    def read(self, source: Source) -> Iterator[Story]:
        if source.path.endswith(_END):
            yield from _file(source.path)
            return
        told = False
        try:
            if not os.path.isfile(source.path):
                raise ValueError("it is not a regular file")
            with closing(Database(source.path)) as database:
                for session, agents in _conversations(list(database.rows("sessions", _SESSION, order="id"))):
                    if source.conversation not in (None, session.text("id")):
                        continue
                    story = _conversation(database, session, agents)
                    if story is not None:
                        told = True
                        yield story
        except (apsw.Error, OSError, ValueError) as error:
            if isinstance(error, REFUSALS):
                refusals.note(source.path, error)
            where = "is damaged after these" if told else "cannot be read"
            problem = f"{_DATABASE} {where} ({error})"[:300]
            yield Story(agent="goose", conversation=_DATABASE, began=0, ended=0, problems=[problem])


def _conversations(sessions: list[Row]) -> Iterator[tuple[Row, list[Row]]]:
    """Conversations with those of their subagents, and of theirs. One whose caller is gone stands alone."""
    names = {name for row in sessions if (name := row.text("id")) is not None}
    below: dict[str, list[Row]] = {}
    tops: list[Row] = []
    for row in sessions:
        parent = row.text("parent_session_id") if row.text("session_type") == "sub_agent" else None
        if parent in names and parent != row.text("id"):
            below.setdefault(str(parent), []).append(row)
        elif row.text("session_type") not in _HIDDEN:
            tops.append(row)
    for top in tops:
        agents: list[Row] = []
        waiting = [top]
        while waiting:
            found = below.pop(waiting.pop(0).text("id") or "", [])
            agents += found
            waiting += found
        yield top, agents


def _conversation(database: Database, session: Row, agents: list[Row]) -> Story | None:
    name = session.text("id")
    if name is None:
        return None
    problems = Problems()
    telling = Telling(name, agents_told=bool(agents))
    _hear(database, telling, name, problems)
    story = telling.story
    story.cwd = session.text("working_dir")
    story.title = session.text("name") or session.text("description")
    story.parent = session.text("parent_session_id")
    config = value(session.raw("model_config_json"))
    story.model = word(config, "model_name", "model") if type(config) is dict else None
    _spent(database, session, telling, name)
    told = telling.end()
    if told is None:
        return None
    for agent in agents:
        called = agent.text("id") or ""
        part = Telling(name, agent=called, agents_told=True)
        _hear(database, part, called, problems)
        _spent(database, agent, part, called)
        done = part.end()
        if done is not None:
            join(told, done)
    told.problems = problems.sentences()
    return told


def _hear(database: Database, telling: Telling, name: str, problems: Problems) -> None:
    for row in database.rows("messages", _MESSAGE, of=name, order="id"):
        mark = row.text("message_id") or f"row{row.text('id')}"
        at = millis(row.number("created_timestamp"))
        if not telling.hear(at, row.text("role"), mark, row.raw("content_json"), row.raw("metadata_json")):
            problems.add(f"message {row.text('id')} is not what messages are")


def _spent(database: Database, session: Row, telling: Telling, name: str) -> None:
    """Tokens: from the ledger, where each request has its row, or as Goose has added them up before it had one."""
    story = telling.story
    cost = 0.0
    rows = 0
    for row in database.rows("usage_ledger", _LEDGER, of=name, order="id"):
        rows += 1
        from_cache, to_cache = row.number("cache_read_tokens") or 0, row.number("cache_write_tokens") or 0
        cached = from_cache + to_cache
        given = row.number("input_tokens") or 0
        # Some providers count what was cached as given, some do not.
        story.input_tokens += given - cached if given >= cached else given
        story.output_tokens += row.number("output_tokens") or 0
        story.cache_read_tokens += from_cache
        story.cache_write_tokens += to_cache
        story.model = row.text("model") or story.model
        cost += row.amount("cost") or 0.0
        if row.number("is_compaction"):
            telling.compacted(millis(row.number("created_timestamp")), f"ledger{row.text('id')}")
    if rows:
        story.cost_usd = cost or None
        return
    story.input_tokens = session.number("accumulated_input_tokens") or 0
    story.output_tokens = session.number("accumulated_output_tokens") or 0
    story.cost_usd = session.amount("accumulated_cost")


def _file(path: str) -> Iterator[Story]:
    problems = Problems()
    telling = Telling(os.path.basename(path).removesuffix(_END))
    story = telling.story
    for number, line in records(path, MESSAGE, problems):
        if line.role is None:
            story.cwd = line.working_dir or story.cwd
            story.title = line.description or story.title
            story.input_tokens = line.accumulated_input_tokens or line.input_tokens or story.input_tokens
            story.output_tokens = line.accumulated_output_tokens or line.output_tokens or story.output_tokens
        elif not telling.hear(millis(line.created), line.role, line.id or f"line{number}", line.content):
            problems.add(f"line {number} is not what messages are")
    told = telling.end()
    if told is not None:
        told.problems = problems.sentences()
        yield told
    elif problems:
        story.problems = problems.sentences()
        yield story


READER: Final = Sessions()
