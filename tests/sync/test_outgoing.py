"""Secrets are removed before anything is sent, and what a sync would send can be previewed."""

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
from holdfast.sync.outgoing import preview, redact_event, redact_outgoing
from holdfast.sync.sync import SyncResult, sync
from holdfast.workspace import recorder
from holdfast.workspace.keys.device_keys import DeviceKeys
from tests.support import secret_corpus
from tests.support.planted_secrets import CUT, OTHER, TOKEN, Fleet, notes, plant, raw, watched

# The current rules. When this differs for another reason than a renamed constant, raise SECRET_RULES with it.
PINNED = (1, "1377ca1f5f7e743a")


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    devices = Fleet(tmp_path)
    yield devices
    devices.close()


# ── version of the rules ─────────────────────────────────────────────────────────────────────────────────


def test_changed_rules_need_another_number() -> None:
    """Patterns, places and their effect on the corpus are pinned: a change must raise SECRET_RULES."""
    constants = sorted(value for name, value in vars(values).items() if name.isupper() and isinstance(value, str))
    texts = [secret.text for secret in secret_corpus.secrets()] + [benign.text for benign in secret_corpus.benign()]
    done = [(patterns.redact(text), redact_document({"token": text})) for text in texts]
    free_text = {field for kind in events.EVENT_TYPES.values() for field in kind.text_fields}
    rules = [patterns.SECRET_KINDS, constants, sorted(free_text), done]
    digest = hashlib.sha256(msgspec.json.encode(rules)).hexdigest()[:16]
    assert (SECRET_RULES, digest) == PINNED


def test_store_of_the_current_version_is_not_scanned(fleet: Fleet) -> None:
    """Events are redacted when recorded, so no sync reads them again."""
    session = fleet.laptop.start(f"Rotate {TOKEN}")
    session.note("a note")
    assert fleet.laptop.store().remembered(UNSEEN) is None
    assert recorder.follows_secret_rules(fleet.laptop.store())
    assert redact_outgoing(fleet.laptop) == {}
    assert [event.type for event in fleet.laptop.events(session.id)] == ["session.started", "note.added"]


def test_store_with_other_rules_is_scanned_once(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Afterwards only new events are scanned."""
    session = fleet.laptop.start("Deploy").id
    plant(fleet.laptop, session, NoteAdded(text=f"The key is {TOKEN}"), NoteAdded(text="harmless"))
    looked = watched(monkeypatch)
    assert redact_outgoing(fleet.laptop) == {"github_token": 1}
    assert len(looked) == 3
    assert redact_outgoing(fleet.laptop) == {}
    fleet.laptop.session(session).note("one more")
    assert redact_outgoing(fleet.laptop) == {}
    assert len(looked) == 3
    monkeypatch.setattr(recorder, "SECRET_RULES", SECRET_RULES + 1)
    fleet.laptop.recorder.tally.noted_rules = False
    fleet.laptop.session(session).note("by a newer program")
    assert fleet.laptop.store().remembered(UNSEEN) == b"0"
    assert redact_outgoing(fleet.laptop) == {}
    assert len(looked) > 6


def test_events_of_an_older_program_are_scanned(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two versions share one home: what the older records after the scan is scanned again."""
    keeper = fleet.laptop
    session = keeper.start("Deploy").id
    older = fleet.keeper("laptop")
    with monkeypatch.context() as patch:
        patch.setattr(recorder, "SECRET_RULES", SECRET_RULES - 1)
        patch.setattr(recorder, "_without_secrets", lambda value, *_: value)
        older.session(session).note(f"The key is {TOKEN}")
    assert redact_outgoing(keeper) == {"github_token": 1}
    assert notes(keeper, session) == [f"The key is {CUT}"]


# ── redaction ────────────────────────────────────────────────────────────────────────────────────────────


def test_erased_event_still_counts(fleet: Fleet) -> None:
    """The secret is gone from every file, the rest of the text stays in place, and the kinds are counted."""
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
    counts = redact_outgoing(keeper)
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


def test_only_free_text_is_scanned() -> None:
    """Not ids, paths and hashes; fields added by a newer program are."""
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


def test_replacement_text_is_redacted_again_by_newer_rules(fleet: Fleet) -> None:
    """An earlier erasure that contains a secret is itself erased, and its target stays erased."""
    keeper = fleet.laptop
    session = keeper.start("Deploy").id
    (secret,) = plant(keeper, session, NoteAdded(text=f"{OTHER} and {TOKEN}"))
    plant(keeper, session, EventErased(hashes=(secret.hash,), instead={secret.hash: {"text": f"- and {TOKEN}"}}))
    assert redact_outgoing(keeper) == {"github_token": 1}
    assert notes(keeper, session) == [f"- and {CUT}"]
    keeper.close()
    assert TOKEN.encode() not in raw(fleet.root / "laptop")
    assert redact_outgoing(keeper) == {}


def test_unreadable_data_with_a_secret_is_erased_completely(fleet: Fleet) -> None:
    """Too deeply nested, or too large for an erasure: no replacement text remains."""
    keeper = fleet.laptop
    session = keeper.start("Deploy").id
    deep: Json = TOKEN
    for _ in range(60):
        deep = [deep]
    plant(keeper, session, ExtraKept(name="deep", value=deep))
    assert redact_outgoing(keeper) == {"github_token": 1}
    keeper.close()
    assert TOKEN.encode() not in raw(fleet.root / "laptop")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(secret_corpus.secrets()), min_size=1, max_size=4), st.text(max_size=20))
def test_redacting_is_idempotent(samples: list[secret_corpus.Sample], more: str) -> None:
    """Replacement text contains no secret."""
    texts = [sample.text for sample in samples] + [more]
    for kind, data in (
        ("note.added", {"text": "\n".join(texts)}),
        ("decision.made", {"chosen": texts[0], "options": texts}),
        ("extra.kept", {"name": "craft", "value": {"list": texts, "token": texts[0]}}),
    ):
        once = redact_event(kind, data)  # type: ignore[arg-type]
        assert redact_event(kind, once.data) == (once.data, {})


# ── at the remote ────────────────────────────────────────────────────────────────────────────────────────


def test_planted_secrets_are_in_no_file_or_pack_after_a_sync(fleet: Fleet) -> None:
    """One of each kind in the corpus, recorded without redaction, and counted by kind."""
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


def test_secret_sent_before_its_rule_existed_is_removed_everywhere(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every device rewrites its packs that contained it, and the old packs leave the remote."""
    remote_setup.add(fleet.laptop, "shelf", fleet.url)
    desktop = fleet.joined("desktop")
    session = fleet.laptop.start("Deploy").id
    with monkeypatch.context() as patch:
        patch.setattr(outgoing, "find_secrets", lambda *_: None)  # a program that does not know this kind of secret
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


def test_packs_of_a_share_are_rewritten_once(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Like those of the vault, not with every sync."""
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


def test_events_of_an_older_device_are_redacted_on_arrival(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the same transaction, and nothing else is scanned for it."""
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


def test_restored_backup_is_scanned_before_sending(fleet: Fleet) -> None:
    """The backup is older than the rules."""
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


def test_interrupted_scan_starts_again(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one finds the secret; small steps find the same as one large step."""
    keeper = fleet.laptop
    session = keeper.start("Deploy").id
    plant(keeper, session, *(NoteAdded(text=f"{number} {TOKEN}") for number in range(7)))
    with monkeypatch.context() as patch:
        patch.setattr(outgoing, "_erase", lambda *_: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            redact_outgoing(keeper)
    monkeypatch.setattr(outgoing, "_MAX_WITH_SECRETS", 2)
    monkeypatch.setattr(outgoing, "_READ_TOGETHER", 3)
    monkeypatch.setattr(outgoing, "_MAX_EVENTS_ERASED", 1)
    assert redact_outgoing(keeper) == {"github_token": 7}
    assert notes(keeper, session) == [f"{number} {CUT}" for number in range(7)]
    assert keeper.store().remembered(UNSEEN) is None


# ── preview ──────────────────────────────────────────────────────────────────────────────────────────────


def test_preview_shows_what_a_sync_would_send(fleet: Fleet) -> None:
    """Each text as it would be sent, whether it was sent before, and what would be removed; nothing changes."""
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


def test_preview_covers_every_text_field() -> None:
    """Of each event type."""
    from holdfast.sync.outgoing import texts_of

    for kind, known in events.EVENT_TYPES.items():
        for field in known.data.__struct_encode_fields__:
            if field in ("goal", "text", "command", "path", "why", "summary", "message", "reason", "device"):
                assert [text for _, text in texts_of(kind, {field: "said"})] == ["said"], (kind, field)
