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
from holdfast.store.address import PostgresAddress
from holdfast.store.interface import NotCopied
from holdfast.workspace.home import Home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.store.address import Address
    from holdfast.store.interface import ShareGrant
    from holdfast.store.store_copy import Progress

_UNITS = ("bytes", "kB", "MB", "GB", "TB")
_RIGHTS = {True: "reads and writes", False: "reads"}


# ── looking ──────────────────────────────────────────────────────────────────────────────────────────────


def store_show(call: Call) -> None:
    status = store_admin.show(call.keeper)
    call.answer({"store": _store_document(status)}, lambda paint: _paint_store(paint, status))
    for warning in status.warnings:
        call.note(warning)


def _store_document(status: store_admin.StoreStatus) -> dict[str, object]:
    where = status.address
    return {
        "kind": where.kind, "url": where.url, "there": status.there, "version": status.version,
        "sessions": status.sessions, "events": status.events, "bytes": status.bytes, "server": status.server,
        "vault": status.vault, "person": status.person, "people": list(status.people),
        "partitions": status.partitions,
        "bypasses_security": status.above, "local": status.local, "encrypted": status.encrypted,
        "proven": status.proven, "warnings": status.warnings,
    }  # fmt: skip


def _paint_store(paint: Paint, status: store_admin.StoreStatus) -> Painted:
    # It is there to be copied, so it is never cut.
    title = paint.bold(status.address.url)
    if not status.there:
        return Painted(f"{title}\n{paint.dim('There is no store yet: the first session makes it.')}")
    return Painted(f"{title}\n{paint.pairs(_store_facts(status), indent=2)}")


def _store_facts(status: store_admin.StoreStatus) -> list[tuple[str, str]]:
    if status.server is None:
        return [
            ("kind", f"SQLite, tables of version {status.version}"), ("sessions", f"{status.sessions:,}"),
            ("events", f"{status.events or 0:,}"), ("size", _size(status.bytes or 0)),
        ]  # fmt: skip
    events = "not counted yet" if status.events is None else f"about {status.events:,} in all vaults"
    return [
        ("kind", f"PostgreSQL {status.server}, tables of version {status.version}"),
        ("vault", status.vault or ""), ("person", status.person or ""), ("people", ", ".join(status.people)),
        ("line", _connection(status)), ("sessions", f"{status.sessions:,} that you see"),
        ("events", f"{events}, in {count(status.partitions or 0, 'partition')}"),
        ("size", f"{_size(status.bytes or 0)} in all vaults"),
    ]  # fmt: skip


def _connection(status: store_admin.StoreStatus) -> str:
    if status.local:
        return "within this machine"
    if not status.encrypted:
        return "not encrypted"
    return "encrypted, and the server proved who it is" if status.proven else "encrypted"


def _size(size: int) -> str:
    amount, unit = float(size), 0
    while amount >= 1000 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1000, unit + 1
    return f"{size:,} {_UNITS[0]}" if unit == 0 else f"{amount:.1f} {_UNITS[unit]}"


# ── setting up ───────────────────────────────────────────────────────────────────────────────────────────


def store_init(call: Call) -> None:
    parsed = call.parsed
    made = store_admin.init(
        Home(home(call.environ)), call.url(parsed.need("url")), vault=parsed.text("vault"),
        admit=parsed.texts("admit"), partitions=parsed.integer("partitions"),
    )  # fmt: skip
    call.answer(
        {"store": {"kind": made.address.kind, "url": made.address.url, "vault": made.vault}, "done": made.done},
        lambda paint: "" if call.quiet else _paint_created(paint, made),
    )
    call.note(_next_step(made))


def _paint_created(paint: Paint, made: store_admin.SetUpResult) -> Painted:
    where = made.address.path or made.address.url
    if not made.done:
        return paint.join("The store is already set up: ", paint.bold(where))
    vault = "" if made.vault is None else f", vault {made.vault}"
    lines: list[str] = [paint.join(paint.green("The store is set up: "), paint.bold(where), paint.dim(vault))]
    lines += [paint.join("  ", paint.dim(name)) for name in made.done]
    return Painted("\n".join(lines))


def _next_step(made: store_admin.SetUpResult) -> str:
    if made.address.path is not None:
        return f"Use it: {_switch_command(made.address)}"
    return (
        f"Members use it by: export HOLDFAST_STORE='{store_admin.for_others(made.address)}'\n"
        "Their passwords belong in ~/.pgpass. To copy what is here: holdfast store copy home URL"
    )


def _switch_command(target: Address) -> str:
    """The environment variable that selects a store from now on, without its password."""
    import shlex

    return f"export HOLDFAST_STORE={shlex.quote(target.url)}"


# ── people ───────────────────────────────────────────────────────────────────────────────────────────────


def store_admit(call: Call) -> None:
    person = call.parsed.need("person")
    new = store_admin.admit(call.keeper, person)
    call.answer(
        {"admitted": person, "new": new},
        lambda paint: "" if call.quiet else paint.join(
            paint.green("Admitted ") if new else "Already admitted: ", paint.bold(person)
        ),
    )  # fmt: skip


def store_dismiss(call: Call) -> None:
    person = call.parsed.need("person")
    to = call.parsed.text("hand_over_to")
    given = store_admin.dismiss(call.keeper, person, to)
    call.answer(
        {"dismissed": person, "handed_over": given},
        lambda paint: "" if call.quiet else paint.join(paint.bold(person), " was removed from the vault"),
    )
    left = "What they made stays" if to is None else f"{to} has {count(given, 'session')} of theirs"
    call.note(f"{left}, and they cannot see it. Their role can still connect to the database.")


def store_partition(call: Call) -> None:
    parts = call.parsed.integer("parts")
    assert parts is not None
    before = store_admin.partition(call.keeper, parts)
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
    done = store_admin.share(
        call.keeper, call.parsed.need("id"), _whom(call), writes=not call.parsed.flag("read_only")
    )
    call.answer(_shares_document(done), lambda paint: "" if call.quiet else _paint_shares(paint, done))


def store_unshare(call: Call) -> None:
    done = store_admin.unshare(call.keeper, call.parsed.need("id"), _whom(call))
    call.answer(_shares_document(done), lambda paint: "" if call.quiet else _paint_shares(paint, done))
    call.note("What they have already read cannot be taken back.")


def _whom(call: Call) -> str | None:
    """A person; None means everyone."""
    person, everyone = call.parsed.text("person"), call.parsed.flag("everyone")
    if (person is None) != everyone:
        wrong = "PERSON and --everyone cannot be used together" if everyone else "PERSON is missing"
        operation = " ".join(call.parsed.path)
        raise Usage(wrong, hint="Name one member, or say --everyone for all of the vault.", operation=operation)
    return person


def _shares_document(done: store_admin.StoreShares) -> dict[str, object]:
    shares = [
        {"person": given.person, "everyone": given.person is None, "write": given.writes} for given in done.shares
    ]
    return {"session": done.session, "shares": shares}


def _paint_shares(paint: Paint, done: store_admin.StoreShares) -> Painted:
    name = paint.bold(done.goal or done.session[:8])
    if not done.shares:
        return paint.join(name, " is not shared")
    return paint.join(name, " is shared with ", ", ".join(_share_texts(done.shares)))


def _share_texts(shares: Sequence[ShareGrant]) -> list[str]:
    return [f"{given.person or 'everyone in the vault'} ({_RIGHTS[given.writes]})" for given in shares]


# ── store_copy ─────────────────────────────────────────────────────────────────────────────────────────


_BAR_WIDTH = 30
_DRAWN_EVERY = 0.05
_STEPS = {
    "checking": "checking {} of the source",
    "copying": "copying their events",
    "comparing": "comparing {} with the copy",
}


def store_copy(call: Call) -> int:
    own = Home(home(call.environ))
    source, target = call.url(call.parsed.need("source")), call.url(call.parsed.need("target"))
    bar = _CopyBar(call)
    try:
        done = store_admin.copy(own, source, target, bar.draw)
    except KeyboardInterrupt:
        bar.clear()
        raise Interrupted(
            "interrupted: nothing of the source was changed, and what was copied by then is whole",
            hint="The same command continues from there.",
        ) from None
    finally:
        bar.clear()
    left = done.copied.left_out
    error = store_admin.incomplete(left, "copied", "run the same command again", file=done.target.url)
    call.answer(
        {"copied": {
            "from": done.source.url, "to": done.target.url, "sessions": done.copied.sessions,
            "events": done.copied.events,
        }, "verified": done.copied.sessions, "left_out": _left_out_documents(left)},
        lambda paint: "" if call.quiet else _paint_copy(paint, done),
        error=error,
    )  # fmt: skip
    _note_how_to_switch(call, own, done)
    return _end_with(call, left, error)


def _paint_copy(paint: Paint, done: store_admin.MoveResult) -> Painted:
    events, sessions = done.copied.events, done.copied.sessions
    first = paint.green(f"Copied {count(events, 'event')}") if events else paint.plain("Nothing new to copy")
    same = f"; {count(sessions, 'session')} compared, the same in both" if sessions else ""
    return paint.join(first, same, paint.dim(f"  {done.target.url}"))


def _note_how_to_switch(call: Call, own: Home, done: store_admin.MoveResult) -> None:
    target = done.target
    how = "unset HOLDFAST_STORE" if target.path == own.store else _switch_command(target)
    call.note(f"To go on there: {how}")
    if isinstance(target, PostgresAddress) and target.hides:
        call.note("Its password belongs in ~/.pgpass, not in this command.")
    agents = store_admin.connected_agents(own)
    if agents:
        call.note(
            f"Hooks of agents stay with the store they were connected to; then: holdfast connect {' '.join(agents)}"
        )


class _CopyBar:
    """On a terminal one line that fills up, elsewhere a line for each step; nothing with `--quiet` or `--json`."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._paint = paint_for(sys.stderr, no_color=call.parsed.globals.no_color, environ=call.environ)
        self._wanted = not call.json and not call.quiet
        self._announced: set[str] = set()
        self._shown = False
        self._next = 0.0

    def draw(self, far: Progress) -> None:
        if not self._wanted:
            return
        step = _STEPS[far.doing].format(count(far.of, "session"))
        if not self._paint.tty:
            if far.doing not in self._announced:
                self._announced.add(far.doing)
                self._call.note(step)
            return
        now = monotonic()
        if now < self._next and far.done < far.of:
            return
        self._next = now + _DRAWN_EVERY
        share = far.done / far.of if far.of else 1.0
        paint = self._paint
        whole = paint.join(paint.bar(share, _BAR_WIDTH), f" {int(share * 100):3d}%  ", paint.dim(step))
        sys.stderr.write(f"\r\x1b[2K{paint.cut(whole, paint.width - 1)}")
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
    left = call.keeper.backup(path)
    size = os.path.getsize(path)
    error = store_admin.incomplete(left, "backed up", "make another backup", file=path)
    call.answer(
        {"file": path, "bytes": size, "left_out": _left_out_documents(left)},
        lambda paint: "" if call.quiet else paint.join(paint.green("Backed up "), f"to {path} ({size:,} bytes)"),
        error=error,
    )
    return _end_with(call, left, error)


def restore(call: Call) -> int:
    path = os.path.abspath(call.parsed.need("file"))
    done = call.keeper.restore(path, erase=call.parsed.globals.yes)
    erasing = [copied for copied in done.left_out if copied.reason in (ERASES, DISPLACES, SPEAKS)]
    if erasing:
        named = ", ".join(f"{copied.session[:8]} ({shorten(copied.goal or '', 60)})" for copied in erasing)
        question = (
            f"The backup deletes, erases or displaces something in {named}, or has events of your devices. "
            "Apply that here, too? Type yes:"
        )
        if call.ask(question) == "yes":
            more = call.keeper.restore(path, erase=True)
            done = more._replace(events=done.events + more.events)
        else:
            call.note("To apply that, run the same command with --yes")
    error = store_admin.incomplete(done.left_out, "restored", "run the same command again", file=path)
    call.answer(
        {"file": path, "restored": done.events, "left_out": _left_out_documents(done.left_out)},
        lambda paint: "" if call.quiet else paint.join(paint.green("Restored "), count(done.events, "event")),
        error=error,
    )
    return _end_with(call, done.left_out, error)


# ── left_out ───────────────────────────────────────────────────────────────────────────────────────────


def _left_out_documents(left: Sequence[NotCopied]) -> list[dict[str, str]]:
    return [{"session": rest.session, "reason": rest.reason} for rest in left]


def _end_with(call: Call, left: Sequence[NotCopied], error: HoldfastError | None) -> int:
    """Print a line for each, with `--quiet` too; then the error, which a JSON document already has."""
    if error is None:
        return 0
    if call.json:
        return error.exit_code
    paint = paint_for(sys.stderr, no_color=call.parsed.globals.no_color, environ=call.environ)
    for rest in left:
        goal = f"  {one_line(rest.goal)}" if rest.goal else ""
        line = paint.join(paint.yellow("left out "), paint.plain(f"{rest.session}{goal}: {one_line(rest.reason)}"))
        sys.stderr.write(f"{line}\n")
    raise error
