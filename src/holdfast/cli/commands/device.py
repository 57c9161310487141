"""`holdfast device show|list|rename|approve|remove|admit|recovery-code`: this device, and those it belongs with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.cli.call import Call
from holdfast.cli.paint import Paint, Painted
from holdfast.core.times import text
from holdfast.keeper.wording import ago, count

if TYPE_CHECKING:
    from holdfast.keeper.teleports.admitting import TakenIn
    from holdfast.keeper.teleports.devices import Known
    from holdfast.keeper.teleports.standing import Met

_STATUSES = {
    "member": "belongs here", "recovery": "a code on paper", "guest": "a guest", "removed": "was removed",
    "pending": "asks to join", "reader": "reads only", "other-keys": "knows this device by other keys",
    "no-keys": "this device has no keys",
}  # fmt: skip


def show(call: Call) -> None:
    document, human = _this(call)
    call.answer({"device": document}, lambda _: human)


def _this(call: Call) -> tuple[dict[str, object], Painted]:
    from holdfast.keeper.teleports import devices, standing

    keys, name = devices.public(call.keeper), call.keeper.device()
    met = standing.all_met(call.keeper)
    document: dict[str, object] = {
        "name": name, "fingerprint": keys.words, "age": keys.age, "signing": keys.signing.hex(),
        "vaults": [
            {"remote": one.remote.name, "id": one.remote.vault, "words": one.words, "status": one.status,
             "confirmed": one.confirmed}
            for one in met
        ],
    }  # fmt: skip
    paint = call.paint
    lines: list[str] = [
        paint.bold(name),
        paint.join(paint.dim("  fingerprint  "), keys.words),
        paint.join(paint.dim("  age          "), keys.age),
        paint.join(paint.dim("  signing      "), keys.signing.hex()),
    ]
    for one in met:
        lines += _vault(paint, one)
    return document, Painted("\n".join(lines))


def _vault(paint: Paint, one: Met) -> list[str]:
    lines: list[str] = [
        paint.join(paint.dim("  vault        "), one.words),
        paint.join("               ", paint.dim(f"at {one.remote.name}: "), _STATUSES[one.status]),
    ]
    if one.held:
        lines.append(paint.yellow(f"               {one.held} earlier sessions wait: {_confirming(one)}"))
    if one.status == "other-keys":
        from holdfast.keeper.teleports.remotes import rejoining

        lines.append(paint.yellow(f"               ask to join again: {rejoining(one.remote)}"))
    return lines


def _confirming(one: Met) -> str:
    return f"holdfast remote confirm {one.remote.name}"


# ── all of them ──────────────────────────────────────────────────────────────────────────────────────────


def list_(call: Call) -> None:
    from holdfast.keeper.teleports import devices

    found, failed = devices.known(call.keeper)
    now = call.keeper.now()
    call.answer(
        {"devices": [_public(one) for one in found],
         "notes": [f"{name}: {error.message}" for name, error in failed.items()]},
        lambda paint: _listed(paint, found, now),
    )  # fmt: skip
    for name, error in failed.items():
        call.note(f"{name}: {error.message}. Who asks to join there is not known; the rest is as it was last heard.")
    asking = next((one for one in found if one.status == "pending" and not one.this), None)
    if asking is not None:
        call.note("Compare the words with what the device itself shows, then: holdfast device approve FINGERPRINT")
    if any(one.held is not None for one in found):
        call.note("To take in what is held back: holdfast device admit NAME")


def _public(one: Known) -> dict[str, object]:
    return {
        "remote": one.remote, "name": one.name, "fingerprint": one.fingerprint, "status": one.status,
        "admin": one.admin, "this": one.this, "last_word": None if one.last_word is None else text(one.last_word),
        "held": None if one.held is None else one.held._asdict(),
    }  # fmt: skip


def _listed(paint: Paint, found: Sequence[Known], now: int) -> Painted:
    from holdfast.keeper.teleports.admitting import held_back

    if not found:
        return paint.dim("No remote is set up: holdfast remote add NAME URL")
    lines: list[str] = []
    remote = None
    for one in found:
        if one.remote != remote:
            remote = one.remote
            lines.append(paint.bold(remote))
        about = ["this device"] if one.this else []
        about.append(_STATUSES.get(one.status, one.status))
        about += ["lets others in"] if one.admin else []
        about += [f"heard {ago(now - one.last_word)}"] if one.last_word else []
        shown = paint.yellow if one.status == "pending" else paint.red if one.status == "removed" else paint.green
        name = paint.bold(one.name) if one.name else paint.dim("(no name yet)")
        lines.append(paint.join("  ", name, "  ", shown(", ".join(about))))
        lines.append(paint.join("    ", paint.dim(one.fingerprint)))
        if one.held is not None:
            lines.append(paint.yellow(f"    what it wrote since is held back: {held_back(one.held)}"))
    return Painted("\n".join(lines))


# ── changing them ────────────────────────────────────────────────────────────────────────────────────────


def rename(call: Call) -> None:
    from holdfast.keeper.teleports import devices

    name = call.parsed.need("name").strip()
    later = devices.rename(call.keeper, name)
    document, _ = _this(call)
    call.answer(
        {"device": {**document, "name": name}, "later": later},
        lambda paint: "" if call.quiet else paint.join("This device is called ", paint.bold(name), " from now on"),
    )
    if later:
        call.note(f"Told with the next sync: {', '.join(later)}.")


def approve(call: Call) -> None:
    from holdfast.keeper.teleports import devices

    done = devices.approve(call.keeper, call.parsed.need("fingerprint"), admin=call.parsed.flag("admin"))
    call.answer(
        {"approved": done._asdict()},
        lambda paint: "" if call.quiet else paint.join(
            paint.bold(done.name), paint.green(" belongs to the vault now"), paint.dim(f" at {done.remote}")
        ),
    )  # fmt: skip
    call.note("It hears of that with its next: holdfast sync")


def remove(call: Call) -> None:
    from holdfast.keeper.teleports import devices

    done = devices.remove(call.keeper, call.parsed.need("name"))
    verb = "asked to join, and was declined" if done.declined else "was removed"
    call.answer(
        {"removed": done._asdict()},
        lambda paint: "" if call.quiet else paint.join(
            paint.bold(done.name), f" {verb}", paint.dim(f" at {', '.join(done.remotes)}")
        ),
    )  # fmt: skip
    if not done.declined:
        call.note("What it wrote until now stays; it can read nothing that is written from now on.")


def admit(call: Call) -> None:
    from holdfast.keeper.teleports import admitting

    done = admitting.admit(call.keeper, call.parsed.need("name"))
    call.answer({"admitted": done._asdict()}, lambda paint: _admitted(paint, done, quiet=call.quiet))
    if done.left:
        which = "1 push of it was" if done.left == 1 else f"{done.left:,} pushes of it were"
        call.note(
            f"{which} not taken in: what is in there cannot be read, is not its own word, or goes on from something"
            " that is not here. It stays where it is."
        )


def _admitted(paint: Paint, done: TakenIn, *, quiet: bool) -> Painted | str:
    if quiet:
        return ""
    if not done.events:
        return paint.join("Nothing of ", paint.bold(done.name), " is held back" if not done.left else " was taken in")
    told = f" {count(done.events, 'event')} of {count(done.sessions, 'session')} by "
    return paint.join(
        paint.green("Took in"), told, paint.bold(done.name), paint.dim(f" at {', '.join(done.remotes)}")
    )


def recovery_code(call: Call) -> None:
    from holdfast.keeper.teleports import devices

    made = devices.recovery_code(call.keeper, call.parsed.text("remote"))
    call.answer({"recovery_code": made.code, "remote": made.remote}, lambda paint: paint.plain(made.code))
    call.note(
        "Write it on paper and keep it safe: it is shown this once, and whoever has it can read everything.\n"
        f"When all devices are gone: holdfast remote add {made.remote} URL --recover"
        + ("\nThe earlier code is void." if made.renewed else "")
    )
