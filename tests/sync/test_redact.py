"""What leaves the device: never a secret, also not one found only later; and what would leave is shown before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from holdfast.core import events
from holdfast.core.events import FileChanged, NoteAdded
from holdfast.store.interface import UNSEEN
from holdfast.sync import outgoing, people, remote_setup
from holdfast.sync import shares as giving
from holdfast.sync.outgoing import cleanse, preview
from holdfast.sync.sync import SyncResult, sync
from holdfast.workspace.keys.device_keys import DeviceKeys
from tests.support import secret_corpus
from tests.support.planted_secrets import CUT, OTHER, TOKEN, Fleet, notes, plant, raw, watched


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    devices = Fleet(tmp_path)
    yield devices
    devices.close()


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
