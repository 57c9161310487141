"""Addresses of remotes: which kind they name, how they are stored, and that nothing secret or harmful is stored."""

from __future__ import annotations

import os
import subprocess
import sys
import types
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.core.errors import Failed, Invalid, Refused, Unreachable
from holdfast.sync.remotes.folder import FolderRemote
from holdfast.sync.remotes.index import backend_of, checked_url, open_remote

posix = pytest.mark.skipif(os.name == "nt", reason="paths as POSIX writes them")


@posix
@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("folder:/srv/vault", "folder:/srv/vault"),
        ("  folder:/srv/../srv//vault/ ", "folder:/srv/vault"),
        ("FOLDER:/srv/Vault", "folder:/srv/Vault"),
        ("folder:///srv/vault", "folder:/srv/vault"),
        ("folder:/with space/and:colon", "folder:/with space/and:colon"),
        ("s3://bucket/some/prefix/", "s3://bucket/some/prefix"),
        ("git:git@github.com:me/sessions.git", "git:git@github.com:me/sessions.git"),
        ("git:https://me@dev.example.com/o/r", "git:https://me@dev.example.com/o/r"),
        ("git:ssh://git@host:2222/o/r", "git:ssh://git@host:2222/o/r"),
        ("git:me@[::1]:o/r", "git:me@[::1]:o/r"),
        ("git:/srv/sessions.git/", "git:/srv/sessions.git"),
        ("git:///srv/sessions.git", "git:/srv/sessions.git"),
        ("git:file:///srv/r", "git:file:///srv/r"),
        ("claude-desktop:", "claude-desktop:"),
        ("claude-desktop", "claude-desktop:"),
        ("claude-desktop://", "claude-desktop:"),
    ],
)
def test_address_is_stored_in_one_form(url: str, kept: str) -> None:
    """Checking the stored form again changes nothing."""
    assert checked_url(url) == kept
    assert checked_url(kept) == kept


def test_relative_paths_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative to the caller's directory; ~ is the person's home."""
    monkeypatch.chdir(tmp_path)
    here, home = os.getcwd(), os.path.expanduser("~")
    assert checked_url("folder:vault") == f"folder:{os.path.join(here, 'vault')}"
    assert checked_url("folder:~/vault") == f"folder:{os.path.join(home, 'vault')}"
    assert checked_url("git:../r.git") == f"git:{os.path.join(os.path.dirname(here), 'r.git')}"
    assert checked_url("git:~/r.git") == f"git:{os.path.join(home, 'r.git')}"


@pytest.mark.parametrize(
    "url",
    [
        "", " ", ":", "folder", "folder:", "folder: ", "folder:/", "folder://host/path", "ftp://host/x", "vault",
        "/srv/vault", "C:\\vault", "https://github.com/o/r", "git@github.com:o/r", "s3", "s3:", "s3://", "s3:///x",
        "git:", "git:/", "git:--upload-pack=touch /tmp/x", "git:ext::sh -c reboot", "git:ftp://host/r", "git:fd::7",
        "git://host/r", "git:http://host/r",
        "claude-desktop:/elsewhere", "claude-desktop:x", "folder:/a\0b", "folder:/a\nb", "folder:/\x1b[2J",
        "folder:/" + "x" * 5000, "s3://bucket/x?who=me", "s3://bucket/../x",
    ],
)  # fmt: skip
def test_invalid_address_is_refused(url: str) -> None:
    """The hint shows a valid address."""
    with pytest.raises(Invalid) as raised:
        checked_url(url)
    assert raised.value.hint
    assert raised.value.message.isprintable()
    assert raised.value.hint.isprintable()


@pytest.mark.parametrize(
    "url",
    [
        "s3://AKIAEXAMPLE:hunter2@bucket/x",
        "s3://hunter2@bucket/x",
        "s3://bucket/x?secret_access_key=hunter2",
        "s3://bucket/x?endpoint=https://me:hunter2@host",
        "git:https://me:hunter2@host/o/r",
        "git:ssh://me:hunter2@host/o/r",
        "https://me:hunter2@host/o/r",
        "//me:hunter2@host/o/r",
    ],
)
def test_address_with_a_secret_is_refused(url: str) -> None:
    """A password or key in it is not repeated in the error."""
    with pytest.raises(Invalid) as raised:
        checked_url(url)
    assert "hunter2" not in f"{raised.value.message} {raised.value.hint}"


def test_token_in_place_of_a_user_is_refused() -> None:
    """Some hosts accept a token as the user name; plain names are accepted."""
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
    with pytest.raises(Invalid) as raised:
        checked_url(f"git:https://{token[:40]}@github.com/me/sessions")
    assert token[:40] not in f"{raised.value.message} {raised.value.hint}"
    assert checked_url("git:https://me@bitbucket.org/me/sessions") == "git:https://me@bitbucket.org/me/sessions"


@example("folder:/.")
@example("git:/x/..")
@given(st.text(max_size=80) | st.from_regex(r"(folder|git|s3|claude-desktop):/?/?.{0,40}", fullmatch=True))
def test_any_text_is_an_address_or_refused(text: str) -> None:
    """A stable form, or one of our errors."""
    try:
        kept = checked_url(text)
    except (Invalid, Refused):
        return
    assert checked_url(kept) == kept
    assert kept.isprintable()
    assert backend_of(kept) in ("local", "s3", "claude-desktop")


def test_backend_has_a_name_in_the_craft_format() -> None:
    """There, folders and git repositories are local."""
    assert backend_of("folder:/x") == "local"
    assert backend_of("git:git@github.com:o/r") == "local"
    assert backend_of("s3://bucket/x") == "s3"
    assert backend_of("claude-desktop:") == "claude-desktop"


# ── opening ──────────────────────────────────────────────────────────────────────────────────────────────


def test_folder_is_created_only_when_the_remote_is_added(tmp_path: Path) -> None:
    url = f"folder:{tmp_path / 'vault'}"
    with pytest.raises(Unreachable):
        open_remote(url, scratch=str(tmp_path), environ={}).list("")
    remote = open_remote(url, scratch=str(tmp_path), create=True, environ={})
    assert isinstance(remote, FolderRemote)
    assert remote.url == url
    assert open_remote(url, scratch=str(tmp_path), environ={}).put([("a", b"a")]) == frozenset()


def test_opening_checks_the_address(tmp_path: Path) -> None:
    with pytest.raises(Invalid):
        open_remote("nowhere", scratch=str(tmp_path), create=True, environ={})


@pytest.mark.skipif(sys.platform == "win32", reason="by the variables of the other systems")
def test_claude_desktop_uses_the_given_environment(tmp_path: Path) -> None:
    """Not that of this process."""
    with pytest.raises(Refused):
        open_remote("claude-desktop:", scratch="", create=True, environ={"HOME": str(tmp_path)})
    base = ("Library", "Application Support") if sys.platform == "darwin" else (".config",)
    tmp_path.joinpath(*base, "Claude").mkdir(parents=True)
    remote = open_remote("claude-desktop:", scratch="", create=True, environ={"HOME": str(tmp_path)})
    remote.put([("a", b"a")])
    assert tmp_path.joinpath(*base, "Claude", "holdfast", "a").read_bytes() == b"a"


def test_each_remote_gets_its_arguments(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """S3 the environment, git the scratch directory, both the stored address."""
    calls: list[object] = []
    kept = FolderRemote(str(tmp_path))

    def opened(url: str, **more: object) -> FolderRemote:
        calls.append((url, more))
        return kept

    for name, kind in (("s3", "S3Remote"), ("git", "GitRemote")):
        module = types.ModuleType(f"holdfast.sync.remotes.{name}")
        setattr(module, kind, types.SimpleNamespace(open=opened))
        monkeypatch.setitem(sys.modules, module.__name__, module)
    assert open_remote("s3://bucket/x/", scratch="/s", environ={"A": "b"}) is kept
    assert open_remote("git:me@host:r", scratch="/s", create=True, environ={}) is kept
    assert calls == [
        ("s3://bucket/x", {"environ": {"A": "b"}, "create": False}),
        ("git:me@host:r", {"scratch": "/s", "create": True}),
    ]


def test_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of an S3 remote says what to install, with exit code 1."""
    monkeypatch.setitem(sys.modules, "obstore", None)
    for name in [name for name in sys.modules if name.startswith("obstore.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "holdfast.sync.remotes.s3", raising=False)
    with pytest.raises(Failed) as raised:
        open_remote("s3://bucket/x", scratch="", environ={"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"})
    assert "holdfast[s3]" in f"{raised.value.message} {raised.value.hint}"
    assert raised.value.exit_code == 1


def test_checking_an_address_loads_no_other_remote() -> None:
    """Neither the S3 client nor the other kinds."""
    program = (
        "import sys; from holdfast.sync.remotes.index import checked_url; checked_url('folder:/srv/x');"
        "print([m for m in sys.modules if m.startswith('obstore') or m.endswith(('.s3', '.git', '.s3_place'))])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
