"""F11 and F20 for what travels: hostile words at every entry, and files of a Holdfast that is newer than this one."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.harness.judge import KNOWN
from tests.faults.harness.travel import Travel
from tests.faults.harness.trials import decent
from tests.faults.program import Desk, tree
from tests.faults.test_hostile_ids import PARTS, hostile
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
# Words that a program, a shell or git could take for something to do.
URLS = (
    "git:--upload-pack=touch {root}/outside/made", "git:ext::sh -c touch% {root}/outside/made",
    "git:-oProxyCommand=x", "folder:", "folder:\0", "s3://", "s3://../x", "s3://user:pass@bucket", "file:///etc",
    "folder:/dev/null", "folder:/proc/self/mem", "claude-desktop:../x", "http://127.0.0.1:1/", "git:fd::0",
    "\x1b]0;x\x07", "x:y",
)  # fmt: skip


def test_hostile_words_at_every_entry_of_travel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Codes of the contract, nothing but text on the terminal, and not one file outside home and project."""
    monkeypatch.setattr("holdfast.sync.remotes.wrappers._FIRST_WAIT", 0.0)
    monkeypatch.setenv("PATH", os.environ["PATH"])
    desk = Desk(tmp_path)
    desk.home.mkdir(mode=0o700)
    (desk.home / "config.toml").write_text("[sync]\nbackground = false\n")
    for argv in (["start", "G"], ["remote", "add", "home", f"folder:{tmp_path}/remote"], ["sync"],
                 ["people", "add", "known@example.org", KEY]):  # fmt: skip
        assert desk.call(*argv).code == 0, argv
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "precious").write_text("precious")

    def around() -> dict[str, bytes | None]:
        return {name: body for name, body in tree(tmp_path).items() if not name.startswith(("home", "remote"))}

    before = around()
    wanted = scale(8, 520, 10_000)
    chosen = [
        *random.Random(3).sample(PARTS, min(wanted, len(PARTS))),
        *random.Random(4).sample(hostile(), wanted // 2),
    ]
    for identity in chosen:
        for entry, words in ENTRIES.items():
            answer = desk.call(*[word.replace("{root}", str(tmp_path)).replace("ID", identity) for word in words])
            assert not controls(answer.out + answer.err), (entry, ascii(identity), answer)
            if entry in ("remote name", "vault words") and answer.code == 0:
                raise AssertionError((entry, ascii(identity), answer))
    for url in URLS:
        for words in (["remote", "add", "other"], ["accept"]):
            answer = desk.call(*words, "--", url.replace("{root}", str(tmp_path)))
            assert answer.code in (1, 2, 3, 4, 7), (ascii(url), answer)
            assert not controls(answer.out + answer.err), (ascii(url), answer)
    assert around() == before
    assert {path.name for path in desk.home.iterdir()} <= KNOWN
    for words in (["device", "list"], ["remote", "list"], ["people", "list"], ["status"], ["history"]):
        answer = desk.call(*words)
        assert not controls(answer.out + answer.err), answer
    assert desk.call("sync").code == 0
    desk.sound()


def controls(text: str) -> set[str]:
    return {name for name in text if (ord(name) < 32 and name != "\n") or name in "\x7f\x9b\u202e"}


# ── a newer Holdfast was here ────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def room() -> Iterator[Travel]:
    with Travel() as made:
        yield made


def _changed(path: Path, **more: object) -> bytes:
    document = json.loads(path.read_bytes())
    (document[0] if isinstance(document, list) else document).update(more)
    path.write_text(json.dumps(document))
    return path.read_bytes()


def test_keys_of_a_newer_version_are_never_touched(room: Travel) -> None:
    """Whatever needs the keys is refused in words; recording goes on; the file stays as it was, byte by byte."""
    room.reach("busy")
    path = Path(room.home, "device.json")
    original = path.read_bytes()
    for more in ({"holdfast": 2}, {"holdfast": 2, "place": "chip"}, {"holdfast": 3, "signing": [1], "seed": None}):
        before = _changed(path, **more)
        for argv in (
            ("sync",), ("device", "show"), ("device", "rename", "x"), ("device", "recovery-code"), ("device", "list"),
            ("remote", "add", "x", f"folder:{room.root}/x"), ("accept",),
        ):  # fmt: skip
            answer = room.at("a", *argv)
            decent(answer)
            assert answer.code == 1, (argv, answer)
            assert "newer Holdfast" in answer.err, (argv, answer)
        for argv in (("note", "it goes on"), ("status",), ("show", "@"), ("history",), ("remote", "remove", "x")):
            answer = room.at("a", *argv)
            decent(answer)
            assert answer.code in (0, 3), (argv, answer)
        assert path.read_bytes() == before
    path.write_bytes(original)
    room.sync("aba")
    assert room.log("a") == room.log("b")


def test_what_is_not_known_here_is_kept_in_the_lists(room: Travel) -> None:
    """Fields of a newer version in the lists of remotes and people survive whatever this one changes there."""
    room.reach("known")
    for name, argvs in {
        "remotes.json": (("remote", "add", "x", f"folder:{room.root}/x"), ("sync",), ("remote", "remove", "x")),
        "people.json": (("people", "add", "more@example.org", KEY), ("people", "add", "guest@example.org", KEY)),
    }.items():
        path = Path(room.home, name)
        _changed(path, quota={"bytes": 5}, color="red")
        for argv in argvs:
            room.done("a", *argv)
            found = [item for item in json.loads(path.read_bytes()) if item.get("color") == "red"]
            assert [match["quota"] for match in found] == [{"bytes": 5}], f"{name} after {argv}"


def test_a_kind_of_remote_that_is_not_known_here(room: Travel) -> None:
    """A list of remotes that this version cannot read is told, kept, and keeps nobody from their work."""
    room.reach("joined")
    path = Path(room.home, "remotes.json")
    before = _changed(path, kind="constellation")
    for argv in (("sync",), ("remote", "list"), ("remote", "remove", "home"), ("remote", "add", "y", room.url)):
        answer = room.at("a", *argv)
        decent(answer)
        assert answer.code == 6, (argv, answer)
    for argv in (("note", "it goes on"), ("status",), ("resume", "@")):
        answer = room.at("a", *argv)
        decent(answer)
        assert answer.code == 0, (argv, answer)
    assert path.read_bytes() == before
