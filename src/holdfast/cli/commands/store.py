"""Commands that administer the store: `store`, `backup`, `restore`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from holdfast.cli.call import Call
from holdfast.cli.home_location import home
from holdfast.cli.paint import Paint, Painted, paint_for
from holdfast.core.errors import HoldfastError, Interrupted, Usage
from holdfast.core.text import shorten
from holdfast.core.wording import count, one_line
from holdfast.keeper import store_admin
from holdfast.keeper.restore import DISPLACES, ERASES, SPEAKS
from holdfast.machine.wall import monotonic
from holdfast.store.interface import NotCopied
from holdfast.workspace.home import Home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.store.address import Address
    from holdfast.store.interface import ShareGrant, StoreInfo
    from holdfast.store.store_copy import Progress

_UNITS = ("bytes", "kB", "MB", "GB", "TB")
_RIGHTS = {True: "reads and writes", False: "reads"}


# ── looking ──────────────────────────────────────────────────────────────────────────────────────────────


def store_show(call: Call) -> None:
    status = call.keeper.stores.show()
    call.answer({"store": _store_document(status)}, lambda paint: _paint_store(paint, status))
    for warning in status.warnings:
        call.note(warning)


def _store_document(status: store_admin.StoreStatus) -> dict[str, object]:
    address, info = status.address, status.info
    return {
        "kind": address.kind, "url": address.url, "there": status.there, "version": info.version,
        "sessions": status.sessions, "events": info.events, "bytes": info.bytes, "server": info.server,
        "vault": info.vault, "person": info.person, "people": status.people, "partitions": info.partitions,
        "bypasses_security": info.above, "local": info.local, "encrypted": info.encrypted, "proven": info.proven,
        "warnings": status.warnings,
    }  # fmt: skip


def _paint_store(paint: Paint, status: store_admin.StoreStatus) -> Painted:
    # It is there to be copied, so it is never cut.
    title = paint.bold(status.address.url)
    if not status.there:
        return Painted(f"{title}\n{paint.dim('There is no store yet: the first session creates it.')}")
    return Painted(f"{title}\n{paint.pairs(_store_facts(status), indent=2)}")


def _store_facts(status: store_admin.StoreStatus) -> list[tuple[str, str]]:
    info = status.info
    if info.server is None:
        return [
            ("kind", f"SQLite, tables of version {info.version}"), ("sessions", f"{status.sessions:,}"),
            ("events", f"{info.events or 0:,}"), ("size", _size(info.bytes or 0)),
        ]  # fmt: skip
    events = "not counted yet" if info.events is None else f"about {info.events:,} in all vaults"
    return [
        ("kind", f"PostgreSQL {info.server}, tables of version {info.version}"),
        ("vault", info.vault or ""), ("person", info.person or ""), ("people", ", ".join(status.people)),
        ("connection", _connection(info)), ("sessions", f"{status.sessions:,} that you see"),
        ("events", f"{events}, in {count(info.partitions or 0, 'partition')}"),
        ("size", f"{_size(info.bytes or 0)} in all vaults"),
    ]  # fmt: skip


def _connection(info: StoreInfo) -> str:
    if info.local:
        return "within this machine"
    if not info.encrypted:
        return "not encrypted"
    return "encrypted, and the server proved who it is" if info.proven else "encrypted"


def _size(size: int) -> str:
    amount, unit = float(size), 0
    while amount >= 1000 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1000, unit + 1
    return f"{size:,} {_UNITS[0]}" if unit == 0 else f"{amount:.1f} {_UNITS[unit]}"


# ── setting up ───────────────────────────────────────────────────────────────────────────────────────────


def store_init(call: Call) -> None:
    parsed = call.parsed
    result = store_admin.init(
        Home(home(call.environ)), call.url(parsed.need("url")), vault=parsed.text("vault"),
        admit=parsed.texts("admit"), partitions=parsed.integer("partitions"),
    )  # fmt: skip
    call.answer(
        {
            "store": {"kind": result.address.kind, "url": result.address.url, "vault": result.vault},
            "done": result.done,
        },
        lambda paint: "" if call.quiet else _paint_created(paint, result),
    )
    call.note(_next_step(result))


def _paint_created(paint: Paint, result: store_admin.SetUpResult) -> Painted:
    location = result.address.path or result.address.url
    if not result.done:
        return paint.join("The store is already set up: ", paint.bold(location))
    vault = "" if result.vault is None else f", vault {result.vault}"
    lines: list[str] = [paint.join(paint.green("The store is set up: "), paint.bold(location), paint.dim(vault))]
    lines += [paint.join("  ", paint.dim(name)) for name in result.done]
    return Painted("\n".join(lines))


def _next_step(result: store_admin.SetUpResult) -> str:
    if result.address.path is not None:
        return f"Use it: {_switch_command(result.address)}"
    return (
        f"Members use it with: export HOLDFAST_STORE='{store_admin.url_for_members(result.address)}'\n"
        "Their passwords belong in ~/.pgpass. To copy this home's sessions there: holdfast store copy home URL"
    )


def _switch_command(target: Address) -> str:
    """The environment variable that selects a store from now on, without its password."""
    import shlex

    return f"export HOLDFAST_STORE={shlex.quote(target.url)}"


# ── people ───────────────────────────────────────────────────────────────────────────────────────────────


def store_admit(call: Call) -> None:
    person = call.parsed.need("person")
    new = call.keeper.stores.admit(person)
    call.answer(
        {"admitted": person, "new": new},
        lambda paint: "" if call.quiet else paint.join(
            paint.green("Admitted ") if new else "Already admitted: ", paint.bold(person)
        ),
    )  # fmt: skip


def store_dismiss(call: Call) -> None:
    person = call.parsed.need("person")
    successor = call.parsed.text("hand_over_to")
    handed_over = call.keeper.stores.dismiss(person, successor)
    call.answer(
        {"dismissed": person, "handed_over": handed_over},
        lambda paint: "" if call.quiet else paint.join(paint.bold(person), " was removed from the vault"),
    )
    summary = (
        "Their sessions stay" if successor is None else f"{successor} has {count(handed_over, 'session')} of theirs"
    )
    call.note(f"{summary}, and they cannot see it. Their role can still connect to the database.")


def store_partition(call: Call) -> None:
    parts = call.parsed.integer("parts")
    assert parts is not None
    before = call.keeper.stores.partition(parts)
    now = count(parts, "partition")
    sentence = f"Events already are in {now}"
    if before != parts:
        sentence = f"Events are now in {now}, and were in {before:,}"
    call.answer(
        {"partitions": parts, "before": before},
        lambda paint: "" if call.quiet else paint.plain(sentence),
    )


# ── sharing ──────────────────────────────────────────────────────────────────────────────────────────────


def store_share(call: Call) -> None:
    result = call.keeper.stores.share(
        call.parsed.need("id"), _recipient(call), writes=not call.parsed.flag("read_only")
    )
    call.answer(_shares_document(result), lambda paint: "" if call.quiet else _paint_shares(paint, result))


def store_unshare(call: Call) -> None:
    result = call.keeper.stores.unshare(call.parsed.need("id"), _recipient(call))
    call.answer(_shares_document(result), lambda paint: "" if call.quiet else _paint_shares(paint, result))
    call.note("What they have already read cannot be taken back.")


def _recipient(call: Call) -> str | None:
    """A person; None means everyone."""
    person, everyone = call.parsed.text("person"), call.parsed.flag("everyone")
    if (person is None) != everyone:
        problem = "PERSON and --everyone cannot be used together" if everyone else "PERSON is missing"
        operation = " ".join(call.parsed.path)
        raise Usage(problem, hint="Name one member, or say --everyone for all of the vault.", operation=operation)
    return person


def _shares_document(result: store_admin.StoreShares) -> dict[str, object]:
    shares = [
        {"person": grant.person, "everyone": grant.person is None, "write": grant.writes} for grant in result.shares
    ]
    return {"session": result.session, "shares": shares}


def _paint_shares(paint: Paint, result: store_admin.StoreShares) -> Painted:
    name = paint.bold(result.goal or result.session[:8])
    if not result.shares:
        return paint.join(name, " is not shared")
    return paint.join(name, " is shared with ", ", ".join(_share_texts(result.shares)))


def _share_texts(shares: Sequence[ShareGrant]) -> list[str]:
    return [f"{grant.person or 'everyone in the vault'} ({_RIGHTS[grant.writes]})" for grant in shares]


# ── store_copy ─────────────────────────────────────────────────────────────────────────────────────────


_BAR_WIDTH = 30
_BAR_INTERVAL = 0.05
_STEPS = {
    "checking": "checking {} of the source",
    "copying": "copying their events",
    "comparing": "comparing {} with the copy",
}


def store_copy(call: Call) -> int:
    own_home = Home(home(call.environ))
    source, target = call.url(call.parsed.need("source")), call.url(call.parsed.need("target"))
    bar = _CopyBar(call)
    try:
        result = store_admin.copy(own_home, source, target, bar.draw)
    except KeyboardInterrupt:
        bar.clear()
        raise Interrupted(
            "interrupted: the source is unchanged, and everything copied so far is complete",
            hint="The same command continues from there.",
        ) from None
    finally:
        bar.clear()
    left_out = result.copied.left_out
    error = store_admin.incomplete_error(left_out, "copied", "run the same command again", file=result.target.url)
    call.answer(
        {"copied": {
            "from": result.source.url, "to": result.target.url, "sessions": result.copied.sessions,
            "events": result.copied.events,
        }, "verified": result.copied.sessions, "left_out": _left_out_documents(left_out)},
        lambda paint: "" if call.quiet else _paint_copy(paint, result),
        error=error,
    )  # fmt: skip
    _note_how_to_switch(call, own_home, result)
    return _report_left_out(call, left_out, error)


def _paint_copy(paint: Paint, result: store_admin.MoveResult) -> Painted:
    events, sessions = result.copied.events, result.copied.sessions
    first = paint.green(f"Copied {count(events, 'event')}") if events else paint.plain("Nothing new to copy")
    same = f"; {count(sessions, 'session')} compared, the same in both" if sessions else ""
    return paint.join(first, same, paint.dim(f"  {result.target.url}"))


def _note_how_to_switch(call: Call, own_home: Home, result: store_admin.MoveResult) -> None:
    target = result.target
    command = "unset HOLDFAST_STORE" if target.path == own_home.store else _switch_command(target)
    call.note(f"To use it: {command}")
    if target.hides:
        call.note("Its password belongs in ~/.pgpass, not in this command.")
    agents = store_admin.connected_agents(own_home)
    if agents:
        call.note(
            f"Hooks of agents stay with the store they were connected to; then: holdfast connect {' '.join(agents)}"
        )


class _CopyBar:
    """On a terminal one line that fills up, elsewhere a line for each step; nothing with `--quiet` or `--json`."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._paint = paint_for(sys.stderr, no_color=call.parsed.globals.no_color, environ=call.environ)
        self._enabled = not call.json and not call.quiet
        self._announced: set[str] = set()
        self._shown = False
        self._next = 0.0

    def draw(self, progress: Progress) -> None:
        if not self._enabled:
            return
        step = _STEPS[progress.doing].format(count(progress.of, "session"))
        if not self._paint.tty:
            if progress.doing not in self._announced:
                self._announced.add(progress.doing)
                self._call.note(step)
            return
        now = monotonic()
        if now < self._next and progress.done < progress.of:
            return
        self._next = now + _BAR_INTERVAL
        share = progress.done / progress.of if progress.of else 1.0
        paint = self._paint
        line = paint.join(paint.bar(share, _BAR_WIDTH), f" {int(share * 100):3d}%  ", paint.dim(step))
        sys.stderr.write(f"\r\x1b[2K{paint.cut(line, paint.width - 1)}")
        sys.stderr.flush()
        self._shown = True

    def clear(self) -> None:
        if self._shown:
            self._shown = False
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()


# ── backup ─────────────────────────────────────────────────────────────────────────────────────────────


def backup(call: Call) -> int:
    path = os.path.abspath(call.parsed.need("file"))
    left_out = call.keeper.backup(path)
    size = os.path.getsize(path)
    error = store_admin.incomplete_error(left_out, "backed up", "make another backup", file=path)
    call.answer(
        {"file": path, "bytes": size, "left_out": _left_out_documents(left_out)},
        lambda paint: "" if call.quiet else paint.join(paint.green("Backed up "), f"to {path} ({size:,} bytes)"),
        error=error,
    )
    return _report_left_out(call, left_out, error)


def restore(call: Call) -> int:
    path = os.path.abspath(call.parsed.need("file"))
    result = call.keeper.restore(path, erase=call.parsed.globals.yes)
    erasing = [copied for copied in result.left_out if copied.reason in (ERASES, DISPLACES, SPEAKS)]
    if erasing:
        sessions = ", ".join(f"{copied.session[:8]} ({shorten(copied.goal or '', 60)})" for copied in erasing)
        question = (
            f"The backup deletes, erases or replaces data in {sessions}, or adds events of your devices. "
            "Apply that too? Type yes:"
        )
        if call.ask(question) == "yes":
            erased = call.keeper.restore(path, erase=True)
            result = erased._replace(events=result.events + erased.events)
        else:
            call.note("To apply that, run the same command with --yes")
    error = store_admin.incomplete_error(result.left_out, "restored", "run the same command again", file=path)
    call.answer(
        {"file": path, "restored": result.events, "left_out": _left_out_documents(result.left_out)},
        lambda paint: "" if call.quiet else paint.join(paint.green("Restored "), count(result.events, "event")),
        error=error,
    )
    return _report_left_out(call, result.left_out, error)


# ── left_out ───────────────────────────────────────────────────────────────────────────────────────────


def _left_out_documents(left_out: Sequence[NotCopied]) -> list[dict[str, str]]:
    return [{"session": session.session, "reason": session.reason} for session in left_out]


def _report_left_out(call: Call, left_out: Sequence[NotCopied], error: HoldfastError | None) -> int:
    """Print a line for each, with `--quiet` too; then the error, which a JSON document already has."""
    if error is None:
        return 0
    if call.json:
        return error.exit_code
    paint = paint_for(sys.stderr, no_color=call.parsed.globals.no_color, environ=call.environ)
    for session in left_out:
        goal = f"  {one_line(session.goal)}" if session.goal else ""
        line = paint.join(
            paint.yellow("left out "), paint.plain(f"{session.session}{goal}: {one_line(session.reason)}")
        )
        sys.stderr.write(f"{line}\n")
    raise error
