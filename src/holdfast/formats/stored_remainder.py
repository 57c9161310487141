"""What the store keeps of a document beside its events, so that it can be shown again to the letter.

It is kept as text under the format's name in the session's `extra`: the order of keys and the spelling of numbers
would not survive as data, because the log has one spelling for data.
"""

from __future__ import annotations

import json

import msgspec

from holdfast.core.canonical import Json
from holdfast.core.events import ExtraKept
from holdfast.core.model import SyncFacts
from holdfast.core.state import State
from holdfast.formats.base import Document, Format
from holdfast.formats.remainder import remainder, restored


def shown(state: State, rules: Format, travel: SyncFacts | None = None, path: str | None = None) -> Document:
    """The session in a format, as of its last event: as it came in, with everything that has changed since.

    `travel`: how it reaches other devices now, where it does; of that, what came in says nothing any more. `path`:
    where its project is on this device, which what came in says for as long as nothing else has happened.
    """
    kept = _kept(state, rules)
    untouched = kept is not None and kept.get("at") == state.updated_at
    document = rules.render(state)
    if kept is not None:
        passing = () if untouched else rules.passing
        again = restored(document, kept.get("keep"), rules.identities, passing=passing)
        document = again if isinstance(again, dict) else document
    if path is not None and not (untouched and kept is not None and not kept.get("edited")):
        document = rules.placed(document, path)
    return document if travel is None else rules.travelling(document, travel)


def keep(
    state: State, rules: Format, document: Document, *, always: bool = False, edited: bool = False
) -> ExtraKept | None:
    """What must be recorded so that `shown` gives this document; None when it does already.

    With `always` it is recorded even then: that this is how the document came in. `edited`: it is one of ours that
    somebody changed on this device, so that it says nothing of where the project is elsewhere.
    """
    rest = remainder(rules.render(state), document, rules.identities)
    known = _kept(state, rules)
    if rest is None and not always and (known is None or known.get("keep") is None):
        return None
    if known is not None and known.get("keep") == rest and known.get("at") == state.updated_at:
        return None
    told = {"at": state.updated_at, "keep": rest} | ({"edited": True} if edited else {})
    value = json.dumps(told, ensure_ascii=False, separators=(",", ":"))
    return ExtraKept(name=rules.name, value=value)


def _kept(state: State, rules: Format) -> dict[str, Json] | None:
    text = state.extra.get(rules.name)
    if not isinstance(text, str):
        return None
    try:
        found = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return None
    return found if isinstance(found, dict) else None
