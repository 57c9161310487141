"""Earlier versions of a session's document: which one somebody else's copy was made from.

Every version a mirror wrote is the rendering of the log as it was at some event, so versions need not be stored:
they are folded again, the last ones only, when a file that someone changed asks for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from holdfast.core.event import Event
from holdfast.core.fold import apply, in_log_order
from holdfast.core.state import State
from holdfast.formats.interface import Document, Format
from holdfast.formats.keeping import shown
from holdfast.formats.merging import distance

# An agent that edits its copy holds one of the last versions; older ones are found by the nearest of these.
MOST: Final = 200


def nearest(events: Sequence[Event], rules: Format, theirs: Document) -> Document | None:
    """The version nearest to what somebody wrote; of equally near ones the latest."""
    ordered = in_log_order(events)
    if not ordered:
        return None
    state = State(session=ordered[0].session)
    candidates: deque[Document] = deque(maxlen=MOST)
    for place, event in enumerate(ordered):
        apply(state, event)
        if place >= len(ordered) - MOST and state.created_at is not None:
            candidates.append(shown(state, rules))
    best: tuple[int, Document] | None = None
    for version in candidates:
        far = distance(version, theirs, rules)
        if best is None or far <= best[0]:
            best = (far, version)
    return None if best is None else best[1]
