"""Syncing because a person asked for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.errors import HoldfastError
from holdfast.keeper.teleports import alongside
from holdfast.keeper.wording import count, one_line
from holdfast.web.actions.said import Form, Said

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper
    from holdfast.keeper.teleports.syncing import Synced

_PATIENCE: Final = 20.0  # seconds; from then on the page shows what comes of it


def sync(keeper: Keeper, _: str, __: Form) -> Said:
    begun = alongside.begin(keeper)
    if begun is None:
        return Said("A sync is under way already. This page shows what comes of it.")
    found = begun.outcome(_PATIENCE)
    if found is None:
        return Said("It takes its time. This page shows what comes of it.")
    if isinstance(found, HoldfastError):
        raise found
    if found.failed and not found.reached:
        name, error = next(iter(found.failed.items()))
        error.message = f"{name}: {error.message}"
        raise error
    return _told(found)


def _told(done: Synced) -> Said:
    report = done.report
    parts = [f"sent {count(report.pushed, 'event')}"] if report.pushed else []
    parts += [f"received {count(report.pulled, 'event')}"] if report.pulled else []
    more = [f"{one_line(name)}: {one_line(error.message)}." for name, error in done.failed.items()]
    more += report.notes
    if report.rejected:
        more.append(f"{count(len(report.rejected), 'thing')} at the remote not taken in: see below.")
    if done.conflicts:
        more.append(f"{count(done.conflicts, 'conflict')} to look at.")
    return Said(f"Synced: {' and '.join(parts)}." if parts else "Synced: nothing new.", tuple(more))
