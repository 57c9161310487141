"""The archives of the orchestrator format in a project, beside what the store knows of them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.core.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.workspace.workspace import Workspace

FOLDER: Final = (".claude", "orchestrator-history")
_MOST: Final = 1_000  # a person reads no more
_LARGE: Final = 4 << 20  # bytes


class Archives(NamedTuple):
    # Paths within the work tree, and why each cannot be read.
    unreadable: list[tuple[str, str]]
    # How many can be read, and are not in the store.
    unknown: int


def archives(ws: Workspace) -> Archives:
    """What of the archives a history of the store does not show. Those that go by a known id are not opened."""
    folder = os.path.join(ws.place.root, *FOLDER)
    found = Archives([], 0)
    if not os.path.isdir(folder) or any(os.path.islink(path) for path in (folder, os.path.dirname(folder))):
        return found
    from holdfast.formats.discover import reason

    store, unknown = ws.existing_store(), 0
    for name in sorted(os.listdir(folder))[:_MOST]:
        path = os.path.join(folder, name)
        if not name.endswith(".json") or name.startswith(".") or os.path.islink(path) or not os.path.isfile(path):
            continue
        if store is not None and store.find(name.removesuffix(".json")):
            continue
        error = _problem(ws, path)
        if error is None:
            unknown += 1
        else:
            found.unreadable.append(("/".join((*FOLDER, name)), reason(error, path)))
    return found._replace(unknown=unknown)


def _problem(ws: Workspace, path: str) -> HoldfastError | None:
    from holdfast.core.errors import Invalid
    from holdfast.formats import registry
    from holdfast.formats.import_context import import_context
    from holdfast.formats.text.read import read
    from holdfast.machine.files import read_limited

    try:
        if os.path.getsize(path) > _LARGE:
            return Invalid("it is larger than an archive is")
        value = read(read_limited(path, _LARGE, what="an archive"), path).value
        registry.named("orchestrator").tidy(value, import_context(ws))
    except HoldfastError as error:
        return error
    except OSError as error:
        return Invalid(error.strerror or "it cannot be read")
    return None
