"""Hearing what other devices did before going on here, without waiting long: a remote may be far away, or nowhere.

The sync runs alongside: whoever asked goes on when it is done or the time is over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.errors import HoldfastError
from holdfast.keeper.teleports import remotes
from holdfast.keeper.teleports.alongside import Alongside
from holdfast.keeper.wording import count, one_line

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper
    from holdfast.keeper.teleports.syncing import Synced

SECONDS: Final = 10.0


def catch_up(keeper: Keeper, *, seconds: float = SECONDS) -> list[str]:
    """Sync with every remote, in a hurry; gives what a person should know of it, and nothing when all is well."""
    try:
        names = [one.name for one in remotes.load(keeper.home)]
    except HoldfastError as error:
        return [_sentence(error.message)]
    if not names:
        return []
    # What waits here is taken in first, so that the other keeper has nothing of that kind to do.
    keeper.absorb()
    found = Alongside(keeper, patient=False).outcome(seconds)
    if found is None:
        return [f"Could not reach {', '.join(names)} in time; going on with what is here."]
    if isinstance(found, HoldfastError):
        return [f"Not synced: {found.message}. Going on with what is here."]
    return [*_failed(found), *found.report.notes, *_rejected(found)]


def _failed(found: Synced) -> list[str]:
    return [
        f"Could not reach {name}; going on with what is here."
        if error.retry_helps
        else f"Not synced with {name}: {one_line(error.message)}. Going on with what is here."
        for name, error in found.failed.items()
    ]


def _rejected(found: Synced) -> list[str]:
    turned = found.report.rejected
    if not turned:
        return []
    first = turned[0]
    by = f" of {one_line(first.device)}" if first.device else ""
    what = f"{count(len(turned), 'thing')} at the remote {'was' if len(turned) == 1 else 'were'} not taken in"
    return [f"{what}, the first{by}: {one_line(first.reason)}. See: holdfast doctor"]


def _sentence(message: str) -> str:
    return f"{message[:1].upper()}{message[1:]}. Going on with what is here."
