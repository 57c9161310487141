"""A git remote: objects in an existing repository, under a ref that branches and clones do not show.

All objects of a remote are files in the tree of one commit, which one ref, `refs/holdfast/objects`, names. A put is
one commit and one push that replaces exactly the value it was made from. The server compares and sets the ref, so
the objects of a put are created once, whole and together, or not at all; the slower writer reads again and retries.

One ref for all instead of one per device: creating only missing objects needs an order of all puts, so separate refs
would need another shared one, and a server that can set several atomically (`--atomic`, which not all can). They
would gain no concurrency, lengthen every listing, reveal the number of devices, and stay behind when a device goes.

History keeps removed objects. When these outweigh the kept ones, or after some puts, the next commit has no parent:
nothing refers to the old history, and the server's garbage collection drops it. Local copies fetch no history, and
such a commit sends nothing again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import time
from collections.abc import Iterator, Sequence
from typing import ClassVar, Final, Self

from holdfast.core.errors import Busy, Damaged, HoldfastError, NotFound, Unreachable
from holdfast.machine.locks import locked
from holdfast.machine.private_paths import make_private_dir
from holdfast.sync.remotes.base import Missing, ObjectInfo, ObjectTooLarge, RemoteUnreadable, checked
from holdfast.sync.remotes.git_objects import REF, ObjectRepository, ObjectSnapshot, SnapshotChange
from holdfast.sync.remotes.git_refs import PREFIX, GitAddress, PushResult, RemoteRef, address, missing_error
from holdfast.sync.remotes.git_trees import TreeObjects

_ATTEMPTS: Final = 40
_FIRST_WAIT: Final = 0.05
_MAX_WAIT: Final = 1.0
_LOCK_PATIENCE: Final = 60.0
_NOTHING: Final = TreeObjects(None, {}, {})


class GitRemote:
    """An open git remote. The contents of `scratch` may be lost: they are fetched again."""

    largest_fetch: ClassVar[int] = 4 << 30
    longest_history: ClassVar[int] = 32

    def __init__(self, where: GitAddress, scratch: str) -> None:
        self.url = PREFIX + where.shown
        self._where = where
        self._scratch = scratch
        self._copy = ObjectRepository(
            os.path.join(scratch, hashlib.sha256(where.text.encode()).hexdigest()[:16] + ".git")
        )
        self._remote_ref = RemoteRef(where, self._copy, self.largest_fetch)
        self._snapshot: ObjectSnapshot | None = None
        self._listed = False
        self._only_grows = False
        self._replaces_unreadable = False
        self._foreign: set[str] = set()

    @classmethod
    def open(cls, url: str, scratch: str, create: bool) -> GitRemote:
        """Open the remote at `git:ADDRESS`. With `create` it is asked at once; a repository is never created."""
        where = address(url)
        if where.local and not create and not os.path.isdir(where.text.removeprefix("file://")):
            raise missing_error(where)
        if where.local and not os.path.isdir(where.text.removeprefix("file://")):
            raise NotFound(
                f"there is no git repository at {where.shown}",
                hint=f"Create one with: git init --bare {where.shown}",
                operation="remote",
                file=where.shown,
            )
        remote = cls(where, scratch)
        if create:
            with remote._locked():
                remote._remote_ref.tip(first=True)
        return remote

    def list(self, prefix: str) -> Sequence[ObjectInfo]:
        with self._locked():
            snapshot = self._refresh()
        self._listed = True
        return snapshot.under(prefix)

    def get(self, name: str, limit: int) -> bytes:
        """The object as of the last listing, which needs no request; else as of now."""
        checked(name)
        with self._locked():
            if self._listed and self._snapshot is not None and name in self._snapshot.objects:
                # Another process may have pruned it here after it was removed there.
                with contextlib.suppress(Damaged):
                    return self._read(self._snapshot, name, limit)
                self._snapshot = None
            return self._read(self._refresh(), name, limit)

    def put(self, objects: Sequence[tuple[str, bytes]], *, remove: Sequence[str] = ()) -> frozenset[str]:
        for name in [*(name for name, _ in objects), *remove]:
            checked(name)
        self._listed = False
        with self._locked():
            if self._snapshot is not None and self._snapshot.tip is not None:
                # Another process may have pruned what this one saw last.
                self._snapshot = self._snapshot if self._copy.has(self._snapshot.tip) else None
            fresh = self._snapshot is None
            base = self._snapshot or self._refresh()
            for attempt in range(_ATTEMPTS):
                existing, change = _plan_change(base, objects, remove)
                commit = None
                if change.create or change.remove:
                    commit = self._commit(base, change)
                    if commit is not None and self._push(commit, base):
                        return existing
                    _wait(attempt)
                elif fresh:
                    return existing
                base, fresh = self._refresh(), True
                # If a retried request was carried out the first time, the second is refused: the commit is ours.
                if commit is not None and commit.tip in (base.tip, base.parent):
                    return existing
        raise Unreachable(
            f"others kept writing to {self._where.shown}: nothing was changed after {_ATTEMPTS} attempts",
            hint="Try again later.",
            operation="put",
        )

    @property
    def foreign(self) -> Sequence[str]:
        return sorted(self._foreign)

    def replace_unreadable(self) -> None:
        self._replaces_unreadable = True

    def close(self) -> None:
        self._snapshot = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self, snapshot: ObjectSnapshot, name: str, limit: int) -> bytes:
        blob = snapshot.objects.get(name)
        if blob is None:
            raise Missing(f"there is no object {name} at {self._where.shown}", operation="get")
        if blob.size > limit:
            raise ObjectTooLarge(f"the object {name} at {self._where.shown} has {blob.size} bytes", operation="get")
        return self._copy.read(blob)

    def _commit(self, base: ObjectSnapshot, change: SnapshotChange) -> ObjectSnapshot | None:
        """The commit to push; None when the remote changed meanwhile."""
        removed = sum(base.size(name) for name in change.remove)
        kept = base.objects.kept - removed + sum(len(data) for _, data in change.create)
        whole = base.tip is not None and (
            base.removed_bytes + removed > kept or base.puts + 1 >= self.longest_history
        )
        whole = whole and not self._only_grows
        if whole and not self._copy.is_shallow() and self._remote_ref.fetch() != base.tip:
            return None
        return self._copy.commit(base, change._replace(whole=whole))

    def _push(self, commit: ObjectSnapshot, base: ObjectSnapshot) -> bool:
        assert commit.tip is not None
        self._snapshot = None  # unknown until the server has answered
        outcome = self._remote_ref.push(
            commit.tip, base.tip, new_history=commit.parent is None, clear=self._replaces_unreadable
        )
        if outcome is PushResult.DONE:
            self._snapshot = commit
            self._repair(commit)
        self._only_grows = self._only_grows or outcome is PushResult.NO_NEW_HISTORY
        return outcome is PushResult.DONE

    def _refresh(self) -> ObjectSnapshot:
        """All objects as of now: one request, and one fetch if the answer is new."""
        tip = self._remote_ref.tip()
        if self._snapshot is not None and self._snapshot.tip == tip:
            return self._snapshot
        fetched = False
        try:
            if tip is not None and not self._copy.has(tip):
                tip = self._remote_ref.fetch()
                fetched = True
            self._snapshot = ObjectSnapshot(None, _NOTHING) if tip is None else self._copy.snapshot(tip)
        except RemoteUnreadable as problem:
            if not self._replaces_unreadable:
                raise self._unreadable(problem) from problem
            self._snapshot, fetched = ObjectSnapshot(tip, _NOTHING), False
        self._foreign.update(self._snapshot.objects.refused)
        if fetched:
            self._repair(self._snapshot)
        return self._snapshot

    def _unreadable(self, problem: RemoteUnreadable) -> RemoteUnreadable:
        return RemoteUnreadable(
            f"the vault is no longer at {self._where.shown}: somebody replaced {REF}, and {problem.message}",
            hint="Anyone with write access there can do that. To put back everything that this device has:"
            " holdfast sync --put-back. Or reset the ref to an earlier commit, with git.",
            operation="git fetch",
        )

    def _repair(self, snapshot: ObjectSnapshot) -> None:
        """Clean up the local copy; a failure does not matter."""
        with contextlib.suppress(HoldfastError):
            if not self._copy.is_mostly_removed(snapshot.objects.kept):
                self._copy.merge_packs()
            elif self._remote_ref.fetch() == snapshot.tip:  # which cuts off local history
                self._copy.keep_only_fetched()

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock the local copy: git's own locks make others fail instead of wait."""
        make_private_dir(self._scratch)
        lock = locked(self._copy.root + ".lock", patience=_LOCK_PATIENCE, purpose="a git remote")
        try:
            lock.__enter__()
        except Busy as busy:
            raise Unreachable(
                f"another process is busy with {self._where.shown}",
                hint="Try again when it has finished.",
                operation="remote",
            ) from busy
        with contextlib.ExitStack() as stack:
            stack.push(lock)
            self._copy.prepare()
            yield


def _plan_change(
    base: ObjectSnapshot, objects: Sequence[tuple[str, bytes]], remove: Sequence[str]
) -> tuple[frozenset[str], SnapshotChange]:
    """The names that exist already, and the change for the rest."""
    create: dict[str, bytes] = {}
    existing = set()
    for name, data in objects:
        if name in base.objects or name in create:
            existing.add(name)
        else:
            create[name] = data
    removed = [name for name in dict.fromkeys(remove) if name in base.objects or name in create]
    return frozenset(existing), SnapshotChange(list(create.items()), removed, whole=False)


def _wait(attempt: int) -> None:
    longest = min(_FIRST_WAIT * 2**attempt, _MAX_WAIT)
    time.sleep(random.SystemRandom().uniform(0, longest))
