"""Secrets that were found only later: they are cut before anything leaves the device, and from what has left it."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import Keeper
from holdfast.core import secret_values, secrets, vocabulary
from holdfast.core.canonical import Json
from holdfast.core.event import Event
from holdfast.core.secret_documents import redact_document
from holdfast.core.vocabulary import (
    FREE_TEXT,
    RULES,
    AgentStarted,
    CommandRan,
    ConflictFound,
    Data,
    DecisionMade,
    EventErased,
    ExtraKept,
    FileChanged,
    NoteAdded,
    SessionEdited,
)
from holdfast.keeper import cleansing, recording
from holdfast.keeper.cleansing import cleanse, cut
from holdfast.keeper.redacting import leaving
from holdfast.keeper.teleports import adding, devices, opening, remotes
from holdfast.keeper.teleports.syncing import Synced, sync
from holdfast.store.interface import UNSEEN, Draft
from holdfast.teleport import packs

sys.path.insert(0, str(Path(__file__).parents[1] / "core"))
import secret_corpus

TOKEN = "ghp_" + "c4n4ry0" * 5 + "x"
OTHER = "AKIA" + "QX7CANARY4ZP2LM9"
CUT = "[redacted:github_token]"
# Of the rules as they stand. When this differs, more or less is found than before: raise RULES with it.
PINNED = (1, "a08f01f2718cd5bb")


class Fleet:
    """A laptop with a vault in a folder, and a desktop that can join it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.url = f"folder:{root / 'shelf'}"
        self._open: list[Keeper] = []
        self.laptop = self.keeper("laptop")

    def keeper(self, name: str) -> Keeper:
        place = self.root / name / "shop"
        place.mkdir(parents=True, exist_ok=True)
        keeper = Keeper.open(str(place), home=str(self.root / name / "home"), actor="ada", device=name)
        self._open.append(keeper)
        return keeper

    def joined(self, name: str) -> Keeper:
        keeper = self.keeper(name)
        adding.add(keeper, "shelf", self.url)
        devices.approve(self.laptop, devices.public(keeper).words)
        adding.confirm(keeper, "shelf", None)
        sync(keeper)
        return keeper

    def remote(self) -> dict[str, bytes]:
        """Everything at the remote: packs as they are inside, the rest as it lies there."""
        found = {}
        with opening.vault(self.laptop, remotes.named(self.laptop.home, "shelf")) as vault:
            for one in vault.remote.list(""):
                data = vault.remote.get(one.name, 1 << 30)
                found[one.name] = vault.open("pack", one.name, data, vault.ring) if one.name[:2] == "p/" else data
        return found

    def published(self) -> list[Event]:
        plain = [data for name, data in self.remote().items() if name.startswith("p/")]
        return [event for one in plain for stretch in packs.unpack(one) for event in stretch.events]

    def close(self) -> None:
        for keeper in self._open:
            keeper.close()


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    found = Fleet(tmp_path)
    yield found
    found.close()


def plant(keeper: Keeper, session: str, *data: Data) -> list[Event]:
    """Record as a program that knew fewer kinds of secrets would have."""
    made = []
    with keeper.store().transaction() as transaction:
        for one in data:
            event = transaction.record(session, Draft(one, keeper.now(), "ada"))
            assert event is not None
            made.append(event)
        transaction.remember("arrivals/rules", b"0")
    return made


def watched(monkeypatch: pytest.MonkeyPatch) -> list[Event]:
    """The events that are looked through from now on."""
    looked: list[Event] = []
    inner = cleansing.look

    def look(event: Event, kind_of: cleansing.KindOf) -> cleansing.Found | None:
        looked.append(event)
        return inner(event, kind_of)

    monkeypatch.setattr(cleansing, "look", look)
    return looked


def raw(home: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(home.rglob("*")) if path.is_file())


def notes(keeper: Keeper, session: str) -> list[str]:
    return [note.text for note in keeper.state(session).notes]


# ── which rules ──────────────────────────────────────────────────────────────────────────────────────────


def test_other_rules_have_another_number() -> None:
    """What is looked for, where, and what it does to the corpus: a change of it raises RULES, and is pinned anew."""
    constants = sorted((name, value) for name, value in vars(secret_values).items() if isinstance(value, str))
    texts = [one.text for one in secret_corpus.secrets()] + [one.text for one in secret_corpus.benign()]
    done = [(secrets.redact(text), redact_document({"token": text})) for text in texts]
    rules = [secrets.KINDS, [one for one in constants if one[0].isupper()], sorted(FREE_TEXT), done]
    found = hashlib.sha256(msgspec.json.encode(rules)).hexdigest()[:16]
    assert (RULES, found) == PINNED


def test_a_store_of_today_has_nothing_to_look_through(fleet: Fleet) -> None:
    """What is recorded here is redacted already: not one event is read again, at a first sync or later."""
    session = fleet.laptop.start(f"Rotate {TOKEN}")
    session.note("a note")
    assert fleet.laptop.store().remembered(UNSEEN) is None
    assert recording.follows_rules(fleet.laptop.store())
    assert cleanse(fleet.laptop) == {}
    assert [event.type for event in fleet.laptop.events(session.id)] == ["session.started", "note.added"]


def test_a_store_from_elsewhere_is_looked_through_once(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything when the rules are others than those it was written by; after that, only what arrives."""
    session = fleet.laptop.start("Deploy").id
    plant(fleet.laptop, session, NoteAdded(text=f"The key is {TOKEN}"), NoteAdded(text="harmless"))
    looked = watched(monkeypatch)
    assert cleanse(fleet.laptop) == {"github_token": 1}
    assert len(looked) == 3
    assert cleanse(fleet.laptop) == {}
    fleet.laptop.session(session).note("one more")
    assert cleanse(fleet.laptop) == {}
    assert len(looked) == 3
    monkeypatch.setattr(recording, "RULES", RULES + 1)
    fleet.laptop.recorder.noted_rules = False
    fleet.laptop.session(session).note("by a newer program")
    assert fleet.laptop.store().remembered(UNSEEN) == b"0"
    assert cleanse(fleet.laptop) == {}
    assert len(looked) > 6


def test_a_program_that_knows_less_is_found_out(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two versions on one home: what the older one records after the newer one looked is looked at again."""
    keeper = fleet.laptop
    session = keeper.start("Deploy").id
    older = fleet.keeper("laptop")
    with monkeypatch.context() as patch:
        patch.setattr(recording, "RULES", RULES - 1)
        patch.setattr(recording, "_without_secrets", lambda value, *_: value)
        older.session(session).note(f"The key is {TOKEN}")
    assert cleanse(keeper) == {"github_token": 1}
    assert notes(keeper, session) == [f"The key is {CUT}"]


# ── what is cut ──────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_left_of_an_event_still_counts(fleet: Fleet) -> None:
    """The secret is gone from every file, the rest of what was said is where it was, and the kinds are counted."""
    keeper = fleet.laptop
    session = keeper.start("Deploy").id
    plant(
        keeper, session, NoteAdded(text=f"The key is {TOKEN}", redacted={"jwt": 1}),
        SessionEdited(goal=f"Deploy with {OTHER}", summary="half done"),
        DecisionMade(chosen="Vault", options=(f"keep {TOKEN}", "Vault"), why="safer"),
        AgentStarted(id="a1", type="coder", task=f"use {TOKEN}"), CommandRan(command=f"login {TOKEN}", code=0),
        ExtraKept(name="craft", value={"notes": [f"see {TOKEN}"], "api_key": "kOrrekt-7ferd-9x", "kept": 1}),
        ConflictFound(field="goal", value=f"Use {TOKEN}", stood=f"Or {TOKEN}"),
    )  # fmt: skip
    updated = keeper.state(session).updated_at
    counts = cleanse(keeper)
    assert counts == {"github_token": 7, "aws_access_key_id": 1, "api_key": 1}
    assert keeper.told == [
        "9 secrets were cut out of older events before sending: 1 api_key, 1 aws_access_key_id, 7 github_token."
    ]
    found = keeper.session(session).document()
    assert found.summary == "half done"
    assert found.notes[0].text == f"The key is {CUT}"
    assert found.decisions[0].options == [f"keep {CUT}", "Vault"]
    assert found.agents[0].task == f"use {CUT}"
    assert found.extra["craft"] == {"notes": [f"see {CUT}"], "api_key": "[redacted:api_key]", "kept": 1}
    assert found.extra["redacted"] == {"jwt": 1, **counts}
    assert keeper.state(session).updated_at == updated
    keeper.close()
    for secret in (TOKEN, OTHER, "kOrrekt-7ferd-9x"):
        assert secret.encode() not in raw(fleet.root / "laptop")


def test_ids_paths_and_hashes_are_left_alone() -> None:
    """By the rules of recording: what is no free text is not looked at, what a newer program added is."""
    path: dict[str, Json] = {"path": f"src/{TOKEN}", "action": "modified"}
    assert cut("file.changed", path) == (path, {})
    assert cut("file.changed", path | {"why": TOKEN}).found == {"why": {"github_token": 1}}
    waits: dict[str, Json] = {"id": "w", "for": f"the key {TOKEN}"}
    assert cut("waiting.started", waits).data == {"id": "w", "for": f"the key {CUT}", "redacted": {"github_token": 1}}
    assert cut("from.tomorrow", {"anything": [TOKEN]}).data == {"anything": [CUT]}


def test_what_stood_instead_is_cut_again_by_newer_rules(fleet: Fleet) -> None:
    """An erasure of the past that says a secret of today is itself erased, and what it erased stays so."""
    keeper = fleet.laptop
    session = keeper.start("Deploy").id
    (secret,) = plant(keeper, session, NoteAdded(text=f"{OTHER} and {TOKEN}"))
    plant(keeper, session, EventErased(hashes=(secret.hash,), instead={secret.hash: {"text": f"- and {TOKEN}"}}))
    assert cleanse(keeper) == {"github_token": 1}
    assert notes(keeper, session) == [f"- and {CUT}"]
    keeper.close()
    assert TOKEN.encode() not in raw(fleet.root / "laptop")
    assert cleanse(keeper) == {}


def test_data_that_nobody_can_read_is_erased_whole(fleet: Fleet) -> None:
    """Nested too deeply, or so that an erasure could not carry it: nothing stands instead, and the secret is gone."""
    keeper = fleet.laptop
    session = keeper.start("Deploy").id
    deep: Json = TOKEN
    for _ in range(60):
        deep = [deep]
    plant(keeper, session, ExtraKept(name="deep", value=deep))
    assert cleanse(keeper) == {"github_token": 1}
    keeper.close()
    assert TOKEN.encode() not in raw(fleet.root / "laptop")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(secret_corpus.secrets()), min_size=1, max_size=4), st.text(max_size=20))
def test_cutting_twice_is_cutting_once(samples: list[secret_corpus.Sample], more: str) -> None:
    """What may stand instead holds no secret any more: nothing is erased again and again."""
    said = [one.text for one in samples] + [more]
    for kind, data in (
        ("note.added", {"text": "\n".join(said)}),
        ("decision.made", {"chosen": said[0], "options": said}),
        ("extra.kept", {"name": "craft", "value": {"list": said, "token": said[0]}}),
    ):
        once = cut(kind, data)  # type: ignore[arg-type]
        assert cut(kind, once.data) == (once.data, {})


# ── what travels ─────────────────────────────────────────────────────────────────────────────────────────


def test_planted_secrets_are_nowhere_after_a_sync(fleet: Fleet) -> None:
    """One of each kind of the corpus, recorded as it stands: in no pack, in no file, and counted by kind."""
    keeper = fleet.laptop
    adding.add(keeper, "shelf", fleet.url)
    session = keeper.start("Deploy").id
    samples = list({one.kind: one for one in secret_corpus.secrets()}.values())
    plant(keeper, session, *(NoteAdded(text=one.text) for one in samples))
    sync(keeper)
    there = b"".join(fleet.remote().values())
    counted = keeper.session(session).document().extra["redacted"]
    keeper.close()
    here = raw(fleet.root / "laptop")
    for one in samples:
        for secret in (one.secret.encode(), msgspec.json.encode(one.secret)[1:-1]):
            assert secret not in there
            assert secret not in here
    assert isinstance(counted, dict)
    assert len(counted) > 40
    assert b"[redacted:github_token]" in there


def test_what_was_sent_before_the_rule_is_taken_back(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """The packs that held it are written anew, on every device, and the old ones are gone from the remote."""
    adding.add(fleet.laptop, "shelf", fleet.url)
    desktop = fleet.joined("desktop")
    session = fleet.laptop.start("Deploy").id
    with monkeypatch.context() as patch:
        patch.setattr(cleansing, "look", lambda *_: None)  # a program that knows no such secret
        plant(fleet.laptop, session, NoteAdded(text=f"The key is {TOKEN}"))
        sync(fleet.laptop)
        sync(desktop)
        plant(desktop, session, NoteAdded(text=f"Elsewhere it is {OTHER}"))
        sync(desktop)
        sync(fleet.laptop)
        assert TOKEN.encode() in b"".join(fleet.remote().values())
    with fleet.laptop.store().transaction() as transaction:
        transaction.remember("arrivals/rules", b"0")
    for _ in range(2):
        for keeper in (fleet.laptop, desktop):
            sync(keeper)
    there = b"".join(fleet.remote().values())
    assert notes(fleet.laptop, session) == notes(desktop, session)
    assert notes(desktop, session) == [f"The key is {CUT}", "Elsewhere it is [redacted:aws_access_key_id]"]
    desktop.close()
    fleet.laptop.close()
    for secret in (TOKEN, OTHER):
        assert secret.encode() not in there
        assert secret.encode() not in raw(fleet.root / "laptop")
        assert secret.encode() not in raw(fleet.root / "desktop")
    before = sorted(fleet.remote())
    assert (sync(fleet.laptop).report.pushed, sorted(fleet.remote())) == (0, before)


def test_what_an_older_device_sends_is_cut_as_it_comes_in(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the transaction that takes it in; and nothing else is looked at for that."""
    adding.add(fleet.laptop, "shelf", fleet.url)
    session = fleet.laptop.start("Deploy").id
    sync(fleet.laptop)
    desktop = fleet.joined("desktop")
    with monkeypatch.context() as patch:
        patch.setattr(cleansing, "look", lambda *_: None)
        plant(desktop, session, NoteAdded(text=f"The key is {TOKEN}"))
        sync(desktop)
    looked = watched(monkeypatch)
    done: Synced = sync(fleet.laptop)
    assert done.report.pulled
    assert notes(fleet.laptop, session) == [f"The key is {CUT}"]
    assert len(looked) == done.report.pulled
    assert fleet.laptop.told == ["1 secret was cut out of older events before sending: 1 github_token."]
    sync(desktop)
    assert TOKEN.encode() not in b"".join(fleet.remote().values())


def test_a_restored_backup_is_looked_through(fleet: Fleet) -> None:
    """What an old backup brings is older than the rules: cut before it is sent."""
    old = fleet.keeper("old")
    session = old.start("Deploy").id
    plant(old, session, NoteAdded(text=f"The key is {TOKEN}"))
    old.backup(str(fleet.root / "backup"))
    adding.add(fleet.laptop, "shelf", fleet.url)
    fleet.laptop.start("Something else")
    fleet.laptop.restore(str(fleet.root / "backup"))
    assert notes(fleet.laptop, session) == [f"The key is {TOKEN}"]
    sync(fleet.laptop)
    assert notes(fleet.laptop, session) == [f"The key is {CUT}"]
    assert TOKEN.encode() not in b"".join(fleet.remote().values())


def test_an_interrupted_look_begins_again(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever stops it, the secret is found by the next; in small steps the same is found as in one."""
    keeper = fleet.laptop
    session = keeper.start("Deploy").id
    plant(keeper, session, *(NoteAdded(text=f"{number} {TOKEN}") for number in range(7)))
    with monkeypatch.context() as patch:
        patch.setattr(cleansing, "_erase", lambda *_: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            cleanse(keeper)
    monkeypatch.setattr(cleansing, "_MOST_FOUND", 2)
    monkeypatch.setattr(cleansing, "_AT_ONCE", 3)
    monkeypatch.setattr(cleansing, "_MOST_IN_ONE", 1)
    assert cleanse(keeper) == {"github_token": 7}
    assert notes(keeper, session) == [f"{number} {CUT}" for number in range(7)]
    assert keeper.store().remembered(UNSEEN) is None


# ── what would leave ─────────────────────────────────────────────────────────────────────────────────────


def test_what_would_leave_is_shown_before_it_does(fleet: Fleet) -> None:
    """Every text as it would be sent, whether it is out already, what would be cut; looking changes nothing."""
    keeper = fleet.laptop
    session = keeper.start("Deploy").id
    keeper.session(session).note("plain")
    plant(keeper, session, NoteAdded(text=f"The key is {TOKEN}"), FileChanged(path="a.py", action="modified"))
    found = leaving(keeper, session)
    assert found.events == 4
    assert {(one.where, one.text, one.sent) for one in found.texts} >= {
        ("goal", "Deploy", False), ("notes", "plain", False), ("notes", f"The key is {CUT}", False),
        ("files", "a.py", False), ("project.name", "shop", False), ("device", "laptop", False),
        ("actor", "ada", False),
    }  # fmt: skip
    assert [one._asdict() for one in found.found] == [{"kind": "github_token", "where": "notes"}]
    assert TOKEN not in repr(found)
    assert leaving(keeper, session) == found
    adding.add(keeper, "shelf", fleet.url)
    sync(keeper)
    after = leaving(keeper, session)
    assert (after.events, after.found) == (0, [])
    assert {one.text for one in after.texts} == {one.text for one in found.texts}
    assert all(one.sent for one in after.texts)
    keeper.session(session).note("later")
    news = leaving(keeper, session)
    assert news.events == 1
    assert [one.text for one in news.texts if not one.sent] == ["later"]


def test_no_word_of_the_vocabulary_is_left_out() -> None:
    """Every field with a text has a place among what is shown, for each type of event."""
    from holdfast.keeper.redacting import texts_of

    for kind, known in vocabulary.KINDS.items():
        for field in known.data.__struct_encode_fields__:
            if field in ("goal", "text", "command", "path", "why", "summary", "message", "reason", "device"):
                assert [text for _, text in texts_of(kind, {field: "said"})] == ["said"], (kind, field)
