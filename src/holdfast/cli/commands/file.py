"""`holdfast file PATH`: record a change to a file, with its hash."""

from __future__ import annotations

import os

from holdfast.cli.call import Call
from holdfast.core.errors import Invalid


def run(call: Call) -> None:
    words = call.parsed
    root = call.keeper.place.root
    session = call.keeper.session()
    session.changed(inside(words.need("path"), root), words.need("action"), agent=words.text("agent"), at=call.at)
    document = session.document(at=call.at)
    change = document.files[-1]
    call.done(document, lambda paint: paint.join(change.action, " ", paint.bold(change.path)), file=change)


def inside(path: str, root: str) -> str:
    """The path relative to the project: people name files from where they stand."""
    if not os.path.isabs(path) and not os.path.lexists(path) and not _stands_for_itself(path, root):
        return path  # as a program names it: relative to the project
    full = os.path.join(os.path.realpath(os.path.dirname(os.path.abspath(path))), os.path.basename(path))
    relative = os.path.relpath(full, root)
    if relative.split(os.sep)[0] == os.pardir or os.path.isabs(relative):
        raise Invalid(f"{path[:80]!a} is outside the project", hint="Only files of the project are recorded.")
    return relative.replace(os.sep, "/")


def _stands_for_itself(path: str, root: str) -> bool:
    """Whether a file that is not here is meant to have been here: deleted, and not there in the project either."""
    try:
        here = os.path.realpath(os.curdir)
    except FileNotFoundError:  # the directory one stands in is gone
        return False
    within = here == root or here.startswith(root + os.sep)
    return within and not os.path.lexists(os.path.join(root, path))
