"""Choosing between what devices said without knowing of each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.errors import Invalid
from holdfast.web.actions.said import Form, Said, nearest, said

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper


def resolve(keeper: Keeper, reference: str, form: Form) -> Said:
    take = form.get("take", "")
    if not (take.isascii() and take.isdigit() and len(take) < 6):
        raise Invalid("no value was chosen", hint="Choose one of those that are shown.")
    there, session = nearest(keeper, reference)
    conflict = there.session(session).resolve(form.get("conflict", ""), int(take))
    return said(f"Settled: {conflict.field}.", there)


def before_settling(keeper: Keeper, reference: str) -> dict[str, object]:
    session = keeper.session(reference)
    found = session.conflicts()
    return {
        "session": session.document(), "disagreements": found,
        "whose": {one.conflict.id: one.devices for one in found},
    }  # fmt: skip
