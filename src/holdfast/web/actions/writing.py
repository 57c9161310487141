"""Writing something down, and changing the facts about a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.errors import Invalid
from holdfast.core.modes import MODES
from holdfast.web.actions.said import Form, Said, nearest, said

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper


def note(keeper: Keeper, reference: str, form: Form) -> Said:
    there, session = nearest(keeper, reference)
    there.session(session).note(form.get("text", ""))
    return said("Noted.", there)


def edit(keeper: Keeper, reference: str, form: Form) -> Said:
    """Only what the person changed: an agent may have changed the rest since the form was shown."""
    changed = {name: value for name, value in form.items() if value != form.get(f"was-{name}", "")}
    there, session = nearest(keeper, reference)
    there.session(session).edit(
        goal=changed.get("goal"),
        mode=changed.get("mode"),
        progress=_fraction(changed.get("progress")),
        scope=changed.get("scope"),
        summary=changed.get("summary"),
        tags=[tag for written in changed.get("tags", "").split(",") if (tag := written.strip())],
    )
    return said("Changed.", there)


def _fraction(percent: str | None) -> float | None:
    if percent is None:
        return None
    try:
        return float(percent.strip().removesuffix("%")) / 100
    except ValueError:
        raise Invalid("the progress is not a number", hint="Give it in percent, from 0 to 100.") from None


def of_session(keeper: Keeper, reference: str) -> dict[str, object]:
    return {"session": keeper.session(reference).document()}


def before_editing(keeper: Keeper, reference: str) -> dict[str, object]:
    session = keeper.session(reference).document()
    # A mode that a later version knows stays what it is.
    modes = MODES if session.mode in MODES else (*MODES, session.mode)
    return {"session": session, "modes": modes, "progress": f"{session.progress * 100:.4g}"}
