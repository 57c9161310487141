"""`holdfast remote add|list|confirm|remove`: the places that sessions travel by."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.cli.call import Call
from holdfast.cli.paint import Paint, Painted, wrap
from holdfast.core.errors import Invalid, Refused
from holdfast.core.times import format_time
from holdfast.core.wording import ago, count
from holdfast.sync.remotes.index import caveat

if TYPE_CHECKING:
    from holdfast.sync.remote_setup import Added, Met

_LONGEST_CODE = 1000
_STATUSES = {
    "member": "this device belongs to the vault", "pending": "this device waits to be let in",
    "reader": "this device only reads", "removed": "this device was removed",
    "other-keys": "this device has new keys, and the vault knows it by others",
    "no-keys": "this device's keys are gone",
}  # fmt: skip


# ── adding ───────────────────────────────────────────────────────────────────────────────────────────────


def add(call: Call) -> None:
    from holdfast.sync import devices, remote_setup

    parsed = call.parsed
    done = remote_setup.add(
        call.keeper, parsed.need("name"), parsed.need("url"), this_project=parsed.flag("this_project"),
        expected=parsed.text("vault"), code=_code(call) if parsed.flag("recover") else None,
    )  # fmt: skip
    fingerprint = devices.public(call.keeper).words
    call.answer(
        {"remote": _public(remote_setup.met(call.keeper, done.remote)), "what": done.what, "held": done.held,
         "fingerprint": fingerprint},
        lambda paint: "" if call.quiet else _added(paint, done, fingerprint, recovered=parsed.flag("recover")),
    )  # fmt: skip
    for sentence in _next(done):
        call.note(sentence)


def _code(call: Call) -> str:
    """The recovery code, from whoever is there: never from the command line, which others can see."""
    written = (
        call.ask("Recovery code:") if sys.stdin.isatty() and not call.json else sys.stdin.readline(_LONGEST_CODE)
    )
    if not written or not written.strip():
        raise Invalid(
            "no recovery code was given", hint="Type it when asked, or give it as a line of standard input."
        )
    return written.strip()


def _added(paint: Paint, done: Added, fingerprint: str, *, recovered: bool) -> Painted:
    name = paint.bold(done.remote.name)
    if done.what == "founded":
        first = paint.join(paint.green("Founded a vault"), " at ", name)
    elif done.what == "asked":
        first = paint.join(paint.green("Asked to join the vault"), " at ", name)
    else:
        first = paint.join(
            paint.green("Recovered the vault" if recovered else "Joined the vault again"), " at ", name
        )
    lines = [first, paint.join(paint.dim("  vault        "), done.words)]
    if done.what == "asked":
        lines.append(paint.join(paint.dim("  this device  "), fingerprint))
        lines.append(paint.plain("On a device that belongs to the vault:"))
        lines.append(paint.join("  ", paint.cyan(f"holdfast device approve {fingerprint}")))
    return Painted("\n".join(lines))


def _next(done: Added) -> list[str]:
    name = done.remote.name
    told = {
        "founded": "holdfast sync sends what is recorded here.\n"
                   "For the day when all devices are gone: holdfast device recovery-code",
        "asked": "Once that is done: holdfast sync",
        "member": "holdfast sync brings what is there.",
    }  # fmt: skip
    sentences = [told[done.what]]
    if (known := caveat(done.remote.url)) is not None:
        sentences.append(
            f"{known}\nTo reach other devices without that, use s3:, git:, or a folder: that is synchronised."
        )
    if done.held:
        sessions = "1 earlier session stays" if done.held == 1 else f"{done.held:,} earlier sessions stay"
        sentences.append(
            f"{sessions} on this device until you have made sure that the vault is yours: compare its words with\n"
            f"holdfast device show on another of your devices, then: holdfast remote confirm {name} WORDS"
        )
    return sentences


# ── looking, confirming, removing ────────────────────────────────────────────────────────────────────────


def list_(call: Call) -> None:
    from holdfast.sync import remote_setup

    found = remote_setup.all_met(call.keeper)
    now = call.keeper.now()
    call.answer({"remotes": [_public(met) for met in found]}, lambda paint: _listed(paint, found, now))


def confirm(call: Call) -> None:
    from holdfast.sync import remote_list, remote_setup

    name, expected = call.parsed.need("name"), call.parsed.text("words")
    remote = remote_list.named(call.keeper.home, name)
    if expected is None and not _same_words(call, remote_setup.spelled(remote.vault)):
        raise Refused(
            "nothing was confirmed",
            hint=f"Give the words that another of your devices shows: holdfast remote confirm {name} WORDS",
        )
    released = remote_setup.confirm(call.keeper, name, expected)
    call.answer(
        {"remote": _public(remote_setup.met(call.keeper, remote)), "released": released},
        lambda paint: "" if call.quiet else paint.join(
            paint.green("Confirmed "), paint.bold(name),
            f": {count(released, 'earlier session')} will be sent" if released else "",
        ),
    )  # fmt: skip


def _same_words(call: Call, words: str) -> bool:
    """Ask the person, if there is one."""
    if call.json or not sys.stdin.isatty():
        return False
    call.note(f"The vault there is called\n  {words}")
    return call.ask("Does holdfast device show say the same on another of your devices? Type yes:") == "yes"


def remove(call: Call) -> None:
    from holdfast.sync import remote_setup

    gone = remote_setup.remove(call.keeper, call.parsed.need("name"))
    call.answer(
        {"removed": gone.name, "url": gone.url},
        lambda paint: "" if call.quiet else paint.join("Removed ", paint.bold(gone.name)),
    )
    call.note(f"What was sent stays at {gone.url}, and what was received stays here.")


def _public(one: Met) -> dict[str, object]:
    return {
        "name": one.remote.name, "url": one.remote.url, "vault": one.remote.vault, "words": one.words,
        "status": one.status, "projects": list(one.remote.projects),
        "last_sync": None if one.last_sync is None else format_time(one.last_sync), "error": one.error,
        "caveat": caveat(one.remote.url),
        "kind": one.remote.kind, "session": one.remote.session, "confirmed": one.confirmed, "held": one.held,
    }  # fmt: skip


def _listed(paint: Paint, found: Sequence[Met], now: int) -> Painted:
    from holdfast.sync.remote_list import rejoining

    if not found:
        return paint.dim("No remote is set up: holdfast remote add NAME URL")
    lines: list[str] = []
    for met in found:
        lines.append(paint.join(paint.bold(met.remote.name), "  ", met.remote.url))
        when = "never synced" if met.last_sync is None else f"synced {ago(now - met.last_sync)}"
        scope = ", only one project's sessions" if met.remote.projects else ""
        shared = f", session {met.remote.session[:8]} that was shared with you" if met.remote.session else scope
        lines.append(paint.join("  ", paint.dim(f"{_STATUSES.get(met.status, met.status)}, {when}{shared}")))
        if met.remote.kind == "vault":
            lines.append(paint.join("  ", paint.dim(met.words)))
        if met.held:
            held = f"{count(met.held, 'earlier session')} held back: holdfast remote confirm {met.remote.name}"
            lines.append(paint.join("  ", paint.yellow(held)))
        if met.status == "other-keys":
            lines.append(paint.join("  ", paint.yellow(f"ask to join again: {rejoining(met.remote)}")))
        if (known := caveat(met.remote.url)) is not None:
            lines += [paint.join("  ", paint.yellow(line)) for line in wrap(known, paint.width - 2)]
        if met.error:
            lines.append(paint.join("  ", paint.red(met.error)))
    return Painted("\n".join(lines))
