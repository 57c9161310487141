"""One sync with one remote: its vault, and the sessions shared there. One listing shows whether there is work."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from holdfast.teleport import joining, removing, sharing, tending
from holdfast.teleport.pulling import Listing, Pull, look, name_of, remember_rejected
from holdfast.teleport.pushing import Push
from holdfast.teleport.remotes.interface import Found
from holdfast.teleport.report import Progress, Report, silent
from holdfast.teleport.vault import Vault


def sync(main: Vault, *, progress: Progress = silent, patient: bool = True) -> Report:
    """Exchange what is missing in both directions. `patient`: a person waits, what failed before is tried again."""
    found = main.remote.list("h/")
    report = Report()
    report.add(_one(main, found, None, progress, patient=patient))
    for share in main.membership.shares if main.membership.is_member(main.me) else ():
        vault = sharing.opened(main, share.vault, share.founding)
        report.add(_one(vault, found, main, progress, patient=patient))
    return report


def _one(vault: Vault, found: Sequence[Found], main: Vault | None, progress: Progress, *, patient: bool) -> Report:
    listing = look(found, vault.tag)
    if not _belongs(vault):
        return vault.report
    vault.flush()
    push = Push(vault, listing, progress=progress)
    push.settle()
    pull = Pull(vault, listing, progress=progress, patient=patient)
    pull.heads()
    removing.obey(vault)
    pull.packs()
    _withheld(vault, pull)
    lost = push.lost()
    tending.tend(vault, listing, main, lost=lost)
    if vault.membership.is_member(vault.me):
        push.everything(pull.wanted, events=_has_readers(vault))
    elif vault.me in vault.membership.removed:
        vault.report.note("This device was removed from the vault: nothing of it is sent any more.")
    if pull.locked_out:
        vault.report.note("What others write lately cannot be opened here: this device may have been removed.")
    vault.reject_planted()
    remember_rejected(vault)
    _note_standing(vault, main)
    return vault.report


def _note_standing(vault: Vault, main: Vault | None) -> None:
    """What can be told of it later without asking the remote, and without any key."""
    standing, members = vault.memory.standing(), vault.membership
    place = "member" if members.is_member(vault.me) else "out" if vault.me in members.removed else standing.place
    now = replace(
        standing, last_sync=vault.here.now(), error=None, place=place, admin=members.is_admin(vault.me)
    )  # fmt: skip
    people = tuple(sorted({one.email for one in members.invites if one.live}))
    with vault.here.transaction() as transaction:
        vault.memory.write(transaction, now, "standing")
        if members.session is not None:
            within = vault if main is None else main
            if people != (within.memory.read(tuple[str, ...], "shared", members.session) or ()):
                within.memory.write(transaction, people, "shared", members.session)


def _belongs(vault: Vault) -> bool:
    """Whether there is anything to read for us: a request may have been heard since."""
    standing = vault.memory.standing()
    if standing.place == "pending":
        if joining.arrived(vault):
            return True
        vault.report.note(
            "This device waits to be let in. On one that belongs to the vault:"
            f" holdfast device approve {vault.here.keys.public.words}"
        )
        return False
    if not vault.wrapped():
        vault.ask_for_wraps()
        vault.learn_all()
    elif standing.place == "reader" and standing.request is not None:
        vault.learn_all()
        if vault.membership.is_member(vault.me):
            joining.arrived(vault)
    elif standing.request is not None:
        joining.take_back(vault)
    return bool(vault.wrapped())


def _has_readers(vault: Vault) -> bool:
    """A shared session that is shared with nobody any more need not be written for anybody."""
    members = vault.membership
    if members.session is None:
        return True
    return any(one.live for one in members.invites) or any(one.kind == "guest" for one in members.members.values())


def _withheld(vault: Vault, pull: Pull) -> None:
    """Say which devices' words are missing. Looked at twice: a head may have been replaced while we looked."""
    if not pull.withheld():
        return
    again: Listing = look(vault.remote.list("h/"), vault.tag)
    pull.listing = again
    for life, device in pull.withheld():
        name = name_of(vault, device) if device else ""
        vault.report.reject(f"h/{vault.tag}.{life}", name, "newer word of a device is not shown by the remote")
