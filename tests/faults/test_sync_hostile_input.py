"""F11 and F20 for sync: hostile text as every argument, and files of a newer Holdfast."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.harness.invariants import KNOWN
from tests.faults.harness.sync_sandbox import SyncSandbox
from tests.faults.harness.verb_checks import assert_no_traceback
from tests.faults.sandbox import Sandbox, tree
from tests.faults.test_hostile_ids import PARTS, hostile_ids
from tests.support.scale import scale

KEY = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"
ENTRIES: dict[str, list[str]] = {
    "remote name": ["remote", "add", "--", "ID", "folder:{root}/remote"],
    "remote url": ["remote", "add", "other", "--", "ID"],
    "vault words": ["remote", "add", "other", "folder:{root}/remote", "--vault=ID"],
    "remote confirm": ["remote", "confirm", "home", "--", "ID"],
    "remote remove": ["remote", "remove", "--", "ID"],
    "sync": ["sync", "--remote=ID"],
    "device rename": ["device", "rename", "--", "ID"],
    "device approve": ["device", "approve", "--", "ID"],
    "device remove": ["device", "remove", "--", "ID"],
    "recovery code": ["device", "recovery-code", "--remote=ID"],
    "email": ["people", "add", "--", "ID", KEY],
    "key": ["people", "add", "--", "someone@example.org", "ID"],
    "share": ["share", "@", "--with=ID"],
    "share expiry": ["share", "@", "--with=known@example.org", "--expires=ID"],
    "shared session": ["share", "--with=known@example.org", "--", "ID"],
    "revoke": ["revoke", "@", "--from=ID"],
    "invitation": ["accept", "--", "ID"],
    "identity": ["accept", "folder:{root}/remote", "--identity=ID"],
    "resume device": ["resume", "--no-sync", "--device=ID"],
    "resolve": ["resolve", "--take=1", "--", "ID"],
    "conflicts": ["conflicts", "--", "ID"],
    "fork": ["fork", "--", "ID"],
    "redact": ["redact", "--", "ID"],
}
# Words that a program, a shell or git could execute.
URLS = (
    "git:--upload-pack=touch {root}/outside/made", "git:ext::sh -c touch% {root}/outside/made",
    "git:-oProxyCommand=x", "folder:", "folder:\0", "s3://", "s3://../x", "s3://user:pass@bucket", "file:///etc",
    "folder:/dev/null", "folder:/proc/self/mem", "claude-desktop:../x", "http://127.0.0.1:1/", "git:fd::0",
    "\x1b]0;x\x07", "x:y",
)  # fmt: skip


def test_sync_commands_refuse_hostile_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Documented codes, no control characters on the terminal, and no file outside home, remote and project."""
    monkeypatch.setattr("holdfast.sync.remotes.wrappers._FIRST_WAIT", 0.0)
    monkeypatch.setenv("PATH", os.environ["PATH"])
    sandbox = Sandbox(tmp_path)
    sandbox.home.mkdir(mode=0o700)
    (sandbox.home / "config.toml").write_text("[sync]\nbackground = false\n")
    for argv in (["start", "G"], ["remote", "add", "home", f"folder:{tmp_path}/remote"], ["sync"],
                 ["people", "add", "known@example.org", KEY]):  # fmt: skip
        assert sandbox.call(*argv).code == 0, argv
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "precious").write_text("precious")

    def other_files() -> dict[str, bytes | None]:
        return {name: body for name, body in tree(tmp_path).items() if not name.startswith(("home", "remote"))}

    before = other_files()
    wanted = scale(8, 520, 10_000)
    chosen = [
        *random.Random(3).sample(PARTS, min(wanted, len(PARTS))),
        *random.Random(4).sample(hostile_ids(), wanted // 2),
    ]
    for identity in chosen:
        for entry, words in ENTRIES.items():
            answer = sandbox.call(*[word.replace("{root}", str(tmp_path)).replace("ID", identity) for word in words])
            assert not control_characters(answer.out + answer.err), (entry, ascii(identity), answer)
            if entry in ("remote name", "vault words") and answer.code == 0:
                raise AssertionError((entry, ascii(identity), answer))
    for url in URLS:
        for words in (["remote", "add", "other"], ["accept"]):
            answer = sandbox.call(*words, "--", url.replace("{root}", str(tmp_path)))
            assert answer.code in (1, 2, 3, 4, 7), (ascii(url), answer)
            assert not control_characters(answer.out + answer.err), (ascii(url), answer)
    assert other_files() == before
    assert {path.name for path in sandbox.home.iterdir()} <= KNOWN
    for words in (["device", "list"], ["remote", "list"], ["people", "list"], ["status"], ["history"]):
        answer = sandbox.call(*words)
        assert not control_characters(answer.out + answer.err), answer
    assert sandbox.call("sync").code == 0
    sandbox.assert_sound()


def control_characters(text: str) -> set[str]:
    return {name for name in text if (ord(name) < 32 and name != "\n") or name in "\x7f\x9b\u202e"}


# ── files of a newer Holdfast ────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def sandbox() -> Iterator[SyncSandbox]:
    with SyncSandbox() as made:
        yield made


def _changed(path: Path, **more: object) -> bytes:
    document = json.loads(path.read_bytes())
    (document[0] if isinstance(document, list) else document).update(more)
    path.write_text(json.dumps(document))
    return path.read_bytes()


def test_keys_of_a_newer_version_are_never_changed(sandbox: SyncSandbox) -> None:
    """Commands that need the keys are refused with a message; recording works."""
    sandbox.restore_stage("busy")
    path = Path(sandbox.home, "device.json")
    original = path.read_bytes()
    for more in ({"holdfast": 2}, {"holdfast": 2, "place": "chip"}, {"holdfast": 3, "signing": [1], "seed": None}):
        before = _changed(path, **more)
        for argv in (
            ("sync",), ("device", "show"), ("device", "rename", "x"), ("device", "recovery-code"), ("device", "list"),
            ("remote", "add", "x", f"folder:{sandbox.root}/x"), ("accept",),
        ):  # fmt: skip
            answer = sandbox.at("a", *argv)
            assert_no_traceback(answer)
            assert answer.code == 1, (argv, answer)
            assert "newer Holdfast" in answer.err, (argv, answer)
        for argv in (("note", "it goes on"), ("status",), ("show", "@"), ("history",), ("remote", "remove", "x")):
            answer = sandbox.at("a", *argv)
            assert_no_traceback(answer)
            assert answer.code in (0, 3), (argv, answer)
        assert path.read_bytes() == before
    path.write_bytes(original)
    sandbox.sync("aba")
    assert sandbox.log("a") == sandbox.log("b")


def test_unknown_fields_of_remotes_and_people_are_kept(sandbox: SyncSandbox) -> None:
    """Whatever this version changes in these files."""
    sandbox.restore_stage("known")
    for name, argvs in {
        "remotes.json": (("remote", "add", "x", f"folder:{sandbox.root}/x"), ("sync",), ("remote", "remove", "x")),
        "people.json": (("people", "add", "more@example.org", KEY), ("people", "add", "guest@example.org", KEY)),
    }.items():
        path = Path(sandbox.home, name)
        _changed(path, quota={"bytes": 5}, color="red")
        for argv in argvs:
            sandbox.run_json("a", *argv)
            entries = [item for item in json.loads(path.read_bytes()) if item.get("color") == "red"]
            assert [match["quota"] for match in entries] == [{"bytes": 5}], f"{name} after {argv}"


def test_unknown_kind_of_remote_is_reported_and_kept(sandbox: SyncSandbox) -> None:
    """Commands that need no remote work."""
    sandbox.restore_stage("joined")
    path = Path(sandbox.home, "remotes.json")
    before = _changed(path, kind="constellation")
    for argv in (("sync",), ("remote", "list"), ("remote", "remove", "home"), ("remote", "add", "y", sandbox.url)):
        answer = sandbox.at("a", *argv)
        assert_no_traceback(answer)
        assert answer.code == 6, (argv, answer)
    for argv in (("note", "it goes on"), ("status",), ("resume", "@")):
        answer = sandbox.at("a", *argv)
        assert_no_traceback(answer)
        assert answer.code == 0, (argv, answer)
    assert path.read_bytes() == before
