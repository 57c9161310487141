"""To-do lists of a conversation of the past: only how they ended matters, and when each entry was first heard of.

An entry goes by the id that `telling_plan` gives it, so that hooks that hear the conversation go on with these tasks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from holdfast.capture.plain import plain
from holdfast.capture.signals import Planned, Todo
from holdfast.capture.transcripts import Story, Told
from holdfast.core.canonical import digest
from holdfast.core.vocabulary import Data, OfTask, TaskAdded, TaskCompleted, TaskDropped, TaskReopened, TaskStarted

_MOST: Final = 500
_MOVES: Final[dict[str, type[OfTask]]] = {
    "pending": TaskReopened, "in_progress": TaskStarted, "completed": TaskCompleted, "dropped": TaskDropped,
}  # fmt: skip


class _Entry(msgspec.Struct):
    text: str
    since: int
    status: str = "pending"
    at: int = 0


def plan(story: Story, told: list[Told]) -> Iterator[tuple[int, Data, str]]:
    """Every entry once, and what became of it: moment, event, mark."""
    source = f"{story.agent}-{_short(story.conversation, 4)}-"
    entries: dict[str, _Entry] = {}
    for one in told:
        if isinstance(one.signal, Planned):
            _fold(entries, one.signal, one.at)
    for name, entry in entries.items():
        task = source + name
        yield entry.since, TaskAdded(id=task, text=entry.text), f"task:{name}"
        if entry.at:
            yield entry.at, _MOVES[entry.status](id=task), f"task:{name}:{entry.status}:{entry.at}"


def _fold(entries: dict[str, _Entry], signal: Planned, at: int) -> None:
    listed: set[str] = set()
    for todo in signal.todos[:_MOST]:
        words = plain(todo.text, 500).strip()
        name = _short(words if todo.id is None else f"#{todo.id}", 8)
        entry = entries.get(name)
        if entry is None:
            if not words or len(entries) >= _MOST:
                continue
            entry = entries[name] = _Entry(words, at)
        entry.text = words or entry.text
        listed.add(name)
        _move(entry, todo, at)
    if signal.whole and listed:
        for name, entry in entries.items():
            if name not in listed and entry.status in ("pending", "in_progress"):
                entry.status, entry.at = "dropped", at


def _move(entry: _Entry, todo: Todo, at: int) -> None:
    # Put back on the list, it was begun all the same.
    if entry.status != todo.status and not (entry.status == "in_progress" and todo.status == "pending"):
        entry.status, entry.at = todo.status, at


def _short(words: str, length: int) -> str:
    return digest(words.encode(errors="surrogatepass"))[:length]
