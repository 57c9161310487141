"""What a git remote leaves alone: the person's repositories, settings, hooks; and what a hostile one cannot do."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.core.errors import Damaged, Failed, HoldfastError
from holdfast.teleport.remotes.conformance import noise
from holdfast.teleport.remotes.git import GitRemote
from holdfast.teleport.remotes.git_objects import REF
from holdfast.teleport.remotes.interface import Found, TooLarge

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


def test_branches_tags_and_clones_know_nothing_of_it(repository: Path, tmp_path: Path) -> None:
    """Branches and tags stay as they were, and an ordinary clone has none of Holdfast's refs and objects."""
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


def test_a_work_tree_can_be_the_remote_and_stays_as_it_is(repository: Path, tmp_path: Path) -> None:
    """Put into the repository one works in, nothing of index, files, branch, settings or status changes."""
    work = tmp_path / "work"
    (work / "file").write_text("changed")
    (work / "new").write_text("not added")
    kept = ("HEAD", "index", "config", "refs/heads/main")
    before = sh(work, "status", "--porcelain"), {name: (work / ".git" / name).read_bytes() for name in kept}
    remote = opened(work, tmp_path / "s")
    remote.put([("a", b"1")])
    remote.put([("b", b"2")], remove=["a"])
    assert [found.name for found in remote.list("")] == ["b"]
    assert before == (sh(work, "status", "--porcelain"), {n: (work / ".git" / n).read_bytes() for n in kept})


def test_nothing_happens_where_the_person_stands(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Called from a hook in a work tree, whose git says so in the environment, that work tree is not touched."""
    work = tmp_path / "work"
    before = state(work)
    monkeypatch.chdir(work)
    for name, value in {"GIT_DIR": ".git", "GIT_WORK_TREE": ".", "GIT_INDEX_FILE": ".git/index"}.items():
        monkeypatch.setenv(name, str(work / value))
    monkeypatch.setenv("GIT_SHALLOW_FILE", "/nowhere")
    monkeypatch.setenv("GIT_QUARANTINE_PATH", "/nowhere")
    remote = opened(repository, tmp_path / "s")
    remote.put([("a", b"1")])
    assert remote.list("") == [Found("a", 1)]
    assert state(work) == before


@needs_sh
def test_no_hooks_templates_or_signing_of_the_person(repository: Path, tmp_path: Path, settings: Path) -> None:
    """Settings that make git run, sign, prune or send more do nothing here."""
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
    assert one.list("") == [Found("b", 1)]
    # Where a push arrives, hooks run as they do for any push to that place.
    ran = (tmp_path / "ran").read_text() if (tmp_path / "ran").exists() else ""
    assert {*ran.split()} <= {str(repository)}
    assert not list(Path(one._copy.root).glob("hooks/*"))


def test_nothing_of_the_person_goes_there(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits name nobody, carry no time, and say nothing of what is in them."""
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
def test_the_copy_is_private(repository: Path, tmp_path: Path) -> None:
    """Nobody else can look into what is kept here, whatever the umask."""
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
def test_no_question_reaches_the_person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that ask for passwords are not called, and ssh is told to ask nothing."""
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
def test_another_transport_by_the_persons_settings(tmp_path: Path, settings: Path) -> None:
    """Even when settings rewrite the address to a command, no command is run."""
    settings.write_text(
        f'[url "ext::touch {tmp_path}/ran "]\ninsteadOf = https://evil.invalid/\n[protocol]\nallow = always\n'
    )
    with pytest.raises(Failed, match="cannot be used"):
        GitRemote.open("git:https://evil.invalid/r.git", str(tmp_path / "s"), create=True)
    assert not (tmp_path / "ran").exists()


# A hostile remote


def tree(repository: Path, entries: list[tuple[str, str, str, str]]) -> str:
    """A tree as somebody writes it by hand: mode, type, id and name of each entry, unchecked."""
    lines = b"".join(f"{mode} {kind} {id_}\t{name}".encode() + b"\0" for mode, kind, id_, name in entries)
    return sh(repository, "mktree", "-z", "--missing", stdin=lines)


def publish(repository: Path, root: str) -> None:
    commit = sh(repository, "commit-tree", root, "-m", "hostile")
    sh(repository, "update-ref", REF, commit)


def blob(repository: Path, data: bytes) -> str:
    return sh(repository, "hash-object", "-w", "--stdin", stdin=data)


def test_odd_entries_are_left_out(repository: Path, tmp_path: Path) -> None:
    """Links, programs, folders and files of names that are none of ours are no objects, and stay where they are."""
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
    assert [found.name for found in remote.list("")] == ["good/x", "ours"]
    assert remote.put([("vault", b"mine"), ("new/one", b"1")], remove=["good/x"]) == frozenset()
    assert [found.name for found in remote.list("")] == ["new/one", "ours", "vault"]
    assert "link" in sh(repository, "ls-tree", "--name-only", REF)


@pytest.mark.parametrize("name", [".git", "..", ".", "a/b", ".GIT", "git~1"])
def test_paths_that_lead_elsewhere_are_refused(repository: Path, tmp_path: Path, name: str) -> None:
    """Git checks what arrives: a tree with a way out is not let in, and nothing is written anywhere."""
    data = blob(repository, b"[core]\n")
    raw = b"100644 %b\0" % name.encode() + bytes.fromhex(data)
    root = sh(repository, "hash-object", "-t", "tree", "-w", "--literally", "--stdin", stdin=raw)
    publish(repository, root)
    remote = opened(repository, tmp_path / "s")
    with pytest.raises(HoldfastError):
        remote.list("")
    assert not (tmp_path / "s" / "config").exists()


def test_a_submodule_is_not_followed(repository: Path, tmp_path: Path) -> None:
    """A tree that names another repository makes nobody go there."""
    modules = blob(repository, b'[submodule "x"]\npath = x\nurl = https://evil.invalid/x\n')
    commit = sh(repository, "rev-parse", "refs/heads/main")
    entries = [("160000", "commit", commit, "x"), ("100644", "blob", modules, ".gitmodules")]
    publish(repository, tree(repository, [*entries, ("100644", "blob", modules, "a")]))
    assert [found.name for found in opened(repository, tmp_path / "s").list("")] == ["a"]


@pytest.mark.parametrize("leaf", [True, False])
def test_a_small_tree_with_endless_entries(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, leaf: bool
) -> None:
    """Trees that name one tree again and again multiply without end: listing stops, with or without files in them."""
    monkeypatch.setattr("holdfast.teleport.remotes.git_objects._MOST_LISTED", 1 << 20)
    root = tree(repository, [("100644", "blob", blob(repository, b""), "a")] if leaf else [])
    for _ in range(12):
        root = tree(repository, [("040000", "tree", root, f"{n:x}_") for n in range(16)])
    publish(repository, root)
    remote = opened(repository, tmp_path / "s")
    with pytest.raises(HoldfastError):
        remote.list("")


def test_more_than_any_remote_holds(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fetch that does not end is ended at a limit, and what came of it is removed."""
    monkeypatch.setattr(GitRemote, "largest_fetch", 200_000)
    monkeypatch.setattr("holdfast.teleport.remotes.git_objects._STEP", 0.001)
    entries = [("100644", "blob", blob(repository, noise(2_000_000, n)), f"{n:x}") for n in range(8)]
    publish(repository, tree(repository, entries))
    remote = opened(repository, tmp_path / "s")
    with pytest.raises(Failed, match="sends more than") as error:
        remote.list("")
    assert error.value.hint
    assert remote._copy.weight() < 200_000


def test_an_object_larger_than_asked_for_is_not_read(repository: Path, tmp_path: Path) -> None:
    """A bomb of zeros is small on the wire: its size is looked at before it is unpacked."""
    publish(repository, tree(repository, [("100644", "blob", blob(repository, bytes(50_000_000)), "h")]))
    remote = opened(repository, tmp_path / "s")
    with pytest.raises(TooLarge):
        remote.get("h", 1000)


def test_a_ref_that_is_no_commit(repository: Path, tmp_path: Path) -> None:
    """A blob, a tree or a tag of one under the name of the ref is an error, not a crash."""
    data = blob(repository, b"data")
    for id_ in (data, tree(repository, [("100644", "blob", data, "a")])):
        sh(repository, "update-ref", "-d", REF)
        (repository / "refs/holdfast").mkdir(exist_ok=True)
        (repository / REF).write_text(id_ + "\n")
        with pytest.raises(HoldfastError):
            opened(repository, tmp_path / f"s{id_[:4]}").list("")


def test_numbers_that_lie(repository: Path, tmp_path: Path) -> None:
    """What a commit says about its history only decides when a new one is begun."""
    root = tree(repository, [("100644", "blob", blob(repository, b"x"), "a")])
    for message in ("puts 999999999\ngone 999999999999999", "puts -1\ngone x", f"puts {'9' * 50}\ngone {'9' * 50}"):
        commit = sh(repository, "commit-tree", root, "-m", message)
        sh(repository, "update-ref", REF, commit)
        remote = opened(repository, tmp_path / "s")
        assert remote.put([(f"b{len(message)}", b"")]) == frozenset()
        assert len(remote.list("")) == 2


def test_a_ref_that_was_rolled_back_or_removed(repository: Path, tmp_path: Path) -> None:
    """A remote that hides what it had is believed as to what it has now, and can be written to."""
    remote = opened(repository, tmp_path / "s")
    remote.put([("a", b"1")])
    old = sh(repository, "rev-parse", REF)
    remote.put([("b", b"2")])
    sh(repository, "update-ref", REF, old)
    assert [found.name for found in remote.list("")] == ["a"]
    assert remote.put([("c", b"3")]) == frozenset()
    sh(repository, "update-ref", "-d", REF)
    assert remote.put([("d", b"4")]) == frozenset()
    assert [found.name for found in remote.list("")] == ["d"]


def test_a_damaged_copy_says_where_it_is(repository: Path, tmp_path: Path) -> None:
    """What is broken here is named, and removing it heals it."""
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


# Who may read the copy


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_the_copy_is_ours_alone(repository: Path, tmp_path: Path, mask: int) -> None:
    """Whatever the umask, the copy is not open to others; what is pushed is as open as the person has it."""
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
def test_a_copy_that_was_open_is_closed(repository: Path, tmp_path: Path) -> None:
    """One that was made more open than it should be is put right when it is used next."""
    opened(repository, tmp_path / "s").put([("a", b"a")])
    for path in (tmp_path / "s").rglob("*"):
        path.chmod(path.stat().st_mode | (0o055 if path.is_dir() else 0o044))
    assert opened(repository, tmp_path / "s").get("a", 1) == b"a"
    (copy,) = (tmp_path / "s").glob("*.git")
    assert not [path for path in copy.rglob("*") if path.lstat().st_mode & 0o077]
