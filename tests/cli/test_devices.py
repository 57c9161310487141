"""`device`: this device's keys, and the members of its vaults."""

from __future__ import annotations

import io
import os
import stat
from pathlib import Path

import pytest

from holdfast import Keeper
from holdfast.sync import create_vault, join_vault, open_vault
from tests.cli.several_devices import Several


@pytest.fixture
def several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Several:
    return Several(tmp_path, monkeypatch, capsys)


def listed(several: Several) -> dict[str, str]:
    """The status of each device by name."""
    return {item["name"]: item["status"] for item in several.document("device", "list")["devices"]}


def test_device_show_creates_the_keys_once(several: Several) -> None:
    """Privately; later calls show the same, with exactly the documented fields."""
    device = several.document("device", "show")["device"]
    assert list(device) == ["name", "fingerprint", "age", "signing", "vaults"]
    assert device["name"] == "laptop"
    assert len(device["fingerprint"].split("-")) == 13
    assert device["age"].startswith("age1")
    assert len(bytes.fromhex(device["signing"])) == 32
    assert device["vaults"] == []
    assert several.document("device", "show")["device"] == device
    kept = several.root / "home-laptop" / "device.json"
    assert os.name == "nt" or stat.S_IMODE(kept.stat().st_mode) == 0o600
    shown = several("device", "show").out
    assert device["fingerprint"] in shown
    assert device["age"] in shown


def test_device_show_lists_the_vaults(several: Several) -> None:
    """By the words that people compare."""
    several.create_vault()
    (vault,) = several.document("device", "show")["device"]["vaults"]
    assert set(vault) == {"remote", "id", "words", "status", "confirmed"}
    assert (vault["remote"], vault["status"], vault["confirmed"]) == ("home", "member", True)
    assert vault["words"] in several("device", "show").out


def test_device_request_is_approved_by_fingerprint(several: Several) -> None:
    """In any spelling; until then it is pending on both sides."""
    several.create_vault()
    several.at("desk")
    several.document("remote", "add", "home", several.url)
    words = several.words
    assert listed(several)["desk"] == "pending"
    several.at("laptop")
    assert listed(several) == {"laptop": "member", "desk": "pending"}
    assert words in several("device", "list").out
    approved = several.document("device", "approve", words.upper().replace("-", " "))["approved"]
    assert approved == {"name": "desk", "fingerprint": words, "remote": "home", "admin": False}
    assert listed(several) == {"laptop": "member", "desk": "member"}
    several.sync("desk")
    assert listed(several) == {"laptop": "member", "desk": "member"}


def test_device_approve_exit_codes(several: Several) -> None:
    """No remote, no fingerprint, no request, already a member, and not an admin."""
    words = several.words
    several.refused(3, "device", "approve", words)
    several.create_vault()
    several.refused(4, "device", "approve", "seven words are not enough for this one")
    several.refused(4, "device", "approve", words.rpartition("-")[0] + "-!!!")
    several.refused(3, "device", "approve", "0" * 32)
    several.refused(5, "device", "approve", words)
    several.join("desk")
    several.refused(1, "device", "approve", "0" * 32)
    several.refused(2, "device", "approve")


def test_device_approve_admin_lets_it_approve_others(several: Several) -> None:
    """At once or later."""
    several.create_vault()
    several.join("desk")
    desk_words = several.words
    several.at("laptop")
    assert several.document("device", "approve", desk_words, "--admin")["approved"]["admin"] is True
    several.sync("desk")
    several.join("phone", by="desk")
    assert listed(several) == {"laptop": "member", "desk": "member", "phone": "member"}


def test_device_list_works_without_the_remote(several: Several) -> None:
    """A notice says that it could not be reached."""
    several.create_vault()
    several.join("desk")
    several.sync("laptop")
    several.away()
    spoken = several("device", "list")
    assert spoken.code == 0
    assert "desk" in spoken.out
    assert "home: " in spoken.err
    document = several.document("device", "list")
    assert {item["name"] for item in document["devices"]} == {"laptop", "desk"}
    assert len(document["notes"]) == 1


def test_device_list_is_empty_without_a_remote(several: Several) -> None:
    assert several.document("device", "list")["devices"] == []


def test_device_rename_reaches_the_others_with_a_sync(several: Several) -> None:
    """Also when the remote was unreachable meanwhile."""
    several.create_vault()
    several.join("desk")
    several.document("device", "rename", "workbench")
    several.sync("laptop")
    assert "workbench" in listed(several)
    several.at("desk")
    several.away()
    spoken = several("device", "rename", "bench 2")
    assert spoken.code == 0
    assert "next sync" in spoken.err
    assert several.document("device", "show")["device"]["name"] == "bench 2"
    several.back()
    several.sync("desk", "laptop")
    assert listed(several) == {"laptop": "member", "bench 2": "member"}


def test_invalid_device_names_are_refused(several: Several) -> None:
    """Empty, too long, or with control characters."""
    for name in ("", "   ", "x" * 101, "a\x1b[31mb", "two\nlines"):
        several.refused(4, "device", "rename", name)


def test_control_characters_are_removed_from_names_of_requests(several: Several) -> None:
    """Anyone who asks to join chooses the name."""
    several.create_vault()
    with Keeper.open(str(several.project), home=str(several.root / "home-evil"), device="evil") as keeper:
        here = open_vault.this_device(keeper)._replace(name="\x1b[2J\x1b]0;owned\x07evil\u202e")
        with open_vault.remote_at(keeper, several.url) as place:
            signed = create_vault.read_founding(place)
            assert signed is not None
            join_vault.request_to_join(here, place, signed)
        words = here.keys.public.words
    for command in (("list",), ("approve", words), ("list",), ("remove", words)):
        spoken = several("device", *command)
        assert spoken.code == 0
        assert "evil" in spoken.out
        assert not {"\x1b", "\x07", "\u202e"} & set(spoken.out + spoken.err)


def test_removed_device_neither_sends_nor_receives(several: Several) -> None:
    """What it wrote before stays."""
    session = several.session("start", "Build the shop")["id"]
    several.create_vault()
    several.sync()
    several.join("desk")
    several.session("resume", session)
    several.session("note", "before")
    several.sync("desk", "laptop")
    several.document("device", "remove", "desk")
    assert listed(several)["desk"] == "removed"
    several.session("note", "for the others only")
    several.sync("laptop")
    several.at("desk")
    several.session("note", "afterwards")
    several.sync("desk")
    assert "for the others only" not in several.notes(session)
    rejected = several.sync("laptop")["rejected"]
    assert [item["device"] for item in rejected] == ["desk"]
    assert several.notes(session) == ["before", "for the others only"]


def test_removed_device_can_be_approved_again(several: Several) -> None:
    """It receives all that happened meanwhile."""
    session = several.session("start", "Build the shop")["id"]
    several.create_vault()
    several.sync()
    several.join("desk")
    several.at("laptop")
    several.document("device", "remove", "desk")
    several.session("note", "meanwhile")
    several.sync("laptop", "desk")
    several("remote", "remove", "home")
    assert several.document("remote", "add", "home", several.url)["what"] == "asked"
    words = several.words
    several.sync("desk", "desk", "laptop")
    assert several.document("device", "approve", words)["approved"]["name"] == "desk"
    several.sync("desk")
    assert several.notes(session) == ["meanwhile"]
    several.session("resume", session)
    several.session("note", "here again")
    several.sync("desk", "laptop")
    assert several.notes(session) == ["meanwhile", "here again"]


def test_device_remove_exit_codes(several: Several) -> None:
    """Not the current device, no unknown one, and only as an admin."""
    several.refused(3, "device", "remove", "desk")
    several.create_vault()
    several.refused(3, "device", "remove", "desk")
    several.refused(1, "device", "remove", "laptop")
    several.join("desk")
    several.refused(1, "device", "remove", "laptop")
    several.refused(1, "device", "remove", "desk")


def test_device_name_of_two_devices_is_ambiguous(several: Several) -> None:
    """The fingerprint is not."""
    several.create_vault()
    several.join("desk")
    several.join("phone")
    phone = several.words
    several.document("device", "rename", "desk")
    several.sync("laptop")
    assert phone in (several.refused(5, "device", "remove", "desk")["hint"] or "")
    removed = several.document("device", "remove", phone)["removed"]
    assert (removed["fingerprint"], removed["remotes"], removed["declined"]) == (phone, ["home"], False)


def test_device_named_like_the_fingerprint_of_another_is_not_meant_by_it(several: Several) -> None:
    """Every device chooses its name: two that call themselves by each other's fingerprint can both be removed."""
    several.create_vault()
    words = {}
    for device in ("desk", "phone"):
        several.join(device)
        words[device] = several.words
    several.document("device", "rename", words["desk"])
    several.sync("desk")
    several.document("device", "rename", words["phone"])
    several.sync("desk", "laptop")
    assert several.document("device", "remove", words["desk"])["removed"]["fingerprint"] == words["desk"]
    several.at("desk")
    several.session("start", "After the removal")
    several.sync("desk")
    (rejected,) = several.sync("laptop")["rejected"]
    assert rejected["device"].endswith(f" ({'-'.join(words['desk'].split('-')[:3])}…)")
    # The removed desk bears the fingerprint of the phone, which is still a member: nothing of it is accepted.
    several.refused(3, "device", "admit", words["phone"])
    assert several.document("device", "remove", words["phone"])["removed"]["fingerprint"] == words["phone"]


def test_request_can_be_declined(several: Several) -> None:
    """It disappears from the list."""
    several.create_vault()
    several.at("stranger")
    several.document("remote", "add", "home", several.url)
    words = several.words
    several.at("laptop")
    assert several.document("device", "remove", words)["removed"]["declined"] is True
    assert listed(several) == {"laptop": "member"}


def recover(several: Several, code: str) -> tuple[int, str]:
    several.patch.setattr("sys.stdin", io.StringIO(code + "\n"))
    result = several("remote", "add", "home", several.url, "--recover", "--json")
    return result.code, result.out


def test_recovery_code_opens_the_vault_for_a_new_device(several: Several) -> None:
    """The code alone is on stdout; the device receives everything and is an admin."""
    session = several.session("start", "Build the shop")["id"]
    several.create_vault()
    several.sync()
    spoken = several("device", "recovery-code")
    assert spoken.code == 0
    code = spoken.out.strip()
    assert len(code.split("-")) == 13
    assert code not in spoken.err
    assert "--recover" in spoken.err
    several.at("new")
    assert recover(several, code)[0] == 0
    assert several.sync()["pulled"] > 0
    assert several.session("show", session)["goal"] == "Build the shop"
    several.join("newer", by="new")


def test_recovery_refuses_wrong_codes(several: Several) -> None:
    """Mistyped, outdated or of another vault; it leaves no trace."""
    several.create_vault()
    older = several.document("device", "recovery-code")["recovery_code"]
    newer = several.document("device", "recovery-code")["recovery_code"]
    several.at("new")
    assert recover(several, "seven words")[0] == 4
    assert recover(several, "")[0] == 4
    assert recover(several, older)[0] == 1
    assert several.document("remote", "list")["remotes"] == []
    assert recover(several, newer)[0] == 0


def test_recovery_code_can_be_made_only_by_an_admin(several: Several) -> None:
    several.refused(3, "device", "recovery-code")
    several.create_vault()
    several.refused(3, "device", "recovery-code", "--remote", "elsewhere")
    several.join("desk")
    several.refused(1, "device", "recovery-code")


def test_device_commands_report_an_unreachable_remote(several: Several) -> None:
    several.create_vault()
    several.away()
    several.refused(7, "device", "approve", "0" * 32)
    several.refused(7, "device", "remove", "desk")
    several.refused(7, "device", "recovery-code")
