"""Sync with every remote of this device, or one vault with its remote.

Remotes are synced one after the other: what fails at one does not hold up the next.
"""

from __future__ import annotations

import gc
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from holdfast.core import view
from holdfast.core.errors import HoldfastError, Unreachable
from holdfast.core.text import printable, shorten
from holdfast.store import origin
from holdfast.sync import (
    create_vault,
    event_rights,
    join_vault,
    key_maintenance,
    open_vault,
    provenance,
    remote_list,
    removal,
    retired_writers,
    session_status,
    shared_with_me,
    vault_shares,
)
from holdfast.sync.protocol import heads
from holdfast.sync.pull import Pull
from holdfast.sync.push import Publisher
from holdfast.sync.read_heads import name_of, read_listing
from holdfast.sync.remote_list import KnownRemote
from holdfast.sync.remotes.base import ObjectInfo, foreign_at, replace_unreadable
from holdfast.sync.state import PastRejection, VaultState
from holdfast.sync.sync_report import Progress, SyncReport, silent
from holdfast.sync.vault import Vault

if TYPE_CHECKING:
    from holdfast.workspace.workspace import Workspace


class SessionUpdate(NamedTuple):
    """A session with new events, and how many of its conflicts are open."""

    id: str
    goal: str
    conflicts: int


class SyncResult(NamedTuple):
    """The result of a sync: all remotes together, and those that failed."""

    report: SyncReport
    failed: dict[str, HoldfastError]
    conflicts: int
    reached: list[str]
    # Sessions with new events, the latest first.
    sessions: list[SessionUpdate]


def sync(
    ws: Workspace,
    name: str | None = None,
    *,
    progress: Progress = silent,
    patient: bool = True,
    put_back: bool = False,
    begun: Callable[[], None] = lambda: None,
) -> SyncResult:
    """Exchange what is missing with every remote, or one. `patient`: a person waits for it.

    `put_back`: a remote that was emptied gets everything again. `begun` is called once this process has the lock:
    everything recorded until then is sent.
    """
    remotes = [remote_list.find(ws.home, name)] if name is not None else remote_list.load(ws.home)
    if not remotes:
        raise remote_list.no_remotes()
    ws.collect()
    report, failed, reached = SyncReport(), {}, []
    with open_vault.exclusive(ws):
        begun()
        for remote in remotes:
            if shared_with_me.leave_deleted(ws, remote):
                report.note(f"The session of {remote.name} was deleted here: it is no longer followed.")
                continue
            if shared_with_me.leave_superseded(ws, remote):
                report.note(f"{remote.name} has the id of a session of your own: it is no longer followed.")
                continue
            try:
                with open_vault.vault(ws, remote, hurried=not patient) as vault:
                    report.add(sync_vault(vault, progress=progress, patient=patient, put_back=put_back))
                    wrong = create_vault.check_public_object(vault) if patient and remote.kind == "vault" else None
                    if wrong is not None:
                        report.reject(create_vault.PUBLIC_OBJECT, "", wrong)
                    if join_vault.has_other_keys(vault):
                        message = remote_list.other_keys_message(remote)
                        report.note(f"{remote.name}: {message}")
                reached.append(remote.name)
            except HoldfastError as error:
                failed[remote.name] = error
                note_error(ws, remote, error)
    ws.synced()
    _note_shares_elsewhere(ws, report)
    _remember_deleted(ws, report)
    sessions = session_news(ws, report.sessions)
    return SyncResult(report, failed, sum(session.conflicts for session in sessions), reached, sessions)


def note_error(ws: Workspace, remote: KnownRemote, error: HoldfastError) -> None:
    """Let `status` show the error until a sync succeeds."""
    memory = VaultState(ws.store(), remote.vault)
    status = memory.status()
    if status.error != error.message:
        with ws.transaction() as transaction:
            memory.write(transaction, replace(status, error=error.message), "standing")


def session_news(ws: Workspace, sessions: Iterable[str]) -> list[SessionUpdate]:
    """These sessions with their goals, the latest first, without deleted ones."""
    dated: list[tuple[int, SessionUpdate]] = []
    for session in sessions:
        state = ws.store().state(session)
        if state is not None and not state.deleted:
            conflicts = sum(conflict.chosen is None for conflict in view.conflicts(state))
            item = SessionUpdate(session, shorten(view.text_value(state, "goal") or "", 200), conflicts)
            dated.append((max(state.latest.values(), default=0), item))
    return [item for _, item in sorted(dated, key=lambda item: (-item[0], item[1].id))]


def _note_shares_elsewhere(ws: Workspace, report: SyncReport) -> None:
    """Note sessions that another device of this person accepted: what is recorded here does not reach the owner."""
    accepted = shared_with_me.shares(ws.home)
    for session in sorted(report.sent - accepted.keys()):
        if origin.share_of(ws.store(), session) is not None:
            report.note(
                f"Session {session[:8]} was shared with another device of yours: what this one records in it stays"
                " among your own devices. To send it to its owner: holdfast accept"
            )


# ── what others deleted ──────────────────────────────────────────────────────────────────────────────────


def _remember_deleted(ws: Workspace, report: SyncReport) -> None:
    """Remember sessions that others deleted, so that their work trees can say so once."""
    deletions = [(place, deleted) for deleted in report.deleted for place in deleted.places]
    if deletions:
        with ws.transaction() as transaction:
            for place, deleted in deletions:
                transaction.remember(
                    session_status.DELETED_AT + place, f"{deleted.session}\n{deleted.device}".encode()
                )


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause garbage collection, for work that makes very many objects and no cycles."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


_SHARE_REVOKED: Final = (
    "recent changes by others cannot be decrypted here: the session may no longer be shared with you,"
    " or, if you accepted it with --identity, accept it that way again"
)
MAY_NOT_SHARE: Final = "it shares a session that it neither started nor administers"
_FOREIGN_OBJECT: Final = "the remote has a file with a name that is not valid for an object"
_READ_ONLY_NOW: Final = (
    "The session {0} is read-only for you from now on; what you had sent by then is in it."
    " To continue with a copy of your own: holdfast fork {0}"
)
_WAITING_REMOVAL: Final = (
    "An admin removed a device, but the remote lacks earlier membership entries: nothing is sent until they are back."
    " On a device of that admin: holdfast sync --put-back"
)
_LOCKED_OUT: Final = "recent changes by others cannot be decrypted here: this device may have been removed"


def sync_vault(
    main: Vault, *, progress: Progress = silent, patient: bool = True, put_back: bool = False
) -> SyncReport:
    """Sync a vault and its shares in both directions. `patient`: a person waits; what failed before is tried again.

    `put_back`: put back everything the remote lost. Only a person can order this: an empty place may be a wrong one.
    """
    if put_back:
        replace_unreadable(main.remote)
    listed = main.remote.list("h/")
    if not listed and not put_back:
        _refuse_emptied(main)
    report = SyncReport()
    report.add(_sync_one_vault(main, listed, None, progress, patient=patient, put_back=put_back))
    for share in vault_shares.followed_shares(main) if main.membership.is_member(main.me) else ():
        if not event_rights.may_share(main, share.by, share.session):
            main.report.reject("", name_of(main, share.by), MAY_NOT_SHARE)
            continue
        vault = vault_shares.open_share(main, share.vault, share.founding)
        report.add(_sync_one_vault(vault, listed, main, progress, patient=patient, put_back=put_back))
    for name in foreign_at(main.remote):
        main.report.reject(printable(name), "", _FOREIGN_OBJECT)
    if any(refused.reason in (MAY_NOT_SHARE, _FOREIGN_OBJECT) for refused in main.report.rejected):
        _remember_rejected(main, whole=True)
        for refused in main.report.rejected:
            report.reject(*refused)
    return report


def _refuse_emptied(main: Vault) -> None:
    """Refuse an empty place: most often it is an unmounted disk, or the wrong bucket."""
    published = main.memory.own(main.local.writer()).counter or main.memory.cursors()
    if published and create_vault.is_missing(main.remote):
        raise Unreachable(
            "the vault is no longer at this remote",
            hint="Check that the disk is mounted and the address right. If it was emptied: holdfast sync --put-back",
        )


def _sync_one_vault(
    vault: Vault,
    listed: Sequence[ObjectInfo],
    main: Vault | None,
    progress: Progress,
    *,
    patient: bool,
    put_back: bool,
) -> SyncReport:
    if not _can_read(vault):
        _clear_error(vault)
        return vault.report
    try:
        error, shut_out = _exchange(vault, listed, main, progress, patient=patient, put_back=put_back)
    except HoldfastError:
        _remember_rejected(vault, whole=False)
        raise
    _remember_rejected(vault, whole=True)
    _save_status(vault, main, error, shut_out=shut_out)
    return vault.report


def _exchange(
    vault: Vault,
    listed: Sequence[ObjectInfo],
    main: Vault | None,
    progress: Progress,
    *,
    patient: bool,
    put_back: bool,
) -> tuple[str | None, bool]:
    """Exchange everything with one vault; return the error to remember, if any, and whether we are shut out."""
    listing = read_listing(listed, vault.tag)
    if vault.membership.session is not None and main is None and not _comes_through(vault):
        return None, False
    vault.flush()
    push = Publisher(vault, listing, progress=progress)
    push.settle()
    pull = Pull(vault, listing, progress=progress, patient=patient)
    pull.heads.read_all()
    vault.reject_entries()
    if main is not None and not vault.membership.is_admin(vault.me) and _has_foreign_devices(vault):
        return None, False
    removal.apply_removals(vault, lambda: _other_vaults(vault, main))
    if vault.membership.session is None and vault.membership.is_member(vault.me):
        provenance.announce_origins(vault)
    pull.packs()
    event_rights.settle_guests(vault)
    removal.remember_unread(vault, listing)
    if pull.own_seen > push.own.counter:
        # Others have seen newer heads of ours than this store knows, although the remote does not show them.
        push.renew()
    _report_withheld(vault, pull)
    lost = push.lost()
    if lost and vault.membership.is_member(vault.me):  # those of removed devices are removed on purpose
        where = heads.name_of(vault.id, push.writer, push.own.there)
        vault.report.reject(where, vault.local.name, "the remote no longer shows what this device published last")
    key_maintenance.maintain(vault, listing, main, lost=lost or put_back)
    join_vault.remember_requests(vault, listing)
    if vault.has_waiting_removal() or (main is not None and main.has_waiting_removal()):
        vault.report.note(_WAITING_REMOVAL)  # the removed device has the present key
    elif vault.membership.is_member(vault.me) and not (main is not None and _has_foreign_devices(vault)):
        if lost or put_back or retired_writers.is_requested(vault, push.writer, pull.wanted):
            retired_writers.restore(push, listing, pull.wanted)
        if vault.membership.is_admin(vault.me) and not vault.memory.status().admin:
            push.rescan_store()  # an admin may vouch for more than before
        before = vault.report.pushed
        with gc_paused():
            push.publish_all(pull.wanted.get(push.life, ()), events=_has_readers(vault), put_back=put_back)
        if pull.heads.shut_out:
            # Others use a key that we were not given: no device accepts what we just pushed.
            vault.report.pushed = before
    elif vault.me in vault.membership.removed and _still_reads(vault):
        if vault.memory.status().place == "member":
            vault.report.note(_READ_ONLY_NOW.format(str(vault.membership.session)[:8]))
    elif vault.me in vault.membership.removed:
        vault.report.note("This device was removed from the vault: it no longer sends anything.")
    vault.reject_planted()
    if pull.heads.locked_out:
        as_guest = vault.membership.session is not None and main is None
        message = _SHARE_REVOKED if as_guest else _LOCKED_OUT
        vault.report.note(f"{message[0].upper()}{message[1:]}.")
        return message, pull.heads.shut_out
    return None, False


def _has_foreign_devices(share: Vault) -> bool:
    """Whether foreign devices are in a share of ours; nothing is exchanged with it then."""
    foreign = event_rights.has_foreign_devices(share)
    if foreign:
        session = str(share.membership.session)[:8]
        share.report.reject(
            "", name_of(share, share.membership.founder),
            f"its share of session {session} has devices that do not belong to the vault, and is not followed",
        )  # fmt: skip
    return foreign


def _comes_through(vault: Vault) -> bool:
    """Whether a share may be followed: not once a session with its id is our own."""
    session = vault.membership.session
    assert session is not None
    if origin.share_of(vault.local.store, session) == vault.id:
        return True
    with vault.local.transaction() as transaction:
        accepted = provenance.may_accept_from_share(transaction, vault.local, session, vault.id)
    if not accepted:
        vault.report.reject("", "", f"a share has the id of your own session {session[:8]}, and is not followed")
    return accepted


def _remember_rejected(vault: Vault, *, whole: bool) -> None:
    """Remember what was rejected for the doctor; after a whole sync, forget what is in order again."""
    current = {
        hashlib.sha256("\n".join(refused).encode()).hexdigest()[:16]: refused for refused in vault.report.rejected
    }
    before = vault.memory.raw_under("turned").keys()
    new = current.keys() - before
    resolved = before - current.keys() if whole else set()
    if not new and not resolved:
        return
    with vault.local.transaction() as transaction:
        for name in resolved:
            vault.memory.forget(transaction, "turned", name)
        for name in new:
            rejection = PastRejection(**current[name]._asdict(), at=vault.local.now())
            vault.memory.write(transaction, rejection, "turned", name)


def _clear_error(vault: Vault) -> None:
    """Forget an earlier error: the remote was reached, although nothing could be read yet."""
    status = vault.memory.status()
    if status.error is not None:
        with vault.local.transaction() as transaction:
            vault.memory.write(transaction, replace(status, error=None), "standing")


def _save_status(vault: Vault, main: Vault | None, error: str | None, *, shut_out: bool) -> None:
    """Remember the status, to show it without the remote and without keys."""
    status, members = vault.memory.status(), vault.membership
    removed_place = "reader" if _still_reads(vault) else "out"
    place = (
        "member" if members.is_member(vault.me) else removed_place if vault.me in members.removed else status.place
    )
    updated = replace(
        status, last_sync=vault.local.now(), error=error, place=place, admin=members.is_admin(vault.me),
        shut_out=shut_out, device=vault.me,
    )  # fmt: skip
    people = tuple(sorted({invite.email for invite in members.invites if invite.live}))
    with vault.local.transaction() as transaction:
        vault.memory.write(transaction, updated, "standing")
        if members.session is not None:
            owner = vault if main is None else main
            if people != (owner.memory.read(tuple[str, ...], "shared", members.session) or ()):
                owner.memory.write(transaction, people, "shared", members.session)


def _still_reads(vault: Vault) -> bool:
    """Whether this device still has the current key of a shared session."""
    return vault.membership.session is not None and vault.sealing_key() is not None


def _can_read(vault: Vault) -> bool:
    """Whether this device can read the vault; completes a join that was approved since."""
    status = vault.memory.status()
    if join_vault.has_other_keys(vault):
        return join_vault.complete_join(vault)  # the caller reports it
    if status.place == "pending":
        if join_vault.complete_join(vault):
            return True
        vault.report.note(
            "This device waits for approval. On a device that belongs to the vault:"
            f" holdfast device approve {vault.local.keys.public.words}"
        )
        return False
    if not vault.wrapped():
        vault.ask_for_wraps()
        vault.fetch_admission()
    elif status.request is not None:
        vault.fetch_admission()
        if vault.membership.is_member(vault.me):
            join_vault.complete_join(vault)
    return bool(vault.wrapped())


def _other_vaults(vault: Vault, main: Vault | None) -> list[Vault]:
    """The other vaults through which the same sessions are exchanged."""
    if main is not None:
        return [main]
    return [
        vault_shares.open_share(vault, session.vault, session.founding)
        for session in vault_shares.followed_shares(vault)
    ]


def _has_readers(vault: Vault) -> bool:
    """Whether the vault has readers: a share without guests has none."""
    members = vault.membership
    if members.session is None:
        return True
    return any(invite.live for invite in members.invites) or any(
        member.kind == "guest" for member in members.members.values()
    )


def _report_withheld(vault: Vault, pull: Pull) -> None:
    """Report withheld heads. They are listed twice: a head may have been replaced meanwhile."""
    heads_reader = pull.heads
    if not heads_reader.withheld() and not heads_reader.absent:
        return
    heads_reader.listing = read_listing(vault.remote.list("h/"), vault.tag)
    for life, device in heads_reader.withheld():
        name = name_of(vault, device) if device else ""
        vault.report.reject(f"h/{vault.tag}.{life}", name, "a newer head of this device is not shown by the remote")
    for names in heads_reader.listing.rivals.values():
        for item in names:
            if item.name in heads_reader.absent:
                vault.report.reject(item.name, "", "the remote lists a head that is not there")
