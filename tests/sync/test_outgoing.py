"""Secrets are removed before anything is sent, and what would be sent can be previewed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core import events
from holdfast.core.canonical import Json
from holdfast.core.events import (
    FREE_TEXT,
    SECRET_RULES,
    AgentStarted,
    CommandRan,
    ConflictDetected,
    DecisionMade,
    EventErased,
    ExtraKept,
    FileChanged,
    NoteAdded,
    SessionEdited,
)
from holdfast.core.secrets import patterns, values
from holdfast.core.secrets.patterns import redact_document
from holdfast.store.interface import UNSEEN
from holdfast.sync import outgoing, people, remote_setup
from holdfast.sync import shares as giving
from holdfast.sync.outgoing import cleanse, preview, redact_event
from holdfast.sync.sync import SyncResult, sync
from holdfast.workspace import recorder
from holdfast.workspace.keys.device_keys import DeviceKeys
from tests.support import secret_corpus
from tests.support.planted_secrets import CUT, OTHER, TOKEN, Fleet, notes, plant, raw, watched

# The present rules. When this differs for another reason than a renamed constant, raise SECRET_RULES with it.
PINNED = (1, "813e36088362680e")


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    devices = Fleet(tmp_path)
    yield devices
    devices.close()


# ── which rules ──────────────────────────────────────────────────────────────────────────────────────────


def test_other_rules_have_another_number() -> None:
    """What is looked for, where, and what it does to the corpus: a change of it raises RULES, and is pinned anew."""
    constants = sorted((name, value) for name, value in vars(values).items() if isinstance(value, str))
    texts = [secret.text for secret in secret_corpus.secrets()] + [benign.text for benign in secret_corpus.benign()]
    done = [(patterns.redact(text), redact_document({"token": text})) for text in texts]
    rules = [patterns.SECRET_KINDS, [item for item in constants if item[0].isupper()], sorted(FREE_TEXT), done]
    digest = hashlib.sha256(msgspec.json.encode(rules)).hexdigest()[:16]
    assert (SECRET_RULES, digest) == PINNED


def test_a_store_of_today_has_nothing_to_look_through(fleet: Fleet) -> None:
    """What is recorded here is redacted already: not one event is read again, at a first sync or later."""
    session = fleet.laptop.start(f"Rotate {TOKEN}")
    session.note("a note")
    assert fleet.laptop.store().remembered(UNSEEN) is None
    assert recorder.follows_secret_rules(fleet.laptop.store())
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
    monkeypatch.setattr(recorder, "SECRET_RULES", SECRET_RULES + 1)
    fleet.laptop.recorder.tally.noted_rules = False
    fleet.laptop.session(session).note("by a newer program")
    assert fleet.laptop.store().remembered(UNSEEN) == b"0"
    assert cleanse(fleet.laptop) == {}
    assert len(looked) > 6


def test_older_program_is_detected(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two versions on one home: what the older one records after the newer one looked is looked at again."""
    keeper = fleet.laptop
    session = keeper.start("Deploy").id
    older = fleet.keeper("laptop")
    with monkeypatch.context() as patch:
        patch.setattr(recorder, "SECRET_RULES", SECRET_RULES - 1)
        patch.setattr(recorder, "_without_secrets", lambda value, *_: value)
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
        ConflictDetected(field="goal", value=f"Use {TOKEN}", stood=f"Or {TOKEN}"),
    )  # fmt: skip
    updated = keeper.state(session).updated_at
    counts = cleanse(keeper)
    assert counts == {"github_token": 7, "aws_access_key_id": 1, "api_key": 1}
    assert keeper.notices == [
        "Removed 9 secrets from older events before sending: 1 api_key, 1 aws_access_key_id, 7 github_token."
    ]
    document = keeper.session(session).document()
    assert document.summary == "half done"
    assert document.notes[0].text == f"The key is {CUT}"
    assert document.decisions[0].options == [f"keep {CUT}", "Vault"]
    assert document.agents[0].task == f"use {CUT}"
    assert document.extra["craft"] == {"notes": [f"see {CUT}"], "api_key": "[redacted:api_key]", "kept": 1}
    assert document.extra["redacted"] == {"jwt": 1, **counts}
    assert keeper.state(session).updated_at == updated
    keeper.close()
    for secret in (TOKEN, OTHER, "kOrrekt-7ferd-9x"):
        assert secret.encode() not in raw(fleet.root / "laptop")


def test_ids_paths_and_hashes_are_left_alone() -> None:
    """By the rules of recording: what is no free text is not looked at, what a newer program added is."""
    path: dict[str, Json] = {"path": f"src/{TOKEN}", "action": "modified"}
    assert redact_event("file.changed", path) == (path, {})
    assert redact_event("file.changed", path | {"why": TOKEN}).secrets == {"why": {"github_token": 1}}
    waits: dict[str, Json] = {"id": "w", "for": f"the key {TOKEN}"}
    assert redact_event("waiting.started", waits).data == {
        "id": "w",
        "for": f"the key {CUT}",
        "redacted": {"github_token": 1},
    }
    assert redact_event("from.tomorrow", {"anything": [TOKEN]}).data == {"anything": [CUT]}


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
    texts = [sample.text for sample in samples] + [more]
    for kind, data in (
        ("note.added", {"text": "\n".join(texts)}),
        ("decision.made", {"chosen": texts[0], "options": texts}),
        ("extra.kept", {"name": "craft", "value": {"list": texts, "token": texts[0]}}),
    ):
        once = redact_event(kind, data)  # type: ignore[arg-type]
        assert redact_event(kind, once.data) == (once.data, {})


# ── what travels ─────────────────────────────────────────────────────────────────────────────────────────


def test_planted_secrets_are_nowhere_after_a_sync(fleet: Fleet) -> None:
    """One of each kind of the corpus, recorded as it stands: in no pack, in no file, and counted by kind."""
    keeper = fleet.laptop
    remote_setup.add(keeper, "shelf", fleet.url)
    session = keeper.start("Deploy").id
    samples = list({secret.kind: secret for secret in secret_corpus.secrets()}.values())
    plant(keeper, session, *(NoteAdded(text=sample.text) for sample in samples))
    sync(keeper)
    there = b"".join(fleet.remote().values())
    counted = keeper.session(session).document().extra["redacted"]
    keeper.close()
    here = raw(fleet.root / "laptop")
    for sample in samples:
        for secret in (sample.secret.encode(), msgspec.json.encode(sample.secret)[1:-1]):
            assert secret not in there
            assert secret not in here
    assert isinstance(counted, dict)
    assert len(counted) > 40
    assert b"[redacted:github_token]" in there


def test_what_was_sent_before_the_rule_is_taken_back(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """The packs that held it are written anew, on every device, and the old ones are gone from the remote."""
    remote_setup.add(fleet.laptop, "shelf", fleet.url)
    desktop = fleet.joined("desktop")
    session = fleet.laptop.start("Deploy").id
    with monkeypatch.context() as patch:
        patch.setattr(outgoing, "find_secrets", lambda *_: None)  # a program that knows no such secret
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


def test_what_was_shared_is_taken_back_too(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """The packs of a shared session are written anew like those of the vault, once and not with every sync."""
    keeper = fleet.laptop
    remote_setup.add(keeper, "shelf", fleet.url)
    session = keeper.start("Deploy").id
    people.add(keeper.home, "ben@example.org", DeviceKeys.generate().public.age)
    with monkeypatch.context() as patch:
        patch.setattr(outgoing, "find_secrets", lambda *_: None)
        plant(keeper, session, NoteAdded(text=f"The key is {TOKEN}"))
        giving.share(keeper, session, "ben@example.org", write=False)
        assert b"".join(fleet.remote().values()).count(TOKEN.encode()) == 2
    with keeper.store().transaction() as transaction:
        transaction.remember("arrivals/rules", b"0")
    sync(keeper)
    there = fleet.remote()
    assert TOKEN.encode() not in b"".join(there.values())
    assert b"".join(there.values()).count(CUT.encode()) == 2
    sync(keeper)
    assert fleet.remote() == there


def test_what_an_older_device_sends_is_cut_as_it_comes_in(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the transaction that takes it in; and nothing else is looked at for that."""
    remote_setup.add(fleet.laptop, "shelf", fleet.url)
    session = fleet.laptop.start("Deploy").id
    sync(fleet.laptop)
    desktop = fleet.joined("desktop")
    with monkeypatch.context() as patch:
        patch.setattr(outgoing, "find_secrets", lambda *_: None)
        plant(desktop, session, NoteAdded(text=f"The key is {TOKEN}"))
        sync(desktop)
    looked = watched(monkeypatch)
    done: SyncResult = sync(fleet.laptop)
    assert done.report.pulled
    assert notes(fleet.laptop, session) == [f"The key is {CUT}"]
    assert len(looked) == done.report.pulled
    assert fleet.laptop.notices == ["Removed 1 secret from older events before sending: 1 github_token."]
    sync(desktop)
    assert TOKEN.encode() not in b"".join(fleet.remote().values())


def test_a_restored_backup_is_looked_through(fleet: Fleet) -> None:
    """What an old backup brings is older than the rules: cut before it is sent."""
    old = fleet.keeper("old")
    session = old.start("Deploy").id
    plant(old, session, NoteAdded(text=f"The key is {TOKEN}"))
    old.backup(str(fleet.root / "backup"))
    remote_setup.add(fleet.laptop, "shelf", fleet.url)
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
        patch.setattr(outgoing, "_erase", lambda *_: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            cleanse(keeper)
    monkeypatch.setattr(outgoing, "_MAX_WITH_SECRETS", 2)
    monkeypatch.setattr(outgoing, "_AT_ONCE", 3)
    monkeypatch.setattr(outgoing, "_MAX_IN_ONE", 1)
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
    shown_preview = preview(keeper, session)
    assert shown_preview.events == 4
    assert {(text.where, text.text, text.sent) for text in shown_preview.texts} >= {
        ("goal", "Deploy", False), ("notes", "plain", False), ("notes", f"The key is {CUT}", False),
        ("files", "a.py", False), ("project.name", "shop", False), ("device", "laptop", False),
        ("actor", "ada", False),
    }  # fmt: skip
    assert [secret._asdict() for secret in shown_preview.secrets] == [{"kind": "github_token", "where": "notes"}]
    assert TOKEN not in repr(shown_preview)
    assert preview(keeper, session) == shown_preview
    remote_setup.add(keeper, "shelf", fleet.url)
    sync(keeper)
    after = preview(keeper, session)
    assert (after.events, after.secrets) == (0, [])
    assert {text.text for text in after.texts} == {text.text for text in shown_preview.texts}
    assert all(text.sent for text in after.texts)
    keeper.session(session).note("later")
    news = preview(keeper, session)
    assert news.events == 1
    assert [text.text for text in news.texts if not text.sent] == ["later"]


def test_no_word_of_the_vocabulary_is_left_out() -> None:
    """Every field with a text has a place among what is shown, for each type of event."""
    from holdfast.sync.outgoing import texts_of

    for kind, known in events.EVENT_TYPES.items():
        for field in known.data.__struct_encode_fields__:
            if field in ("goal", "text", "command", "path", "why", "summary", "message", "reason", "device"):
                assert [text for _, text in texts_of(kind, {field: "said"})] == ["said"], (kind, field)
