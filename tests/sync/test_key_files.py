"""A device's key file: created once, private, never replaced silently."""

from __future__ import annotations

import base64
import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keyring
import keyring.backend
import keyring.backends.fail
import keyring.backends.null
import keyring.errors
import pytest

from holdfast.core.errors import Damaged, Failed, Invalid, Refused
from holdfast.machine import files
from holdfast.workspace.keys import key_files
from holdfast.workspace.keys.device_keys import DeviceKeys

POSIX = pytest.mark.skipif(os.name == "nt", reason="Windows has no modes and few links")


@pytest.fixture
def home(tmp_path: Path) -> str:
    return str(tmp_path / "home")


def content(home: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((Path(home) / "device.json").read_bytes())
    return document


def put(home: str, data: bytes) -> Path:
    path = Path(home) / "device.json"
    path.write_bytes(data)
    return path


def test_keys_are_created_once(home: str) -> None:
    """The file has the documented content."""
    assert key_files.load(home) is None
    assert key_files.public(home) is None
    made = key_files.create(home, name=" laptop ", made_at=1_763_200_000_000)
    assert key_files.create(home, name="other").identity == made.identity
    loaded = key_files.load(home)
    assert loaded is not None
    assert (loaded.seed, loaded.identity, loaded.public) == (made.seed, made.identity, made.public)
    assert key_files.public(home) == made.public
    assert content(home) == {
        "holdfast": 1,
        "name": "laptop",
        "signing": base64.b64encode(made.public.signing).decode(),
        "age": made.public.age,
        "place": "file",
        "made_at": 1_763_200_000_000,
        "seed": base64.b64encode(made.seed).decode(),
        "identity": made.identity,
    }


@POSIX
def test_key_file_is_private(home: str) -> None:
    """Directory and file are accessible to the owner only, whatever the umask."""
    before = os.umask(0)
    try:
        key_files.create(home, name="laptop")
        key_files.set_name(home, "desk")
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(home).st_mode) == 0o700
    assert stat.S_IMODE(os.stat(os.path.join(home, "device.json")).st_mode) == 0o600


def test_showing_the_public_key_loads_no_cryptography(home: str) -> None:
    made = key_files.create(home, name="laptop")
    code = (
        "import sys\n"
        "from holdfast.workspace.keys import key_files\n"
        "print(key_files.public(sys.argv[1]).id)\n"
        "heavy = {'cryptography', 'pyrage', 'keyring', 'subprocess', 'ssl'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, home], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == made.public.id


def test_concurrent_processes_create_one_device(home: str) -> None:
    """One creates the keys, and all use them."""
    code = (
        "import sys\n"
        "from holdfast.workspace.keys import key_files\n"
        "sys.stdin.read(1)\n"
        "print(key_files.create(sys.argv[1], name=sys.argv[2]).identity)\n"
    )
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code, home, f"n{each}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for each in range(4)
    ]
    for each in started:
        assert each.stdin is not None
        each.stdin.write("g")
        each.stdin.flush()
    answers = {each.communicate(timeout=60)[0].strip() for each in started}
    assert all(each.returncode == 0 for each in started)
    assert answers == {content(home)["identity"]}


def test_failed_write_leaves_no_key_file(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next command creates it."""
    with monkeypatch.context() as broken:

        def full(*_: object, **__: object) -> None:
            raise OSError(28, "No space left on device")

        broken.setattr(files._Directory, "replace", full)
        with pytest.raises(Failed, match="disk is full"):
            key_files.create(home, name="laptop")
    assert key_files.load(home) is None
    assert files.temporaries(home) == []
    made = key_files.create(home, name="laptop")
    assert key_files.public(home) == made.public


def test_renaming_keeps_the_keys(home: str) -> None:
    made = key_files.create(home, name="laptop", made_at=5)
    before = content(home)
    key_files.set_name(home, "Büro 2")
    assert content(home) == before | {"name": "Büro 2"}
    device = key_files.device(home)
    assert device is not None
    assert device.name == "Büro 2"
    assert made.identity not in repr(device)


def test_unprintable_name_is_refused(home: str) -> None:
    """Empty, endless and invisible names; no keys are created."""
    for name in ("", "  ", "x" * 101, "a\nb", "\x1b[31m", "\udcff", "a\0"):
        with pytest.raises(Invalid):
            key_files.create(home, name=name)
    assert not os.path.lexists(home)
    key_files.create(home, name="laptop")
    with pytest.raises(Invalid):
        key_files.set_name(home, "\x07")


def test_rename_is_refused_without_keys(home: str) -> None:
    os.makedirs(home)
    with pytest.raises(Refused, match="no keys yet"):
        key_files.set_name(home, "laptop")


@pytest.mark.parametrize("change", ["empty", "garbage", "cut", "endless", "list", "deep"])
def test_damaged_key_file_is_reported_and_kept(home: str, change: str) -> None:
    """No damage leads to new keys; the error says what to do."""
    key_files.create(home, name="laptop")
    whole = (Path(home) / "device.json").read_bytes()
    data = {
        "empty": b"",
        "garbage": b"\xff\x00\xfe",
        "cut": whole[:-20],
        "endless": whole[:-3] + b" " * 100_000 + b"}\n",
        "list": b"[]",
        "deep": b"[" * 50_000,
    }[change]
    path = put(home, data)
    for use in (key_files.load, key_files.public, lambda home: key_files.create(home, name="x")):
        with pytest.raises(Damaged) as caught:
            use(home)
        assert "backup" in str(caught.value.hint)
    with pytest.raises(Damaged):
        key_files.set_name(home, "desk")
    assert path.read_bytes() == data


@pytest.mark.parametrize("field", ["signing", "age", "seed", "identity"])
@pytest.mark.parametrize("how", ["other", "missing", "short"])
def test_key_file_is_refused_when_keys_do_not_match(home: str, field: str, how: str) -> None:
    """A half from another device, a missing or a truncated one is damage."""
    key_files.create(home, name="laptop")
    other = DeviceKeys.generate()
    value = {
        "signing": base64.b64encode(other.public.signing).decode(),
        "age": other.public.age,
        "seed": base64.b64encode(other.seed).decode(),
        "identity": other.identity,
    }[field]
    document = content(home)
    if how == "missing":
        del document[field]
    else:
        document[field] = value if how == "other" else value[:-4]
    put(home, json.dumps(document).encode())
    with pytest.raises(Damaged):
        key_files.load(home)


def test_newer_key_file_is_refused_with_advice_to_update(home: str) -> None:
    """Whatever its form."""
    key_files.create(home, name="laptop")
    for newer in (content(home) | {"holdfast": 2}, {"holdfast": 2, "keys": []}):
        put(home, json.dumps(newer).encode())
        with pytest.raises(Refused, match="newer Holdfast"):
            key_files.load(home)


@POSIX
def test_key_file_is_refused_when_others_can_read_it(home: str) -> None:
    """The public half is still used."""
    made = key_files.create(home, name="laptop")
    path = os.path.join(home, "device.json")
    for mode in (0o640, 0o604, 0o660):
        os.chmod(path, mode)
        with pytest.raises(Refused, match="open to others") as caught:
            key_files.load(home)
        assert "chmod 600" in str(caught.value.hint)
        with pytest.raises(Refused):
            key_files.create(home, name="x")
    assert key_files.public(home) == made.public
    os.chmod(path, 0o600)
    assert key_files.load(home) is not None


@POSIX
def test_key_file_is_refused_when_planted(home: str, tmp_path: Path) -> None:
    """A link, a second hard link, a pipe or a directory is neither read nor written through."""
    key_files.create(home, name="laptop")
    path = Path(home) / "device.json"
    elsewhere = tmp_path / "elsewhere.json"
    path.rename(elsewhere)

    def refused() -> None:
        for use in (key_files.load, key_files.public, lambda home: key_files.create(home, name="x")):
            with pytest.raises(Refused):
                use(home)

    path.symlink_to(elsewhere)
    refused()
    path.unlink()
    path.symlink_to(tmp_path / "nowhere")
    refused()
    assert not (tmp_path / "nowhere").exists()
    path.unlink()
    os.link(elsewhere, path)
    refused()
    path.unlink()
    os.mkfifo(path)
    refused()
    path.unlink()
    path.mkdir()
    refused()


# --- the keyring -------------------------------------------------------------------------------------


class MemoryKeyring(keyring.backend.KeyringBackend):
    """A keyring in memory."""

    priority = 1

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.kept: dict[tuple[str, str], str] = {}
        self.locked = False

    def _open(self) -> dict[tuple[str, str], str]:
        if self.locked:
            raise keyring.errors.KeyringLocked("no")
        return self.kept

    def get_password(self, service: str, username: str) -> str | None:
        return self._open().get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self._open()[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self._open()[service, username]


@pytest.fixture
def memory_keyring() -> Iterator[MemoryKeyring]:
    before = keyring.get_keyring()
    memory_keyring = MemoryKeyring()
    keyring.set_keyring(memory_keyring)
    yield memory_keyring
    keyring.set_keyring(before)


def test_keyring_contains_the_secrets(home: str, memory_keyring: MemoryKeyring) -> None:
    """The file then contains the public half only."""
    made = key_files.create(home, name="laptop", place="keyring")
    assert sorted(content(home)) == ["age", "holdfast", "name", "place", "signing"]
    assert list(memory_keyring.kept) == [("holdfast", made.public.id)]
    key_files.set_name(home, "desk")
    loaded = key_files.load(home)
    assert loaded is not None
    assert (loaded.seed, loaded.identity) == (made.seed, made.identity)
    memory_keyring.locked = True
    assert key_files.public(home) == made.public


def test_locked_keyring_is_reported(home: str, memory_keyring: MemoryKeyring) -> None:
    """Nothing is created or replaced; once unlocked it works."""
    memory_keyring.locked = True
    with pytest.raises(Failed, match="rejected the keys") as caught:
        key_files.create(home, name="laptop", place="keyring")
    assert "private file" in str(caught.value.hint)
    assert key_files.load(home) is None
    memory_keyring.locked = False
    made = key_files.create(home, name="laptop", place="keyring")
    memory_keyring.locked = True
    with pytest.raises(Failed, match="cannot be read"):
        key_files.create(home, name="laptop")
    memory_keyring.locked = False
    assert key_files.create(home, name="laptop").identity == made.identity


def test_missing_keyring_secrets_are_reported(home: str, memory_keyring: MemoryKeyring) -> None:
    """Removed, damaged or swapped secrets never lead to new keys."""
    made = key_files.create(home, name="laptop", place="keyring")
    account = ("holdfast", made.public.id)
    whole = memory_keyring.kept.pop(account)
    with pytest.raises(Damaged, match="no longer"):
        key_files.load(home)
    for spoilt in ("", "{}", whole[:-9], json.dumps({"seed": "AAAA", "identity": "x"})):
        memory_keyring.kept[account] = spoilt
        with pytest.raises(Damaged):
            key_files.create(home, name="laptop")
    other = DeviceKeys.generate()
    memory_keyring.kept[account] = json.dumps(
        {"seed": base64.b64encode(other.seed).decode(), "identity": other.identity}
    )
    with pytest.raises(Damaged, match="do not match"):
        key_files.load(home)
    memory_keyring.kept[account] = whole
    assert key_files.load(home) is not None


def test_unusable_keyring_is_reported_with_the_file_as_an_alternative(
    home: str, monkeypatch: pytest.MonkeyPatch, memory_keyring: MemoryKeyring
) -> None:
    """A system without one, one that forgets, and a missing module."""
    for backend in (keyring.backends.fail.Keyring, keyring.backends.null.Keyring):
        keyring.set_keyring(backend())
        with pytest.raises(Failed) as caught:
            key_files.create(home, name="laptop", place="keyring")
        assert "private file" in str(caught.value.hint)
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(Failed, match="not installed") as missing:
        key_files.create(home, name="laptop", place="keyring")
    assert "holdfast[keyring]" in str(missing.value.hint)
    assert key_files.load(home) is None


def test_renaming_keeps_unknown_fields(home: str) -> None:
    """A newer version wrote them."""
    made = key_files.create(home, name="laptop")
    path = os.path.join(home, "device.json")
    with open(path, "rb") as file:
        fields = json.load(file)
    with open(path, "w", encoding="utf-8") as text:
        json.dump({**fields, "later": {"kept": [1, 2]}}, text)
    key_files.set_name(home, "desk")
    with open(path, "rb") as file:
        assert json.load(file) == {**fields, "name": "desk", "later": {"kept": [1, 2]}}
    loaded = key_files.load(home)
    assert loaded is not None
    assert loaded.identity == made.identity
