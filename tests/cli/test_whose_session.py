"""Nobody but its owner decides over a session: attacks with ordinary commands, each ending in words and no change."""

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
        """A session with the victim's id in somebody else's home: a document brings its id along."""
        self.at("laptop")
        file = self.root / "copy.json"
        self.document("export", self.victim, "--format", "craft", "-o", str(file))
        self.at(device)
        done = self.document("import", str(file), "--format", "craft")
        assert done["sessions"] == [self.victim]
        file.unlink()

    def offer(self, device: str = "mallory", *words: str) -> None:
        """That session, offered to the laptop from a vault of their own."""
        self.forge(device)
        self.document("people", "add", OWNER, self.key)
        self.document("remote", "add", "evil", self.evil)
        self.document("share", self.victim, "--with", OWNER, *words)

    def plant(self) -> None:
        """Everything of the other vault, laid into the owner's folder."""
        for file in (self.root / "evil").rglob("*"):
            target = self.folder / file.relative_to(self.root / "evil")
            if file.is_file() and not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, target)

    def stands(self, *notes: str) -> None:
        """The owner's session is there, whole, and the owner writes in it."""
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
    """Accepting it by name is refused in words; the offerer deletes, all sync, and nothing has changed."""
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
    attacked.stands()
    assert [item["name"] for item in attacked.document("remote", "list")["remotes"]] == ["home"]


def test_share_of_an_own_id_is_refused_even_from_a_trusted_device(attacked: Attacked) -> None:
    """Who is trusted to offer sessions is not trusted with ours."""
    attacked.offer()
    words = attacked.words
    attacked.at("laptop")
    attacked.document("people", "add", "mallory@example.org", words)
    attacked.refused(1, "accept", attacked.evil)
    attacked.stands()


def test_second_device_that_accepted_the_id_gives_it_up_for_the_vaults_own(attacked: Attacked) -> None:
    """A device that had not heard of the session accepts the other; the vault's own comes, and stays untouched."""
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
    attacked.stands()


def test_offer_planted_by_a_revoked_guest_is_shown_and_not_taken(attacked: Attacked) -> None:
    """Bare `accept` takes nothing of theirs; `--list` says that something was taken back from them."""
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
    # The same keys, and a store in which the session is the guest's own.
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
    attacked.stands()


def test_revoked_persons_offer_of_another_session_takes_a_persons_word(attacked: Attacked) -> None:
    """Their words were added, and something was taken back since: only by name."""
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
    """No is no; yes takes the one offer there is. What it shows has no escapes spelled out."""
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


def test_listing_an_offer_unfolds_little_of_it(attacked: Attacked, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever knows a public key can leave an offer with anything behind it: only what it is about is looked for."""
    attacked.at("mallory")
    attacked.session("start", "Hello")
    attacked.document("people", "add", OWNER, attacked.key)
    attacked.document("remote", "add", "evil", attacked.evil)
    attacked.document("share", "@", "--with", OWNER)
    attacked.session("note", "a " * 200_000)
    attacked.sync()
    attacked.at("laptop")
    unfolded = []
    unseal = sealing.unseal

    def counted(*given: Any, **named: Any) -> bytes:
        unfolded.append(len(plain := unseal(*given, **named)))
        return plain

    monkeypatch.setattr(sealing, "unseal", counted)
    monkeypatch.setattr(offers, "_UNFOLDED_EACH", 100_000)
    (offer,) = attacked.document("accept", attacked.evil, "--list")["offers"]
    assert (offer["from"], offer["goal"]) == ("mallory", "Hello")
    assert sum(unfolded) <= 100_000


def test_offer_of_a_known_device_is_located_among_many(attacked: Attacked, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of strangers that are not looked at are counted, and each can still be taken by its name."""
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
    monkeypatch.setattr(join_vault, "_MAX_ASKING", 1)
    for device in ("a", "b", "c", "d", "tablet"):
        attacked.at(device)
        attacked.document("remote", "add", "home", attacked.url)
    words = attacked.words
    attacked.at("laptop")
    attacked.document("device", "approve", words)
    assert attacked.sync("tablet")["pulled"] > 0


def test_removed_device_is_not_reported_that_it_sent_anything(attacked: Attacked) -> None:
    """What it leaves at the remote is for nobody."""
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
    """Who asks to join would be led elsewhere: a member's sync says so, and that it is missing."""
    attacked.at("mallory")
    attacked.document("remote", "add", "evil", attacked.evil)
    shutil.copy(attacked.root / "evil" / "vault", attacked.folder / "vault")
    attacked.at("laptop")
    (rejected,) = attacked.document("sync")["rejected"]
    assert "another vault's" in rejected["reason"]
    (attacked.folder / "vault").write_text("no vault")
    assert "cannot be read" in attacked.document("sync")["rejected"][0]["reason"]


def test_device_that_is_no_admin_deletes_only_what_it_began(attacked: Attacked) -> None:
    """It is refused in words before anything happens, and others would not obey."""
    attacked.join("tablet")
    attacked.sync("tablet")
    error = attacked.refused(1, "delete", attacked.victim, "--confirm", "--force")
    assert "admin device" in error["message"]
    own = str(attacked.session("start", "On the tablet", "--replace")["id"])
    attacked.sync("tablet", "laptop", "tablet")
    attacked.document("delete", own, "--confirm", "--force")
    attacked.sync("tablet", "laptop")
    attacked.refused(3, "show", own)
    attacked.stands()


def test_second_device_of_a_guest_neither_leaves_the_share_for_all_nor_believes_it_wrote_there(
    attacked: Attacked,
) -> None:
    """It is told that what it records stays among the person's own devices, and only an admin device deletes."""
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
    attacked.stands()
    attacked.at("guest")
    assert attacked.notes(attacked.victim) == ["before", "from the phone"]
    attacked.document("delete", attacked.victim, "--confirm", "--force")
    attacked.sync("guest", "phone")
    attacked.refused(3, "show", attacked.victim)


def test_continue_prefers_an_own_session_to_one_that_others_date_ahead(attacked: Attacked) -> None:
    """Whoever shares a session says when things happened in it."""
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


def test_backup_of_somebody_else_deletes_nothing(attacked: Attacked) -> None:
    """A backup with the deletion of a session of ours by a device that is not: left out, and named."""
    attacked.forge()
    attacked.document("delete", attacked.victim, "--confirm", "--force")
    file = str(attacked.root / "backup")
    attacked.document("backup", file)
    attacked.at("laptop")
    spoken = attacked("restore", file, "--json")
    assert spoken.code == 1
    assert attacked.victim in spoken.out
    attacked.stands()


def test_backup_deletes_only_when_a_person_reports_it(attacked: Attacked) -> None:
    """Anybody could have written it in this device's name: nothing in a backup proves who did."""
    shutil.copytree(attacked.root / "home-laptop", attacked.root / "home-copy")
    attacked.at("copy")
    attacked.document("delete", attacked.victim, "--confirm", "--force")
    file = str(attacked.root / "backup")
    attacked.document("backup", file)
    attacked.at("laptop")
    spoken = attacked("restore", file, "--json")
    assert spoken.code == 1
    assert "proves" in spoken.out
    attacked.stands()
    attacked.document("restore", file, "--yes")
    attacked.refused(3, "show", attacked.victim)


def test_backup_displaces_nothing_that_was_recorded_here(attacked: Attacked) -> None:
    """Of equal keys the first counts, and whoever makes a file can write any clock."""
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


def test_backup_with_a_view_is_refused_before_anything_of_it_runs(attacked: Attacked) -> None:
    file = attacked.root / "backup"
    attacked.document("backup", str(file))
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("DROP TABLE IF EXISTS words")
        connection.execute(
            "CREATE VIEW words AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
        )
        connection.commit()
    assert "would run" in attacked.refused(4, "restore", str(file))["message"]


def test_session_with_a_tag_that_nobody_could_record_here_is_forked(attacked: Attacked) -> None:
    """Tags are only ever added: what a guest put there must not keep the owner from going on."""
    home = str(attacked.root / "home-laptop")
    with Keeper.open(str(attacked.project), home=home) as keeper, keeper.transaction() as transaction:
        transaction.record(attacked.victim, Draft(SessionEdited(tags=("fine", "a\0b")), keeper.now(), "guest"))
    assert attacked.session("fork", attacked.victim)["tags"] == ["fine", "ab"]


def test_backup_that_shares_only_the_id_changes_nothing(attacked: Attacked) -> None:
    """Its session has nothing in common with ours: it is left out, and named."""
    attacked.forge()
    attacked.session("resume", attacked.victim, "--force")
    attacked.document("abort", "taken over")
    file = str(attacked.root / "backup")
    attacked.document("backup", file)
    attacked.at("laptop")
    spoken = attacked("restore", file, "--json")
    assert spoken.code == 1
    assert "nothing in common" in spoken.out
    attacked.stands()


def test_name_that_a_guest_gave_draws_no_import_into_the_shared_session(attacked: Attacked) -> None:
    """Names of the timer's documents can be guessed: what the owner imports becomes a session of its own."""
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


def test_import_of_an_id_that_came_through_a_share_gets_its_own(attacked: Attacked) -> None:
    """What the guest imports is another session than the one shared with them, and the same one the next time."""
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


def test_guest_with_the_name_of_the_owners_device_is_reported_apart(attacked: Attacked) -> None:
    """Anybody calls their device as they like: the guest's is marked, and its word is not taken for the owner's."""
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


def test_project_is_not_joined_to_another_by_who_shares_a_session_of_it(attacked: Attacked) -> None:
    """A shared session that claims the owner's project, under another name and with another repository's address."""
    attacked.at("laptop")
    own = Keeper.open(str(attacked.project), home=str(attacked.root / "home-laptop"))
    with own as keeper:
        project = keeper.state(attacked.victim).project
        assert project is not None
        keeper.start("Elsewhere", replace=True)  # the store knows another project by its address
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
