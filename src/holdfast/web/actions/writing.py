"""Writing something down, and changing the facts about a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.errors import Invalid, Refused
from holdfast.core.modes import MODES
from holdfast.core.text import shorten
from holdfast.keeper.wording import one_line, visible
from holdfast.web.actions.said import Form, Said, nearest, said

if TYPE_CHECKING:
    from holdfast.core.model import Session
    from holdfast.keeper.keeper import Keeper


def note(keeper: Keeper, reference: str, form: Form) -> Said:
    there, session = nearest(keeper, reference)
    there.session(session).note(form.get("text", ""))
    return said("Noted.", there)


def edit(keeper: Keeper, reference: str, form: Form) -> Said:
    """Only what the person changed: an agent may have changed the rest since the form was shown."""
    changed = {name: value for name, value in form.items() if value != form.get(f"was-{name}", "")}
    there, session = nearest(keeper, reference)
    kept = there.session(session)
    _as_it_was(kept.document(), form, changed)
    kept.edit(
        goal=changed.get("goal"),
        mode=changed.get("mode"),
        progress=_fraction(changed.get("progress")),
        scope=changed.get("scope"),
        summary=changed.get("summary"),
        tags=[tag for written in changed.get("tags", "").split(",") if (tag := written.strip())],
    )
    return said("Changed.", there)


def _as_it_was(session: Session, form: Form, changed: Form) -> None:
    """What the person changes is still what the form showed, or nobody would know that another value was lost."""
    for name, value in _shown(session).items():
        present = visible(value, lines=True)  # as the form spells it
        if name in changed and f"was-{name}" in form and present not in (form[f"was-{name}"], changed[name]):
            raise Refused(
                f"the {name} was changed while you wrote; it is now: {shorten(one_line(value), 200) or '(nothing)'}",
                hint="Nothing of the form was recorded. Open it again to go on from there.",
            )


def _shown(session: Session) -> dict[str, str]:
    """By field, what the form shows."""
    return {
        "goal": session.goal, "summary": session.summary or "", "scope": session.scope or "", "mode": session.mode,
        "progress": f"{session.progress * 100:.4g}",
    }  # fmt: skip


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
    return {"session": session, "modes": modes, "progress": _shown(session)["progress"]}
