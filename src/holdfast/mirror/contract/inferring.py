"""What a feature's files must have said, told by its history: by Holdfast's events where lines carry them, else by
what the lines of other programs let one infer. Where there is no history at all, what is left of the other files,
and at last the day in the feature's name, have to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import msgspec

from holdfast.core import limits
from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid
from holdfast.core.text import shorten
from holdfast.core.times import millis
from holdfast.formats.contract import documents as words
from holdfast.formats.moments import in_seconds
from holdfast.mirror.contract.documents import Mapping
from holdfast.mirror.contract.layout import count

_DAY: Final = len("2026-11-15")


class Told(NamedTuple):
    """The files of a feature, rebuilt, and where that comes from, for people."""

    state: Mapping
    plan: Mapping
    entry: Mapping
    source: str
    by_events: bool = False


class _Dated(NamedTuple):
    at: int
    line: Mapping


Lines = Callable[[], Iterator[Mapping]]


def told(feature_id: str, lines: Lines, hints: Mapping) -> Told:
    """Rebuild the files of a feature. `lines` reads its history, anew each time.

    `hints` are what else is known: `started_at`, `last_active`.
    """
    by_events = _from_events(feature_id, lines)
    if by_events is not None:
        return by_events
    dated = _sorted(lines())
    if dated:
        source = (
            f"from {count(len(dated), 'line')} of its history, without events of Holdfast: "
            "start, last activity, model and tasks are known, the rest is not"
        )
        return _inferred(feature_id, dated, dated[0].at, dated[-1].at, source)
    started = _moment(hints.get("started_at")) or millis(f"{feature_id[-_DAY:]}T00:00:00Z")
    last = max(started, _moment(hints.get("last_active")) or started)
    source = "without its history, which is empty: only when it began is known"
    return _inferred(feature_id, [], started, last, source)


def _from_events(feature_id: str, lines: Lines) -> Told | None:
    from holdfast.formats.contract import configured
    from holdfast.formats.contract.history import event_of, restored
    from holdfast.formats.keeping import shown

    session = restored(lines())
    if session is None:
        return None
    # The name its model went by then, which a setting may have chosen.
    named: Json = None
    for line in lines():
        named = line.get("model") if event_of(line) is not None else named
    document = shown(session, configured({words.ANY_MODEL: str(named)}))
    state, plan, entry = (document[name] for name in ("state", "plan", "entry"))
    assert isinstance(state, dict)
    assert isinstance(plan, dict)
    assert isinstance(entry, dict)
    about = plan.get("feature")
    # The directory's name is the feature's id, whatever the session is called elsewhere.
    return Told(
        {**state, "feature_id": feature_id},
        {**plan, "feature": {**about, "id": feature_id}} if isinstance(about, dict) else plan,
        {**entry, "feature_id": feature_id},
        "from the events in its history",
        by_events=True,
    )


def name_of(feature_id: str) -> str:
    """What a feature may be called when nothing says so: the words in its id."""
    return feature_id[: -_DAY - 1].replace("-", " ").capitalize()


def _inferred(feature_id: str, dated: list[_Dated], started: int, last: int, source: str) -> Told:
    begin, end = in_seconds(started), in_seconds(last)
    latest = dated[-1].line if dated else {}
    task = latest.get("task_id")
    model = latest.get("model")
    state: Mapping = {
        "version": words.VERSION,
        "feature_id": feature_id,
        "current_state": {
            "active_task": task if isinstance(task, str) else None,
            "model_in_use": model if model in words.MODELS else words.USUAL_MODEL,
            "started_at": begin,
            "last_updated": end,
        },
    }
    name = name_of(feature_id)
    tasks = _tasks(dated)
    phases: list[Json] = [{"phase_id": words.LOOSE, "name": words.LOOSE_NAME, "tasks": tasks}] if tasks else []
    plan: Mapping = {
        "feature": {"id": feature_id, "name": name, "description": name, "created_at": begin},
        "phases": phases,
    }
    entry: Mapping = {"feature_id": feature_id, "started_at": begin, "last_active": end, "status": "active"}
    return Told(state, plan, entry, source)


def _tasks(dated: list[_Dated]) -> list[Json]:
    """Tasks that lines name. That one was worked on is all that a line proves."""
    found: dict[str, Mapping] = {}
    for at, line in dated:
        task = line.get("task_id")
        if not isinstance(task, str) or not task:
            continue
        words = " ".join(str(line.get(key) or "") for key in ("command", "arguments"))
        agent = line.get("agent")
        found.setdefault(
            task,
            {
                "task_id": task,
                "description": shorten(words, 200) or task,
                "agent": agent if isinstance(agent, str) and agent else None,
                "status": "in_progress",
                "started_at": in_seconds(at),
                "completed_at": None,
                "artifacts": [],
            },
        )
    return [*found.values()]


def _sorted(lines: Iterator[Mapping]) -> list[_Dated]:
    """By time, each once: a merge of two branches may have mixed and doubled them. No more than a document holds."""
    found: dict[bytes, _Dated] = {}
    room = limits.DOCUMENT
    for line in lines:
        written = msgspec.json.encode(line, order="sorted")
        room -= len(written)
        if room < 0:
            break
        at = _moment(line.get("timestamp"))
        if at is not None:
            found.setdefault(written, _Dated(at, line))
    return sorted(found.values(), key=lambda one: one.at)


def _moment(written: Json) -> int | None:
    try:
        return millis(written) if isinstance(written, str) else None
    except Invalid:
        return None
