"""Addresses of git remotes: ssh and http on this machine, and the errors when a repository cannot be reached."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import Failed, HoldfastError, Invalid, NotFound, Refused, Unreachable
from holdfast.sync.remotes.base import Missing
from holdfast.sync.remotes.conformance import noise
from holdfast.sync.remotes.git import GitRemote
from holdfast.sync.remotes.git_refs import address, resolve_remote_name

needs_sh = pytest.mark.skipif(sys.platform == "win32", reason="sh scripts")


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("settings") / "gitconfig"
    file.write_text("[init]\ndefaultBranch = main\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(file))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("no_proxy", "*")
    return file


def sh(where: Path, *args: str) -> str:
    return subprocess.run(["git", *args], cwd=where, check=True, capture_output=True, text=True).stdout.strip()


def bare(where: Path) -> Path:
    where.mkdir(parents=True)
    sh(where, "init", "-q", "--bare", ".")
    return where


def opened(repository: Path, scratch: Path) -> GitRemote:
    return GitRemote.open(f"git:{repository}", str(scratch), create=True)


# Over the wire


def sync_two_devices(one: GitRemote, two: GitRemote) -> None:
    """Two devices use a remote, from the first put to a restarted history."""
    assert one.list("") == []
    assert one.put([("vault", b"founding"), ("p/1", noise(300_000))]) == frozenset()
    assert two.put([("vault", b"another"), ("h/two-1", b"")]) == frozenset({"vault"})
    assert one.put([("h/one-1", b"")], remove=["p/1"]) == frozenset()
    assert [entry.name for entry in two.list("")] == ["h/one-1", "h/two-1", "vault"]
    for number in range(2, 6):
        two.put([(f"h/two-{number}", b"")], remove=[f"h/two-{number - 1}"])
    assert [entry.name for entry in one.list("h/")] == ["h/one-1", "h/two-5"]
    assert one.get("vault", 100) == b"founding"


@needs_sh
def test_sync_works_by_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the person's ssh command; here one that stays on this machine."""
    repository = bare(tmp_path / "r.git")
    program = tmp_path / "ssh"
    program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/called\nfor last; do :; done\nexec sh -c "$last"\n')
    program.chmod(0o755)
    monkeypatch.setenv("GIT_SSH_COMMAND", str(program))
    monkeypatch.setattr(GitRemote, "longest_history", 3)
    handles = [GitRemote.open(f"git:me@host.invalid:{repository}", str(tmp_path / n), create=True) for n in "ab"]
    sync_two_devices(handles[0], handles[1])
    called = (tmp_path / "called").read_text().splitlines()
    assert all("-o BatchMode=yes" in line and "me@host.invalid git-" in line for line in called)


class SmartHttpHandler(BaseHTTPRequestHandler):
    """Git's own http-backend behind a server in Python."""

    root: ClassVar[Path]
    password: ClassVar[str] = ""

    def log_message(self, *_: object) -> None: ...

    def do_GET(self) -> None:
        expected = "Basic " + base64.b64encode(f"anna:{self.password}".encode()).decode()
        if self.password and self.headers["Authorization"] != expected:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="here"')
            self.end_headers()
            return
        path, _, query = self.path.partition("?")
        env = {
            **os.environ,
            "GIT_PROJECT_ROOT": str(self.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "REMOTE_USER": "anna",
        }
        body = self._body()
        done = subprocess.run(["git", "http-backend"], env=env, input=body, capture_output=True, check=False)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self.send_response(int(fields.pop("Status", "200").split()[0]))
        for field, value in fields.items():
            self.send_header(field, value)
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self) -> None:
        self.do_GET()

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body


@pytest.fixture
def http_server(tmp_path: Path) -> Iterator[tuple[str, type[SmartHttpHandler]]]:
    bare(tmp_path / "served/r.git")

    class Here(SmartHttpHandler):
        root = tmp_path / "served"

    with ThreadingHTTPServer(("127.0.0.1", 0), Here) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}", Here
        server.shutdown()
        thread.join()


def test_sync_works_by_smart_http(
    http_server: tuple[str, type[SmartHttpHandler]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GitRemote, "longest_history", 3)
    handles = [GitRemote.open(f"git:http://{http_server[0]}/r.git", str(tmp_path / n), create=True) for n in "ab"]
    sync_two_devices(handles[0], handles[1])


def test_http_credentials_come_from_a_helper(
    http_server: tuple[str, type[SmartHttpHandler]], tmp_path: Path, settings: Path
) -> None:
    """Missing and wrong ones give an error that says what to check."""
    host, server = http_server
    server.password = "right-one"
    for user in ("", "anna:wrong-one@"):
        with pytest.raises(Failed, match="denied access") as error:
            GitRemote.open(f"git:http://{user}{host}/r.git", str(tmp_path / "s"), create=True)
        assert "wrong-one" not in f"{error.value.message} {error.value.hint}"
    settings.write_text("[credential]\nhelper = \"!printf 'username=anna\\\\npassword=right-one\\\\n' #\"\n")
    if sys.platform != "win32":
        assert GitRemote.open(f"git:http://{host}/r.git", str(tmp_path / "s"), create=True).list("") == []
    settings.write_text("")
    assert GitRemote.open(f"git:http://anna:right-one@{host}/r.git", str(tmp_path / "t"), create=True).list("") == []


def test_missing_repository_at_a_host_is_reported_as_missing(
    http_server: tuple[str, type[SmartHttpHandler]], tmp_path: Path
) -> None:
    """Not as an unreachable host."""
    with pytest.raises(Failed, match="there is no git repository"):
        GitRemote.open(f"git:http://{http_server[0]}/none.git", str(tmp_path / "s"), create=True)


# Refusals


def test_path_without_a_repository_is_an_error(tmp_path: Path) -> None:
    """A missing path, a plain folder and a file; none is turned into a repository."""
    with pytest.raises(NotFound, match="there is no git repository"):
        opened(tmp_path / "none.git", tmp_path / "s")
    (tmp_path / "folder").mkdir()
    with pytest.raises(Failed, match="there is no git repository") as error:
        opened(tmp_path / "folder", tmp_path / "s")
    assert "git init --bare" in (error.value.hint or "")
    assert list((tmp_path / "folder").iterdir()) == []
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(NotFound):
        opened(tmp_path / "file", tmp_path / "s")


def test_former_repository_is_unreachable(tmp_path: Path) -> None:
    """A repository that existed when the remote was added counts as unreachable, not as invalid."""
    repository = bare(tmp_path / "r.git")
    opened(repository, tmp_path / "s").put([("a", b"")])
    (repository / "HEAD").unlink()
    with pytest.raises(Unreachable, match="no longer") as error:
        GitRemote.open(f"git:{repository}", str(tmp_path / "s"), create=False).list("")
    assert "git init" not in (error.value.hint or "")
    repository.rename(tmp_path / "away")
    with pytest.raises(Unreachable, match="no longer"):
        GitRemote.open(f"git:{repository}", str(tmp_path / "s"), create=False)


def test_remote_works_again_when_its_repository_returns(tmp_path: Path) -> None:
    """Until then every call is an error."""
    repository = bare(tmp_path / "r.git")
    remote = opened(repository, tmp_path / "s")
    remote.put([("a", b"")])
    repository.rename(tmp_path / "away")
    for call in (lambda: remote.list(""), lambda: remote.put([("b", b"")]), lambda: remote.get("a", 1)):
        with pytest.raises(HoldfastError):
            call()
    (tmp_path / "away").rename(repository)
    assert remote.put([("b", b"")]) == frozenset()


@needs_sh
def test_push_refused_by_a_hook_is_not_retried(tmp_path: Path) -> None:
    """The server's words are the hint, and nothing was put."""
    repository = bare(tmp_path / "r.git")
    hook = repository / "hooks/pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho too many >> log\nprintf 'no room \\033[31mfor you\\n' >&2\nexit 1\n")
    hook.chmod(0o755)
    remote = opened(repository, tmp_path / "s")
    with pytest.raises(Failed, match="refuses") as error:
        remote.put([("a", b"")])
    assert "no room [31mfor you" in (error.value.hint or "")  # nothing that controls a terminal
    assert (repository / "log").read_text().count("too many") == 1
    hook.unlink()
    with pytest.raises(Missing):
        remote.get("a", 1)
    assert remote.put([("a", b"")]) == frozenset()


def test_sha256_repository_is_refused_with_a_message(tmp_path: Path) -> None:
    where = tmp_path / "r.git"
    where.mkdir()
    sh(where, "init", "-q", "--bare", "--object-format=sha256", ".")
    remote = opened(where, tmp_path / "s")
    with pytest.raises(Failed, match="SHA-256"):
        remote.put([("a", b"")])


def test_unreachable_host_is_reported(tmp_path: Path) -> None:
    """No credentials of the address are shown."""
    for user in ("anna:s3cr%40t@", "t0ken-t0ken@"):
        with pytest.raises(Unreachable) as error:
            GitRemote.open(f"git:http://{user}127.0.0.1:9/r.git", str(tmp_path / "s"), create=True)
        text = f"{error.value.message} {error.value.hint}"
        assert "127.0.0.1:9" in text
        assert not any(secret in text for secret in ("s3cr", "t0ken", "anna"))
    with pytest.raises(HoldfastError) as refused:
        GitRemote.open("git:ssh://nobody@127.0.0.1:9/r.git", str(tmp_path / "s"), create=True)
    assert "127.0.0.1:9" in refused.value.message


def test_address_of_a_handle_shows_no_credentials(tmp_path: Path) -> None:
    remote = GitRemote.open("git:https://anna:secret@git.example.org/r.git", str(tmp_path), create=False)
    assert remote.url == "git:https://git.example.org/r.git"
    assert address("git:https://anna:secret@h.org/r").clean("x https://anna:secret@h.org/r y secret z") == (
        "x https://h.org/r y … z"
    )


# Addresses


@pytest.mark.parametrize(
    "text",
    [
        *("git@host:me/repo.git", "host:repo", "host.example.org:~/repo.git", "me@[::1]:repo.git"),
        *("ssh://git@host/repo.git", "ssh://host:2222/repo", "https://host/me/repo.git", "https://me@host:8443/r"),
        *("http://127.0.0.1:8080/r.git", "http://localhost/r", "http://[::1]:80/r", "file:///srv/r.git"),
    ],
)
def test_valid_address_is_accepted_unchanged(text: str) -> None:
    """Hosts by ssh and https, this machine by http, paths."""
    assert address(f"git:{text}").text == text


@pytest.mark.parametrize(
    "text",
    [
        *("", "-u", "--upload-pack=touch x", "ext::sh -c x", "fd::3", "ext://x/y", "git://host/r", "ftp://host/r"),
        *("http://host/r", "http://127.0.0.1.example.org/r", "http://localhost@host/r", "file://host/r", "file:r"),
        *("-oProxyCommand=x:r", "ssh://-oProxyCommand=x/r", "me@-oProxyCommand=x:r", "host:-x", "host::x", "host:"),
        *("https://", "https:///r", "https://host", "a\nb:c", "host:a\0b", "origin", "x" * 3000, "https://h\x7f/r"),
        *("https://host /r", "ssh://a@b@-x/r", "transport-helper::https://host/r"),
    ],
)
def test_unsafe_or_invalid_address_is_refused(text: str) -> None:
    """Options, disguised commands, passwords in plain http, and non-addresses."""
    if text == "file:r":
        assert address("git:file:r").protocol == "ssh"  # a host of that name, as git reads it
        return
    with pytest.raises(Invalid):
        address(f"git:{text}")


@given(st.text(max_size=60))
def test_accepted_address_is_never_an_option_or_a_command(text: str) -> None:
    """It does not start with a dash and names no transport of its own."""
    try:
        parsed = address(f"git:{text}")
    except Invalid:
        return
    assert not parsed.text.startswith("-")
    assert "::" not in parsed.text.partition("/")[0].replace("[::", "[")
    assert parsed.protocol in ("file", "ssh", "https", "http")


def test_git_paths_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative to the caller's directory, not to git's."""
    bare(tmp_path / "r.git")
    monkeypatch.chdir(tmp_path)
    remote = GitRemote.open("git:./r.git", "scratch", create=True)
    assert remote.url == f"git:{tmp_path}/r.git"
    assert GitRemote.open(f"git:file://{tmp_path}/r.git", str(tmp_path / "s"), create=True).list("") == []


def test_name_of_a_git_remote_is_resolved(tmp_path: Path) -> None:
    """`git:origin` is what the person's own repository calls by that name."""
    work = tmp_path / "work"
    work.mkdir()
    sh(work, "init", "-q")
    sh(work, "remote", "add", "origin", "git@host:me/repo.git")
    for name, path in (("near", "../r.git"), ("inside", "./r.git"), ("far", str(tmp_path / "r.git"))):
        sh(work, "remote", "add", name, path)
    assert resolve_remote_name("git:origin", str(work)) == "git:git@host:me/repo.git"
    for name in ("near", "inside", "far"):
        # An archive may hold the repository and, around it or in it, another one with hooks.
        with pytest.raises(Refused, match="is a directory on this machine"):
            resolve_remote_name(f"git:{name}", str(work))
    assert resolve_remote_name("git:/srv/r.git", str(work)) == "git:/srv/r.git"
    with pytest.raises(NotFound, match="no remote called upstream"):
        resolve_remote_name("git:upstream", str(work))
