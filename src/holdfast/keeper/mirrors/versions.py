"""Earlier versions of a session's document: which one somebody else's copy was made from.

Every version a mirror wrote is the rendering of the log as it was at some event, so versions need not be stored:
they are folded again, the last ones only, when a file that someone changed asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from holdfast.core.canonical import Json
from holdfast.core.event import Event
from holdfast.core.fold import apply, in_log_order
from holdfast.core.state import State
from holdfast.formats.interface import Document, Format
from holdfast.formats.keeping import shown
from holdfast.formats.merging import distance
from holdfast.formats.places import at

# An agent that edits its copy holds one of the last versions; older ones are found by the nearest of these.
MOST: Final = 200


def nearest(
    events: Sequence[Event], rules: Format, theirs: Document, stood: Callable[[str], bool] | None = None
) -> Document | None:
    """The version nearest to what somebody wrote.

    `stood` says of an event whether a file was written as of it; where any was, only those versions count. Of equally
    near ones it is the latest; but what was written within one tick of the format's own clock cannot be told apart,
    and then the earliest of them: better a conflict too many than a change that nobody saw.
    """
    ordered = in_log_order(events)
    if not ordered:
        return None
    last = ordered[-MOST:]
    wanted = {event.hash for event in last if stood is not None and stood(event.hash)} or {one.hash for one in last}
    state = State(session=ordered[0].session)
    near: list[Document] = []
    least = -1
    for event in ordered:
        apply(state, event)
        if event.hash not in wanted or state.created_at is None:
            continue
        version = shown(state, rules)
        far = distance(version, theirs, rules)
        if least < 0 or far < least:
            near, least = [], far
        if far == least:
            near.append(version)
    if not near:
        return None
    best = near.pop()
    while near and _moment(near[-1], rules) == _moment(best, rules):
        best = near.pop()
    return best


def _moment(version: Document, rules: Format) -> list[Json]:
    """What a version says that each version says for itself."""
    return [at(version, place) for place in sorted(rules.derived, key=str) if "*" not in place]
