"""Commands about remotes and what they carry: `remote`, `sync`, `conflicts`, `resolve`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import msgspec

from holdfast.cli.call import Call
from holdfast.cli.clock import Clock
from holdfast.cli.paint import Paint, Painted, paint_for, wrap
from holdfast.core.canonical import Json
from holdfast.core.errors import HoldfastError, Invalid, Refused
from holdfast.core.times import format_time
from holdfast.core.wording import ago, count, percent
from holdfast.machine.wall import monotonic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.sessions.conflicts import ShownConflict, Side
    from holdfast.sync.remote_setup import AddedRemote, RemoteStatus
    from holdfast.sync.sync import SyncResult

# ── remote ─────────────────────────────────────────────────────────────────────────────────────────────


_MAX_CODE_LENGTH = 1000
_STATUSES = {
    "member": "this device belongs to the vault", "pending": "this device waits for approval",
    "reader": "this device only reads", "removed": "this device was removed",
    "other-keys": "this device has new keys; the vault knows its old ones",
    "no-keys": "this device's keys are missing",
}  # fmt: skip


# ── adding ───────────────────────────────────────────────────────────────────────────────────────────────


def remote_add(call: Call) -> None:
    from holdfast.sync import remote_setup

    parsed = call.parsed
    added = call.keeper.remotes.add(
        parsed.need("name"), parsed.need("url"), this_project=parsed.flag("this_project"),
        expected=parsed.text("vault"), code=_recovery_code(call) if parsed.flag("recover") else None,
    )  # fmt: skip
    fingerprint = call.keeper.devices.keys().words
    call.answer(
        {"remote": _remote_document(remote_setup.status_of(call.keeper, added.remote)), "what": added.outcome,
         "held": added.waiting, "fingerprint": fingerprint},
        lambda paint: "" if call.quiet else _paint_added(paint, added, fingerprint, recovered=parsed.flag("recover")),
    )  # fmt: skip
    for sentence in _next_steps(added):
        call.note(sentence)


def _recovery_code(call: Call) -> str:
    """Ask for the recovery code: never on the command line, which others can see."""
    code = (
        call.ask("Recovery code:") if sys.stdin.isatty() and not call.json else sys.stdin.readline(_MAX_CODE_LENGTH)
    )
    if not code or not code.strip():
        raise Invalid(
            "no recovery code was given", hint="Type it when asked, or give it as a line of standard input."
        )
    return code.strip()


def _paint_added(paint: Paint, added: AddedRemote, fingerprint: str, *, recovered: bool) -> Painted:
    name = paint.bold(added.remote.name)
    if added.outcome == "founded":
        first = paint.join(paint.green("Created a vault"), " at ", name)
    elif added.outcome == "asked":
        first = paint.join(paint.green("Asked to join the vault"), " at ", name)
    else:
        first = paint.join(
            paint.green("Recovered the vault" if recovered else "Joined the vault again"), " at ", name
        )
    lines = [first, paint.join(paint.dim("  vault        "), added.words)]
    if added.outcome == "asked":
        lines.append(paint.join(paint.dim("  this device  "), fingerprint))
        lines.append(paint.plain("On a device that belongs to the vault:"))
        lines.append(paint.join("  ", paint.cyan(f"holdfast device approve {fingerprint}")))
    return Painted("\n".join(lines))


def _next_steps(added: AddedRemote) -> list[str]:
    from holdfast.sync.remotes.index import caveat

    name = added.remote.name
    steps = {
        "founded": "holdfast sync sends what is recorded here.\n"
                   "In case all devices are lost: holdfast device recovery-code",
        "asked": "Once that is done: holdfast sync",
        "member": "holdfast sync fetches its sessions.",
    }  # fmt: skip
    sentences = [steps[added.outcome]]
    if (warning := caveat(added.remote.url)) is not None:
        sentences.append(
            f"{warning}\nTo reach other devices without that, use s3:, git:, or a folder: that is synchronised."
        )
    if added.waiting:
        sessions = "1 earlier session stays" if added.waiting == 1 else f"{added.waiting:,} earlier sessions stay"
        sentences.append(
            f"{sessions} on this device until you have made sure that the vault is yours: compare its words with\n"
            f"holdfast device show on another of your devices, then: holdfast remote confirm {name} WORDS"
        )
    return sentences


# ── looking, confirming, removing ────────────────────────────────────────────────────────────────────────


def remote_list(call: Call) -> None:

    statuses = call.keeper.remotes.list()
    now = call.keeper.now()
    call.answer(
        {"remotes": [_remote_document(status) for status in statuses]},
        lambda paint: _paint_remotes(paint, statuses, now),
    )


def remote_confirm(call: Call) -> None:
    from holdfast.sync import remote_list, remote_setup

    name, expected = call.parsed.need("name"), call.parsed.text("words")
    remote = remote_list.find(call.keeper.home, name)
    if expected is None and not _confirm_words(call, remote_setup.vault_words(remote.vault)):
        raise Refused(
            "nothing was confirmed",
            hint=f"Give the words that another of your devices shows: holdfast remote confirm {name} WORDS",
        )
    released = call.keeper.remotes.confirm(name, expected)
    call.answer(
        {"remote": _remote_document(remote_setup.status_of(call.keeper, remote)), "released": released},
        lambda paint: "" if call.quiet else paint.join(
            paint.green("Confirmed "), paint.bold(name),
            f": {count(released, 'earlier session')} will be sent" if released else "",
        ),
    )  # fmt: skip


def _confirm_words(call: Call, words: str) -> bool:
    """Ask the person, if there is one."""
    if call.json or not sys.stdin.isatty():
        return False
    call.note(f"The vault there is called\n  {words}")
    return call.ask("Does holdfast device show say the same on another of your devices? Type yes:") == "yes"


def remote_remove(call: Call) -> None:

    removed = call.keeper.remotes.remove(call.parsed.need("name"))
    call.answer(
        {"removed": removed.name, "url": removed.url},
        lambda paint: "" if call.quiet else paint.join("Removed ", paint.bold(removed.name)),
    )
    call.note(f"What was sent stays at {removed.url}, and what was received stays here.")


def _remote_document(status: RemoteStatus) -> dict[str, object]:
    from holdfast.sync.remotes.index import caveat

    return {
        "name": status.remote.name, "url": status.remote.url, "vault": status.remote.vault, "words": status.words,
        "status": status.status, "projects": list(status.remote.projects),
        "last_sync": None if status.last_sync is None else format_time(status.last_sync), "error": status.error,
        "caveat": caveat(status.remote.url),
        "kind": status.remote.kind, "session": status.remote.session, "confirmed": status.confirmed,
        "held": status.waiting,
    }  # fmt: skip


def _paint_remotes(paint: Paint, statuses: Sequence[RemoteStatus], now: int) -> Painted:
    from holdfast.sync.remote_list import rejoin_commands
    from holdfast.sync.remotes.index import caveat

    if not statuses:
        return paint.dim("No remote is set up: holdfast remote add NAME URL")
    lines: list[str] = []
    for status in statuses:
        lines.append(paint.join(paint.bold(status.remote.name), "  ", status.remote.url))
        when = "never synced" if status.last_sync is None else f"synced {ago(now - status.last_sync)}"
        scope = ", only one project's sessions" if status.remote.projects else ""
        shared = f", session {status.remote.session[:8]} that was shared with you" if status.remote.session else scope
        lines.append(paint.join("  ", paint.dim(f"{_STATUSES.get(status.status, status.status)}, {when}{shared}")))
        if status.remote.kind == "vault":
            lines.append(paint.join("  ", paint.dim(status.words)))
        if status.waiting:
            pending = f"{count(status.waiting, 'earlier session')} not sent until you confirm the vault: "
            lines.append(paint.join("  ", paint.yellow(f"{pending}holdfast remote confirm {status.remote.name}")))
        if status.status == "other-keys":
            lines.append(paint.join("  ", paint.yellow(f"ask to join again: {rejoin_commands(status.remote)}")))
        if (warning := caveat(status.remote.url)) is not None:
            lines += [paint.join("  ", paint.yellow(line)) for line in wrap(warning, paint.width - 2)]
        if status.error:
            lines.append(paint.join("  ", paint.red(status.error)))
    return Painted("\n".join(lines))


# ── sync ───────────────────────────────────────────────────────────────────────────────────────────────


_MAX_SESSIONS = 3
_BAR_WIDTH = 30
_BAR_DELAY = 0.7  # seconds: what is over sooner needs no bar
_BAR_INTERVAL = 0.1


def sync(call: Call) -> int:
    from holdfast.sync.sync import sync

    bar = _SyncBar(call)
    try:
        result = sync(
            call.keeper, call.parsed.text("remote"), progress=bar.draw, put_back=call.parsed.flag("put_back")
        )
    finally:
        bar.clear()
    failed = [_with_remote_name(name, error) for name, error in result.failed.items()]
    if not failed or result.reached or call.json:
        _report_sync(call, result, failed)
    for error in failed[1:]:
        call.note(error.message + (f" ({error.hint})" if error.hint else ""))
    if failed and not call.json:
        raise failed[0]
    return failed[0].exit_code if failed else 0


def _report_sync(call: Call, result: SyncResult, failed: Sequence[HoldfastError]) -> None:
    report = result.report
    remotes = [{"name": name, "error": None} for name in result.reached]
    remotes += [{"name": name, "error": error.message} for name, error in result.failed.items()]
    call.answer(
        {
            "pushed": report.pushed, "pulled": report.pulled, "conflicts": result.conflicts,
            "rejected": [refused._asdict() for refused in report.rejected],
            "notes": report.notes, "remotes": remotes,
            "sessions": [session._asdict() for session in result.sessions],
            "deleted": [{"session": deleted.session, "device": deleted.device} for deleted in report.deleted],
        },
        lambda paint: _paint_sync(paint, result, quiet=call.quiet),
        error=failed[0] if failed else None,
    )  # fmt: skip
    for sentence in report.notes:
        call.note(sentence)
    if result.conflicts:
        disputed = [session.id[:8] for session in result.sessions if session.conflicts]
        where = ", ".join(f"holdfast conflicts {name}" for name in disputed[:_MAX_SESSIONS])
        more = f", and in {len(disputed) - _MAX_SESSIONS} more sessions" if len(disputed) > _MAX_SESSIONS else ""
        call.note(f"{count(result.conflicts, 'conflict')} to look at: {where}{more}")
    call.print_notices()


def _paint_sync(paint: Paint, result: SyncResult, *, quiet: bool) -> Painted:
    sent, received = result.report.pushed, result.report.pulled
    lines: list[str] = []
    if not quiet:
        counts = [f"sent {sent:,}"] if sent else []
        counts += [f"received {received:,}"] if received else []
        lines.append(paint.plain(f"{', '.join(counts).capitalize()}." if counts else "Nothing new."))
        lines += [
            paint.cut(paint.join("  ", paint.dim(session.id[:8]), "  ", session.goal), paint.width)
            for session in result.sessions[:_MAX_SESSIONS]
        ]
        if len(result.sessions) > _MAX_SESSIONS:
            lines.append(paint.dim(f"  and {count(len(result.sessions) - _MAX_SESSIONS, 'more session')}"))
    by_reason: dict[tuple[str, str], list[str]] = {}
    for refused in result.report.rejected:
        by_reason.setdefault((refused.device, refused.reason), []).append(refused.pack)
    for (device, reason), packs in by_reason.items():
        whose = f" from {device}" if device else ""
        times = f", {len(packs):,} times" if len(packs) > 1 else ""
        where = f" ({packs[0]}{', …' if len(packs) > 1 else ''})" if packs[0] else ""
        lines.append(paint.join(paint.yellow("Not accepted"), whose, ": ", reason, times, paint.dim(where)))
    return Painted("\n".join(lines))


def _with_remote_name(name: str, error: HoldfastError) -> HoldfastError:
    """The same error, with the remote it is about."""
    error.message = f"{name}: {error.message}"
    error.operation = "sync"
    return error


class _SyncBar:
    """One line on the terminal that says how far a long sync is; nothing anywhere else."""

    def __init__(self, call: Call) -> None:
        self._paint = paint_for(sys.stderr, no_color=call.parsed.globals.no_color, environ=call.environ)
        self._enabled = self._paint.tty and not call.json and not call.quiet
        self._next = monotonic() + _BAR_DELAY
        self._shown = False

    def draw(self, done: int, total: int, label: str) -> None:
        now = monotonic()
        if not self._enabled or now < self._next:
            return
        self._next = now + _BAR_INTERVAL
        paint = self._paint
        progress = (
            paint.join(paint.bar(done / total, _BAR_WIDTH), f" {done:,} of {total:,} ") if total else f"{done:,} "
        )
        sys.stderr.write(f"\r\x1b[2K{paint.cut(paint.join(progress, paint.dim(label)), paint.width - 1)}")
        sys.stderr.flush()
        self._shown = True

    def clear(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()


# ── conflicts ──────────────────────────────────────────────────────────────────────────────────────────


_MAX_SESSIONS = 3


def conflicts(call: Call) -> None:
    from holdfast.sessions.conflicts import session_with_conflicts, sessions_with_conflicts

    reference = call.parsed.text("id")
    session = call.keeper.session(session_with_conflicts(call.keeper, reference, at=call.at))
    disagreements = session.conflicts(at=call.at)
    clock = Clock(call.keeper.now() if call.at is None else call.at)
    call.answer(
        {
            "session": session.id,
            "conflicts": [disagreement.conflict for disagreement in disagreements],
            "sides": [
                {"conflict": disagreement.conflict.id, "stands": disagreement.stands,
                 "values": [None if side is None else side._asdict() for side in disagreement.sides]}
                for disagreement in disagreements
            ],
        },
        lambda paint: (
            _paint_conflicts(paint, disagreements, clock) if disagreements else paint.plain("No conflicts.")
        ),
    )  # fmt: skip
    unresolved = [entry.conflict.id for entry in disagreements if entry.conflict.chosen is None]
    if unresolved:
        current = call.keeper.current(at=call.at) if reference is None else None
        session_argument = "" if current is not None else f" {session.id[:8]}"
        resolve = f"holdfast resolve {unresolved[0]} --take N{session_argument}"
        call.note(f"Choose with: {resolve}. To continue separately: holdfast fork{session_argument}")
    elif reference is None and call.at is None and not call.json:
        others = [f"holdfast conflicts {name[:8]}" for name in sessions_with_conflicts(call.keeper)[:_MAX_SESSIONS]]
        if others:
            call.note(f"Open in other sessions: {', '.join(others)}")


def _paint_conflicts(paint: Paint, disagreements: Sequence[ShownConflict], clock: Clock) -> Painted:
    return Painted("\n\n".join(str(_paint_conflict(paint, disagreement, clock)) for disagreement in disagreements))


def _paint_conflict(paint: Paint, disagreement: ShownConflict, clock: Clock) -> Painted:
    conflict = disagreement.conflict
    word = paint.red("open") if conflict.chosen is None else paint.green("settled")
    lines: list[str] = [paint.cut(paint.join(paint.bold(conflict.id), "  ", conflict.field, "  ", word), paint.width)]
    values = zip(conflict.values, disagreement.sides, disagreement.devices, strict=True)
    for number, (item, side, device) in enumerate(values, start=1):
        mark = ("in effect" if conflict.chosen is None else "chosen") if number == disagreement.stands else ""
        source = f"{device}, {clock.ago(item.at)}" + (_side_text(side) if side else "")
        lines.append(
            paint.cut(paint.join(f"  {number}. {_value_text(item.value)}", paint.green(f"  {mark}" if mark else "")),
                      paint.width)
        )  # fmt: skip
        lines.append(paint.cut(paint.join("     ", paint.dim(source)), paint.width))
    return Painted("\n".join(lines))


def _side_text(side: Side) -> str:
    at_work = f", {', '.join(side.agents)} at work" if side.agents else ""
    return f", {percent(side.progress)} done there{at_work}"


def _value_text(value: Json) -> str:
    """A value in a line."""
    return " ".join(value.split()) if isinstance(value, str) else msgspec.json.encode(value).decode()


# ── resolve ────────────────────────────────────────────────────────────────────────────────────────────


def resolve(call: Call) -> None:
    from holdfast.sessions.conflicts import session_with_conflicts

    words = call.parsed
    session = call.keeper.session(session_with_conflicts(call.keeper, words.text("id")))
    take = words.integer("take") or 0
    conflict = session.resolve(words.need("conflict"), take, at=call.at)
    call.done(
        session.document(at=call.at),
        lambda paint: paint.cut(
            paint.join(
                paint.green("Settled "), paint.bold(conflict.id), f"  {conflict.field}: ",
                _value_text(conflict.values[take - 1].value),
            ),
            paint.width,
        ),
        conflict=conflict,
    )  # fmt: skip
