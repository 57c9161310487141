"""A quick look: is this file sound beyond doubt? Whatever is not goes the long way, which says why."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Final

import msgspec

from holdfast.core.decode import decodable
from holdfast.formats.craft.rules import MOST_SENTENCES, RESULTS, circles, is_among, sentences
from holdfast.formats.craft.structs import CraftAgent, CraftDocument

_UTC: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z\Z")
# Plainly inside the project; every other path is looked at with care, the long way.
_INSIDE: Final = re.compile(r"\.?[A-Za-z0-9_@+=-][A-Za-z0-9_@+=. -]*(?:/\.?[A-Za-z0-9_@+=-][A-Za-z0-9_@+=. -]*)*\Z")
_ROUNDING: Final = timedelta(milliseconds=998)
_decoders: list[msgspec.json.Decoder[CraftDocument]] = []


def is_sound(raw: bytes) -> bool:
    if not _decoders:  # built on first use: describing the types costs a millisecond
        _decoders.append(msgspec.json.Decoder(decodable(CraftDocument)))
    try:
        return _fits(_decoders[0].decode(raw))
    except (ValueError, RecursionError):  # msgspec's errors and wrong dates are ValueErrors
        return False


def _fits(craft: CraftDocument) -> bool:
    created, updated = _time(craft.created_at), _time(craft.updated_at)
    if updated < created or sentences(craft.goal) > MOST_SENTENCES:
        return False
    for moment in (craft.context_usage.last_compression, craft.teleportation.last_sync):
        if moment is not None:
            _time(moment)
    for decision in craft.decisions_made:
        _time(decision.timestamp)
        if not is_among(decision.chosen, decision.options):
            return False
    for file in craft.files_modified:
        _time(file.timestamp)
        if not _INSIDE.match(file.path) or len(file.path) > 1000:
            return False
    return _agents_fit(craft.agents)


def _agents_fit(agents: list[CraftAgent]) -> bool:
    names = {agent.id for agent in agents}
    waits = {agent.id: agent.blocking_on for agent in agents if agent.blocking_on is not None}
    if len(names) != len(agents) or not names.issuperset(waits.values()) or (waits and circles(waits)):
        return False
    return all(map(_agent_fits, agents))


def _agent_fits(agent: CraftAgent) -> bool:
    if agent.result not in RESULTS[agent.status]:
        return False
    started = None if agent.started_at is None else _time(agent.started_at)
    if agent.completed_at is not None:
        if agent.status in ("pending", "running"):
            return False
        completed = _time(agent.completed_at)
        if started is not None:
            took = completed - started
            seconds = agent.duration_seconds
            if took < timedelta(0) or (
                seconds is not None and (seconds > 1e9 or abs(timedelta(seconds=seconds) - took) >= _ROUNDING)
            ):
                return False
    if agent.error is not None and agent.error.last_retry_at is not None:
        _time(agent.error.last_retry_at)
    touched = agent.artifacts
    for paths in (touched.files_created, touched.files_modified, touched.files_deleted):
        for path in paths:
            if not _INSIDE.match(path) or len(path) > 1000:
                return False
    return True


def _time(written: str) -> datetime:
    """A time spelled as it must be. Raises `ValueError` for anything else."""
    if not _UTC.match(written):
        raise ValueError(written)
    return datetime.fromisoformat(written)
