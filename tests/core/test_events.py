"""Every event type declares everything about itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import pytest

from holdfast.core.events import EVENT_TYPES, TYPE_OF, EventType

# Fields that hold text, but no free text: ids, paths, hashes, names of models, devices and branches, fixed words.
NOT_FREE = frozenset({
    "action", "agent", "aliases", "among", "artifacts", "blocking_on", "branch", "by", "came_commit", "came_from",
    "category", "certainty", "commit", "continues", "conversation", "device", "devices", "field", "folded", "format",
    "hash_after", "hash_before", "hashes", "id", "kind", "line", "mode", "model", "overruled", "parents", "path",
    "process", "project", "redacted", "ref", "replaces", "resume", "role", "sha", "status", "timer", "to", "tree",
    "type",
})  # fmt: skip
# Of some types, the same name means something else; replacements in an erasure are redacted by their own types.
NOT_FREE_IN = frozenset({("conflict.resolved", "chosen"), ("extra.kept", "name"), ("event.erased", "instead")})
NUMBERS = frozenset({int, float, bool, type(None)})


def parts(hint: Any) -> Iterator[Any]:
    """The types that a field's annotation consists of."""
    inner = [part for part in get_args(hint) if part is not Ellipsis]
    if not inner:
        yield hint
    for part in inner:
        yield from parts(part)


@pytest.mark.parametrize("kind", EVENT_TYPES.values(), ids=lambda kind: kind.name)
def test_every_field_with_text_is_declared(kind: EventType) -> None:
    """Or secrets in it would be stored."""
    for field, hint in get_type_hints(kind.data).items():
        if NUMBERS.issuperset(parts(hint)) or field in NOT_FREE or (kind.name, field) in NOT_FREE_IN:
            continue
        assert field in kind.text_fields + kind.document_fields, (
            f"{kind.name} does not say what its field {field!r} is: if it is free text, name it in `text=` of its"
            " declaration in core/events.py, so that secrets are removed from it; if not, in NOT_FREE here"
        )


@pytest.mark.parametrize("kind", EVENT_TYPES.values(), ids=lambda kind: kind.name)
def test_declared_fields_are_those_of_the_type(kind: EventType) -> None:
    """In their order, which is that of the counts of removed secrets."""
    for declared in (kind.searched_fields, kind.text_fields, kind.document_fields):
        known = tuple(field for field in kind.data.__struct_fields__ if field in declared)
        assert sorted(known) == sorted(declared), f"{kind.name} has no field of the name that it declares: {declared}"
    assert tuple(field for field in kind.data.__struct_fields__ if field in kind.text_fields) == kind.text_fields
    assert TYPE_OF[kind.data] is kind
