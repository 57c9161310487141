"""The local copy of a git remote's objects: a private bare repository of Holdfast's own.

It has no hooks and no templates, and is used only under its lock. Losing it costs a fetch. What comes from the remote
is never checked out, and its trees are read by `git_trees`: git itself would reject all objects for one dangerous
entry.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Final, NamedTuple

from holdfast.core.errors import Damaged, Failed
from holdfast.machine.files import write_atomic
from holdfast.machine.git.program import GitProgram, GitResult, GitSlow
from holdfast.machine.private_paths import make_private_dir
from holdfast.machine.wall import monotonic
from holdfast.sync.remotes.base import ObjectInfo, RemoteUnreadable
from holdfast.sync.remotes.git_trees import FOLDER, MAX_DEPTH, Blob, GitTree, TreeObjects, read_tree

REF: Final = "refs/holdfast/objects"  # at the remote
FETCHED_REF: Final = "refs/holdfast/seen"  # here: what was fetched last
MADE_REF: Final = "refs/holdfast/made"  # here: what was made last, pushed or not

_MAX_LISTED: Final = 1 << 28  # bytes of all trees
_MAX_ENTRIES: Final = 1_000_000  # in all trees
_MAX_OUTPUT: Final = 1 << 20
_STEP: Final = 0.1
_NUMBERS: Final = re.compile(rb"^puts ([0-9]{1,9})\ngone ([0-9]{1,15})$", re.MULTILINE)
_PARENT: Final = re.compile(rb"\Atree [0-9a-f]{40}\nparent ([0-9a-f]{40})\n")
_FORMAT: Final = "%(objectname) %(objecttype) %(objectsize)"
_AUTHOR: Final = b"holdfast <holdfast@localhost> 0 +0000"
_PACKS: Final = 20  # before they are joined
_SPARE: Final = 1 << 20

# The person's settings for reaching hosts stay in force; none of their hooks, signing or pruning does.
_SETTINGS: Final = (
    f"core.hooksPath={os.devnull}",
    "core.fsmonitor=false",
    "core.compression=1",  # objects are sealed: nothing to gain
    "core.fsync=all",
    "core.bigFileThreshold=64m",
    "core.sharedRepository=umask",
    "core.logAllRefUpdates=false",
    "init.defaultBranch=none",
    "gc.auto=0",
    "maintenance.auto=false",
    "fetch.fsckObjects=false",  # one entry that is dangerous in a work tree would keep all others out
    "fetch.unpackLimit=1",
    "fastimport.unpackLimit=1",
    "fetch.recurseSubmodules=false",
    "fetch.prune=false",
    "fetch.writeCommitGraph=false",
    "push.followTags=false",
    "push.gpgSign=false",
    "push.recurseSubmodules=no",
    "push.pushOption=",
    "transfer.bundleURI=false",
    "credential.interactive=false",
    "http.lowSpeedLimit=1",
    "http.lowSpeedTime=60",
)
_ENV: Final = {
    "LC_ALL": "C",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOC_LIMIT": "2g",  # for one allocation: a size that a pack only claims
}


class GitOverflow(Failed):
    """Git was stopped because it printed or fetched more than allowed."""


class ObjectSnapshot(NamedTuple):
    """All objects as of one value of the ref; `puts` and `removed_bytes` count what its history still holds.

    `commit` is None where the ref does not name a commit: it can be replaced, but not be a parent.
    """

    tip: str | None
    objects: TreeObjects
    commit: str | None = None
    parent: str | None = None
    puts: int = 0
    removed_bytes: int = 0

    def under(self, prefix: str) -> list[ObjectInfo]:
        return [ObjectInfo(name, blob.size) for name, blob in sorted(self.objects.under(prefix).items())]

    def size(self, name: str) -> int:
        blob = self.objects.get(name)
        return 0 if blob is None else blob.size


class _Typed(NamedTuple):
    id: str
    kind: str
    size: int


class SnapshotChange(NamedTuple):
    """What a put changes. `whole` starts a new history, without the old one."""

    create: Sequence[tuple[str, bytes]]
    remove: Sequence[str]
    whole: bool


class ObjectRepository(GitProgram):
    """The bare repository at `root`. Callers hold its lock."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self._packs = os.path.join(root, "objects/pack")

    def prepare(self) -> None:
        """Create it if it does not exist, and remove locks of killed processes."""
        make_private_dir(self.root)
        for folder in (self.root, os.path.join(self.root, "refs/holdfast")):
            with suppress(FileNotFoundError):
                for name in os.listdir(folder):
                    if name.endswith(".lock"):
                        os.unlink(os.path.join(folder, name))
        self._close_to_others()
        ready = os.path.join(self.root, "info/attributes")
        if not os.path.exists(ready):
            self._local("init", "--bare", "--quiet", "--template=", "--object-format=sha1", ".")
            make_private_dir(os.path.dirname(ready))
            write_atomic(ready, b"* -delta\n")  # sealed bytes have nothing in common

    def _close_to_others(self) -> None:
        """Make a copy private that an earlier version created with the person's umask."""
        with suppress(OSError):
            if os.name == "nt" or not os.lstat(os.path.join(self.root, "HEAD")).st_mode & 0o077:
                return
            for folder, folders, files in os.walk(self.root, topdown=False):
                # The file that is checked above comes last, so that an interrupted run starts over.
                names = [*sorted(files, key=lambda name: name == "HEAD"), *folders]
                for name in names:
                    path = os.path.join(folder, name)
                    mode = os.lstat(path).st_mode
                    if mode & 0o077 and not stat.S_ISLNK(mode):
                        os.chmod(path, stat.S_IMODE(mode) & 0o700)

    # Reading

    def has(self, commit: str) -> bool:
        """Whether a commit is here, fetched or made."""
        return commit in self._local("for-each-ref", "--format=%(objectname)", FETCHED_REF, MADE_REF).text.split()

    def fetched_commit(self) -> str:
        return self._local("rev-parse", "--verify", "--end-of-options", FETCHED_REF).text

    def snapshot(self, tip: str) -> ObjectSnapshot:
        """Read the tip; `RemoteUnreadable` when it cannot be Holdfast's."""
        named, root = self._types([f"{tip}^{{}}", f"{tip}^{{tree}}"])
        if named is None:
            raise self._damaged("cat-file")
        if root is None or root.kind != "tree":
            raise RemoteUnreadable(f"it names a {named.kind}")
        header = b""
        if named.kind == "commit" and named.size <= _MAX_OUTPUT // 2:
            header = self._local("cat-file", "commit", named.id).out
        numbers, parent = _NUMBERS.search(header), _PARENT.match(header)
        return ObjectSnapshot(
            tip,
            self._objects(root.id),
            named.id if named.kind == "commit" else None,
            parent[1].decode() if parent else None,
            int(numbers[1]) if numbers else 0,
            int(numbers[2]) if numbers else 0,
        )

    def _objects(self, root: str) -> TreeObjects:
        trees: dict[str, GitTree] = {}
        level = {root}
        left_bytes, left_entries = _MAX_LISTED, _MAX_ENTRIES
        for _ in range(MAX_DEPTH):
            if not level:
                break
            raw = self._trees(sorted(level), left_bytes)
            read = {tree_id: read_tree(data) for tree_id, data in raw.items()}
            left_bytes -= sum(map(len, raw.values()))
            left_entries -= sum(len(tree.entries) for tree in read.values())
            if left_bytes < 0 or left_entries < 0:
                raise RemoteUnreadable("it holds more files than any vault needs")
            trees |= read
            level = {tree_id for tree in read.values() for tree_id in tree.folders.values()} - trees.keys()
        blobs = sorted({blob_id for tree in trees.values() for blob_id in tree.files.values()})
        sizes: dict[str, int] = {}
        for blob_id, typed in zip(blobs, self._types(blobs), strict=True):
            if typed is None:
                raise self._damaged("cat-file")
            if typed.kind == "blob":
                sizes[blob_id] = typed.size
        return TreeObjects(root, trees, sizes)

    def _trees(self, ids: Sequence[str], max_bytes: int) -> dict[str, bytes]:
        """The trees with these ids. The copy was complete when fetched: a missing one was lost here."""
        typed = self._types(ids)
        if not all(typed):
            raise self._damaged("cat-file")
        trees_to_read = [item for item in typed if item is not None and item.kind == "tree"]
        if sum(typed.size for typed in trees_to_read) > max_bytes:
            raise RemoteUnreadable("it holds more files than any vault needs")
        request = "".join(f"{typed.id}\n" for typed in trees_to_read).encode()
        expected_bytes = sum(typed.size for typed in trees_to_read) + 100 * len(trees_to_read)
        out = self._local("cat-file", f"--batch={_FORMAT}", stdin=request, max_output=expected_bytes).out
        trees: dict[str, bytes] = {}
        position = 0
        for item in trees_to_read:
            start = out.index(b"\n", position) + 1
            trees[item.id] = out[start : start + item.size]
            position = start + item.size + 1
        return trees

    def _types(self, specs: Sequence[str]) -> list[_Typed | None]:
        """The id, type and size of each object that is here."""
        if not specs:
            return []
        request = "".join(f"{spec}\n" for spec in specs).encode()
        answer = self._local(
            "cat-file", f"--batch-check={_FORMAT}", stdin=request, max_output=_MAX_OUTPUT + 100 * len(specs)
        )
        lines = [line.split() for line in answer.out.decode("ascii", "replace").splitlines()]
        return [_Typed(fields[0], fields[1], int(fields[2])) if len(fields) == 3 else None for fields in lines]

    def read(self, blob: Blob) -> bytes:
        data = self._local("cat-file", "blob", blob.id, max_output=blob.size).out
        if len(data) != blob.size:
            raise self._damaged("cat-file")
        return data

    # Writing

    def commit(self, base: ObjectSnapshot, change: SnapshotChange) -> ObjectSnapshot:
        """Make a commit of `base` with this change, never the same one twice.

        Otherwise two devices that create the same bytes under one name at once would make the same commit, and both
        would take themselves for the creator.
        """
        removed_bytes = sum(base.size(name) for name in change.remove)
        removed_bytes += sum(len(data) for name, data in change.create if name in change.remove)
        puts, removed_bytes = (
            (0, 0) if change.whole or base.commit is None else (base.puts + 1, base.removed_bytes + removed_bytes)
        )
        message = f"holdfast objects\n\nputs {puts}\ngone {removed_bytes}\nid {secrets.token_hex(16)}\n".encode()
        script = bytearray(b"feature done\n")
        for mark, (_, data) in enumerate(change.create, 2):
            script += b"blob\nmark :%d\ndata %d\n%b\n" % (mark, len(data), data)
        script += b"reset %b\n\n" % MADE_REF.encode()
        script += b"commit %b\nmark :1\ncommitter %b\ndata %d\n%b\n" % (
            MADE_REF.encode(),
            _AUTHOR,
            len(message),
            message,
        )
        new_history = change.whole or base.commit is None
        if not new_history and base.commit is not None:
            script += b"from %b\n" % base.commit.encode()
        elif base.commit is not None or base.objects.root is not None:  # else nothing is readable
            tree = self._local("rev-parse", "--verify", "--end-of-options", f"{base.tip}^{{tree}}").text
            script += b"M 040000 %b \n" % tree.encode()
        # Trees that another server accepted may be refused by this one: they are left out.
        changed = [*(name for name, _ in change.create), *change.remove]
        for folder, entries in base.objects.without_refused(changed):
            folder_path = _path(f"{folder}/") if folder else b""
            script += b"D %b\n" % folder_path.rstrip(b"/") if folder_path else b"deleteall\n"
            for last, entry in entries.items():
                script += b"M %b %b %b%b\n" % (entry.mode.rjust(6, b"0"), entry.id.encode(), folder_path, last)
        for mark, (name, _) in enumerate(change.create, 2):
            script += b"M 100644 :%d %b\n" % (mark, _path(name))
        for name in change.remove:
            script += b"D %b\n" % _path(name)
        for mark in range(1, len(change.create) + 2):
            script += b"get-mark :%d\n" % mark
        script += b"done\n"
        answer = self._local(
            *("fast-import", "--quiet", "--force", "--date-format=raw"),
            stdin=script,
            max_output=_MAX_OUTPUT + 100 * len(change.create),
        )
        ids = answer.text.split()
        blobs = {n: Blob(i, len(d)) for (n, d), i in zip(change.create, ids[1:], strict=True)}
        if base.objects.refused:
            return self.snapshot(ids[0])  # more than the change
        objects = base.objects.with_changes(blobs, change.remove)
        return ObjectSnapshot(ids[0], objects, ids[0], None if new_history else base.commit, puts, removed_bytes)

    def is_shallow(self) -> bool:
        """Whether the copy is shallow: only then does git omit what the other side has in unrelated trees."""
        return os.path.exists(os.path.join(self.root, "shallow"))

    def is_mostly_removed(self, kept: int) -> bool:
        """Whether most of the copy was removed from the remote."""
        return self.weight() > 2 * kept + _SPARE

    def keep_only_fetched(self) -> None:
        """Drop everything but what was fetched last."""
        self._local("update-ref", MADE_REF, FETCHED_REF)
        self._local("repack", "-a", "-d", "-q")
        self._local("prune", "--expire=now")

    def merge_packs(self) -> None:
        """Merge packs when there are many: each put and fetch makes one."""
        if sum(name.endswith(".pack") for name in os.listdir(self._packs)) > _PACKS:
            self._local("repack", "--geometric=2", "-d", "-q")

    def weight(self) -> int:
        """Bytes in packs, unfinished ones included."""
        total = 0
        for entry in os.scandir(self._packs):
            with suppress(FileNotFoundError):
                total += entry.stat().st_size
        return total

    def drop_unfinished(self) -> None:
        for entry in os.scandir(self._packs):
            if entry.name.startswith("tmp_"):
                with suppress(OSError):
                    os.unlink(entry.path)

    # The process

    def run(
        self,
        *args: str,
        stdin: bytes | bytearray = b"",
        env: Mapping[str, str] | None = None,
        patience: float = 120.0,
        max_output: int = _MAX_OUTPUT,
        growth: int | None = None,
    ) -> GitResult:
        """Run git here; stop it when it prints more than `max_output` bytes, or packs grow by more than `growth`."""
        settings = [word for setting in _SETTINGS for word in ("-c", setting)]
        before = 0 if growth is None else self.weight()
        with tempfile.TemporaryFile() as stdin_file, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            stdin_file.write(stdin)
            stdin_file.seek(0)
            words = ("--git-dir=.", *settings, *args)
            deadline = monotonic() + patience
            # The copy is private. A push into a repository on this machine keeps the person's umask, since others may
            # read there.
            umask = -1 if args[0] == "push" else 0o077
            with self._started(words, {**_ENV, **(env or {})}, patience, stdin_file, out, err, umask) as process:
                while not _ended(process, deadline):
                    _check(out, max_output)
                    _check(err, max(max_output, _MAX_OUTPUT))
                    if growth is not None and self.weight() - before > growth:
                        raise GitOverflow(f"it has more than {growth} bytes")
            _check(out, max_output)
            out.seek(0)
            err.seek(0)
            stderr = err.read(_MAX_OUTPUT).decode("utf-8", "replace").strip()[-2000:]
            # Server messages pass through git and are shown: they must not control a terminal.
            return GitResult(
                process.returncode, out.read(), "".join(c for c in stderr if c.isprintable() or c == "\n")
            )

    def _local(self, *args: str, stdin: bytes | bytearray = b"", max_output: int = _MAX_OUTPUT) -> GitResult:
        try:
            answer = self.run(*args, stdin=stdin, max_output=max_output)
        except (GitOverflow, GitSlow) as problem:
            raise self._damaged(args[0]) from problem
        if answer.code and "no space left" in answer.message.lower():
            raise Failed("the disk is full", hint="Free some space.", operation=f"git {args[0]}", file=self.root)
        if answer.code:
            raise self._damaged(args[0], answer.message)
        return answer

    def _damaged(self, verb: str, words: str = "") -> Damaged:
        return Damaged(
            "the git remote, or its local copy, is damaged",
            hint=f"The copy can be removed; it is fetched again. {words}".strip(),
            operation=f"git {verb}",
            file=self.root,
        )


def _ended(process: subprocess.Popen[bytes], deadline: float) -> bool:
    left = deadline - monotonic()
    if left <= 0:
        raise subprocess.TimeoutExpired("git", left)
    try:
        process.wait(min(left, _STEP))
    except subprocess.TimeoutExpired:
        return False
    return True


def _check(stream: IO[bytes], max_bytes: int) -> None:
    if os.fstat(stream.fileno()).st_size > max_bytes:
        raise GitOverflow(f"it has more than {max_bytes} bytes")


def _path(name: str) -> bytes:
    return name.replace("/", f"{FOLDER}/").encode("ascii")
