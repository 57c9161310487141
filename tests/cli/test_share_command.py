"""`share`, `accept` and `revoke`: one session for one person, and nothing else of the remote."""

from __future__ import annotations

import io
import json
import os
import time
from pathlib import Path

import pytest

from holdfast.core.envelope import Event
from holdfast.keeper.keeper import Keeper
from holdfast.store.interface import UNSEEN
from holdfast.workspace import spool
from holdfast.workspace.keys.device_keys import DeviceKeys
from tests.cli.several_devices import Several

ADA = "ada@example.org"
DAY = 86_400_000


class Sharing(Several):
    """A laptop with two sessions at a remote, and Ada at a device of her own."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        super().__init__(root, monkeypatch, capsys)
        self.private = str(self.session("start", "Private thoughts")["id"])
        self.shared = str(self.session("start", "Build the shop", "--replace")["id"])
        self.create_vault()
        self.sync()
        self.owner = self.words
        self.at("ada")
        key = self.age
        self.trust_owner()
        self.at("laptop")
        self.document("people", "add", ADA, key)

    def trust_owner(self) -> None:
        """Makes the laptop known on the current device, so that its offers are accepted without asking."""
        self.document("people", "add", "ben@example.org", self.owner)

    def share(self, *words: str) -> None:
        self.at("laptop")
        self.document("share", self.shared, "--with", ADA, *words)

    def accept(self) -> dict[str, object]:
        self.at("ada")
        (one,) = self.document("accept", self.url)["sessions"]
        return dict(one)

    def write(self, device: str, text: str) -> None:
        """Adds a note to the session and syncs."""
        self.at(device)
        if self.document("status")["session"] is None:
            self.session("resume", self.shared)
        self.session("note", text)
        self.sync()


@pytest.fixture
def sharing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Sharing:
    return Sharing(tmp_path, monkeypatch, capsys)


def test_shared_session_is_continued_by_the_guest(sharing: Sharing) -> None:
    """The guest reads it at once and writes after the owner's next sync; both receive everything."""
    sharing.at("laptop")
    spoken = sharing("share", sharing.shared[:8], "--with", ADA.upper())
    assert spoken.code == 0
    assert f"holdfast accept {sharing.url}" in spoken.err
    sharing.at("ada")
    spoken = sharing("accept", sharing.url)
    assert spoken.code == 0
    assert "Build the shop" in spoken.out
    assert f"holdfast resume {sharing.shared[:8]}" in spoken.out
    sharing.sync("laptop", "ada")
    sharing.write("ada", "from Ada")
    sharing.write("laptop", "from the laptop")
    sharing.sync("ada")
    assert sorted(sharing.notes(sharing.shared)) == ["from Ada", "from the laptop"]
    sharing.refused(3, "show", sharing.private)


def test_share_accept_and_revoke_json(sharing: Sharing) -> None:
    """Session, person and rights."""
    sharing.at("laptop")
    share = sharing.document("share", sharing.shared, "--with", ADA, "--expires", "2099-01-01T00:00:00Z")["share"]
    assert share == {
        "session": sharing.shared, "with": ADA, "remote": "home", "url": sharing.url, "write": True,
        "expires": "2099-01-01T00:00:00.000Z",
    }  # fmt: skip
    accepted = sharing.accept()
    assert accepted["id"] == sharing.shared
    assert accepted["goal"] == "Build the shop"
    assert accepted["writes"] is True
    (remote,) = sharing.document("remote", "list")["remotes"]
    assert (remote["kind"], remote["session"]) == ("share", sharing.shared)
    sharing.at("laptop")
    revoked = sharing.document("revoke", sharing.shared, "--from", ADA)["revoked"]
    assert revoked == {"session": sharing.shared, "from": ADA, "remotes": ["home"]}


def test_share_includes_all_devices_of_the_owner(sharing: Sharing) -> None:
    """In both directions."""
    sharing.join("desk")
    sharing.share()
    sharing.accept()
    sharing.sync("laptop", "ada")
    sharing.write("ada", "from Ada")
    sharing.sync("desk")
    sharing.write("desk", "from the desk")
    sharing.sync("ada")
    assert "from the desk" in sharing.notes(sharing.shared)
    sharing.at("desk")
    assert "from Ada" in sharing.notes(sharing.shared)


def test_read_only_share_refuses_to_record(sharing: Sharing) -> None:
    """The guest sees everything, including later events, and can fork the session."""
    sharing.share("--read-only")
    assert sharing.accept()["writes"] is False
    for words in (
        ("resume", sharing.shared),
        ("archive", sharing.shared),
        ("continue",),
    ):
        error = sharing.refused(1, *words)
        assert error["hint"] == f"Continue with a copy of your own: holdfast fork {sharing.shared[:8]}", words
    assert sharing.session("show", sharing.shared)["sync"]["status"] == "synced"
    sharing.session("fork", sharing.shared)
    sharing.session("note", "mine alone")
    sharing.sync("laptop", "ada")
    sharing.write("laptop", "for both")
    assert sharing.notes(sharing.shared) == ["for both"]
    sharing.sync("ada")
    assert sharing.notes(sharing.shared) == ["for both"]
    assert sharing.session("show", sharing.shared)["sync"]["status"] == "synced"


def test_share_reduced_to_read_only_is_reported_once(sharing: Sharing) -> None:
    """The guest keeps reading, and the work tree can leave the session."""
    sharing.share()
    sharing.accept()
    sharing.sync("laptop", "ada")
    sharing.write("ada", "from Ada")
    sharing.sync("laptop")
    sharing.share("--read-only")
    sharing.at("ada")
    spoken = sharing("sync")
    assert spoken.code == 0
    assert "read-only for you from now on" in spoken.out + spoken.err
    assert "removed" not in spoken.out + spoken.err
    assert "Not accepted" not in spoken.out + spoken.err
    assert sharing.refused(1, "note", "too late")["session"] == sharing.shared
    assert sharing.refused(1, "task", "add", "too late")["session"] == sharing.shared
    sharing.write("laptop", "still to be read")
    sharing.at("ada")
    again = sharing("sync")
    assert "from now on" not in again.out + again.err
    assert "Not accepted" not in again.out + again.err
    assert "still to be read" in sharing.notes(sharing.shared)
    assert sharing.session("show", sharing.shared)["sync"]["status"] == "synced"
    (remote,) = sharing.document("remote", "list")["remotes"]
    assert (remote["status"], remote["error"]) == ("reader", None)
    sharing.session("start", "Something else", "--replace")


def test_agent_work_in_a_read_only_session_continues_in_a_session_of_the_guest(sharing: Sharing) -> None:
    sharing.share()
    sharing.accept()
    sharing.sync("laptop", "ada")
    sharing.write("ada", "from Ada")
    sharing.sync("laptop")
    sharing.share("--read-only")
    sharing.sync("ada")
    entries = {
        "hook_event_name": "UserPromptSubmit",
        "session_id": "c1",
        "cwd": os.getcwd(),
        "prompt": "Go on with it",
    }
    spool.add_payload(str(sharing.root / "home-ada"), "claude", "user", 1, json.dumps(entries).encode())
    now = sharing.session("show", "@")
    assert now["id"] != sharing.shared
    assert now["continues"] == sharing.shared
    assert sharing.session("show", sharing.shared)["native"] == []


# ── deleting as a guest ──────────────────────────────────────────────────────────────────────────────────


def test_guest_deletes_only_their_own_copy(sharing: Sharing) -> None:
    """It is not synced any more; the owner's devices keep theirs, and later shares can be accepted."""
    sharing.join("desk")
    sharing.share()
    sharing.accept()
    sharing.sync("laptop", "ada")
    sharing.write("ada", "from Ada")
    spoken = sharing("delete", sharing.shared, "--confirm", "--force")
    assert spoken.code == 0
    assert "the others keep theirs" in spoken.err
    sharing.refused(3, "show", sharing.shared)
    assert sharing.document("remote", "list")["remotes"] == []
    sharing.refused(3, "sync")
    for device in ("laptop", "desk"):
        assert sharing.sync(device)["rejected"] == []
        assert sharing.notes(sharing.shared) == ["from Ada"]
    sharing.at("ada")
    assert "deleted" in sharing.refused(3, "accept", sharing.url)["message"]
    sharing.at("laptop")
    other = sharing.session("start", "Another thing", "--replace")["id"]
    sharing.document("share", other, "--with", ADA)
    assert sharing.accept()["id"] == other
    sharing.sync("laptop", "desk")
    assert sharing.notes(sharing.shared) == ["from Ada"]


def test_deletion_of_a_guest_reaches_the_guests_other_device(sharing: Sharing) -> None:
    """Which leaves the share too."""
    sharing.at("ada")
    sharing.document("remote", "add", "mine", f"folder:{sharing.root}/adas")
    sharing.at("tablet")
    sharing.document("remote", "add", "mine", f"folder:{sharing.root}/adas")
    words, key = sharing.words, sharing.age
    sharing.at("ada")
    sharing.document("device", "approve", words)
    sharing.sync("tablet", "laptop")
    sharing.document("people", "add", ADA, key)
    sharing.share()
    sharing.accept()
    sharing.at("tablet")
    sharing.trust_owner()
    sharing.document("accept", sharing.url)
    sharing.sync("laptop", "ada", "tablet")
    sharing.write("tablet", "from the tablet")
    sharing.sync("laptop", "ada")
    sharing.document("delete", sharing.shared, "--confirm", "--force")
    sharing.sync("ada", "tablet", "tablet", "laptop")
    assert sharing.notes(sharing.shared) == ["from the tablet"]
    sharing.at("tablet")
    sharing.refused(3, "show", sharing.shared)
    assert [item["name"] for item in sharing.document("remote", "list")["remotes"]] == ["mine"]
    sharing.join("new")
    sharing.sync("laptop", "new")
    assert sharing.notes(sharing.shared) == ["from the tablet"]


def test_accept_works_after_the_owner_deleted_another_shared_session(sharing: Sharing) -> None:
    sharing.share()
    sharing.accept()
    sharing.sync("laptop", "ada", "laptop")
    sharing.document("delete", sharing.shared, "--confirm", "--force")
    sharing.sync("laptop", "ada")
    sharing.refused(3, "show", sharing.shared)
    assert "deleted" in sharing.refused(3, "accept")["message"]
    sharing.at("laptop")
    other = sharing.session("start", "Another thing", "--replace")["id"]
    sharing.document("share", other, "--with", ADA)
    assert sharing.accept()["id"] == other
    assert sharing.document("accept")["sessions"][0]["id"] == other


def test_guest_erases_only_their_own_secrets(sharing: Sharing) -> None:
    """Only the owner can erase events of the owner."""
    from holdfast.sync import outgoing
    from holdfast.sync.outgoing import EventWithSecrets

    sharing.share()
    sharing.accept()
    sharing.sync("laptop", "ada")
    sharing.write("laptop", "a swordfish")
    sharing.sync("ada")
    sharing.write("ada", "one more swordfish")

    def look(event: Event, _: object) -> EventWithSecrets | None:
        is_present = event.data is not None and event.type == "note.added" and b"swordfish" in event.data
        return EventWithSecrets(event, {"text": "[cut]"}, {"fish": 1}) if is_present else None

    sharing.patch.setattr(outgoing, "find_secrets", look)
    with Keeper.open(home=str(sharing.root / "home-ada")) as keeper, keeper.transaction() as transaction:
        transaction.remember(UNSEEN, b"0")
    sharing.sync("ada")
    assert sorted(sharing.notes(sharing.shared)) == ["[cut]", "a swordfish"]
    sharing.patch.undo()
    sharing.patch.setenv("HOLDFAST_HOME", str(sharing.root / "home-laptop"))
    assert sharing.document("sync")["rejected"] == []
    assert sorted(sharing.notes(sharing.shared)) == ["[cut]", "a swordfish"]


def test_revoked_guest_keeps_what_was_read(sharing: Sharing) -> None:
    """Nothing is exchanged afterwards, in either direction."""
    sharing.share()
    sharing.accept()
    sharing.sync("laptop", "ada")
    sharing.write("ada", "while it lasted")
    sharing.sync("laptop")
    spoken = sharing("revoke", sharing.shared, "--from", ADA)
    assert spoken.code == 0
    assert "have already read" in spoken.err
    sharing.write("laptop", "afterwards")
    sharing.sync("ada")
    sharing.write("ada", "too late")
    assert sharing.notes(sharing.shared) == ["while it lasted", "too late"]
    sharing.sync("laptop")
    assert sharing.notes(sharing.shared) == ["while it lasted", "afterwards"]


def test_share_revoked_before_it_was_accepted_cannot_be_accepted(sharing: Sharing) -> None:
    sharing.share()
    sharing.document("revoke", sharing.shared, "--from", ADA)
    sharing.write("laptop", "afterwards")
    sharing.at("ada")
    spoken = sharing("accept", sharing.url)
    if spoken.code == 0:  # what its keys open may be read; later events may not
        assert "afterwards" not in sharing.notes(sharing.shared)
    else:
        assert spoken.code == 3


def test_sharing_again_changes_the_rights(sharing: Sharing) -> None:
    """To read, to write, and to read again."""
    sharing.share("--read-only")
    assert sharing.accept()["writes"] is False
    sharing.share()
    assert sharing.accept()["writes"] is True
    sharing.sync("laptop", "ada")
    sharing.write("ada", "from Ada")
    sharing.sync("laptop")
    assert sharing.notes(sharing.shared) == ["from Ada"]
    sharing.share("--read-only")
    assert sharing.accept()["writes"] is False
    sharing.write("laptop", "still to be read")
    sharing.sync("ada")
    assert "still to be read" in sharing.notes(sharing.shared)


def test_guest_writes_again_when_shared_with_after_a_revocation(sharing: Sharing) -> None:
    """With the same device."""
    sharing.share()
    sharing.accept()
    sharing.sync("laptop", "ada", "laptop")
    sharing.document("revoke", sharing.shared, "--from", ADA)
    sharing.share()
    assert sharing.accept()["writes"] is True
    sharing.sync("ada", "laptop", "ada")
    sharing.write("ada", "back again")
    sharing.sync("laptop")
    assert sharing.notes(sharing.shared) == ["back again"]


def test_expired_share_acts_like_a_revoked_one(sharing: Sharing) -> None:
    sharing.share("--expires", "7d")
    sharing.accept()
    sharing.sync("laptop", "ada")
    now = Keeper.now
    sharing.patch.setattr(Keeper, "now", lambda keeper: now(keeper) + 8 * DAY)
    sharing.sync("laptop")
    sharing.patch.setattr(Keeper, "now", now)
    sharing.write("laptop", "afterwards")
    sharing.sync("ada")
    assert sharing.notes(sharing.shared) == []
    sharing.at("laptop")
    sharing.refused(3, "revoke", sharing.shared, "--from", ADA)


def test_share_refuses_invalid_expiry_times(sharing: Sharing) -> None:
    """In the past, nonsense, and beyond the calendar."""
    sharing.at("laptop")
    for wrong in ("0d", "yesterday", "-1d", "7", "2001-01-01T00:00:00Z", "2001-01-01", "2099-13-01", "999999w", ""):
        result = sharing("share", sharing.shared, "--with", ADA, f"--expires={wrong}", "--json")
        assert result.code == 4, wrong
    for right in ("7d", "12h", "30m", "2w", "90s"):
        assert sharing("share", sharing.shared, "--with", ADA, "--expires", right).code == 0


def test_share_expires_at_the_end_of_a_given_day(sharing: Sharing) -> None:
    """In local time."""
    sharing.at("laptop")
    sharing.patch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        for day, end in (("2099-01-31", "2099-01-31T22:59:59.999Z"), ("2027-07-01", "2027-07-01T21:59:59.999Z")):
            done = sharing.document("share", sharing.shared, "--with", ADA, "--expires", day)
            assert done["share"]["expires"] == end
    finally:
        sharing.patch.delenv("TZ")
        time.tzset()


def test_share_exit_codes(sharing: Sharing) -> None:
    """Unknown person, session or remote, no remote at all, and an unreachable one."""
    sharing.at("laptop")
    sharing.refused(3, "share", sharing.shared, "--with", "bob@example.org")
    sharing.refused(3, "share", "ffffffff", "--with", ADA)
    sharing.refused(3, "share", sharing.shared, "--with", ADA, "--remote", "elsewhere")
    sharing.refused(2, "share", sharing.shared)
    sharing.refused(3, "revoke", sharing.shared, "--from", ADA)
    sharing.document("remote", "add", "second", f"folder:{sharing.root}/second")
    sharing.refused(1, "share", sharing.shared, "--with", ADA)
    sharing.document("share", sharing.shared, "--with", ADA, "--remote", "second")
    sharing.document("remote", "remove", "second")
    sharing.away()
    sharing.refused(7, "share", sharing.shared, "--with", ADA)
    sharing.refused(7, "revoke", sharing.shared, "--from", ADA)
    sharing.document("remote", "remove", "home")
    sharing.refused(3, "share", sharing.shared, "--with", ADA)


def test_session_waiting_for_confirmation_of_the_vault_is_not_shared(sharing: Sharing) -> None:
    sharing.at("desk")
    session = sharing.session("start", "Earlier work")["id"]
    sharing.join("desk")
    sharing.document("people", "add", ADA, DeviceKeys.generate().public.age)
    sharing.refused(1, "share", session, "--with", ADA)


def test_accept_exit_codes(sharing: Sharing) -> None:
    """No offer, no remote, an unreachable one, and an invalid key."""
    sharing.at("ada")
    sharing.refused(3, "accept")
    sharing.refused(3, "accept", sharing.url)
    sharing.refused(3, "accept", sharing.url, "nowhere")
    sharing.refused(4, "accept", "ftp:nowhere")
    sharing.refused(7, "accept", f"folder:{sharing.root}/nowhere")
    file = sharing.root / "key"
    sharing.refused(3, "accept", sharing.url, "--identity", str(file))
    file.write_text("hello\n")
    sharing.refused(4, "accept", sharing.url, "--identity", str(file))
    assert sharing.document("remote", "list")["remotes"] == []


def test_own_devices_have_nothing_to_accept(sharing: Sharing) -> None:
    """Although keys are left for them too."""
    sharing.share()
    sharing.refused(3, "accept")
    sharing.refused(3, "accept", sharing.url)


def test_share_for_a_persons_key_is_accepted_with_its_secret_key(sharing: Sharing) -> None:
    """age or SSH, from a file or standard input."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    ssh = Ed25519PrivateKey.generate()
    line = ssh.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()
    secret = ssh.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    age = DeviceKeys.generate()
    sharing.at("laptop")
    for email, key in (("bob@example.org", f"{line} bob@desk"), ("cleo@example.org", age.public.age)):
        sharing.document("people", "add", email, key)
        sharing.document("share", sharing.shared, "--with", email)
    file = sharing.root / "id_ed25519"
    file.write_bytes(secret)
    sharing.at("bob")
    sharing.trust_owner()
    sharing.refused(3, "accept", sharing.url)
    sharing.document("accept", sharing.url, "--identity", str(file))
    sharing.at("cleo")
    sharing.trust_owner()
    stdin = io.TextIOWrapper(io.BytesIO(f"# a key\n{age.identity}\n".encode()))
    sharing.patch.setattr("sys.stdin", stdin)
    sharing.document("accept", sharing.url, "--identity", "-")
    sharing.sync("laptop", "bob", "cleo")
    sharing.write("bob", "from Bob")
    sharing.write("cleo", "from Cleo")
    sharing.sync("laptop", "bob")
    assert sorted(sharing.notes(sharing.shared)) == ["from Bob", "from Cleo"]
