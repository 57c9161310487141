"""Only its owner decides over a session: attacks with ordinary commands, each refused without effect."""

from __future__ import annotations

import io
import json
import shutil
import sqlite3
import uuid
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.envelope import make_event
from holdfast.core.events import AliasGiven, NoteAdded, ProjectFacts, SessionEdited, SessionStarted
from holdfast.keeper import Keeper
from holdfast.store.interface import Draft
from holdfast.sync import join_vault, offers
from holdfast.sync.protocol import sealing
from tests.cli.several_devices import Several

OWNER = "owner@example.org"


class Attacked(Several):
    """A laptop with a session at its remote, and Mallory, who knows the session's id and the laptop's public key."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        super().__init__(root, monkeypatch, capsys)
        self.victim = str(self.session("start", "Build the shop")["id"])
        self.session("note", "before")
        self.create_vault()
        self.sync()
        self.key = self.age
        self.evil = f"folder:{root}/evil"

    def forge(self, device: str = "mallory") -> None:
        """A session with the victim's id in another home: an imported document keeps its id."""
        self.at("laptop")
        file = self.root / "copy.json"
        self.document("export", self.victim, "--format", "craft", "-o", str(file))
        self.at(device)
        done = self.document("import", str(file), "--format", "craft")
        assert done["sessions"] == [self.victim]
        file.unlink()

    def offer(self, device: str = "mallory", *words: str) -> None:
        """Offers that session to the laptop from a vault of the attacker."""
        self.forge(device)
        self.document("people", "add", OWNER, self.key)
        self.document("remote", "add", "evil", self.evil)
        self.document("share", self.victim, "--with", OWNER, *words)

    def plant(self) -> None:
        """Copies everything of the other vault into the owner's folder."""
        for file in (self.root / "evil").rglob("*"):
            target = self.folder / file.relative_to(self.root / "evil")
            if file.is_file() and not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, target)

    def assert_intact(self, *notes: str) -> None:
        """The owner's session is complete, and the owner can write in it."""
        self.at("laptop")
        shown = self.session("show", self.victim)
        assert [note["text"] for note in shown["notes"]] == ["before", *notes]
        self.session("note", "goes on")
        assert self.notes(self.victim) == ["before", *notes, "goes on"]


@pytest.fixture
def attacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Attacked:
    return Attacked(tmp_path, monkeypatch, capsys)


@pytest.mark.parametrize("words", [(), ("--read-only",)])
def test_share_of_an_own_id_is_refused_and_deletes_nothing(attacked: Attacked, words: tuple[str, ...]) -> None:
    """Even accepted by name; a deletion by the offerer changes nothing."""
    attacked.offer("mallory", *words)
    attacked.at("laptop")
    (offer,) = attacked.document("accept", attacked.evil, "--list")["offers"]
    assert (offer["session"], offer["known"], offer["taken"]) == (attacked.victim, False, True)
    error = attacked.refused(1, "accept", attacked.evil, offer["name"])
    assert "session of your own" in error["message"]
    attacked.refused(1, "accept", attacked.evil)
    attacked.at("mallory")
    attacked.document("delete", attacked.victim, "--confirm", "--force")
    attacked.sync("mallory", "laptop")
    attacked.assert_intact()
    assert [item["name"] for item in attacked.document("remote", "list")["remotes"]] == ["home"]


def test_share_of_an_own_id_is_refused_even_from_a_trusted_device(attacked: Attacked) -> None:
    """Trusted to offer sessions, not to replace ours."""
    attacked.offer()
    words = attacked.words
    attacked.at("laptop")
    attacked.document("people", "add", "mallory@example.org", words)
    attacked.refused(1, "accept", attacked.evil)
    attacked.assert_intact()


def test_second_device_replaces_an_accepted_forgery_by_the_vaults_session(attacked: Attacked) -> None:
    """It accepted the forgery before it received the real session."""
    attacked.at("tablet")
    attacked.document("remote", "add", "home", attacked.url)
    words, key = attacked.words, attacked.age
    attacked.offer()
    attacked.document("people", "add", "tablet@example.org", key)
    attacked.document("share", attacked.victim, "--with", "tablet@example.org")
    attacked.session("resume", attacked.victim, "--force")
    attacked.session("note", "planted")
    attacked.sync()
    attacked.at("tablet")
    (offer,) = attacked.document("accept", attacked.evil, "--list")["offers"]
    attacked.document("accept", attacked.evil, offer["name"])
    attacked.sync("mallory", "tablet")
    assert "planted" in attacked.notes(attacked.victim)
    attacked.at("laptop")
    attacked.document("device", "approve", words, "--admin")
    attacked.sync("tablet", "laptop", "tablet", "laptop")
    assert attacked.notes(attacked.victim) == ["before"]
    attacked.at("tablet")
    assert attacked.notes(attacked.victim) == ["before"]
    assert [item["name"] for item in attacked.document("remote", "list")["remotes"]] == ["home"]
    attacked.at("mallory")
    attacked.document("delete", attacked.victim, "--confirm", "--force")
    attacked.sync("mallory", "tablet", "laptop")
    attacked.assert_intact()


def test_offer_planted_by_a_revoked_guest_is_not_accepted(attacked: Attacked) -> None:
    """`--list` says that a share of theirs was revoked."""
    attacked.at("guest")
    key = attacked.age
    attacked.document("people", "add", OWNER, attacked.key)
    attacked.at("laptop")
    attacked.document("people", "add", "guest@example.org", key)
    attacked.document("share", attacked.victim, "--with", "guest@example.org")
    attacked.at("guest")
    (offer,) = attacked.document("accept", attacked.url, "--list")["offers"]
    assert (offer["from"], offer["known"], offer["writes"]) == ("laptop", False, True)
    attacked.document("accept", attacked.url, offer["name"])
    attacked.sync("laptop", "guest")
    assert attacked.refused(1, "share", attacked.victim, "--with", OWNER)["message"].startswith(
        "the session was shared"
    )
    attacked.at("laptop")
    attacked.document("revoke", attacked.victim, "--from", "guest@example.org")
    # The same keys, and a store in which the session belongs to the guest.
    home = attacked.root / "home-guest"
    for file in [*home.glob("store.db*"), home / "remotes.json", home / "people.json"]:
        file.unlink()
    attacked.offer("guest")
    attacked.plant()
    attacked.at("laptop")
    (offer,) = attacked.document("accept", "--list")["offers"]
    assert (offer["revoked"], offer["known"], offer["session"]) == (True, False, attacked.victim)
    attacked.refused(1, "accept")
    words = attacked.document("accept", "--list")["offers"][0]["fingerprint"]
    attacked.document("people", "add", "guest@example.org", words)
    attacked.refused(1, "accept")
    attacked.at("guest")
    attacked.document("delete", attacked.victim, "--confirm", "--force")
    attacked.sync("guest")
    attacked.plant()
    attacked.sync("laptop")
    attacked.assert_intact()


def test_offer_of_a_person_whose_share_was_revoked_is_accepted_by_name_only(attacked: Attacked) -> None:
    attacked.at("guest")
    key, words = attacked.age, attacked.words
    attacked.session("start", "Something else")
    attacked.document("people", "add", OWNER, attacked.key)
    attacked.document("remote", "add", "evil", attacked.evil)
    attacked.document("share", "@", "--with", OWNER)
    attacked.at("laptop")
    attacked.document("people", "add", "guest@example.org", key)
    attacked.document("people", "add", "guest@example.org", words)
    attacked.document("share", attacked.victim, "--with", "guest@example.org")
    attacked.document("revoke", attacked.victim, "--from", "guest@example.org")
    attacked.refused(1, "accept", attacked.evil)
    (offer,) = attacked.document("accept", attacked.evil, "--list")["offers"]
    assert (offer["known"], offer["revoked"], offer["from"]) == (True, True, "guest@example.org")
    attacked.document("accept", offer["name"], attacked.evil)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_accept_shows_the_offer_and_asks_on_a_terminal(attacked: Attacked) -> None:
    """No refuses, yes accepts the only offer; escapes in it are shown harmlessly."""
    attacked.at("guest")
    key = attacked.age
    attacked.at("laptop")
    attacked.document("people", "add", "guest@example.org", key)
    attacked.document("share", attacked.victim, "--with", "guest@example.org")
    words = attacked.words
    attacked.at("guest")
    attacked.patch.setattr("sys.stdin", Terminal("\n"))
    spoken = attacked("accept", attacked.url)
    assert spoken.code == 1
    assert words in spoken.err
    assert "Build the shop" in spoken.err
    assert "\\x1b" not in spoken.err
    assert attacked.document("remote", "list")["remotes"] == []
    attacked.patch.setattr("sys.stdin", Terminal("y\n"))
    assert attacked("accept", attacked.url).code == 0
    assert attacked.notes(attacked.victim) == ["before"]


def test_listing_an_offer_decrypts_only_what_it_is_about(attacked: Attacked, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anyone who knows a public key can leave an offer of any size."""
    attacked.at("mallory")
    attacked.session("start", "Hello")
    attacked.document("people", "add", OWNER, attacked.key)
    attacked.document("remote", "add", "evil", attacked.evil)
    attacked.document("share", "@", "--with", OWNER)
    attacked.session("note", "a " * 200_000)
    attacked.sync()
    attacked.at("laptop")
    unsealed = []
    unseal = sealing.unseal

    def counted(*given: Any, **named: Any) -> bytes:
        unsealed.append(len(plain := unseal(*given, **named)))
        return plain

    monkeypatch.setattr(sealing, "unseal", counted)
    monkeypatch.setattr(offers, "_UNPACKED_BYTES_EACH", 100_000)
    (offer,) = attacked.document("accept", attacked.evil, "--list")["offers"]
    assert (offer["from"], offer["goal"]) == ("mallory", "Hello")
    assert sum(unsealed) <= 100_000


def test_offer_of_a_known_device_is_found_among_many(attacked: Attacked, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unread offers of unknown devices are counted, and can be accepted by name."""
    monkeypatch.setattr(offers, "_MAX_OFFERS", 1)
    attacked.at("friend")
    words = attacked.words
    for device in ("mallory", "trudy", "friend"):
        attacked.at(device)
        attacked.session("start", f"From {device}")
        attacked.document("people", "add", OWNER, attacked.key)
        attacked.document("remote", "add", "evil", f"{attacked.evil}-{device}")
        attacked.document("share", "@", "--with", OWNER)
        shutil.copytree(
            attacked.root / f"evil-{device}", attacked.folder, dirs_exist_ok=True, ignore=lambda *_: ["vault"]
        )
    attacked.at("laptop")
    attacked.document("people", "add", "friend@example.org", words)
    shown = attacked("accept", "--list")
    assert "From friend" in shown.out
    assert "2 more offers" in shown.out + shown.err
    monkeypatch.setattr(offers, "_MAX_OFFERS", 3)
    by_mallory = next(
        item["name"] for item in attacked.document("accept", "--list")["offers"] if item["from"] == "mallory"
    )
    monkeypatch.setattr(offers, "_MAX_OFFERS", 1)
    (taken,) = attacked.document("accept", by_mallory)["sessions"]
    assert taken["goal"] == "From mallory"


def test_device_is_approved_by_its_fingerprint_among_many_requests(
    attacked: Attacked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(join_vault, "_MAX_REMEMBERED", 1)
    for device in ("a", "b", "c", "d", "tablet"):
        attacked.at(device)
        attacked.document("remote", "add", "home", attacked.url)
    words = attacked.words
    attacked.at("laptop")
    attacked.document("device", "approve", words)
    assert attacked.sync("tablet")["pulled"] > 0


def test_sync_of_a_removed_device_claims_to_have_sent_nothing(attacked: Attacked) -> None:
    """Nobody reads what it uploads."""
    attacked.join("tablet")
    attacked.session("start", "On the tablet", "--replace")
    attacked.sync("tablet", "laptop")
    attacked.document("device", "remove", "tablet")
    attacked.sync("laptop")
    attacked.at("tablet")
    attacked.session("note", "too late")
    done = attacked.document("sync")
    assert done["pushed"] == 0
    assert any("removed" in note for note in done["notes"])
    assert "Sent" not in attacked("sync").out


def test_replaced_vault_object_is_reported_by_a_member(attacked: Attacked) -> None:
    """It would mislead devices that ask to join."""
    attacked.at("mallory")
    attacked.document("remote", "add", "evil", attacked.evil)
    shutil.copy(attacked.root / "evil" / "vault", attacked.folder / "vault")
    attacked.at("laptop")
    (rejected,) = attacked.document("sync")["rejected"]
    assert "another vault's" in rejected["reason"]
    (attacked.folder / "vault").write_text("no vault")
    assert "cannot be read" in attacked.document("sync")["rejected"][0]["reason"]


def test_device_without_admin_rights_deletes_only_its_own_sessions(attacked: Attacked) -> None:
    """Anything else is refused, and other devices would ignore it."""
    attacked.join("tablet")
    attacked.sync("tablet")
    error = attacked.refused(1, "delete", attacked.victim, "--confirm", "--force")
    assert "admin device" in error["message"]
    own = str(attacked.session("start", "On the tablet", "--replace")["id"])
    attacked.sync("tablet", "laptop", "tablet")
    attacked.document("delete", own, "--confirm", "--force")
    attacked.sync("tablet", "laptop")
    attacked.refused(3, "show", own)
    attacked.assert_intact()


def test_second_device_of_a_guest_cannot_write_or_leave_the_share(
    attacked: Attacked,
) -> None:
    """Its events stay among the person's own devices, and only an admin device deletes."""
    attacked.at("guest")
    attacked.document("remote", "add", "own", f"folder:{attacked.root}/own")
    key = attacked.age
    attacked.at("laptop")
    attacked.document("people", "add", "guest@example.org", key)
    attacked.document("share", attacked.victim, "--with", "guest@example.org")
    attacked.sync("laptop")
    attacked.at("guest")
    (offer,) = attacked.document("accept", attacked.url, "--list")["offers"]
    attacked.document("accept", attacked.url, offer["name"])
    attacked.sync("guest")
    attacked.at("phone")
    attacked.document("remote", "add", "own", f"folder:{attacked.root}/own")
    words = attacked.words
    attacked.at("guest")
    attacked.document("device", "approve", words)
    attacked.sync("phone")
    attacked.session("resume", attacked.victim, "--force")
    attacked.session("note", "from the phone")
    assert any("stays among your own devices" in note for note in attacked.sync("phone")["notes"])
    assert "admin device" in attacked.refused(1, "delete", attacked.victim, "--confirm", "--force")["message"]
    attacked.sync("guest", "laptop")
    attacked.assert_intact()
    attacked.at("guest")
    assert attacked.notes(attacked.victim) == ["before", "from the phone"]
    attacked.document("delete", attacked.victim, "--confirm", "--force")
    attacked.sync("guest", "phone")
    attacked.refused(3, "show", attacked.victim)


def test_continue_prefers_an_own_session_to_one_dated_ahead_by_others(attacked: Attacked) -> None:
    attacked.at("guest")
    own = attacked.session("start", "Own work")["id"]
    attacked.session("pause")
    key = attacked.age
    attacked.at("laptop")
    attacked.document("people", "add", "guest@example.org", key)
    attacked.document("share", attacked.victim, "--with", "guest@example.org")
    attacked.session("note", "later")
    attacked.sync("laptop")
    attacked.at("guest")
    (offer,) = attacked.document("accept", attacked.url, "--list")["offers"]
    attacked.document("accept", attacked.url, offer["name"])
    shown = {item["id"]: item["updated_at"] for item in attacked.document("history")["sessions"]}
    assert shown[attacked.victim] > shown[own]
    assert attacked.session("continue")["id"] == own


def test_restore_of_another_persons_backup_deletes_nothing(attacked: Attacked) -> None:
    """Its deletion of our session is left out and named."""
    attacked.forge()
    attacked.document("delete", attacked.victim, "--confirm", "--force")
    file = str(attacked.root / "backup")
    attacked.document("backup", file)
    attacked.at("laptop")
    spoken = attacked("restore", file, "--json")
    assert spoken.code == 1
    assert attacked.victim in spoken.out
    attacked.assert_intact()


def test_restore_deletes_only_after_confirmation(attacked: Attacked) -> None:
    """A backup does not prove who wrote its events."""
    shutil.copytree(attacked.root / "home-laptop", attacked.root / "home-copy")
    attacked.at("copy")
    attacked.document("delete", attacked.victim, "--confirm", "--force")
    file = str(attacked.root / "backup")
    attacked.document("backup", file)
    attacked.at("laptop")
    spoken = attacked("restore", file, "--json")
    assert spoken.code == 1
    assert "cannot prove" in spoken.out
    attacked.assert_intact()
    attacked.document("restore", file, "--yes")
    attacked.refused(3, "show", attacked.victim)


def test_restore_does_not_override_events_recorded_here(attacked: Attacked) -> None:
    """Of equal keys the first counts, and a forged file can have any clock."""
    home = str(attacked.root / "home-laptop")
    note = NoteAdded(text="captured")
    with Keeper.open(str(attacked.project), home=home) as keeper, keeper.transaction() as transaction:
        transaction.record(attacked.victim, Draft(note, keeper.now(), "me", "hook:1"))
    shutil.copytree(home, attacked.root / "home-copy")
    forged = make_event(
        session=attacked.victim, writer="f" * 20, seq=1, prev=None, clock=1, at=1, actor="x", type="note.added",
        version=1, data=b'{"text":"instead"}', salt=bytes(16), key="hook:1",
    )  # fmt: skip
    attacked.at("copy")
    with Keeper.open(str(attacked.project), home=str(attacked.root / "home-copy")) as keeper:
        with keeper.transaction() as transaction:
            transaction.receive([forged])
        keeper.backup(str(attacked.root / "backup"))
    attacked.at("laptop")
    assert attacked("restore", str(attacked.root / "backup"), "--json").code == 1
    assert "captured" in attacked.notes(attacked.victim)
    attacked.document("restore", str(attacked.root / "backup"), "--yes")
    assert "instead" in attacked.notes(attacked.victim)


def test_restore_refuses_a_backup_with_a_view_before_running_it(attacked: Attacked) -> None:
    file = attacked.root / "backup"
    attacked.document("backup", str(file))
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("DROP TABLE IF EXISTS words")
        connection.execute(
            "CREATE VIEW words AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
        )
        connection.commit()
    assert "would run" in attacked.refused(4, "restore", str(file))["message"]


def test_session_with_an_invalid_tag_of_a_guest_can_be_forked(attacked: Attacked) -> None:
    home = str(attacked.root / "home-laptop")
    with Keeper.open(str(attacked.project), home=home) as keeper, keeper.transaction() as transaction:
        transaction.record(attacked.victim, Draft(SessionEdited(tags=("fine", "a\0b")), keeper.now(), "guest"))
    assert attacked.session("fork", attacked.victim)["tags"] == ["fine", "ab"]


def test_restore_of_a_session_that_shares_only_the_id_changes_nothing(attacked: Attacked) -> None:
    """It is left out and named."""
    attacked.forge()
    attacked.session("resume", attacked.victim, "--force")
    attacked.document("abort", "taken over")
    file = str(attacked.root / "backup")
    attacked.document("backup", file)
    attacked.at("laptop")
    spoken = attacked("restore", file, "--json")
    assert spoken.code == 1
    assert "a different session with the same id" in spoken.out
    attacked.assert_intact()


def test_guest_alias_draws_no_import_into_the_shared_session(attacked: Attacked) -> None:
    """Aliases of timer documents can be guessed; the owner's import makes a session of its own."""
    attacked.at("guest")
    key = attacked.age
    attacked.session("start", "Private plan")
    file = attacked.root / "plan.json"
    attacked.document("export", "--format", "timer", "-o", str(file))
    alias = str(json.loads(file.read_text())["sessionId"])
    attacked.at("laptop")
    attacked.document("people", "add", "guest@example.org", key)
    attacked.document("share", attacked.victim, "--with", "guest@example.org")
    attacked.at("guest")
    attacked.document(
        "accept", attacked.url, attacked.document("accept", attacked.url, "--list")["offers"][0]["name"]
    )
    attacked.sync("laptop", "guest")
    with Keeper.open(str(attacked.root / "project"), home=str(attacked.root / "home-guest")) as keeper:
        keeper.recorder.record(attacked.victim, lambda _: [AliasGiven(format="timer", id=alias)])
    attacked.sync("guest", "laptop")
    assert attacked.session("show", attacked.victim)["aliases"]["timer"] == alias
    assert attacked.document("import", str(file), "--format", "timer")["sessions"] != [attacked.victim]


def test_import_of_a_shared_sessions_id_gets_an_id_of_its_own(attacked: Attacked) -> None:
    """The same one each time."""
    attacked.at("guest")
    key = attacked.age
    attacked.at("laptop")
    attacked.document("people", "add", "guest@example.org", key)
    attacked.document("share", attacked.victim, "--with", "guest@example.org")
    file = attacked.root / "copy.json"
    attacked.document("export", attacked.victim, "--format", "craft", "-o", str(file))
    attacked.at("guest")
    name = attacked.document("accept", attacked.url, "--list")["offers"][0]["name"]
    attacked.document("accept", attacked.url, name)
    before = attacked.session("show", attacked.victim)
    done = attacked.document("import", str(file), "--format", "craft")["sessions"][0]
    assert done != attacked.victim
    again = attacked.document("import", str(file), "--format", "craft")["sessions"][0]
    assert again == done
    assert attacked.session("show", attacked.victim)["updated_at"] == before["updated_at"]


def test_guest_device_with_the_name_of_an_own_one_is_marked(attacked: Attacked) -> None:
    """It does not count as the owner's."""
    attacked.at("guest")
    attacked.document("device", "rename", "laptop")
    key = attacked.age
    attacked.at("laptop")
    attacked.document("people", "add", "guest@example.org", key)
    attacked.document("share", attacked.victim, "--with", "guest@example.org")
    attacked.sync("laptop")
    attacked.at("guest")
    (offer,) = attacked.document("accept", attacked.url, "--list")["offers"]
    attacked.document("accept", attacked.url, offer["name"])
    attacked.sync("laptop", "guest")
    attacked.at("laptop")
    attacked.session("edit", "--goal", "The owner's goal")
    attacked.at("guest")
    attacked.session("resume", attacked.victim, "--force")
    attacked.session("edit", "--goal", "The guest's goal")
    attacked.sync("guest", "laptop")
    for command in ("show", "conflicts"):
        assert "laptop (guest)" in attacked(command, attacked.victim).out
    assert attacked.session("resume", attacked.victim, "--device", "laptop", "--force")["goal"] == "The owner's goal"


def test_shared_session_does_not_merge_two_projects(attacked: Attacked) -> None:
    """It claims the owner's project under another name and another repository's address."""
    attacked.at("laptop")
    own = Keeper.open(str(attacked.project), home=str(attacked.root / "home-laptop"))
    with own as keeper:
        project = keeper.state(attacked.victim).project
        assert project is not None
        keeper.start("Elsewhere", replace=True)  # the store knows another project by this address
        with keeper.transaction() as transaction:
            transaction.remember_project(
                ProjectFacts(id="other", name="public", remote="example.org/public", path="/public")
            )
    attacked.at("mallory")
    claimed = ProjectFacts(id=project.id, name="joined", remote="example.org/public", roots=("c" * 40,))
    with Keeper.open(str(attacked.project), home=str(attacked.root / "home-mallory")) as keeper:
        session = str(uuid.uuid4())
        begins = SessionStarted(goal="Joint work", device="mallory", project=claimed)
        with keeper.transaction() as transaction:
            transaction.record(session, Draft(begins, keeper.now(), "mallory"))
    attacked.document("people", "add", OWNER, attacked.key)
    attacked.document("remote", "add", "evil", attacked.evil)
    attacked.document("share", session, "--with", OWNER)
    attacked.at("laptop")
    name = attacked.document("accept", attacked.evil, "--list")["offers"][0]["name"]
    attacked.document("accept", attacked.evil, name)
    attacked.document("sync")
    with Keeper.open(str(attacked.project), home=str(attacked.root / "home-laptop")) as keeper:
        store = keeper.store()
        assert store.projects_with("remote", "example.org/public") == ["other"]
        assert ("remote", "example.org/public") not in store.evidence(project.id)


# ── files that say how sessions came ─────────────────────────────────────────────────────────────────────


def _hostile_store(attacked: Attacked, **records: str) -> str:
    """Mallory's store with one session, and records of how sessions came: `its` of that one, `victims` of ours."""
    attacked.at("mallory")
    session = str(attacked.session("start", "Harmless")["id"])
    path = str(attacked.root / "home-mallory" / "store.db")
    with closing(sqlite3.connect(path)) as line, line:
        for whose, value in records.items():
            named = {"its": session, "victims": attacked.victim}[whose]
            line.execute(
                "INSERT OR REPLACE INTO memory (name, value) VALUES (?, ?)",
                (f"origin/share/{named}", value.encode()),
            )
    return path


@pytest.mark.parametrize("words", ["restore", "copy"])
def test_malformed_record_in_a_file_stops_no_sync(attacked: Attacked, words: str) -> None:
    """Whatever it says of its own session, the others are sent, and devices can be removed."""
    attacked.join("desk")
    path = _hostile_store(attacked, its="no vault")
    if words == "restore":
        attacked.document("backup", f"{path}.backup")
    attacked.at("laptop")
    if words == "restore":
        attacked.document("restore", f"{path}.backup")
    else:
        attacked.document("store", "copy", f"sqlite:///{path}", f"sqlite:///{attacked.root}/home-laptop/store.db")
    attacked.session("note", "afterwards")
    attacked.sync("laptop", "desk")
    assert attacked.notes(attacked.victim) == ["before", "afterwards"]
    attacked.at("laptop")
    assert attacked.document("device", "remove", "desk")["removed"]["remotes"] == ["home"]


def test_copied_file_says_nothing_of_sessions_that_are_here(attacked: Attacked) -> None:
    """Their ids are no secret: such a record made our own session one that was shared with us."""
    path = _hostile_store(attacked, victims="ab" * 32)
    attacked.at("laptop")
    attacked.document("store", "copy", f"sqlite:///{path}", f"sqlite:///{attacked.root}/home-laptop/store.db")
    attacked.document("people", "add", OWNER, attacked.key)
    assert attacked("share", attacked.victim, "--with", OWNER).code == 0
    attacked.document("delete", attacked.victim, "--confirm", "--force")
    attacked.sync("laptop")
    attacked.join("desk")
    attacked.refused(3, "show", attacked.victim)
