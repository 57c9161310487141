"""`people`: addresses and public keys, checked when they are added."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.workspace.keys.device_keys import DeviceKeys
from tests.cli.several_devices import Several

SSH = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDtn2MGu1bA+2rKvGV/lTB6TpA+ORPYXuXZGAWsznb5f"


@pytest.fixture
def several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Several:
    return Several(tmp_path, monkeypatch, capsys)


def test_people_add_collects_keys_by_address(several: Several) -> None:
    """An age key and an SSH key with its comment; the case of the address does not matter."""
    assert several.document("people", "list")["people"] == []
    key = several.age
    person = several.document("people", "add", "Ada@example.org", key)["person"]
    assert person == {"email": "Ada@example.org", "keys": [key], "devices": []}
    person = several.document("people", "add", "ada@EXAMPLE.org", f"{SSH} ada@laptop")["person"]
    assert person == {"email": "Ada@example.org", "keys": [key, SSH], "devices": []}
    several.document("people", "add", "bob@example.org", DeviceKeys.generate().public.age)
    people = several.document("people", "list")["people"]
    assert [person["email"] for person in people] == ["Ada@example.org", "bob@example.org"]
    shown = several("people", "list").out
    assert "Ada@example.org" in shown
    assert key in shown


def test_people_add_refuses_invalid_addresses_and_keys(several: Several) -> None:
    """No address, no key, a secret key, a known key."""
    key = several.age
    for email in ("", "ada", "ada@", "@example.org", "a b@example.org", "a\x1b@example.org", "a@b@c"):
        several.refused(4, "people", "add", email, key)
    identity = DeviceKeys.generate().identity
    for wrong in ("", "age1", key[:-1], "ssh-ed25519 AAAA", "ecdsa-sha2-nistp256 AAAA", identity, "hello"):
        error = several.refused(4, "people", "add", "ada@example.org", wrong)
        assert identity not in str(error)
    several.refused(2, "people", "add", "ada@example.org")
    several.refused(2, "people", "add", "ada@example.org", *SSH.split())
    several.document("people", "add", "ada@example.org", key)
    several.refused(5, "people", "add", "ADA@example.org", key)


def test_damaged_list_of_people_is_named_and_not_overwritten(several: Several) -> None:
    several.document("people", "add", "ada@example.org", several.age)
    file = several.root / "home-laptop" / "people.json"
    file.write_text("{")
    several.refused(6, "people", "list")
    several.refused(6, "people", "add", "bob@example.org", several.age)
    assert file.read_text() == "{"
