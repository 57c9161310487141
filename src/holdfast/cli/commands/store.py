"""`holdfast store show|init|admit|dismiss|share|unshare|partition`: where sessions are kept, and by whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.cli.call import Call
from holdfast.cli.home_location import home
from holdfast.cli.paint import Paint, Painted
from holdfast.core.errors import Usage
from holdfast.core.wording import count
from holdfast.keeper import store_admin
from holdfast.workspace.home import Home

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.store.address import Address

_UNITS = ("bytes", "kB", "MB", "GB", "TB")
_RIGHTS = {True: "reads and writes", False: "reads"}


# ── looking ──────────────────────────────────────────────────────────────────────────────────────────────


def show(call: Call) -> None:
    found = store_admin.show(call.keeper)
    call.answer({"store": _public(found)}, lambda paint: _shown(paint, found))
    for warning in found.warnings:
        call.note(warning)


def _public(found: store_admin.StoreStatus) -> dict[str, object]:
    where = found.address
    return {
        "kind": where.kind, "url": where.url, "there": found.there, "version": found.version,
        "sessions": found.sessions, "events": found.events, "bytes": found.bytes, "server": found.server,
        "vault": found.vault, "person": found.person, "people": list(found.people), "partitions": found.partitions,
        "bypasses_security": found.above, "local": found.local, "encrypted": found.encrypted,
        "proven": found.proven, "warnings": found.warnings,
    }  # fmt: skip


def _shown(paint: Paint, found: store_admin.StoreStatus) -> Painted:
    # It is there to be copied, so it is never cut.
    title = paint.bold(found.address.url)
    if not found.there:
        return Painted(f"{title}\n{paint.dim('There is no store yet: the first session makes it.')}")
    return Painted(f"{title}\n{paint.pairs(_facts(found), indent=2)}")


def _facts(found: store_admin.StoreStatus) -> list[tuple[str, str]]:
    if found.server is None:
        return [
            ("kind", f"SQLite, tables of version {found.version}"), ("sessions", f"{found.sessions:,}"),
            ("events", f"{found.events or 0:,}"), ("size", _size(found.bytes or 0)),
        ]  # fmt: skip
    events = "not counted yet" if found.events is None else f"about {found.events:,} in all vaults"
    return [
        ("kind", f"PostgreSQL {found.server}, tables of version {found.version}"),
        ("vault", found.vault or ""), ("person", found.person or ""), ("people", ", ".join(found.people)),
        ("line", _line(found)), ("sessions", f"{found.sessions:,} that you see"),
        ("events", f"{events}, in {count(found.partitions or 0, 'partition')}"),
        ("size", f"{_size(found.bytes or 0)} in all vaults"),
    ]  # fmt: skip


def _line(found: store_admin.StoreStatus) -> str:
    if found.local:
        return "within this machine"
    if not found.encrypted:
        return "not encrypted"
    return "encrypted, and the server proved who it is" if found.proven else "encrypted"


def _size(size: int) -> str:
    amount, unit = float(size), 0
    while amount >= 1000 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1000, unit + 1
    return f"{size:,} {_UNITS[0]}" if unit == 0 else f"{amount:.1f} {_UNITS[unit]}"


# ── setting up ───────────────────────────────────────────────────────────────────────────────────────────


def init(call: Call) -> None:
    parsed = call.parsed
    made = store_admin.init(
        Home(home(call.environ)), call.url(parsed.need("url")), vault=parsed.text("vault"),
        admit=parsed.texts("admit"), partitions=parsed.integer("partitions"),
    )  # fmt: skip
    call.answer(
        {"store": {"kind": made.address.kind, "url": made.address.url, "vault": made.vault}, "done": made.done},
        lambda paint: "" if call.quiet else _made(paint, made),
    )
    call.note(_next(made))


def _made(paint: Paint, made: store_admin.SetUpResult) -> Painted:
    where = made.address.path or made.address.url
    if not made.done:
        return paint.join("All of it was there: ", paint.bold(where))
    vault = "" if made.vault is None else f", vault {made.vault}"
    lines: list[str] = [paint.join(paint.green("The store is set up: "), paint.bold(where), paint.dim(vault))]
    lines += [paint.join("  ", paint.dim(name)) for name in made.done]
    return Painted("\n".join(lines))


def _next(made: store_admin.SetUpResult) -> str:
    if made.address.path is not None:
        return f"Use it: {switching(made.address)}"
    return (
        f"Members use it by: export HOLDFAST_STORE='{store_admin.for_others(made.address)}'\n"
        "Their passwords belong into ~/.pgpass. To bring along what is here: holdfast store copy home URL"
    )


def switching(target: Address) -> str:
    """What to type so that commands use a store from now on; a password is nobody's to print."""
    import shlex

    return f"export HOLDFAST_STORE={shlex.quote(target.url)}"


# ── people ───────────────────────────────────────────────────────────────────────────────────────────────


def admit(call: Call) -> None:
    person = call.parsed.need("person")
    new = store_admin.admit(call.keeper, person)
    call.answer(
        {"admitted": person, "new": new},
        lambda paint: "" if call.quiet else paint.join(
            paint.green("Admitted ") if new else "Already admitted: ", paint.bold(person)
        ),
    )  # fmt: skip


def dismiss(call: Call) -> None:
    person = call.parsed.need("person")
    to = call.parsed.text("hand_over_to")
    given = store_admin.dismiss(call.keeper, person, to)
    call.answer(
        {"dismissed": person, "handed_over": given},
        lambda paint: "" if call.quiet else paint.join(paint.bold(person), " belongs to the vault no more"),
    )
    left = "What they made stays" if to is None else f"{to} has {count(given, 'session')} of theirs"
    call.note(f"{left}, and they see nothing of it. Their role still lets them into the database.")


def partition(call: Call) -> None:
    parts = call.parsed.integer("parts")
    assert parts is not None
    before = store_admin.partition(call.keeper, parts)
    now = count(parts, "partition")
    said = f"Events are in {now} already" if before == parts else f"Events are in {now} now, and were in {before:,}"
    call.answer(
        {"partitions": parts, "before": before},
        lambda paint: "" if call.quiet else paint.plain(said),
    )


# ── sharing ──────────────────────────────────────────────────────────────────────────────────────────────


def share(call: Call) -> None:
    done = store_admin.share(
        call.keeper, call.parsed.need("id"), _whom(call), writes=not call.parsed.flag("read_only")
    )
    call.answer(_document(done), lambda paint: "" if call.quiet else _shared(paint, done))


def unshare(call: Call) -> None:
    done = store_admin.unshare(call.keeper, call.parsed.need("id"), _whom(call))
    call.answer(_document(done), lambda paint: "" if call.quiet else _shared(paint, done))
    call.note("What they have read by now, they have read.")


def _whom(call: Call) -> str | None:
    """A person, or nobody in particular: everyone."""
    person, everyone = call.parsed.text("person"), call.parsed.flag("everyone")
    if (person is None) != everyone:
        wrong = "PERSON and --everyone exclude each other" if everyone else "PERSON is missing"
        operation = " ".join(call.parsed.path)
        raise Usage(wrong, hint="Name one member, or say --everyone for all of the vault.", operation=operation)
    return person


def _document(done: store_admin.StoreShares) -> dict[str, object]:
    shares = [
        {"person": given.person, "everyone": given.person is None, "write": given.writes} for given in done.shares
    ]
    return {"session": done.session, "shares": shares}


def _shared(paint: Paint, done: store_admin.StoreShares) -> Painted:
    name = paint.bold(done.goal or done.session[:8])
    if not done.shares:
        return paint.join(name, " is shared with nobody")
    return paint.join(name, " is shared with ", ", ".join(_given(done.shares)))


def _given(shares: Sequence[store_admin.ShareGrant]) -> list[str]:
    return [f"{given.person or 'everyone in the vault'} ({_RIGHTS[given.writes]})" for given in shares]
