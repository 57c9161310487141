"""A git remote with real bare repositories: the suite of all remotes, concurrency, crashes and costs."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast.core.errors import Unreachable
from holdfast.sync.remotes import git as git_module
from holdfast.sync.remotes.base import Missing, is_name
from holdfast.sync.remotes.conformance import RemoteConformance, noise
from holdfast.sync.remotes.git import GitRemote
from holdfast.sync.remotes.git_objects import REF


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("settings") / "gitconfig"
    file.write_text("[user]\nname = Anna Person\nemail = anna@example.org\n[init]\ndefaultBranch = main\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(file))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


def sh(where: Path, *args: str, stdin: bytes = b"") -> str:
    done = subprocess.run(["git", *args], cwd=where, check=True, capture_output=True, input=stdin)
    return done.stdout.decode().strip()


def bare(where: Path) -> Path:
    if not where.exists():
        where.mkdir(parents=True)
        sh(where, "init", "-q", "--bare", ".")
    return where


def opened(repository: Path, scratch: Path, **more: bool) -> GitRemote:
    return GitRemote.open(f"git:{repository}", str(scratch), more.get("create", True))


def plant_in_tree(repository: Path, path: str, data: bytes) -> None:
    """Put a file into the tree of the ref, as anybody with access to the repository can."""
    there = subprocess.run(
        ["git", "rev-parse", "-q", "--verify", REF], cwd=repository, capture_output=True, check=False
    )
    script = b"commit %b\ncommitter x <x> 0 +0000\ndata 0\n" % REF.encode()
    if there.returncode == 0:
        script += b"from %b\n" % there.stdout.strip()
    quoted = b'"' + path.encode().replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n") + b'"'
    script += b"M 100644 inline %b\ndata %d\n%b\n" % (quoted, len(data), data)
    sh(repository, "fast-import", "--quiet", stdin=script)


class TestGitRemote(RemoteConformance):
    """A bare repository passes the suite of all remotes."""

    many = 300
    rounds = 6

    def open_remote(self, where: str = "one") -> GitRemote:
        self.handles = getattr(self, "handles", 0) + 1
        return opened(bare(self.place / f"{where}.git"), self.place / f"scratch-{self.handles}")

    def plant(self, name: str, data: bytes, where: str = "one") -> bool:
        if not is_name(name) and {"", ".", ".."} & set(name.split("/")):
            return False  # trees with these names are built in test_git_remote_isolation
        path = name.replace("/", "_/") if is_name(name) else name
        plant_in_tree(bare(self.place / f"{where}.git"), path, data)
        return True


# Names


def test_name_and_names_below_it_are_separate_objects(tmp_path: Path) -> None:
    """A tree cannot have a file and a folder of one name; the remote can."""
    repository = bare(tmp_path / "r.git")
    remote = opened(repository, tmp_path / "s")
    assert remote.put([("a", b"1"), ("a/b", b"2"), ("a/b/c", b"3")]) == frozenset()
    other = opened(repository, tmp_path / "t")
    assert [(entry.name, entry.size) for entry in other.list("")] == [("a", 1), ("a/b", 1), ("a/b/c", 1)]
    assert [other.get(name, 9) for name in ("a", "a/b", "a/b/c")] == [b"1", b"2", b"3"]


def test_put_of_very_many_objects_succeeds(tmp_path: Path) -> None:
    """Git's output grows with its input, which must not stop it."""
    remote = opened(bare(tmp_path / "r.git"), tmp_path / "s")
    names = [f"k/{number:05d}" for number in range(26_000)]
    assert remote.put([(name, b"") for name in names]) == frozenset()
    assert [entry.name for entry in remote.list("")] == names


# Several at once


def test_only_one_of_two_equal_puts_creates_the_object(tmp_path: Path) -> None:
    """Equal changes would be equal commits, which git reports as up to date."""
    repository = bare(tmp_path / "r.git")
    one, two = opened(repository, tmp_path / "s"), opened(repository, tmp_path / "t")
    assert one.list("") == two.list("") == []
    assert one.put([("vault", b"the same")]) == frozenset()
    assert two.put([("vault", b"the same")]) == frozenset({"vault"})


def test_two_processes_share_one_clone(tmp_path: Path) -> None:
    """Handles on one scratch directory take turns, and both finish."""
    repository = bare(tmp_path / "r.git")
    handles = [opened(repository, tmp_path / "s") for _ in range(3)]

    def write(mine: int) -> None:
        for number in range(3):
            handles[mine].put([(f"p/{mine}-{number}", noise(100, mine))])

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(write, range(3)))
    assert len(handles[0].list("p/")) == 9


def test_object_is_read_after_another_process_pruned_it(tmp_path: Path) -> None:
    """The local clone is shared: a process whose objects are missing there fetches again."""
    repository = bare(tmp_path / "r.git")
    one, two = opened(repository, tmp_path / "s"), opened(repository, tmp_path / "s")
    one.put([("p/old", noise(3_000_000)), ("p/kept", b"kept")])
    one.list("")
    blob = one._snapshot.objects.get("p/old") if one._snapshot else None
    stale = one._snapshot
    two.put([("p/new", b"new")], remove=["p/old"])
    there = subprocess.run(["git", "cat-file", "-e", blob.id if blob else ""], cwd=one._copy.root, check=False)
    assert there.returncode
    with pytest.raises(Missing):
        one.get("p/old", 3_000_000)
    one._snapshot = stale
    assert one.put([("p/more", b"more")]) == frozenset()
    assert [entry.name for entry in one.list("")] == ["p/kept", "p/more", "p/new"]


def test_put_fails_after_too_many_lost_races(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After some attempts the error suggests trying later."""
    repository = bare(tmp_path / "r.git")
    slow, quick = opened(repository, tmp_path / "s"), opened(repository, tmp_path / "t")
    monkeypatch.setattr(git_module, "_ATTEMPTS", 3)
    monkeypatch.setattr(git_module, "_wait", lambda attempt: None)
    commit = slow._copy.commit
    numbers = iter(range(100))

    def overtaken(*given: object) -> object:
        quick.put([(f"q/{next(numbers)}", b"")])
        return commit(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(slow._copy, "commit", overtaken)
    with pytest.raises(Unreachable) as error:
        slow.put([("a", b"")])
    assert error.value.retry_helps
    assert len(quick.list("")) == 3
    monkeypatch.setattr(slow._copy, "commit", commit)
    assert slow.put([("a", b"")]) == frozenset()


def test_concurrent_removals_and_writes_lose_nothing(tmp_path: Path) -> None:
    """One process removes the other's objects while both keep writing."""
    repository = bare(tmp_path / "r.git")
    one, two = opened(repository, tmp_path / "s"), opened(repository, tmp_path / "t")
    one.put([(f"p/{n}", noise(500, n)) for n in range(4)])

    def write() -> None:
        for number in range(4, 8):
            one.put([(f"p/{number}", noise(500, number))])

    def remove() -> None:
        for number in range(4):
            two.put([], remove=[f"p/{number}"])

    with ThreadPoolExecutor(2) as pool:
        for done in (pool.submit(write), pool.submit(remove)):
            done.result()
    assert [entry.name for entry in one.list("")] == ["p/4", "p/5", "p/6", "p/7"]


# What it costs


def _calls(remote: GitRemote, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    calls: list[str] = []
    run = remote._copy.run

    def counted(*args: str, **more: object) -> object:
        calls.append(args[0])
        return run(*args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(remote._copy, "run", counted)
    return calls


def test_idle_list_costs_one_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only changes are fetched, and listed objects are read without another request."""
    repository = bare(tmp_path / "r.git")
    one, two = opened(repository, tmp_path / "s"), opened(repository, tmp_path / "t")
    one.put([("h/a", b"a"), ("h/b", b"b")])
    two.list("")
    calls = _calls(two, monkeypatch)
    two.list("h/")
    assert calls == ["ls-remote"]
    two.get("h/a", 1), two.get("h/b", 1)
    assert calls == ["ls-remote", "cat-file", "cat-file"]
    one.put([("h/c", b"c")])
    del calls[:]
    two.list("h/")
    assert [call for call in calls if call in ("ls-remote", "fetch", "push")] == ["ls-remote", "fetch"]
    del calls[:]
    two.put([("h/d", b"d")], remove=["h/a"])
    assert [call for call in calls if call in ("ls-remote", "fetch", "push")] == ["push"]
    again = opened(repository, tmp_path / "t", create=False)
    calls = _calls(again, monkeypatch)
    again.list("h/")
    assert "fetch" not in calls


def test_new_history_sends_no_object_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After some puts the commit has no parent; neither its push nor the next fetch transfers old objects."""
    monkeypatch.setattr(GitRemote, "longest_history", 3)
    repository = bare(tmp_path / "r.git")
    sh(repository, "config", "receive.unpackLimit", "1")
    one, two = opened(repository, tmp_path / "s"), opened(repository, tmp_path / "t")
    one.put([("p/big", noise(300_000))])
    two.list("")
    for number in range(3):
        one.put([(f"h/{number}", b"")])
    assert sh(repository, "rev-list", "--count", REF) < "3"
    before = two._copy.weight()
    assert len(two.list("")) == 4
    assert two._copy.weight() - before < 20_000
    packs = sum(path.stat().st_size for path in (repository / "objects/pack").glob("*.pack"))
    assert packs < 320_000


def test_removed_objects_are_garbage_collected(tmp_path: Path) -> None:
    """Once enough was removed nothing references it any more, on the server and here."""
    repository = bare(tmp_path / "r.git")
    one, two = opened(repository, tmp_path / "s"), opened(repository, tmp_path / "t")
    secret = noise(3_000_000)
    one.put([("p/secret", secret), ("p/kept", b"kept")])
    assert two.get("p/secret", len(secret)) == secret
    blob = sh(repository, "rev-parse", f"{REF}:p_/secret")
    one.put([("p/new", b"new")], remove=["p/secret"])
    sh(repository, "gc", "-q", "--prune=now")
    assert subprocess.run(
        ["git", "cat-file", "-e", blob], cwd=repository, check=False, capture_output=True
    ).returncode
    assert [entry.name for entry in two.list("")] == ["p/kept", "p/new"]
    for remote in (one, two):
        remote.put([(f"h/{id(remote)}", b"")])
        missing = subprocess.run(
            ["git", "cat-file", "-e", blob], cwd=remote._copy.root, check=False, capture_output=True
        )
        assert missing.returncode
    sh(repository, "fsck", "--strict")


@pytest.mark.skipif(sys.platform == "win32", reason="hooks as sh scripts")
def test_server_that_refuses_forced_pushes_keeps_all_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything else works."""
    monkeypatch.setattr(GitRemote, "longest_history", 2)
    repository = bare(tmp_path / "r.git")
    hook = repository / "hooks/update"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text('#!/bin/sh\ncase $2 in 0000000000*) ;; *) git merge-base --is-ancestor "$2" "$3";; esac\n')
    hook.chmod(0o755)
    remote = opened(repository, tmp_path / "s")
    for number in range(1, 6):
        assert remote.put([(f"h/{number}", b"x")], remove=[f"h/{number - 1}"]) == frozenset()
    assert [entry.name for entry in remote.list("")] == ["h/5"]
    assert sh(repository, "rev-list", "--count", REF) == "5"


# Crashes

_WRITER = textwrap.dedent(
    """
    import sys
    from holdfast.sync.remotes.git import GitRemote
    remote = GitRemote.open("git:" + sys.argv[1], sys.argv[2], True)
    remote.put([("start", b"")])
    print("started", flush=True)
    for number in range(1, 10_000):
        remote.put([(f"p/{number}", b"x" * 50_000), (f"h/{number}", b"")], remove=[f"h/{number - 1}"])
    """
)


@pytest.mark.skipif(sys.platform == "win32", reason="ends a whole process group")
@pytest.mark.parametrize("delay", [0.0, 0.013, 0.029, 0.041, 0.067, 0.1])
def test_put_killed_at_any_moment_leaves_remote_and_clone_usable(tmp_path: Path, delay: float) -> None:
    repository = bare(tmp_path / "r.git")
    process = subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(repository), str(tmp_path / "s")],
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    with process:
        assert process.stdout.readline() == b"started\n"
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
    remote = opened(repository, tmp_path / "s")
    names = [entry.name for entry in remote.list("")]
    heads = [name for name in names if name.startswith("h/")]
    packs = [name for name in names if name.startswith("p/")]
    assert len(heads) <= 1
    if heads:
        assert len(packs) == int(heads[0][2:])
    assert remote.put([("after", b"")], remove=heads) == frozenset()
    sh(repository, "fsck", "--strict")


def test_stale_git_locks_are_ignored(tmp_path: Path) -> None:
    """A power cut left git's lock files in the local clone."""
    repository = bare(tmp_path / "r.git")
    one, two = opened(repository, tmp_path / "s"), opened(repository, tmp_path / "t")
    two.put([("a", b"")])
    one.list("")
    for name in ("shallow.lock", "config.lock", "refs/holdfast/seen.lock", "refs/holdfast/made.lock"):
        Path(one._copy.root, name).write_bytes(b"")
    unfinished = Path(one._copy.root, "objects/pack/tmp_pack_x")
    unfinished.write_bytes(bytes(3 << 20))
    two.put([("b", b"")])
    assert len(one.list("")) == 2
    assert one.put([("c", b"")]) == frozenset()
    assert not unfinished.exists()


def test_push_that_fails_after_it_was_applied_succeeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The names are not reported as taken."""
    repository = bare(tmp_path / "r.git")
    remote = opened(repository, tmp_path / "s")
    run = remote._copy.run

    def cut(*args: str, **more: object) -> object:
        answer = run(*args, **more)  # type: ignore[arg-type]
        lost = answer._replace(code=128, out=b"", message="fatal: the remote end hung up unexpectedly")
        return lost if args[0] == "push" else answer

    monkeypatch.setattr(remote._copy, "run", cut)
    assert remote.put([("vault", b"mine")]) == frozenset()
    assert remote.get("vault", 4) == b"mine"
