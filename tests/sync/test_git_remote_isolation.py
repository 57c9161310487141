"""What a git remote leaves alone (the person's repositories, settings, hooks), and what a hostile one cannot do."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.core.errors import Damaged, Failed, HoldfastError
from holdfast.sync.remotes.base import ObjectInfo, ObjectTooLarge, RemoteUnreadable
from holdfast.sync.remotes.conformance import noise
from holdfast.sync.remotes.git import GitRemote
from holdfast.sync.remotes.git_objects import REF

needs_sh = pytest.mark.skipif(sys.platform == "win32", reason="hooks as sh scripts")


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("settings") / "gitconfig"
    file.write_text("[user]\nname = Anna Person\nemail = anna@example.org\n[init]\ndefaultBranch = main\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(file))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    return file


def sh(where: Path, *args: str, stdin: bytes = b"") -> str:
    done = subprocess.run(["git", *args], cwd=where, check=True, capture_output=True, input=stdin)
    return done.stdout.decode(errors="replace").strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A bare repository with a branch and a tag, as people have them."""
    work, where = tmp_path / "work", tmp_path / "r.git"
    work.mkdir()
    sh(work, "init", "-q")
    (work / "file").write_text("theirs")
    sh(work, "add", ".")
    sh(work, "commit", "-q", "-m", "first")
    sh(work, "tag", "v1")
    sh(tmp_path, "clone", "-q", "--bare", str(work), str(where))
    sh(work, "remote", "add", "origin", str(where))
    return where


def opened(repository: Path, scratch: Path) -> GitRemote:
    return GitRemote.open(f"git:{repository}", str(scratch), create=True)


def state(where: Path) -> dict[str, str]:
    """Every file of a directory, by its hash."""
    return {
        str(path.relative_to(where)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(where.rglob("*"))
        if path.is_file()
    }


# The person's own


def test_branches_tags_and_clones_are_unaffected(repository: Path, tmp_path: Path) -> None:
    """Ordinary clones have none of Holdfast's refs and objects."""
    before = sh(repository, "for-each-ref"), sh(repository, "symbolic-ref", "HEAD")
    config = (repository / "config").read_bytes()
    remote = opened(repository, tmp_path / "s")
    remote.put([("p/pack", noise(10_000))])
    blob = sh(repository, "rev-parse", f"{REF}:p_/pack")
    others = sh(repository, "for-each-ref", "refs/heads", "refs/tags"), sh(repository, "symbolic-ref", "HEAD")
    assert others == before
    assert (repository / "config").read_bytes() == config
    sh(tmp_path, "clone", "-q", f"file://{repository}", "clone")
    clone = tmp_path / "clone"
    assert "holdfast" not in sh(clone, "for-each-ref")
    assert subprocess.run(["git", "cat-file", "-e", blob], cwd=clone, check=False, capture_output=True).returncode
    sh(clone, "fetch", "-q", "--tags")
    assert "holdfast" not in sh(clone, "for-each-ref")
    sh(tmp_path, "clone", "-q", "--mirror", f"file://{repository}", "mirror")
    assert REF in sh(tmp_path / "mirror", "for-each-ref")


def test_work_tree_used_as_the_remote_stays_unchanged(repository: Path, tmp_path: Path) -> None:
    """Index, files, branch, settings and status of the repository one works in."""
    work = tmp_path / "work"
    (work / "file").write_text("changed")
    (work / "new").write_text("not added")
    kept = ("HEAD", "index", "config", "refs/heads/main")
    before = sh(work, "status", "--porcelain"), {name: (work / ".git" / name).read_bytes() for name in kept}
    remote = opened(work, tmp_path / "s")
    remote.put([("a", b"1")])
    remote.put([("b", b"2")], remove=["a"])
    assert [entry.name for entry in remote.list("")] == ["b"]
    assert before == (sh(work, "status", "--porcelain"), {n: (work / ".git" / n).read_bytes() for n in kept})


def test_work_tree_of_the_caller_is_not_touched(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Called from a git hook, whose environment names that work tree."""
    work = tmp_path / "work"
    before = state(work)
    monkeypatch.chdir(work)
    for name, value in {"GIT_DIR": ".git", "GIT_WORK_TREE": ".", "GIT_INDEX_FILE": ".git/index"}.items():
        monkeypatch.setenv(name, str(work / value))
    monkeypatch.setenv("GIT_SHALLOW_FILE", "/nowhere")
    monkeypatch.setenv("GIT_QUARANTINE_PATH", "/nowhere")
    remote = opened(repository, tmp_path / "s")
    remote.put([("a", b"1")])
    assert remote.list("") == [ObjectInfo("a", 1)]
    assert state(work) == before


@needs_sh
def test_git_settings_of_the_person_are_ignored(repository: Path, tmp_path: Path, settings: Path) -> None:
    """Settings for hooks, templates, signing, pruning and pushing have no effect."""
    template = tmp_path / "template"
    hooks = tmp_path / "hooks"
    for folder in (template / "hooks", hooks):
        folder.mkdir(parents=True)
        for name in ("pre-push", "reference-transaction", "post-commit", "post-checkout", "pre-auto-gc"):
            (folder / name).write_text(f"#!/bin/sh\npwd >> {tmp_path}/ran\n")
            (folder / name).chmod(0o755)
    settings.write_text(
        settings.read_text() + f"[init]\ntemplateDir = {template}\n[core]\nhooksPath = {hooks}\n"
        "[push]\ngpgSign = true\nfollowTags = true\npushOption = x\ndefault = matching\n"
        "[commit]\ngpgSign = true\n[fetch]\nprune = true\nparallel = 4\n[safe]\nbareRepository = explicit\n"
        "[transfer]\nhideRefs = refs/none\n[protocol]\nallow = never\n"
    )
    one, two = opened(repository, tmp_path / "s"), opened(repository, tmp_path / "t")
    one.put([("a", b"1")])
    two.put([("b", b"1")], remove=["a"])
    assert one.list("") == [ObjectInfo("b", 1)]
    # Where a push arrives, hooks run as they do for any push to that place.
    ran = (tmp_path / "ran").read_text() if (tmp_path / "ran").exists() else ""
    assert {*ran.split()} <= {str(repository)}
    assert not list(Path(one._copy.root).glob("hooks/*"))


def test_commits_contain_no_personal_data(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No name, no time, no description."""
    monkeypatch.setenv("GIT_COMMITTER_NAME", "Anna Person")
    monkeypatch.setenv("GIT_AUTHOR_DATE", "1700000000 +0500")
    remote = opened(repository, tmp_path / "s")
    for number in range(3):
        remote.put([(f"p/{number}", b"x")])
    for commit in sh(repository, "rev-list", REF).split():
        text = sh(repository, "cat-file", "commit", commit)
        assert text.count("holdfast <holdfast@localhost> 0 +0000") == 2
        assert "Anna" not in text
        message = text.partition("\n\n")[2].split("\n")
        assert [line.partition(" ")[0] for line in message] == ["holdfast", "", "puts", "gone", "id"]


@pytest.mark.skipif(sys.platform == "win32", reason="modes")
def test_clone_is_private(repository: Path, tmp_path: Path) -> None:
    """Whatever the umask."""
    before = os.umask(0)
    try:
        remote = opened(repository, tmp_path / "s")
        remote.put([("a", b"1")])
        remote.list("")
    finally:
        os.umask(before)
    for path in (tmp_path / "s", Path(remote._copy.root)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


@needs_sh
def test_password_prompts_are_disabled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No askpass program runs, and ssh asks nothing."""
    for name in ("ask", "ssh"):
        (tmp_path / name).write_text(f'#!/bin/sh\necho {name} "$@" >> {tmp_path}/called\nexit 255\n')
        (tmp_path / name).chmod(0o755)
    for name in ("GIT_ASKPASS", "SSH_ASKPASS"):
        monkeypatch.setenv(name, str(tmp_path / "ask"))
    monkeypatch.setenv("GIT_SSH_COMMAND", f"{tmp_path}/ssh -F none")
    with pytest.raises(HoldfastError):
        GitRemote.open("git:me@host.invalid:r.git", str(tmp_path / "s"), create=True)
    called = (tmp_path / "called").read_text()
    assert "-F none -o BatchMode=yes" in called
    assert "ask " not in called


@needs_sh
def test_address_rewritten_to_a_command_runs_nothing(tmp_path: Path, settings: Path) -> None:
    """By `insteadOf` in the person's settings."""
    settings.write_text(
        f'[url "ext::touch {tmp_path}/ran "]\ninsteadOf = https://evil.invalid/\n[protocol]\nallow = always\n'
    )
    with pytest.raises(Failed, match="cannot be used"):
        GitRemote.open("git:https://evil.invalid/r.git", str(tmp_path / "s"), create=True)
    assert not (tmp_path / "ran").exists()


# A hostile remote


def tree(repository: Path, entries: list[tuple[str, str, str, str]]) -> str:
    """A tree built by hand: mode, type, id and name of each entry, unchecked."""
    lines = b"".join(f"{mode} {kind} {id_}\t{name}".encode() + b"\0" for mode, kind, id_, name in entries)
    return sh(repository, "mktree", "-z", "--missing", stdin=lines)


def publish(repository: Path, root: str) -> None:
    commit = sh(repository, "commit-tree", root, "-m", "hostile")
    sh(repository, "update-ref", REF, commit)


def blob(repository: Path, data: bytes) -> str:
    return sh(repository, "hash-object", "-w", "--stdin", stdin=data)


def test_unusual_tree_entries_are_ignored(repository: Path, tmp_path: Path) -> None:
    """Links, programs, and files and folders with foreign names are no objects, and stay where they are."""
    data = blob(repository, b"data")
    inner = tree(repository, [("100644", "blob", data, "x"), ("100644", "blob", data, "UP")])
    odd = [
        ("120000", "link"),
        ("100755", "run"),
        ("100644", "-dash"),
        ("100644", "a b"),
        ("100644", "..."),
        ("100644", "x_"),
    ]
    entries = [(mode, "blob", data, name) for mode, name in odd]
    folders = [("040000", "tree", inner, name) for name in ("plain", "_", "good_", "bad__", "vault")]
    publish(repository, tree(repository, [*entries, *folders, ("100644", "blob", data, "ours")]))
    remote = opened(repository, tmp_path / "s")
    assert [entry.name for entry in remote.list("")] == ["good/x", "ours"]
    assert remote.put([("vault", b"mine"), ("new/one", b"1")], remove=["good/x"]) == frozenset()
    assert [entry.name for entry in remote.list("")] == ["new/one", "ours", "vault"]
    assert "link" in sh(repository, "ls-tree", "--name-only", REF)


# Tree entries (mode and name) that git refuses when it checks what it receives.
REFUSED = (
    b"100644 .git",
    b"100644 .GIT",
    b"100644 git~1",
    "100644 .g\u200cit".encode(),
    b"100644 ..",
    b"100644 .",
    b"100644 a/b",
    b"120000 .gitmodules",
    b"0100644 zz",
    b"100777 zy",
    b"100644 vault",  # twice
    b"100644 vault",
    b"100644 a\nb",
    b'100644 "a',
    b"100644 \xff\xfe",
)


@pytest.mark.parametrize("folder", ["", "h_"])
def test_tree_entries_that_git_refuses_stop_no_sync(repository: Path, tmp_path: Path, folder: str) -> None:
    """They are ignored, and a put works even where the server checks what it receives."""
    remote = opened(repository, tmp_path / "s")
    remote.put([("vault", b"vault"), ("h/a", b"a"), ("p/x/1", b"1")])
    planted = bytes.fromhex(blob(repository, b"planted"))
    raw = _raw_tree(repository, f"{REF}:{folder}") + b"".join(entry + b"\0" + planted for entry in REFUSED)
    root = sh(repository, "hash-object", "-t", "tree", "-w", "--literally", "--stdin", stdin=raw)
    if folder:
        around = [line for line in sh(repository, "ls-tree", REF).splitlines() if not line.endswith("\th_")]
        root = sh(repository, "mktree", stdin="\n".join([*around, f"040000 tree {root}\th_", ""]).encode())
    publish(repository, root)
    sh(repository, "config", "receive.fsckObjects", "true")
    ours = {"h/a", "p/x/1", "vault"}
    for device in (remote, opened(repository, tmp_path / "t")):
        assert ours <= {entry.name for entry in device.list("")} <= {*ours, "zz", "h/zz", "h/vault"}
        assert device.get("vault", 5) == b"vault"
        assert {".git", "..", "a/b", "a\nb", "vault"} <= set(device.foreign)
    assert remote.put([("h/b", b"b")], remove=["h/a"]) == frozenset()
    assert remote.put([("h/c", b"c")]) == frozenset()
    for device in (remote, opened(repository, tmp_path / "u")):
        assert {"h/b", "h/c", "p/x/1", "vault"} <= {entry.name for entry in device.list("")}
        assert device.get("p/x/1", 1) == b"1"
    assert not opened(repository, tmp_path / "v").foreign
    assert not (tmp_path / "s" / "config").exists()


def _raw_tree(repository: Path, name: str) -> bytes:
    done = subprocess.run(["git", "cat-file", "tree", name], cwd=repository, check=True, capture_output=True)
    return done.stdout


def test_submodule_is_not_followed(repository: Path, tmp_path: Path) -> None:
    modules = blob(repository, b'[submodule "x"]\npath = x\nurl = https://evil.invalid/x\n')
    commit = sh(repository, "rev-parse", "refs/heads/main")
    entries = [("160000", "commit", commit, "x"), ("100644", "blob", modules, ".gitmodules")]
    publish(repository, tree(repository, [*entries, ("100644", "blob", modules, "a")]))
    assert [entry.name for entry in opened(repository, tmp_path / "s").list("")] == ["a"]


@pytest.mark.parametrize(("where", "leaf"), [("", False), ("h_", True)])
def test_tree_with_endless_paths_stops_no_sync(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, *, leaf: bool
) -> None:
    """Trees that repeat one tree multiply without end: listing stops there, and our objects are read."""
    monkeypatch.setattr("holdfast.sync.remotes.git_trees._SPARE", 1_000)
    ours = [("vault", b"vault"), ("h/a", b"a"), ("p/x/1", b"1"), ("p/x/2", b"2")]
    opened(repository, tmp_path / "s").put(ours)
    root = tree(repository, [("100644", "blob", blob(repository, b""), "a")] if leaf else [])
    for _ in range(12):
        root = tree(repository, [("040000", "tree", root, f"{n:x}_") for n in range(16)])
    _plant_tree(repository, where, root)
    for device in (opened(repository, tmp_path / "s"), opened(repository, tmp_path / "t")):
        assert device.get("vault", 5) == b"vault"
        assert len(device.list("")) < 2_000
        assert len(device.list("h/")) < 2_000
        assert ObjectInfo("h/a", 1) in device.list("h/")
        assert device.list("p/x/") == [ObjectInfo("p/x/1", 1), ObjectInfo("p/x/2", 1)]
    remote = opened(repository, tmp_path / "s")
    assert remote.put([("h/b", b"b")], remove=["h/a"]) == frozenset()
    assert ObjectInfo("h/b", 1) in opened(repository, tmp_path / "t").list("h/")


def _plant_tree(repository: Path, where: str, planted: str) -> None:
    """A commit with this tree as `0_`, in the root or a folder of it."""
    inner = sh(repository, "ls-tree", f"{REF}:{where}").splitlines()
    root = sh(repository, "mktree", stdin="\n".join([*inner, f"040000 tree {planted}\t0_", ""]).encode())
    if where:
        outer = [line for line in sh(repository, "ls-tree", REF).splitlines() if not line.endswith(f"\t{where}")]
        root = sh(repository, "mktree", stdin="\n".join([*outer, f"040000 tree {root}\t{where}", ""]).encode())
    publish(repository, root)


def test_fetch_stops_at_a_size_limit(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was fetched so far is removed."""
    monkeypatch.setattr(GitRemote, "largest_fetch", 200_000)
    monkeypatch.setattr("holdfast.sync.remotes.git_objects._STEP", 0.001)
    entries = [("100644", "blob", blob(repository, noise(2_000_000, n)), f"{n:x}") for n in range(8)]
    publish(repository, tree(repository, entries))
    remote = opened(repository, tmp_path / "s")
    with pytest.raises(RemoteUnreadable, match="the request is too large") as error:
        remote.list("")
    assert "--put-back" in (error.value.hint or "")
    assert remote._copy.weight() < 200_000


def test_listing_with_too_many_names_is_refused(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.sync.remotes.git_objects._MAX_ENTRIES", 20)
    data = blob(repository, b"")
    publish(repository, tree(repository, [("100644", "blob", data, f"{n:x}") for n in range(21)]))
    with pytest.raises(RemoteUnreadable, match="more files"):
        opened(repository, tmp_path / "s").list("")


def test_object_larger_than_requested_is_not_read(repository: Path, tmp_path: Path) -> None:
    """A bomb of zeros is small on the wire: its size is checked before it is unpacked."""
    publish(repository, tree(repository, [("100644", "blob", blob(repository, bytes(50_000_000)), "h")]))
    remote = opened(repository, tmp_path / "s")
    with pytest.raises(ObjectTooLarge):
        remote.get("h", 1000)


@pytest.mark.parametrize("kind", ["blob", "tag of a blob"])
def test_unreadable_ref_is_replaced_only_on_command(repository: Path, tmp_path: Path, kind: str) -> None:
    """Every use of the remote reports it until then."""
    remote = opened(repository, tmp_path / "s")
    remote.put([("vault", b"vault")])
    planted = blob(repository, b"data")
    if kind == "tag of a blob":
        words = f"object {planted}\ntype blob\ntag x\ntagger x <x@x> 0 +0000\n\nx\n"
        planted = sh(repository, "mktag", stdin=words.encode())
    sh(repository, "update-ref", REF, planted)
    for device in (remote, opened(repository, tmp_path / "t")):
        with pytest.raises(RemoteUnreadable, match="it names a blob") as error:
            device.list("h/")
        assert "--put-back" in (error.value.hint or "")
        assert error.value.exit_code == 7
        with pytest.raises(RemoteUnreadable):
            device.get("vault", 5)
    with pytest.raises(RemoteUnreadable):
        opened(repository, tmp_path / "u").put([("vault", b"other")])
    assert sh(repository, "rev-parse", REF) == planted
    remote.replace_unreadable()
    assert remote.list("") == []
    assert remote.put([("vault", b"vault")]) == frozenset()
    assert remote.put([("h/a", b"a")]) == frozenset()
    assert opened(repository, tmp_path / "t").list("") == [ObjectInfo("h/a", 1), ObjectInfo("vault", 5)]


@pytest.mark.parametrize("kind", ["tree", "tag", "commit without e-mail", "commit with a long message"])
def test_ref_to_another_kind_of_object_is_still_read(repository: Path, tmp_path: Path, kind: str) -> None:
    """A tree, a tag or a malformed commit contains the objects too, and the next put continues from it."""
    remote = opened(repository, tmp_path / "s")
    remote.put([("vault", b"vault"), ("h/a", b"a")])
    if kind == "tree":
        planted = sh(repository, "rev-parse", f"{REF}^{{tree}}")
    elif kind == "tag":
        words = f"object {sh(repository, 'rev-parse', REF)}\ntype commit\ntag x\ntagger x <x@x> 0 +0000\n\nx\n"
        planted = sh(repository, "mktag", stdin=words.encode())
    else:
        root = sh(repository, "rev-parse", f"{REF}^{{tree}}")
        body = (
            "author x\ncommitter y\n\nx\n"
            if "without" in kind
            else ("author x <x> 0 +0000\ncommitter x <x> 0 +0000\n\n" + "x" * 2_000_000)
        )
        words = f"tree {root}\n{body}"
        planted = sh(repository, "hash-object", "-t", "commit", "-w", "--literally", "--stdin", stdin=words.encode())
    sh(repository, "update-ref", REF, planted)
    for device in (remote, opened(repository, tmp_path / "t")):
        assert device.list("") == [ObjectInfo("h/a", 1), ObjectInfo("vault", 5)]
    assert remote.put([("h/b", b"b")], remove=["h/a"]) == frozenset()
    assert opened(repository, tmp_path / "t").put([("h/c", b"c")]) == frozenset()
    assert remote.list("") == [ObjectInfo("h/b", 1), ObjectInfo("h/c", 1), ObjectInfo("vault", 5)]


def test_ref_that_blocks_ours_is_removed_only_on_command(repository: Path, tmp_path: Path) -> None:
    """Git cannot have a ref below another one: whoever replaces ours by such a ref blocks it only for a while."""
    remote = opened(repository, tmp_path / "s")
    remote.put([("vault", b"vault")])
    tip = sh(repository, "rev-parse", REF)
    sh(repository, "update-ref", "-d", REF)
    sh(repository, "update-ref", f"{REF}/x/y", tip)
    assert remote.list("") == []
    with pytest.raises(Failed, match="another ref") as error:
        remote.put([("vault", b"vault")])
    assert "--put-back" in (error.value.hint or "")
    remote.replace_unreadable()
    assert remote.put([("vault", b"vault")]) == frozenset()
    assert remote.list("") == [ObjectInfo("vault", 5)]
    assert sh(repository, "rev-parse", "refs/heads/main")


def test_repository_that_lost_objects_is_reported_and_can_be_replaced(repository: Path, tmp_path: Path) -> None:
    """Objects the server cannot send are not reported as a network failure."""
    remote = opened(repository, tmp_path / "s")
    remote.put([("vault", b"vault"), ("h/a", b"a")])
    lost = sh(repository, "rev-parse", f"{REF}:vault")
    (repository / "objects" / lost[:2] / lost[2:]).unlink()
    other = opened(repository, tmp_path / "t")
    with pytest.raises(RemoteUnreadable, match="missing or broken"):
        other.list("")
    other.replace_unreadable()
    assert other.list("") == []
    assert other.put([("vault", b"vault")]) == frozenset()
    assert opened(repository, tmp_path / "u").list("") == [ObjectInfo("vault", 5)]


def test_false_counts_in_commits_are_harmless(repository: Path, tmp_path: Path) -> None:
    """A commit's claim about its history only decides when a new history starts."""
    root = tree(repository, [("100644", "blob", blob(repository, b"x"), "a")])
    for message in ("puts 999999999\ngone 999999999999999", "puts -1\ngone x", f"puts {'9' * 50}\ngone {'9' * 50}"):
        commit = sh(repository, "commit-tree", root, "-m", message)
        sh(repository, "update-ref", REF, commit)
        remote = opened(repository, tmp_path / "s")
        assert remote.put([(f"b{len(message)}", b"")]) == frozenset()
        assert len(remote.list("")) == 2


def test_rolled_back_or_removed_ref_can_be_read_and_written(repository: Path, tmp_path: Path) -> None:
    remote = opened(repository, tmp_path / "s")
    remote.put([("a", b"1")])
    old = sh(repository, "rev-parse", REF)
    remote.put([("b", b"2")])
    sh(repository, "update-ref", REF, old)
    assert [entry.name for entry in remote.list("")] == ["a"]
    assert remote.put([("c", b"3")]) == frozenset()
    sh(repository, "update-ref", "-d", REF)
    assert remote.put([("d", b"4")]) == frozenset()
    assert [entry.name for entry in remote.list("")] == ["d"]


def test_damaged_clone_is_reported_with_its_path(repository: Path, tmp_path: Path) -> None:
    """Removing it fixes it."""
    remote = opened(repository, tmp_path / "s")
    remote.put([("a", b"1")])
    copy = Path(remote._copy.root)
    for path in copy.glob("objects/pack/*.pack"):
        path.chmod(0o600)
        path.write_bytes(b"")
    with pytest.raises(Damaged) as error:
        opened(repository, tmp_path / "s").list("")
    assert error.value.file == str(copy)
    copy.rename(tmp_path / "away")
    assert opened(repository, tmp_path / "s").get("a", 1) == b"1"


# Who may read the clone


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_clone_is_private_and_pushed_files_follow_the_repository(repository: Path, tmp_path: Path, mask: int) -> None:
    """Whatever the umask, nobody else reads the clone; what is pushed is as open as the person's repository."""
    before = set(repository.rglob("*"))
    old = os.umask(mask)
    try:
        one, two = opened(repository, tmp_path / "one"), opened(repository, tmp_path / "two")
        for number in range(24):  # enough for packs to be joined
            one.put([(f"p/{number}", bytes([number]) * 100)])
        two.list("")
        two.put([("a", b"a")], remove=["p/1"])
        assert one.get("a", 1) == b"a"
    finally:
        os.umask(old)
    copies = [path for name in ("one", "two") for path in (tmp_path / name).rglob("*")]
    assert len(copies) > 20
    assert not [path for path in copies if path.lstat().st_mode & 0o077]
    made = [path for path in repository.rglob("*") if path not in before and path.is_dir()]
    assert {path.stat().st_mode & 0o077 for path in made} == {0o077 & ~mask}


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_clone_readable_by_others_becomes_private(repository: Path, tmp_path: Path) -> None:
    """On its next use."""
    opened(repository, tmp_path / "s").put([("a", b"a")])
    for path in (tmp_path / "s").rglob("*"):
        path.chmod(path.stat().st_mode | (0o055 if path.is_dir() else 0o044))
    assert opened(repository, tmp_path / "s").get("a", 1) == b"a"
    (copy,) = (tmp_path / "s").glob("*.git")
    assert not [path for path in copy.rglob("*") if path.lstat().st_mode & 0o077]
