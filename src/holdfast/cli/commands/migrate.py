"""`holdfast migrate PATH [--back]`: documents of older versions written anew; the old ones stay beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.cli.call import Call
from holdfast.cli.notes import failure, public_notes, public_path, tell_notes, together
from holdfast.cli.paint import Paint, Painted

if TYPE_CHECKING:
    from holdfast.formats.migrate import Migrated


def run(call: Call) -> int:
    from holdfast.formats import migrate

    path = call.parsed.need("path")
    found = migrate.back(path) if call.parsed.flag("back") else migrate.migrate(call.keeper, path)
    failed = together(migrated.error for migrated in found)
    call.answer(
        {"files": [_public(migrated) for migrated in found]},
        lambda paint: _painted(paint, found, quiet=call.quiet),
        error=failed[0] if failed else None,
    )
    code = call.failed(failed)
    for migrated in found:
        tell_notes(call, migrated.notes, about=f"{migrated.path} " if len(found) > 1 else "")
    return code


def _public(one: Migrated) -> dict[str, object]:
    return {
        "path": public_path(one.path), "format": one.format, "from": one.version, "result": one.result,
        "kept": None if one.kept is None else public_path(one.kept),
        "notes": public_notes(one.notes), "error": None if one.error is None else one.error.message,
        "hint": None if one.error is None else one.error.hint,
    }  # fmt: skip


def _painted(paint: Paint, found: list[Migrated], *, quiet: bool) -> Painted:
    """A line for each file; those that went well need no confirmation with `--quiet`."""
    lines = []
    for migrated in found:
        if migrated.error is not None:
            lines.append(paint.join(paint.red(migrated.result), f"  {failure(migrated.error, migrated.path)}"))
        elif not quiet:
            kept = "" if migrated.kept is None else f"  (kept: {migrated.kept})"
            lines.append(paint.join(migrated.result, f"  {migrated.path}", paint.dim(kept)))
    return Painted("\n".join(lines))
