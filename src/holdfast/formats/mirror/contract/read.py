"""The files of one feature read as one document: state, plan, the registry's entry, and what others did."""

from __future__ import annotations

import os
from contextlib import nullcontext

from holdfast.core import limits
from holdfast.core.canonical import Json
from holdfast.core.errors import HoldfastError, Invalid
from holdfast.formats.contract.fields import OWN
from holdfast.formats.mirror.contract import history, layout, registry, yaml_files
from holdfast.machine.locks import locked


def gathered(folder: str, *, leave_no_trace: bool = False) -> dict[str, Json]:
    """The composite document of a feature's directory. Raises `Invalid` when a file of it is no YAML.

    With `leave_no_trace` no lock is made where there is none: for whoever only looks at other people's files.
    """
    root, feature_id = os.path.split(folder)
    feature = layout.Feature(feature_id, folder)
    found: dict[str, Json] = {}
    unlocked = leave_no_trace and not os.path.lexists(feature.lock)
    with nullcontext() if unlocked else locked(feature.lock, shared=True, what=f"reading {feature_id}"):
        for name, path in (("state", feature.state), ("plan", feature.plan)):
            document = yaml_files.load(path)
            if document is not None:
                found[name] = document.value
        lines = foreign(feature.history)
    if not found:
        raise Invalid(f"there is neither state nor plan in {feature_id}", operation="read", file=folder)
    entry = entry_of(root, feature_id)
    if entry is not None:
        found["entry"] = entry
    if lines:
        found["history"] = lines
    return found


def entry_of(root: str, feature_id: str) -> dict[str, Json] | None:
    """A feature's entry in the registry, if that can be read: its own files say what they say without it."""
    try:
        return registry.entry(root, feature_id)
    except HoldfastError:
        return None


def foreign(path: str) -> list[Json]:
    """Lines that other programs wrote, up to the size of a document; Holdfast's own are events that the log has.

    The file only grows, so these stay the same ones, whatever comes after them; the doctor says where they end.
    """
    found: list[Json] = []
    left = limits.MAX_DOCUMENT_SIZE
    for _, line in history.read(path) if os.path.lexists(path) else ():
        if isinstance(line, dict) and OWN not in line:
            left -= history.size_of(line)
            if left < 0:
                break
            found.append(line)
    return found
