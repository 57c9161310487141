"""Sharing a session with a person."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.errors import Invalid
from holdfast.core.times import DAY
from holdfast.keeper.teleports import people, remotes, sharing
from holdfast.keeper.wording import one_line
from holdfast.web.actions.said import Form, Said, said

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper

_LONGEST = 3_650  # days


def share(keeper: Keeper, reference: str, form: Form) -> Said:
    session = keeper.session(reference).id
    days = _days(form.get("days", ""))
    if form.get("sure") != "yes":
        raise Invalid(
            "it was not confirmed that the session may leave this device", hint="Tick the box that says so."
        )
    done = sharing.share(
        keeper, session, form.get("email", "").strip(), write=form.get("read_only") != "yes",
        expires=None if days is None else keeper.now() + days * DAY, name=form.get("remote") or None,
    )  # fmt: skip
    how = "to read and write" if done.write else "to read"
    return said(
        f"Shared with {one_line(done.email)}, {how}. Send them this:", keeper, command=f"holdfast accept {done.url}",
        more=("If their key is an SSH key, they add: --identity FILE",),
    )  # fmt: skip


def _days(written: str) -> int | None:
    if not written:
        return None
    if not (written.isascii() and written.isdigit() and 0 < int(written[:6]) <= _LONGEST):
        raise Invalid("that is no number of days", hint=f"From 1 to {_LONGEST:,}, or none for a share without end.")
    return int(written)


def before_sharing(keeper: Keeper, reference: str) -> dict[str, object]:
    return {
        "session": keeper.session(reference).document(),
        "people": [one.email for one in people.load(keeper.home)],
        "remotes": [one.name for one in remotes.load(keeper.home) if one.kind == "vault"],
    }
