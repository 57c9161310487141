"""Hearing what other devices did before going on here, without waiting long: a remote may be far away, or nowhere.

The sync runs in a thread with a keeper of its own. Whoever asked goes on when it is done or the time is over; what is
cut short then is what any crash would cut short, and the next sync goes on with it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from holdfast.core.errors import Failed, HoldfastError
from holdfast.keeper.teleports import remotes
from holdfast.keeper.wording import count, one_line
from holdfast.machine import errorlog

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
    done: list[Synced | HoldfastError] = []
    thread = threading.Thread(target=_sync, args=(keeper, done), name="sync", daemon=True)
    thread.start()
    thread.join(seconds)
    if not done:
        return [f"Could not reach {', '.join(names)} in time; going on with what is here."]
    found = done[0]
    if isinstance(found, HoldfastError):
        return [f"Not synced: {found.message}. Going on with what is here."]
    return [*_failed(found), *found.report.notes, *_rejected(found)]


def _sync(keeper: Keeper, done: list[Synced | HoldfastError]) -> None:
    from holdfast.keeper.keeper import Keeper
    from holdfast.keeper.teleports.syncing import sync

    try:
        # Of no project: its mirrored files are the asker's business.
        with Keeper.open(
            keeper.home.path, home=keeper.home.path, store=f"sqlite:///{keeper.store_path}",
            actor=keeper.recorder.actor, device=keeper.device(), wall=keeper.wall,
        ) as other:  # fmt: skip
            other.environ = keeper.environ
            done.append(sync(other, patient=False))
    except HoldfastError as error:
        done.append(error)
    except Exception as error:  # noqa: BLE001 (whoever asked has something else to do; the log tells)
        errorlog.note(keeper.home.path, "sync", f"{type(error).__name__}: {error}")
        done.append(Failed(f"the sync broke off ({type(error).__name__})"))


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
