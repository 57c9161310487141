"""Find archives of the orchestrator format in a project that the store does not know."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.core.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.workspace.workspace import Workspace

FOLDER: Final = (".claude", "orchestrator-history")
_MAX_LISTED: Final = 1_000  # a longer list is not read
_MAX_SIZE: Final = 4 << 20  # bytes


class Archives(NamedTuple):
    # Paths within the work tree, with the reason.
    unreadable: list[tuple[str, str]]
    # How many readable ones are not in the store.
    unknown: int


def find_archives(ws: Workspace) -> Archives:
    """The archives missing from the store's history. Those with a known id are not opened."""
    folder = os.path.join(ws.place.root, *FOLDER)
    result = Archives([], 0)
    if not os.path.isdir(folder) or any(os.path.islink(path) for path in (folder, os.path.dirname(folder))):
        return result
    from holdfast.formats.discover import error_reason

    store, unknown_count = ws.existing_store(), 0
    for name in sorted(os.listdir(folder))[:_MAX_LISTED]:
        path = os.path.join(folder, name)
        if not name.endswith(".json") or name.startswith(".") or os.path.islink(path) or not os.path.isfile(path):
            continue
        if store is not None and store.find(name.removesuffix(".json")):
            continue
        error = _problem(ws, path)
        if error is None:
            unknown_count += 1
        else:
            result.unreadable.append(("/".join((*FOLDER, name)), error_reason(error, path)))
    return result._replace(unknown=unknown_count)


def _problem(ws: Workspace, path: str) -> HoldfastError | None:
    from holdfast.core.errors import Invalid
    from holdfast.formats import registry
    from holdfast.formats.import_context import import_context
    from holdfast.formats.text.read import read
    from holdfast.machine.files import read_limited

    try:
        if os.path.getsize(path) > _MAX_SIZE:
            return Invalid("it is too large for an archive")
        value = read(read_limited(path, _MAX_SIZE, subject="an archive"), path).value
        registry.format_named("orchestrator").repair(value, import_context(ws))
    except HoldfastError as error:
        return error
    except OSError as error:
        return Invalid(error.strerror or "it cannot be read")
    return None
