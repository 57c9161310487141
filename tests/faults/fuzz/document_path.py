"""What happens to a document from outside: read, detected, validated, repaired, imported, rendered again.

Whatever the bytes are, only errors of `core.errors` may be raised.
"""

from __future__ import annotations

from typing import Any

from holdfast.core import view
from holdfast.core.errors import HoldfastError
from holdfast.formats import detect, registry
from holdfast.formats.base import Format
from holdfast.formats.conformance import CONTEXT
from holdfast.formats.convert import fold_events, state_of
from holdfast.formats.recovery.identify import complete, identify
from holdfast.formats.recovery.parse import recover_document
from holdfast.formats.salvage import first_events
from holdfast.formats.text import read as text_read
from holdfast.formats.unknown.read import read_document as recognised


def read(raw: bytes, path: str) -> list[Any]:
    """The documents of a file; none when it is refused."""
    documents: list[Any] = []
    try:
        if path.endswith(".jsonl"):
            documents += [
                line.value for _, line in text_read.read_lines(raw, path) if isinstance(line, text_read.ReadDocument)
            ]
        else:
            document = text_read.read(raw, path)
            document.line(("agents", 0, "id"))
            documents.append(document.value)
    except HoldfastError:
        return documents
    return documents


def process(value: Any, rules: Format) -> bool:
    """Process a document with one format; False when the format refuses it."""
    kind = rules.detects(value)
    for name in rules.kinds if kind is None else (kind,):
        for problem in rules.problems(value, name):
            assert problem.message
    try:
        repaired = rules.repair(value, CONTEXT)
    except HoldfastError:
        return False
    errors = [
        problem
        for kind, file in rules.files(repaired.document)
        for problem in rules.broken(file, kind)
        if problem.severity == "error"
    ]
    assert errors == [], errors[:3]
    state = state_of(repaired.document, rules, CONTEXT)
    assert (state.clashes, state.not_applied) == ([], 0)
    shown = rules.render(state)
    assert rules.alias(shown) == rules.alias(repaired.document)
    view.session(state, now=state.updated_at)
    return True


def recover(raw: bytes, path: str = "") -> None:
    """Recover a session from the bytes, as far as possible."""
    recovered_document = recover_document(raw, path)
    assert recovered_document.whole or recovered_document.notes
    assert recovered_document.lost_from is None or 0 <= recovered_document.lost_from <= len(raw)
    identified = identify(recovered_document.value, path)
    if identified is None:
        salvage(recovered_document.value)
        return
    repaired = complete(recovered_document.value, identified, CONTEXT, cut=not recovered_document.whole)
    if not isinstance(repaired, HoldfastError):
        state_of(repaired.document, identified.rules, CONTEXT)


def salvage(value: Any) -> None:
    state = fold_events(first_events(recognised(value, CONTEXT), value, CONTEXT), "s")
    assert (state.clashes, state.not_applied) == ([], 0)


def process_file(raw: bytes, path: str) -> None:
    """Everything that is done with a file."""
    for value in read(raw, path):
        detect.recognise(value, path)
        detect.why_foreign(value)
        for rules in map(registry.format_named, registry.NAMES):
            rules.detects(value)
        detected = detect.recognise(value, path)
        if detected is not None:
            process(value, detected[0])
        salvage(value)
    for rules in map(registry.format_named, registry.NAMES):
        for kind in rules.kinds:
            rules.is_sound(raw, kind)
    recover(raw, path)
