"""The lists of a document as they are met in the wild, put right entry by entry."""

from __future__ import annotations

import re
from typing import Final

from holdfast.core.canonical import Json
from holdfast.core.text import shorten, slug
from holdfast.formats.base import Place
from holdfast.formats.orchestrator.names import AGENT_ID, AS_FOUND, TEXTS
from holdfast.formats.orchestrator.repair_values import ValueRepair, wrong
from holdfast.formats.orchestrator.rules import OTHER_NAMES_OF_AGENTS, moment
from holdfast.formats.orchestrator.statuses import ENDED, MEANT_AGENT, SPOKEN_AGENT
from holdfast.formats.schema import kind_of

Entry = dict[str, Json]

_AGENT_NAMES: Final = {
    **OTHER_NAMES_OF_AGENTS, "id": ("agent_id", "name"), "type": ("agent_type", "role"),
    "task": ("description", "goal"),
}  # fmt: skip
_DECISION_NAMES: Final = {
    "decision": ("chosen", "choice", "description", "text"), "rationale": ("reasoning", "reason", "why"),
    "timestamp": ("at", "time", "date", "made_at"),
}  # fmt: skip


# ── agents ───────────────────────────────────────────────────────────────────────────────────────────────


def agents(value: Json, mending: ValueRepair) -> list[Json]:
    taken: set[str] = set()
    if isinstance(value, dict) and all(isinstance(item, dict) for item in value.values()):
        mending.note(("agents",), "an object of agents is taken as a list of them")
        value = [{"id": name, **item} for name, item in value.items() if isinstance(item, dict)]
    found = mending.entries(value, ("agents",))
    return [_agent(entry, position, mending, taken) for position, entry in enumerate(found)]


def _agent(value: Json, position: int, mending: ValueRepair, taken: set[str]) -> Json:
    place: Place = ("agents", position)
    if isinstance(value, str) and value.strip():
        mending.note(place, "text is taken as an agent's task")
        value = {"id": f"agent-{position + 1}", "type": "agent", "task": value, "status": "pending"}
    if not isinstance(value, dict):
        raise wrong(place, f"must be an object, is {kind_of(value)}")
    entry = mending.renamed(value, _AGENT_NAMES, place)
    entry["id"] = _agent_id(entry.get("id"), position, mending, taken)
    entry["type"] = _agent_type(entry, mending, place)
    task = mending.words(entry.get("task"), (*place, "task"))
    if task is None:
        mending.note((*place, "task"), "is missing, taken as empty")
    entry["task"] = task or ""
    for key in ("started", "completed"):
        if key in entry:
            entry[key] = mending.time(entry[key], (*place, key))
    if "result_summary" in entry:
        entry["result_summary"] = mending.words(entry["result_summary"], (*place, "result_summary"))
    if "progress" in entry:
        entry["progress"] = _progress(entry["progress"], mending, (*place, "progress"))
    if "context_tokens" in entry:
        entry["context_tokens"] = mending.whole(entry["context_tokens"], (*place, "context_tokens"))
    _agent_status(entry, mending, place)
    return entry


def _agent_id(value: Json, position: int, mending: ValueRepair, taken: set[str]) -> str:
    place: Place = ("agents", position, "id")
    named = mending.words(value, place) or ""
    plain = name = named if AGENT_ID.match(named) else slug(named) if named.strip() else f"agent-{position + 1}"
    number = 2
    while name in taken:
        name = f"{plain[:90]}-{number}"
        number += 1
    if name != named:
        mending.note(place, f"{shorten(named, 40) + ' is' if named else 'is missing,'} taken as {name}")
    taken.add(name)
    return name


def _agent_type(entry: Entry, mending: ValueRepair, place: Place) -> str:
    found = mending.words(entry.get("type"), (*place, "type"))
    if found is not None and found.strip():
        return found
    made = re.sub(r"[-_.]?[0-9]+\Z", "", str(entry["id"])) or "agent"
    mending.note((*place, "type"), f"is missing, taken as {made}")
    return made


def _agent_status(entry: Entry, mending: ValueRepair, place: Place) -> None:
    """Its status, and an end that fits it."""
    said = mending.words(entry.get("status"), (*place, "status"))
    status = mending.word(said or "", (*place, "status"), MEANT_AGENT, SPOKEN_AGENT)
    ended = entry.get("completed") is not None
    if status is None and said:
        hint = f"An agent is one of {', '.join(MEANT_AGENT)}."
        raise wrong((*place, "status"), f"is {shorten(said, 30)!r}", hint)
    if status is None:
        status = "complete" if ended else "pending" if entry.get("started") is None else "in_progress"
        mending.note((*place, "status"), f"is missing, taken as {status}")
    elif ended and status not in ENDED:
        mending.note((*place, "status"), f"is {status}, but it has ended: taken as complete")
        status = "complete"
    entry["status"] = status
    began, end = moment(entry.get("started")), moment(entry.get("completed"))
    if began is not None and end is not None and end < began:
        mending.note((*place, "completed"), f"is earlier than started, taken as {entry['started']}")
        entry["completed"] = entry["started"]


def _progress(value: Json, mending: ValueRepair, place: Place) -> int | None:
    if isinstance(value, float) and 0 < value <= 1:
        made = round(value * 100)
        mending.note(place, f"a share of 1 is taken as {made} percent")
        return made
    return mending.whole(value, place, 100)


# ── work ─────────────────────────────────────────────────────────────────────────────────────────────────


def done(value: Json, mending: ValueRepair) -> list[Json]:
    made: list[Json] = []
    for position, entry in enumerate(mending.entries(value, ("completed_work",))):
        place: Place = ("completed_work", position)
        if isinstance(entry, str):
            mending.note(place, "text is taken as what was done")
            entry = {"task": entry}  # noqa: PLW2901 (from here on it is what was meant)
        if not isinstance(entry, dict):
            raise wrong(place, f"must be an object, is {kind_of(entry)}")
        work = mending.renamed(entry, {"task": TEXTS[1:]}, place)
        text = mending.words(work.get("task"), (*place, "task"))
        if text is None or not text.strip():
            mending.left_out(entry, place)
            continue
        work["task"] = text
        if "outcome" in work:
            work["outcome"] = mending.words(work["outcome"], (*place, "outcome"))
        if "files" in work:
            work["files"] = _files(work["files"], mending, (*place, "files"))
        made.append(work)
    return made


def _files(value: Json, mending: ValueRepair, place: Place) -> list[Json]:
    found = [mending.words(entry, place) for entry in mending.entries(value, place)]
    return [name for name in found if name is not None]


def to_do(value: Json, mending: ValueRepair) -> list[Json]:
    made: list[Json] = []
    for position, entry in enumerate(mending.entries(value, ("pending_tasks",))):
        place: Place = ("pending_tasks", position)
        text = entry
        if isinstance(entry, dict):
            text = next((one for key in TEXTS if isinstance(one := entry.get(key), str) and one.strip()), None)
            if text is None:
                raise wrong(place, "must be text, is an object that names no task")
            more = shorten(", ".join(key for key, one in entry.items() if one != text), 60)
            mending.note(place, f"its words are the task{f'; kept in pending_tasks{AS_FOUND}: {more}' * bool(more)}")
            if more:
                mending.keep(entry, place)
        words = mending.words(text, place)
        if words is None or not words.strip():
            mending.left_out(entry, place)
            continue
        made.append(words)
    return made


# ── decisions, errors ────────────────────────────────────────────────────────────────────────────────────


def decisions(value: Json, mending: ValueRepair, updated: str) -> list[Json]:
    made: list[Json] = []
    for position, entry in enumerate(mending.entries(value, ("decisions_made",))):
        place: Place = ("decisions_made", position)
        if isinstance(entry, str):
            mending.note(place, "text is taken as what was decided")
            entry = {"decision": entry}  # noqa: PLW2901 (from here on it is what was meant)
        if not isinstance(entry, dict):
            raise wrong(place, f"must be an object, is {kind_of(entry)}")
        found = mending.renamed(entry, _DECISION_NAMES, place)
        text = mending.words(found.get("decision"), (*place, "decision"))
        if text is None or not text.strip():
            mending.left_out(entry, place)
            continue
        found["decision"] = text
        if "rationale" in found:
            found["rationale"] = mending.words(found["rationale"], (*place, "rationale"))
        at = mending.time(found.get("timestamp"), (*place, "timestamp"))
        if at is None:
            mending.note((*place, "timestamp"), f"is missing, taken as {updated}")
        found["timestamp"] = at or updated
        made.append(found)
    return made


def errors(value: Json, mending: ValueRepair) -> list[Json]:
    made: list[Json] = []
    for position, entry in enumerate(mending.entries(value, ("errors",))):
        if isinstance(entry, dict):
            made.append(entry)
        elif (words := mending.words(entry, ("errors", position))) is not None:
            made.append(words)
    return made
