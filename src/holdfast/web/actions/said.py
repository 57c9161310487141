"""What an action answers: a sentence, and what the person should know besides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from holdfast.core.errors import HoldfastError, Refused
from holdfast.keeper.elsewhere import at_its_place
from holdfast.keeper.wording import reminder

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper

Form = Mapping[str, str]


class Said(NamedTuple):
    text: str
    # Sentences about what else happened.
    more: tuple[str, ...] = ()
    # A command for somebody to copy: it stays in sight until it is put away.
    command: str | None = None


# What is done to a session (or, with an empty name, to no one session) when its form is sent.
Verb = Callable[["Keeper", str, Form], "Said | str"]
# What a dialog shows of a session.
Look = Callable[["Keeper", str], dict[str, object]]


class AskFirst(Exception):
    """It was refused, but a dialog of this name shows why, and how to go on."""

    def __init__(self, dialog: str, error: HoldfastError) -> None:
        super().__init__(error.message)
        self.dialog = dialog
        self.error = error


def nearest(keeper: Keeper, reference: str) -> tuple[Keeper, str]:
    """The keeper of the place where the session is worked on, where that is here, and the session's id."""
    session = keeper.session(reference).id
    try:
        there = at_its_place(keeper, session)
    except Refused:
        return keeper, session
    there.places = keeper.places
    return there, session


def said(text: str, *keepers: Keeper, command: str | None = None, more: tuple[str, ...] = ()) -> Said:
    """The answer of a verb, with what these keepers noticed on the way: secrets cut out, breaks due, mirrors."""
    besides = list(more)
    for keeper in {id(one): one for one in keepers}.values():
        recorder = keeper.recorder
        besides += keeper.told
        if recorder.redacted:
            kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(recorder.redacted.items()))
            besides.append(f"Secrets were cut out before anything was stored: {kinds}.")
        if recorder.reached:
            besides.append(reminder(*recorder.reached[-1]))
        forget(keeper)
    return Said(text, tuple(besides), command)


def forget(keeper: Keeper) -> None:
    """A keeper is lent to many, one after the other: what it noticed for one is no business of the next."""
    keeper.told.clear()
    keeper.recorder.redacted.clear()
    keeper.recorder.reached.clear()
    keeper.upkeep.recorded.begin()
