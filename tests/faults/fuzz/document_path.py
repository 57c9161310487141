"""The way of a document from outside: read, recognised, checked, put right, made events, shown again.

Whatever the bytes are, only errors of `core.errors` may come out of it; everything else is a fault.
"""

from __future__ import annotations

from typing import Any

from holdfast.core import view
from holdfast.core.errors import HoldfastError
from holdfast.formats import detect, registry
from holdfast.formats.base import Format
from holdfast.formats.conformance import CONTEXT
from holdfast.formats.convert import folded, state_of
from holdfast.formats.recovery.identify import complete, identify
from holdfast.formats.recovery.recover import recovered
from holdfast.formats.salvage import beginning
from holdfast.formats.text import read as text_read
from holdfast.formats.unknown.read import read_document as recognised


def read(raw: bytes, path: str) -> list[Any]:
    """The documents of a file, however it is read; none when it is refused."""
    found: list[Any] = []
    try:
        if path.endswith(".jsonl"):
            found += [
                line.value for _, line in text_read.read_lines(raw, path) if isinstance(line, text_read.ReadDocument)
            ]
        else:
            document = text_read.read(raw, path)
            document.line(("agents", 0, "id"))
            found.append(document.value)
    except HoldfastError:
        return found
    return found


def through(value: Any, rules: Format) -> bool:
    """A document through one format; False when the format refuses it."""
    kind = rules.detects(value)
    for name in rules.kinds if kind is None else (kind,):
        for problem in rules.problems(value, name):
            assert problem.message
    try:
        tidy = rules.tidy(value, CONTEXT)
    except HoldfastError:
        return False
    errors = [
        problem
        for kind, file in rules.files(tidy.document)
        for problem in rules.broken(file, kind)
        if problem.severity == "error"
    ]
    assert errors == [], errors[:3]
    state = state_of(tidy.document, rules, CONTEXT)
    assert (state.clashes, state.not_applied) == ([], 0)
    shown = rules.render(state)
    assert rules.alias(shown) == rules.alias(tidy.document)
    view.session(state, now=state.updated_at)
    return True


def recover(raw: bytes, path: str = "") -> None:
    """What is left of the bytes, as far as a session."""
    found = recovered(raw, path)
    assert found.whole or found.notes
    assert found.lost_from is None or 0 <= found.lost_from <= len(raw)
    what = identify(found.value, path)
    if what is None:
        salvage(found.value)
        return
    tidy = complete(found.value, what, CONTEXT, cut=not found.whole)
    if not isinstance(tidy, HoldfastError):
        state_of(tidy.document, what.rules, CONTEXT)


def salvage(value: Any) -> None:
    state = folded(beginning(recognised(value, CONTEXT), value, CONTEXT), "s")
    assert (state.clashes, state.not_applied) == ([], 0)


def everything(raw: bytes, path: str) -> None:
    """Every way a file can go."""
    for value in read(raw, path):
        detect.recognise(value, path)
        detect.why_foreign(value)
        for rules in registry.every():
            rules.detects(value)
        found = detect.recognise(value, path)
        if found is not None:
            through(value, found[0])
        salvage(value)
    for rules in registry.every():
        for kind in rules.kinds:
            rules.is_sound(raw, kind)
    recover(raw, path)
