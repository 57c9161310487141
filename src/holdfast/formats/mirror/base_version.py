"""Earlier versions of a session's document: which one somebody else's copy was made from.

Every version a mirror wrote is the rendering of the log as it was at some event, so versions need not be stored:
they are folded again, the last ones only, when a file that someone changed asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from holdfast.core.canonical import Json
from holdfast.core.envelope import Event
from holdfast.core.errors import Invalid
from holdfast.core.fold import apply, in_log_order
from holdfast.core.state import State
from holdfast.core.times import MINUTE, parse_time
from holdfast.formats.base import Document, Format, Place
from holdfast.formats.document_paths import at, covers
from holdfast.formats.entries import named, same
from holdfast.formats.merge import distance
from holdfast.formats.mirror.moved_tasks import PENDING, Remembered, without_taken_out
from holdfast.formats.stored_remainder import shown

# An agent that edits its copy holds one of the last versions; older ones are found by the nearest of these.
MOST: Final = 200
# How far two machines' clocks may be apart.
_APART: Final = 10 * MINUTE


class Version(NamedTuple):
    """A version of a document, and how it came about: the event it is as of, and what its writer had added to it."""

    document: Document
    line: tuple[str, ...]


def nearest(
    events: Sequence[Event], rules: Format, theirs: Document, stood: Callable[[str], bool] | None = None
) -> Document | None:
    """The version nearest to what somebody wrote, as `made_from` finds it."""
    found = made_from(events, rules, theirs, stood)
    return None if found is None else found.document


def made_from(
    events: Sequence[Event],
    rules: Format,
    theirs: Document,
    stood: Callable[[str], bool] | None = None,
    line: Sequence[str] = (),
) -> Version | None:
    """The version that is nearest to what somebody wrote. Tasks that they took out make none of them nearer.

    `stood` says of an event whether a file was written as of it; where any was, only those versions count. `line` is
    what stood in the file when it was last taken in, in somebody's own words: they count too, for whoever goes on
    from them has changed one side only. A version from before those words counts only where its computed values, and
    not theirs, are still there: who puts a value back has changed their own words. Of equally
    near ones it is the latest; but what was written within one tick of the format's own clock cannot be told apart,
    and then the earliest of them that is not older than those words: better a conflict too many than a change that
    nobody saw.
    """
    ordered = in_log_order(events)
    if not ordered:
        return None
    last = ordered[-MOST:]
    wanted = {event.hash for event in last if stood is not None and stood(event.hash)} or {
        event.hash for event in last
    }
    state = State(session=ordered[0].session)
    words = _words(ordered, rules, theirs, line)
    is_before_words = words is not None
    moment = _moment(theirs, rules)
    has_other_moment = words is not None and moment != _moment(words.document, rules)
    near: list[Version] = []
    least = -1
    for event in ordered:
        apply(state, event)
        found: list[Version] = []
        if words is not None and event.hash == line[-1]:
            is_before_words = False
            found.append(words)
        if event.hash in wanted and state.created_at is not None:
            found.append(Version(shown(state, rules), (event.hash,)))
        for version in found:
            far = distance(without_taken_out(version.document, theirs), theirs, rules)
            is_read = has_other_moment and moment == _moment(version.document, rules)
            if is_before_words and not is_read:
                continue
            if least < 0 or far < least:
                near, least = [], far
            if far == least:
                near.append(version)
    if not near:
        return None
    best = near.pop()
    while near and best is not words and _moment(near[-1].document, rules) == _moment(best.document, rules):
        best = near.pop()
    return best


def is_older(theirs: Document, base: Document | None, rules: Format) -> bool:
    """Whether a document was written before the version that it is nearest to: an earlier one, never seen here.

    It lacks something that was done since. (Of a torn file only the rest may have been known: then the whole one says
    more, however old it is.) Clocks of two machines may differ by a few minutes.
    """
    if base is None or rules.written_at is None:
        return False
    try:
        said, known = (parse_time(str(entry.get(rules.written_at))) for entry in (theirs, base))
    except Invalid:
        return False
    return said < known - _APART and any(
        {name for name, _ in named(entries, (key,), rules.identities)}
        - {name for name, _ in named(_listed(theirs, key), (key,), rules.identities)}
        for key in base
        if key != PENDING and (entries := _listed(base, key))
    )


def _listed(document: Document, key: str) -> list[Json]:
    value = document.get(key)
    return value if isinstance(value, list) else []


OLDER: Final = "it is an older version of the session than the one that is known here: nothing was taken from it"


def remembered(
    events: Sequence[Event], rules: Format, stood: Callable[[str], bool], line: Sequence[str]
) -> Remembered:
    """The versions that somebody may have read before they wrote, as for `made_from`."""
    ordered = in_log_order(events)
    words = _words(ordered, rules, None, line)
    wanted = {*[event.hash for event in ordered if stood(event.hash)][-MOST:]}
    state = State(session=ordered[0].session)
    older: list[Document] = []
    found: list[Document] = []
    for event in ordered:
        apply(state, event)
        if words is not None and event.hash == line[-1]:
            older, found = found, [words.document]
        if event.hash in wanted and state.created_at is not None:
            found.append(shown(state, rules))
    return Remembered(older, found or [shown(state, rules)])


def _words(ordered: Sequence[Event], rules: Format, theirs: Document | None, line: Sequence[str]) -> Version | None:
    """What somebody last wrote: the version they had, and of what happened since only what came from them.

    With `theirs`, which they wrote next, only what they departed from in that too.
    """
    if not line or not {*line} <= {event.hash for event in ordered}:
        return None
    state = State(session=ordered[0].session)
    had: Document | None = None
    for event in ordered:
        if had is None or event.hash in line:
            apply(state, event)
        if event.hash == line[0]:
            had = shown(state, rules)
    assert had is not None
    last = shown(state, rules)
    is_whole = theirs is None or (len(line) > 1 and line[-2] == line[-1])
    words = _gone_on(had, last, last if is_whole else theirs, rules, ())
    assert isinstance(words, dict)
    return Version(words, tuple(line))


def _gone_on(had: Json, words: Json, theirs: Json, rules: Format, place: Place) -> Json:
    """What stands where they departed from the version they had; elsewhere that version: what their words led to
    (the time of the last message, say) they need not have written themselves.
    """
    if same(had, theirs) or any(covers(pattern, place) for pattern in rules.derived):
        return had
    if isinstance(had, dict) and isinstance(words, dict) and isinstance(theirs, dict):
        return {
            key: _gone_on(had.get(key), word, theirs.get(key), rules, (*place, key))
            for key, word in words.items()
            if key in had or key in theirs
        }
    if isinstance(had, list) and isinstance(words, list) and isinstance(theirs, list):
        before, there = (dict(named(side, place, rules.identities)) for side in (had, theirs))
        return [
            _gone_on(before.get(name), item, there.get(name), rules, (*place, name))
            for name, item in named(words, place, rules.identities)
            if name in before or name in there
        ]
    return words


def _moment(version: Document, rules: Format) -> list[Json]:
    """What a version says that each version says for itself."""
    return [at(version, place) for place in sorted(rules.derived - rules.located, key=str) if "*" not in place]
