"""Recover damaged session files: what can still be read of each, and a session made of it if asked to.

The file itself is only read. Where the log knows the session, the log is the better source, unless the file tells
more.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from holdfast.core.canonical import Json
from holdfast.core.errors import HoldfastError, NotFound
from holdfast.formats import registry
from holdfast.formats.base import Format, FormatNote, ImportContext, TidyDocument
from holdfast.formats.convert import state_of
from holdfast.formats.detect import LOOKED_FOR
from holdfast.formats.discover import find_session_files
from holdfast.formats.import_context import import_context
from holdfast.formats.recovery.identify import LISTS, FormatKind, complete, identify
from holdfast.formats.recovery.recover import Recovered, recovered
from holdfast.formats.text.read import LIMIT
from holdfast.machine.files import display_path, explain, read_limited
from holdfast.sessions.history import current_session

if TYPE_CHECKING:
    from holdfast.core.state import State
    from holdfast.workspace.workspace import Workspace


class Contents(NamedTuple):
    """What a recovered document tells, in numbers."""

    goal: str | None
    status: str
    updated_at: int
    agents: int
    tasks: int
    decisions: int


class Rescue(NamedTuple):
    """What is left of one file."""

    path: str
    rules: Format | None
    # Nothing is wrong with the file.
    whole: bool
    # The format's document with what is missing derived; what was read, where no format is recognised.
    document: Json
    notes: list[FormatNote]
    lost_from: int | None
    lost_line: int | None = None
    contents: Contents | None = None
    # The session in the log that this file shows.
    known: str | None = None
    # What the file tells and the log does not, united with what that knows; None when it tells nothing more.
    more: dict[str, Json] | None = None
    # Why no session can be made of it, or why it could not be read at all.
    error: HoldfastError | None = None
    # Its version is one that this program does not know: it was read like the one that it does.
    version: HoldfastError | None = None

    @property
    def has_content(self) -> bool:
        return self.document is not None


def recover(ws: Workspace, path: str) -> list[Rescue]:
    """What is left of a file, or of every session file in a directory. Raises when there is none."""
    here = import_context(ws)
    if path != "-" and not os.path.lexists(path):
        raise NotFound(f"{display_path(path)} does not exist", hint="Check the path.", operation="read", file=path)
    if not os.path.isdir(path):
        return [_rescue(ws, path, here)]
    walked = find_session_files(path)
    files = [*(file for file, _ in walked.placed), *walked.loose]
    if not files and not walked.closed:
        raise _none_in(path)
    found = [_carefully(ws, file, here) for file in files]
    # Among files that lie about anywhere, whole ones of other programs are not meant.
    placed = {file for file, _ in walked.placed}
    found = [rescue for rescue in found if rescue.path in placed or rescue.rules is not None or not rescue.whole]
    if not found and not walked.closed:
        raise _none_in(path)
    for folder, error in walked.closed:
        found.append(_unread(folder, explain(error, "read", folder)))
    return found


def _none_in(path: str) -> NotFound:
    return NotFound(f"there is no session file in {display_path(path)}", hint=LOOKED_FOR, operation="read", file=path)


def start(ws: Workspace, rescue: Rescue) -> tuple[str, list[FormatNote]]:
    """The session of a recovered document, current here unless another one is; and what was assumed.

    Where the log knows it, that is the session: as it stands there, with what only the file tells.
    """
    if rescue.known is not None:
        if rescue.more is None or rescue.rules is None:
            return rescue.known, []
        from holdfast.formats.import_ import import_document

        return rescue.known, import_document(ws, rescue.more, rescue.rules).notes
    free = current_session(ws) is None
    if rescue.rules is None:
        from holdfast.formats.salvage import import_salvaged

        taken = import_salvaged(ws, rescue.document, rescue.path, make_current=free)
    else:
        if rescue.error is not None:
            raise rescue.error
        from holdfast.formats.import_ import import_document

        taken = import_document(ws, rescue.document, rescue.rules, make_current=free)
    return taken.session, taken.notes


# ── one file ─────────────────────────────────────────────────────────────────────────────────────────────


def _carefully(ws: Workspace, path: str, here: ImportContext) -> Rescue:
    try:
        return _rescue(ws, path, here)
    except HoldfastError as error:
        return _unread(path, error)


def _unread(path: str, error: HoldfastError) -> Rescue:
    return Rescue(path, None, whole=False, document=None, notes=[], lost_from=None, error=error)


def _rescue(ws: Workspace, path: str, here: ImportContext) -> Rescue:
    raw = read_limited(path, LIMIT, what="a session file")
    found = recovered(raw, path)
    line = None if found.lost_from is None else raw.count(b"\n", 0, found.lost_from) + 1
    plain = Rescue(path, None, found.whole, found.value, found.notes, found.lost_from, line)
    if found.value is None:
        return plain
    what = identify(found.value, path)
    kind = _kind_in_feature(path) if what is None and not found.whole else None
    if kind is not None:
        what = FormatKind(registry.named("contract"), kind)
    if what is None:
        return plain
    if what.kind in LISTS or what.kind == "contract-history":
        document = found.documents if what.kind == "contract-history" else found.value
        return plain._replace(rules=what.rules, document=document, error=_no_session(path, what.kind))
    tidy, version = _complete(found, what, here, path)
    if isinstance(tidy, HoldfastError):
        return plain._replace(rules=what.rules, error=tidy)
    whole = found.whole and version is None
    # What is whole is shown as it stands: the import would say what it assumes.
    notes = found.notes if whole else [*found.notes, *tidy.notes]
    document = found.value if whole else tidy.document
    contents = _contents(tidy.document, what.rules, here)
    known = _known(ws, found, tidy.document, what.rules, path)
    more = None
    if known is not None:
        said = tidy.document if whole else _said_itself(tidy.document, found.value)
        more = _more(ws, known, said, what.rules, here)
    return plain._replace(
        rules=what.rules, whole=whole, document=document, notes=notes, contents=contents, known=known, more=more,
        version=version,
    )  # fmt: skip


def _complete(
    found: Recovered, what: FormatKind, here: ImportContext, path: str
) -> tuple[TidyDocument | HoldfastError, HoldfastError | None]:
    """The document, or why there is none. One of an unknown version is read like the known one, and that is said."""
    cut, value = not found.whole, found.value
    tidy = complete(value, what, here, cut=cut)
    if not isinstance(value, dict) or not (cut or isinstance(tidy, HoldfastError)):
        return tidy, None
    key = "version" if what.rules.name == "contract" else "schema_version"
    for own in (value, {**value, key: what.rules.version}) if key in value else (value,):
        for document in (_with_rest_of_feature(own, what, path, cut=cut), own):
            read = complete(document, what, here, cut=cut)
            if isinstance(read, HoldfastError):
                continue
            if own is value or not isinstance(tidy, HoldfastError):
                return read, None
            note = FormatNote((key,), "is a version that Holdfast does not support: read as the one it supports")
            return read._replace(notes=[note, *read.notes]), tidy
    return tidy, None


def _with_rest_of_feature(own: dict[str, Json], what: FormatKind, path: str, *, cut: bool) -> dict[str, Json]:
    """State or plan of a feature, with what its other file and the registry say; as it is where it is neither."""
    from holdfast.formats.contract import fields as words
    from holdfast.formats.mirror.contract import yaml_files
    from holdfast.formats.mirror.contract.feature_files import entry_of

    if _kind_in_feature(path) != what.kind:
        return own
    folder = os.path.dirname(os.path.abspath(path))
    root, feature_id = os.path.split(folder)
    part, other, name = "state", "plan", words.PLAN_FILE
    if what.kind == words.PLAN:
        part, other, name = "plan", "state", words.STATE_FILE
    found: dict[str, Json] = {}
    with suppress(HoldfastError):
        rest = yaml_files.load(os.path.join(folder, name))
        found = {} if rest is None else {other: rest.value}
    entry = entry_of(root, feature_id)
    if entry is not None:
        found["entry"] = entry
    if part == "state" and (cut or "feature_id" not in own):
        own = {**own, "feature_id": feature_id} if "feature_id" in own else {"feature_id": feature_id, **own}
    return {**found, part: own}  # what was cut stands last


def _kind_in_feature(path: str) -> str | None:
    """What a file is by its place: the state or the plan in the directory of a feature."""
    from holdfast.formats.contract import fields as words

    folder, name = os.path.split(os.path.abspath(path))
    kind = {words.STATE_FILE: words.STATE, words.PLAN_FILE: words.PLAN}.get(name)
    return kind if words.is_feature_id(os.path.basename(folder)) else None


def _said_itself(tidy: dict[str, Json], read: Json) -> dict[str, Json]:
    """Of a document that lost its end, what it says itself: nothing that had to be assumed to complete it."""
    pruned = _without_assumed(tidy, read)
    assert isinstance(pruned, dict)
    return pruned


def _without_assumed(tidy: Json, read: Json) -> Json:
    if isinstance(tidy, dict) and isinstance(read, dict):
        return {key: _without_assumed(value, read[key]) for key, value in tidy.items() if key in read}
    if isinstance(tidy, list) and isinstance(read, list) and len(tidy) == len(read):
        return [_without_assumed(item, other) for item, other in zip(tidy, read, strict=True)]
    return tidy


def _more(
    ws: Workspace, session: str, said: dict[str, Json], rules: Format, here: ImportContext
) -> dict[str, Json] | None:
    """The document of what the log and the file know together, where the file knows more."""
    from holdfast.formats.import_context import configured
    from holdfast.formats.merge import merged
    from holdfast.formats.mirror.base_version import nearest_version
    from holdfast.formats.remainder import render_with_remainder as shown_in

    store = ws.existing_store()
    state = None if store is None else store.state(session)
    if store is None or state is None:
        return None
    rules = configured(rules, here.models)
    ours = shown_in(state, rules)
    # Without the version it was made from, everything that has happened since would count as said by the file.
    together = merged(nearest_version(list(store.events(session)), rules, said), ours, said, rules)
    try:
        if not together.clashes and not rules.changes(ours, together.document, state, here):
            return None
    except HoldfastError:
        return None  # what the rules forbid is nothing that could be added
    return merged(None, said, ours, rules).document


def _no_session(path: str, kind: str) -> HoldfastError:
    from holdfast.core.errors import Invalid

    what = "a history of commands" if kind == "contract-history" else "a list of sessions"
    return Invalid(
        f"{display_path(path)} is {what}, not a session", hint="Recover the session's own file.", file=path
    )


def _contents(document: dict[str, Json], rules: Format, here: ImportContext) -> Contents | None:
    try:
        state = state_of(document, rules, here)
    except HoldfastError:
        return None
    return contents_of(state)


def contents_of(state: State) -> Contents:
    from holdfast.core import view

    return Contents(
        view.text_value(state, "goal"), view.status_of(state), state.updated_at,
        len(state.agents), len(state.tasks), len(state.decisions),
    )  # fmt: skip


def _known(ws: Workspace, found: Recovered, document: dict[str, Json], rules: Format, path: str) -> str | None:
    """The session of the log that goes by the id of the file or of its feature; one that was made up is nobody's."""
    alias = rules.alias(document)
    store = ws.existing_store()
    named = rules.name == "contract" and os.path.basename(os.path.dirname(os.path.abspath(path))) == alias
    if store is None or not alias or not (named or _says(found.value, alias)):
        return None
    for session in store.find(alias):
        state = store.state(session)
        if state is not None and not state.deleted and alias in (session, state.aliases.get(rules.name)):
            return session
    return None


def _says(value: Json, alias: str) -> bool:
    """Does the file itself hold this id?"""
    if isinstance(value, dict):
        return any(item == alias or (isinstance(item, dict) and _says(item, alias)) for item in value.values())
    return False
