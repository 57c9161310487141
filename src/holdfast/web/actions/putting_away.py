"""Putting a session away, and taking it out again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.web.actions.said import Form, Said, nearest, said

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper


def archive(keeper: Keeper, reference: str, form: Form) -> Said:  # noqa: ARG001 (every verb is told the form)
    there, session = nearest(keeper, reference)
    there.archive(session)
    return said("Archived. History still finds it.", there)


def unarchive(keeper: Keeper, reference: str, form: Form) -> Said:  # noqa: ARG001
    there, session = nearest(keeper, reference)
    there.unarchive(session)
    return said("Taken out of the archive.", there)


def before_putting_away(keeper: Keeper, reference: str) -> dict[str, object]:
    session = keeper.session(reference)
    return {"session": session.document(), "archived": keeper.is_archived(session.state())}
