"""Commands about devices and people: `device`, `people`."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.cli.call import Call
from holdfast.cli.paint import Paint, Painted
from holdfast.core.times import format_time
from holdfast.core.wording import ago, count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.sync.accept_late import LateAcceptance
    from holdfast.sync.devices import KnownDevice
    from holdfast.sync.people import Person
    from holdfast.sync.remote_setup import RemoteStatus

# ── device ─────────────────────────────────────────────────────────────────────────────────────────────


_STATUSES = {
    "member": "member", "recovery": "recovery code", "guest": "guest", "removed": "removed",
    "pending": "asks to join", "reader": "read-only", "other-keys": "knows this device by other keys",
    "no-keys": "this device has no keys",
}  # fmt: skip


def device_show(call: Call) -> None:
    document, human = _this_device(call)
    call.answer({"device": document}, lambda _: human)


def _this_device(call: Call) -> tuple[dict[str, object], Painted]:

    keys, name = call.keeper.devices.keys(), call.keeper.device()
    statuses = call.keeper.remotes.list()
    document: dict[str, object] = {
        "name": name, "fingerprint": keys.words, "age": keys.age, "signing": keys.signing.hex(),
        "vaults": [
            {"remote": status.remote.name, "id": status.remote.vault, "words": status.words, "status": status.status,
             "confirmed": status.confirmed}
            for status in statuses
        ],
    }  # fmt: skip
    paint = call.paint
    lines: list[str] = [
        paint.bold(name),
        paint.join(paint.dim("  fingerprint  "), keys.words),
        paint.join(paint.dim("  age          "), keys.age),
        paint.join(paint.dim("  signing      "), keys.signing.hex()),
    ]
    for status in statuses:
        lines += _paint_vault(paint, status)
    return document, Painted("\n".join(lines))


def _paint_vault(paint: Paint, status: RemoteStatus) -> list[str]:
    lines: list[str] = [
        paint.join(paint.dim("  vault        "), status.words),
        paint.join("               ", paint.dim(f"at {status.remote.name}: "), _STATUSES[status.status]),
    ]
    if status.waiting:
        lines.append(
            paint.yellow(f"               {status.waiting} earlier sessions wait: {_confirm_command(status)}")
        )
    if status.status == "other-keys":
        from holdfast.sync.remote_list import rejoin_commands

        lines.append(paint.yellow(f"               ask to join again: {rejoin_commands(status.remote)}"))
    return lines


def _confirm_command(status: RemoteStatus) -> str:
    return f"holdfast remote confirm {status.remote.name}"


# ── all of them ──────────────────────────────────────────────────────────────────────────────────────────


def device_list(call: Call) -> None:

    known_devices, failed = call.keeper.devices.list()
    now = call.keeper.now()
    call.answer(
        {"devices": [_device_document(device) for device in known_devices],
         "notes": [f"{name}: {error.message}" for name, error in failed.items()]},
        lambda paint: _paint_devices(paint, known_devices, now),
    )  # fmt: skip
    for name, error in failed.items():
        call.note(f"{name}: {error.message}. Requests to join could not be read; the rest is as of the last contact.")
    asking = next((device for device in known_devices if device.status == "pending" and not device.this), None)
    if asking is not None:
        call.note("Compare the words with what the device itself shows, then: holdfast device approve FINGERPRINT")
    if any(device.unaccepted is not None for device in known_devices):
        call.note("To accept it: holdfast device admit NAME")


def _device_document(device: KnownDevice) -> dict[str, object]:
    return {
        "remote": device.remote, "name": device.name, "fingerprint": device.fingerprint, "status": device.status,
        "admin": device.admin, "this": device.this,
        "last_word": None if device.last_active is None else format_time(device.last_active),
        "held": None if device.unaccepted is None else device.unaccepted._asdict(),
    }  # fmt: skip


def _paint_devices(paint: Paint, devices: Sequence[KnownDevice], now: int) -> Painted:
    from holdfast.sync.accept_late import describe_unaccepted

    if not devices:
        return paint.dim("No remote is set up: holdfast remote add NAME URL")
    lines: list[str] = []
    remote = None
    for device in devices:
        if device.remote != remote:
            remote = device.remote
            lines.append(paint.bold(remote))
        about = ["this device"] if device.this else []
        about.append(_STATUSES.get(device.status, device.status))
        about += ["admin"] if device.admin else []
        about += [f"last contact {ago(now - device.last_active)}"] if device.last_active else []
        colour = {"pending": paint.yellow, "removed": paint.red}.get(device.status, paint.green)
        name = paint.bold(device.name) if device.name else paint.dim("(no name yet)")
        lines.append(paint.join("  ", name, "  ", colour(", ".join(about))))
        lines.append(paint.join("    ", paint.dim(device.fingerprint)))
        if device.unaccepted is not None:
            lines.append(
                paint.yellow(f"    not accepted since its removal: {describe_unaccepted(device.unaccepted)}")
            )
    return Painted("\n".join(lines))


# ── changing them ────────────────────────────────────────────────────────────────────────────────────────


def device_rename(call: Call) -> None:

    name = call.parsed.need("name").strip()
    unreachable = call.keeper.devices.rename(name)
    document, _ = _this_device(call)
    call.answer(
        {"device": {**document, "name": name}, "later": unreachable},
        lambda paint: "" if call.quiet else paint.join("This device is called ", paint.bold(name), " from now on"),
    )
    if unreachable:
        call.note(f"Sent with the next sync: {', '.join(unreachable)}.")


def device_approve(call: Call) -> None:

    approved = call.keeper.devices.approve(call.parsed.need("fingerprint"), admin=call.parsed.flag("admin"))
    call.answer(
        {"approved": approved._asdict()},
        lambda paint: "" if call.quiet else paint.join(
            paint.green("Approved "), paint.bold(approved.name), " for the vault at ", approved.remote
        ),
    )  # fmt: skip
    call.note("It can sync once it has run: holdfast sync")


def device_remove(call: Call) -> None:

    removal = call.keeper.devices.remove(call.parsed.need("name"))
    verb = "asked to join, and was declined" if removal.declined else "was removed"
    call.answer(
        {"removed": removal._asdict()},
        lambda paint: "" if call.quiet else paint.join(
            paint.bold(removal.name), f" {verb}", paint.dim(f" at {', '.join(removal.remotes)}")
        ),
    )  # fmt: skip
    if not removal.declined:
        call.note("What it has written stays; it cannot read what is written from now on.")


def device_admit(call: Call) -> None:

    acceptance = call.keeper.devices.admit(call.parsed.need("name"))
    call.answer(
        {"admitted": acceptance._asdict()}, lambda paint: _paint_admitted(paint, acceptance, quiet=call.quiet)
    )
    if acceptance.left:
        pushes = "1 of its pushes was" if acceptance.left == 1 else f"{acceptance.left:,} of its pushes were"
        call.note(
            f"{pushes} not accepted: unreadable, not signed by that device, or based on events missing here."
            " Left at the remote."
        )


def _paint_admitted(paint: Paint, acceptance: LateAcceptance, *, quiet: bool) -> Painted | str:
    if quiet:
        return ""
    if not acceptance.events:
        verb = "accepted" if acceptance.left else "waiting to be accepted"
        return paint.join("Nothing of ", paint.bold(acceptance.name), f" was {verb}")
    counts = f" {count(acceptance.events, 'event')} of {count(acceptance.sessions, 'session')} by "
    return paint.join(
        paint.green("Accepted"),
        counts,
        paint.bold(acceptance.name),
        paint.dim(f" at {', '.join(acceptance.remotes)}"),
    )


def device_recovery_code(call: Call) -> None:

    recovery = call.keeper.devices.recovery_code(call.parsed.text("remote"))
    call.answer({"recovery_code": recovery.code, "remote": recovery.remote}, lambda paint: paint.plain(recovery.code))
    call.note(
        "Write it on paper and keep it safe: it is shown this once, and whoever has it can read everything.\n"
        f"When all devices are lost: holdfast remote add {recovery.remote} URL --recover"
        + ("\nThe earlier code is no longer valid." if recovery.renewed else "")
    )


# ── people ─────────────────────────────────────────────────────────────────────────────────────────────


def people_add(call: Call) -> None:

    person = call.keeper.people.add(call.parsed.need("email"), call.parsed.need("key"))
    key_count = len(person.keys) + len(person.devices)
    more = f", with {key_count} keys" if key_count > 1 else ""
    call.answer(
        {"person": _person_document(person)},
        lambda paint: "" if call.quiet else paint.join("Added ", paint.bold(person.email), more),
    )
    if person.keys:
        call.note(f"Share a session with them: holdfast share ID --with {person.email}")


def people_list(call: Call) -> None:

    persons = call.keeper.people.list()
    call.answer(
        {"people": [_person_document(person) for person in persons]}, lambda paint: _paint_people(paint, persons)
    )


def _person_document(person: Person) -> dict[str, object]:
    return {
        "email": person.email,
        "keys": person.keys,
        "devices": [_fingerprint(device) for device in person.devices],
    }


def _fingerprint(device: str) -> str:
    from holdfast.workspace.keys.device_keys import spell_words

    return spell_words(bytes.fromhex(device))


def _paint_people(paint: Paint, persons: Sequence[Person]) -> Painted:
    if not persons:
        return paint.dim("No people yet. Add one: holdfast people add EMAIL KEY")
    lines: list[str] = []
    for person in persons:
        lines.append(paint.bold(person.email))
        lines += [paint.join("  ", paint.dim(key)) for key in person.keys]
        lines += [paint.join("  offers from ", paint.dim(_fingerprint(device))) for device in person.devices]
    return Painted("\n".join(lines))
