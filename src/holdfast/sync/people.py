"""People to share with: an email, the public keys to seal for, and the devices whose offers are trusted."""

from __future__ import annotations

import os
import re

import msgspec

from holdfast.core.decode import decodable
from holdfast.core.errors import Conflict, Damaged, Invalid, NotFound
from holdfast.machine import files
from holdfast.machine.locks import locked
from holdfast.sync import remote_list
from holdfast.workspace.home import Home
from holdfast.workspace.keys.device_keys import check_recipient, parse_words

_MAX_SIZE = 4 << 20
_WHAT = "the list of people"
_EMAIL = re.compile(r"[^\s@\x00-\x1f\x7f<>,;:\"]{1,64}@[^\s@\x00-\x1f\x7f<>,;:\"]{1,250}")
# A device's fingerprint in words or hex, even if mistyped; everything else is a key.
_WORDS = re.compile(r"\s*(([a-z]+[\W_]+){3,}[a-z]+|[0-9a-f]{32})\s*", re.IGNORECASE)


class Person(msgspec.Struct, frozen=True):
    email: str
    keys: tuple[str, ...] = ()
    # Fingerprints of devices whose offers are trusted.
    devices: tuple[str, ...] = ()


def load(home: Home) -> list[Person]:
    if not os.path.lexists(home.people):
        return []
    try:
        return msgspec.json.decode(
            files.read_limited(home.people, _MAX_SIZE, subject=_WHAT), type=decodable(list[Person])
        )
    except msgspec.MsgspecError:
        raise Damaged(
            "the list of people is damaged", hint="Move it away and add them again: holdfast people add EMAIL KEY",
            file=home.people,
        ) from None  # fmt: skip


def add(home: Home, email: str, key: str) -> Person:
    """Add a person, or another key of theirs: one to share with, or the words of a device they share from."""
    email = email.strip()
    if _EMAIL.fullmatch(email) is None:
        raise Invalid(f"{email[:80]!a} is not an email address", hint="Write it as name@example.org.")
    recipient, device = ("", parse_words(key).hex()) if _WORDS.fullmatch(key) else (check_recipient(key), "")
    home.prepare()
    with locked(os.path.join(home.path, "device.lock"), purpose="adding a person"):
        people = load(home)
        before = next((person for person in people if person.email.lower() == email.lower()), Person(email))
        if recipient in before.keys or device in before.devices:
            raise Conflict("this person's key is already known", hint="holdfast people list shows them.")
        keys, devices = [recipient] * bool(recipient), [device] * bool(device)
        person = Person(before.email, (*before.keys, *keys), (*before.devices, *devices))
        others = [person for person in people if person.email != before.email]
        all_people = sorted([*others, person], key=lambda person_: person_.email.lower())
        remote_list.write_list(home.people, all_people, by="email", max_size=_MAX_SIZE, what=_WHAT)
    return person


def find(home: Home, email: str) -> Person:
    for person in load(home):
        if person.email.lower() == email.strip().lower() and person.keys:
            return person
    raise NotFound(f"no key is known for {email[:80]!a}", hint="First: holdfast people add EMAIL KEY")
