"""Recover damaged session files: what can still be read of each, and on request a session made of it.

The file itself is only read. If the log has the session, the log is the better source, unless the file has more.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from holdfast.core.canonical import Json
from holdfast.core.errors import HoldfastError, NotFound
from holdfast.formats import registry
from holdfast.formats.base import Format, FormatNote, ImportContext, RepairedDocument
from holdfast.formats.convert import state_of
from holdfast.formats.detect import LOOKED_FOR
from holdfast.formats.discover import find_session_files
from holdfast.formats.import_context import import_context
from holdfast.formats.recovery.identify import LISTS, FormatKind, complete, identify
from holdfast.formats.recovery.parse import RecoveredDocument, recover_document
from holdfast.formats.text.read import LIMIT
from holdfast.machine.files import display_path, explain, read_limited
from holdfast.sessions.history import current_session

if TYPE_CHECKING:
    from holdfast.core.state import State
    from holdfast.workspace.workspace import Workspace


class Contents(NamedTuple):
    """A summary of a recovered document."""

    goal: str | None
    status: str
    updated_at: int
    agents: int
    tasks: int
    decisions: int


class RecoveredFile(NamedTuple):
    """What is left of one file."""

    path: str
    rules: Format | None
    # The file is intact.
    whole: bool
    # The document with what is missing derived; the value as read if no format was recognised.
    document: Json
    notes: list[FormatNote]
    lost_from: int | None
    lost_line: int | None = None
    contents: Contents | None = None
    # The session in the log that this file shows.
    known: str | None = None
    # The merge of file and log if the file has more than the log; else None.
    more: dict[str, Json] | None = None
    # Why no session can be made of it, or why it could not be read.
    error: HoldfastError | None = None
    # The error for an unsupported version, which was read as the supported one.
    version: HoldfastError | None = None

    @property
    def has_content(self) -> bool:
        return self.document is not None


def recover(ws: Workspace, path: str) -> list[RecoveredFile]:
    """Recover a file, or every session file in a directory. Raises when there is none."""
    context = import_context(ws)
    if path != "-" and not os.path.lexists(path):
        raise NotFound(f"{display_path(path)} does not exist", hint="Check the path.", operation="read", file=path)
    if not os.path.isdir(path):
        return [_recover(ws, path, context)]
    walked = find_session_files(path)
    files = [*(file for file, _ in walked.placed), *walked.loose]
    if not files and not walked.unreadable:
        raise _none_in(path)
    recovered_files = [_recover_or_error(ws, file, context) for file in files]
    # Of files elsewhere, intact ones of other programs are left out.
    placed = {file for file, _ in walked.placed}
    recovered_files = [
        recovered
        for recovered in recovered_files
        if recovered.path in placed or recovered.rules is not None or not recovered.whole
    ]
    if not recovered_files and not walked.unreadable:
        raise _none_in(path)
    for folder, error in walked.unreadable:
        recovered_files.append(_unread(folder, explain(error, "read", folder)))
    return recovered_files


def _none_in(path: str) -> NotFound:
    return NotFound(f"there is no session file in {display_path(path)}", hint=LOOKED_FOR, operation="read", file=path)


def start(ws: Workspace, recovered: RecoveredFile) -> tuple[str, list[FormatNote]]:
    """Import a recovered document, as the current session unless there is one; returns the session, with notes.

    If the log has the session, what only the file has is added to it.
    """
    if recovered.known is not None:
        if recovered.more is None or recovered.rules is None:
            return recovered.known, []
        from holdfast.formats.import_ import import_document

        return recovered.known, import_document(ws, recovered.more, recovered.rules, of_project=True).notes
    free = current_session(ws) is None
    if recovered.rules is None:
        from holdfast.formats.salvage import import_salvaged

        taken = import_salvaged(ws, recovered.document, recovered.path, make_current=free)
    else:
        if recovered.error is not None:
            raise recovered.error
        from holdfast.formats.import_ import import_document

        taken = import_document(ws, recovered.document, recovered.rules, make_current=free, of_project=True)
    return taken.session, taken.notes


# ── one file ─────────────────────────────────────────────────────────────────────────────────────────────


def _recover_or_error(ws: Workspace, path: str, context: ImportContext) -> RecoveredFile:
    try:
        return _recover(ws, path, context)
    except HoldfastError as error:
        return _unread(path, error)


def _unread(path: str, error: HoldfastError) -> RecoveredFile:
    return RecoveredFile(path, None, whole=False, document=None, notes=[], lost_from=None, error=error)


def _recover(ws: Workspace, path: str, context: ImportContext) -> RecoveredFile:
    raw = read_limited(path, LIMIT, subject="a session file")
    recovered = recover_document(raw, path)
    line = None if recovered.lost_from is None else raw.count(b"\n", 0, recovered.lost_from) + 1
    plain = RecoveredFile(path, None, recovered.whole, recovered.value, recovered.notes, recovered.lost_from, line)
    if recovered.value is None:
        return plain
    identified = identify(recovered.value, path)
    kind = _kind_in_feature(path) if identified is None and not recovered.whole else None
    if kind is not None:
        identified = FormatKind(registry.format_named("contract"), kind)
    if identified is None:
        return plain
    if identified.kind in LISTS or identified.kind == "contract-history":
        document = recovered.documents if identified.kind == "contract-history" else recovered.value
        return plain._replace(rules=identified.rules, document=document, error=_not_a_session(path, identified.kind))
    repaired, version = _complete(recovered, identified, context, path)
    if isinstance(repaired, HoldfastError):
        return plain._replace(rules=identified.rules, error=repaired)
    is_whole = recovered.whole and version is None
    # An intact document is shown as it is; an import would add its own notes.
    notes = recovered.notes if is_whole else [*recovered.notes, *repaired.notes]
    document = recovered.value if is_whole else repaired.document
    contents = _contents(repaired.document, identified.rules, context)
    known = _find_known(ws, recovered, repaired.document, identified.rules, path)
    merged = None
    if known is not None:
        own = repaired.document if is_whole else _without_completion(repaired.document, recovered.value)
        merged = _merge_with_log(ws, known, own, identified.rules, context)
    return plain._replace(
        rules=identified.rules, whole=is_whole, document=document, notes=notes, contents=contents, known=known,
        more=merged, version=version,
    )  # fmt: skip


def _complete(
    recovered: RecoveredDocument, identified: FormatKind, context: ImportContext, path: str
) -> tuple[RepairedDocument | HoldfastError, HoldfastError | None]:
    """The completed document or an error. An unsupported version is read as the supported one, with a note."""
    cut, value = not recovered.whole, recovered.value
    repaired = complete(value, identified, context, cut=cut)
    if not isinstance(value, dict) or not (cut or isinstance(repaired, HoldfastError)):
        return repaired, None
    key = "version" if identified.rules.name == "contract" else "schema_version"
    for own in (value, {**value, key: identified.rules.version}) if key in value else (value,):
        for document in (_with_rest_of_feature(own, identified, path, cut=cut), own):
            read = complete(document, identified, context, cut=cut)
            if isinstance(read, HoldfastError):
                continue
            if own is value or not isinstance(repaired, HoldfastError):
                return read, None
            note = FormatNote((key,), "is a version that Holdfast does not support: read as the one it supports")
            return read._replace(notes=[note, *read.notes]), repaired
    return repaired, None


def _with_rest_of_feature(own: dict[str, Json], identified: FormatKind, path: str, *, cut: bool) -> dict[str, Json]:
    """State or plan of a feature, combined with its other file and the registry; anything else as it is."""
    from holdfast.formats.contract import fields as words
    from holdfast.formats.mirror.contract import yaml_files
    from holdfast.formats.mirror.contract.feature_files import entry_of

    if _kind_in_feature(path) != identified.kind:
        return own
    folder = os.path.dirname(os.path.abspath(path))
    root, feature_id = os.path.split(folder)
    part, other, name = "state", "plan", words.PLAN_FILE
    if identified.kind == words.PLAN:
        part, other, name = "plan", "state", words.STATE_FILE
    parts: dict[str, Json] = {}
    with suppress(HoldfastError):
        rest = yaml_files.load(os.path.join(folder, name))
        parts = {} if rest is None else {other: rest.value}
    entry = entry_of(root, feature_id)
    if entry is not None:
        parts["entry"] = entry
    if part == "state" and (cut or "feature_id" not in own):
        own = {**own, "feature_id": feature_id} if "feature_id" in own else {"feature_id": feature_id, **own}
    return {**parts, part: own}  # what was cut comes last


def _kind_in_feature(path: str) -> str | None:
    """The kind of a state or plan in a feature's directory, by its path."""
    from holdfast.formats.contract import fields as words

    folder, name = os.path.split(os.path.abspath(path))
    kind = {words.STATE_FILE: words.STATE, words.PLAN_FILE: words.PLAN}.get(name)
    return kind if words.is_feature_id(os.path.basename(folder)) else None


def _without_completion(repaired: dict[str, Json], read: Json) -> dict[str, Json]:
    """What a document that lost its end says itself, without what was assumed to complete it."""
    pruned = _without_assumed(repaired, read)
    assert isinstance(pruned, dict)
    return pruned


def _without_assumed(repaired: Json, read: Json) -> Json:
    if isinstance(repaired, dict) and isinstance(read, dict):
        return {key: _without_assumed(value, read[key]) for key, value in repaired.items() if key in read}
    if isinstance(repaired, list) and isinstance(read, list) and len(repaired) == len(read):
        return [_without_assumed(item, other) for item, other in zip(repaired, read, strict=True)]
    return repaired


def _merge_with_log(
    ws: Workspace, session: str, own: dict[str, Json], rules: Format, context: ImportContext
) -> dict[str, Json] | None:
    """The merge of log and file, if the file has more than the log."""
    from holdfast.formats.import_context import configured
    from holdfast.formats.merge import merge_documents
    from holdfast.formats.mirror.base_version import nearest_version
    from holdfast.formats.remainder import render_with_remainder as shown_in

    store = ws.existing_store()
    state = None if store is None else store.state(session)
    if store is None or state is None:
        return None
    rules = configured(rules, context.models)
    ours = shown_in(state, rules)
    # Merged with its base version, or everything since then would count as a change of the file.
    together = merge_documents(nearest_version(list(store.events(session)), rules, own), ours, own, rules)
    try:
        if not together.clashes and not rules.changes(ours, together.document, state, context):
            return None
    except HoldfastError:
        return None  # a forbidden change cannot be added
    return merge_documents(None, own, ours, rules).document


def _not_a_session(path: str, kind: str) -> HoldfastError:
    from holdfast.core.errors import Invalid

    identified = "a history of commands" if kind == "contract-history" else "a list of sessions"
    return Invalid(
        f"{display_path(path)} is {identified}, not a session", hint="Recover the session's own file.", file=path
    )


def _contents(document: dict[str, Json], rules: Format, context: ImportContext) -> Contents | None:
    try:
        state = state_of(document, rules, context)
    except HoldfastError:
        return None
    return contents_of(state)


def contents_of(state: State) -> Contents:
    from holdfast.core import view

    return Contents(
        view.text_value(state, "goal"), view.status_of(state), state.updated_at,
        len(state.agents), len(state.tasks), len(state.decisions),
    )  # fmt: skip


def _find_known(
    ws: Workspace, recovered: RecoveredDocument, document: dict[str, Json], rules: Format, path: str
) -> str | None:
    """The session in the log with the id in the file or of its feature; a derived id does not count."""
    alias = rules.alias(document)
    store = ws.existing_store()
    named = rules.name == "contract" and os.path.basename(os.path.dirname(os.path.abspath(path))) == alias
    if store is None or not alias or not (named or _contains(recovered.value, alias)):
        return None
    for session in store.find(alias):
        state = store.state(session)
        if state is not None and not state.deleted and alias in (session, state.aliases.get(rules.name)):
            return session
    return None


def _contains(value: Json, alias: str) -> bool:
    """Does the file itself contain this id?"""
    if isinstance(value, dict):
        return any(item == alias or (isinstance(item, dict) and _contains(item, alias)) for item in value.values())
    return False
