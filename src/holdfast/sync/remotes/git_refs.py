"""The ref of a git remote: its address, fetch and push, and git's errors.

An address is a host or a path, never an option or a command: other kinds are refused before git sees them, and git is
limited to the protocols that it may use. Credentials are never shown.
"""

from __future__ import annotations

import os
import re
import urllib.parse
from enum import Enum
from typing import Final, NamedTuple

from holdfast.core.errors import Failed, HoldfastError, Invalid, NotFound, Refused, Unreachable
from holdfast.machine.git.program import GitResult, GitSlow
from holdfast.machine.git.reader import GitReader
from holdfast.machine.git.worktree import locate
from holdfast.sync.remotes.base import RemoteUnreadable
from holdfast.sync.remotes.git_objects import FETCHED_REF, REF, GitOverflow, ObjectRepository

PREFIX: Final = "git:"
_MAX_LENGTH: Final = 2000
_HOST: Final = r"(?:[A-Za-z0-9][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\])"
_SCP: Final = re.compile(rf"(?:[A-Za-z0-9_][A-Za-z0-9_.+-]*@)?{_HOST}:(?![:-])(.+)", re.DOTALL)
_URL: Final = re.compile(rf"(file|ssh|https|http)://((?:[^/@]*@)?)({_HOST}?)((?::[0-9]+)?)(/.+)", re.DOTALL)
_DRIVE: Final = re.compile(r"[A-Za-z]:[\\/]")
_WORD: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_LOOPBACK: Final = re.compile(r"localhost|127(?:\.[0-9]{1,3}){3}|\[::1\]")
_USERINFO: Final = re.compile(r"(?<=://)[^/\s'\"]*@")
_TIP: Final = re.compile(rb"([0-9a-f]{40}|[0-9a-f]{64})\t" + REF.encode())
_SHA1: Final = 40
_MIN_SECRET_LENGTH: Final = 3

_ASK_PATIENCE: Final = 60.0
_MOVE_PATIENCE: Final = 1800.0
# After a power cut, no object may be missing: a repository on this machine is configured to sync to disk.
_DURABLE: Final = "--receive-pack=git -c core.fsync=all receive-pack"


class GitAddress(NamedTuple):
    """Where the repository is: as passed to git, and as shown to people."""

    text: str
    shown: str
    protocol: str
    secrets: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<Address {self.shown}>"  # the rest may be secret and must not be logged

    @property
    def local(self) -> bool:
        return self.protocol == "file"

    def clean(self, words: str) -> str:
        """Git's output, without credentials of the address."""
        words = _USERINFO.sub("", words.replace(self.text, self.shown))
        for secret in self.secrets:
            words = words.replace(secret, "…")
        return words


def address(url: str) -> GitAddress:
    """The address in `git:ADDRESS`, or `Invalid`."""
    text = url.removeprefix(PREFIX)
    if not text.isprintable() or len(text) > _MAX_LENGTH or text.startswith("-"):
        raise _invalid_address()
    if text.startswith(("/", "./", "../", "~/")) or (os.name == "nt" and _DRIVE.match(text)):
        path = os.path.abspath(os.path.expanduser(text))
        return GitAddress(path, path, "file")
    match = _URL.fullmatch(text)
    if match is None:
        if "://" in text or _SCP.fullmatch(text) is None or _DRIVE.match(text):
            raise _invalid_address()
        return GitAddress(text, text, "ssh")
    protocol, user, host, port, path = match.groups()
    if (protocol == "file") != (not host) or (protocol == "file" and (user or port)):
        raise _invalid_address()
    if protocol == "http" and _LOOPBACK.fullmatch(host) is None:
        raise Invalid(
            "http:// is not encrypted",
            hint="Use https:// or ssh.",
            operation="remote",
        )
    password = user[:-1].partition(":")[2] if protocol == "ssh" else user[:-1]
    shown = f"{protocol}://{user if protocol == 'ssh' and not password else ''}{host}{port}{path}"
    parts = {password, password.partition(":")[2], *map(urllib.parse.unquote, password.split(":"))}
    secrets = sorted((part for part in parts if len(part) >= _MIN_SECRET_LENGTH), key=len, reverse=True)
    return GitAddress(text, shown, protocol, tuple(secrets))


def resolve_remote_name(url: str, directory: str) -> str:
    """Replace `git:origin` by `git:ADDRESS`, as configured in the repository at `directory`."""
    word = url.removeprefix(PREFIX)
    if _WORD.fullmatch(word) is None:
        return url
    remote = GitReader(directory).remote_address(word) if locate(directory).git else None
    if remote is None:
        raise NotFound(
            f"the repository here has no remote called {word}",
            hint="See `git remote`, or give the address itself: git:git@host:me/repo.git, git:/path/to/bare.git",
            operation="git remote",
            file=directory,
        )
    where = address(os.path.join(directory, remote) if remote.startswith(("./", "../")) else remote)
    if where.local:  # an archive could bring it along, in the repository or around it
        raise Refused(
            f"the remote called {word} is a directory on this machine, and git runs the hooks in it",
            hint=f"If they are yours, give the path itself: git:{where.shown}",
            operation="git remote",
            file=where.shown,
        )
    return PREFIX + where.text


def missing_error(where: GitAddress, words: str = "") -> Unreachable:
    """The error for a repository that was there: its disk may not be mounted, or its host may differ."""
    advice = (
        "Plug in or mount its disk"
        if where.local
        else "Check whether it was moved, and whether you still have access"
    )
    return Unreachable(
        f"there is no longer a git repository at {where.shown}",
        hint=f"{advice}; if it is lost for good, add another remote.\n{words}".strip(),
        operation="git remote",
    )


class PushResult(Enum):
    DONE = "done"
    MOVED = "moved"  # somebody else was faster: nothing happened
    NO_NEW_HISTORY = "not anew"  # this server refuses a new history


class RemoteRef:
    """The ref at the remote, accessed through the local copy."""

    def __init__(self, where: GitAddress, copy: ObjectRepository, largest: int) -> None:
        self._where = where
        self._copy = copy
        self._max_growth = largest
        self._env: dict[str, str] | None = None

    def tip(self, *, first: bool = False) -> str | None:
        """What the ref names now; None if there is no such ref. `first`: nothing was ever read there."""
        # The full name, so that a server with many refs need not list them all.
        answer = self._ask("ls-remote", "--quiet", "--", self._where.text, REF, patience=_ASK_PATIENCE)
        if answer.code:
            raise self._error("ls-remote", answer, first=first)
        for line in answer.out.splitlines():
            match = _TIP.fullmatch(line)
            if match is not None:
                if len(match[1]) != _SHA1:
                    raise self._other_hash()
                return match[1].decode()
        return None

    def fetch(self) -> str | None:
        """Fetch the ref's commit, without history, and return its id."""
        answer = self._ask(
            *("fetch", "--quiet", "--depth=1", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules"),
            *("--", self._where.text, f"+{REF}:{FETCHED_REF}"),
            patience=_MOVE_PATIENCE,
            growth=self._max_growth,
        )
        if answer.code:
            if "couldn't find remote ref" in answer.message:
                return None
            if any(mark in answer.message.lower() for mark in _INCOMPLETE):
                raise RemoteUnreadable("objects that it needs are missing or broken")
            raise self._error("fetch", answer)
        return self._copy.fetched_commit()

    def push(self, new: str, old: str | None, *, new_history: bool = False, clear: bool = False) -> PushResult:
        """Set the ref to `new` if it still is `old`. The server does this atomically.

        `clear`: if there is no such ref, remove refs below its name, which block it.
        """
        durable = (_DURABLE,) if self._where.local else ()
        answer = self._ask(
            *("push", "--porcelain", "--quiet", "--no-verify", *durable, f"--force-with-lease={REF}:{old or ''}"),
            *("--", self._where.text, f"{new}:{REF}"),
            patience=_MOVE_PATIENCE,
        )
        if answer.code == 0:
            return PushResult.DONE
        rejections = "\n".join(
            line for line in answer.out.decode("utf-8", "replace").splitlines() if line.startswith("!")
        )
        refused = any(word in rejections for word in _REFUSALS)
        if new_history and old is not None and (refused or "[remote rejected] (non-fast-forward)" in rejections):
            return PushResult.NO_NEW_HISTORY
        if clear and old is None and _IN_THE_WAY in answer.message:
            self._remove_blocking_refs()
            return PushResult.MOVED
        if rejections and not refused and _IN_THE_WAY not in answer.message:
            return PushResult.MOVED
        error = self._error("push", answer._replace(message=f"{rejections}\n{answer.message}".strip()))
        # The connection may have failed after the server was done.
        if isinstance(error, Unreachable) and self.tip() == new:
            return PushResult.DONE
        raise error

    def _remove_blocking_refs(self) -> None:
        """Remove refs below ours, which no Holdfast makes."""
        answer = self._ask("ls-remote", "--quiet", "--", self._where.text, f"{REF}/*", patience=_ASK_PATIENCE)
        names = [line.partition("\t")[2] for line in answer.out.decode("utf-8", "replace").splitlines()]
        deletions = [f":{name}" for name in names if name.startswith(f"{REF}/")][:_MAX_CLEARED]
        self._ask("push", "--quiet", "--no-verify", "--", self._where.text, *deletions, patience=_MOVE_PATIENCE)

    def _ask(self, *args: str, patience: float, growth: int | None = None) -> GitResult:
        if self._env is None:
            self._env = self._git_environment()
        try:
            return self._copy.run(*args, env=self._env, patience=patience, growth=growth)
        except GitSlow as slow:
            raise Unreachable(
                f"{self._where.shown} did not answer within {patience:g} s",
                hint="Try again later.",
                operation=slow.operation,
            ) from slow
        except GitOverflow as problem:
            self._copy.drop_unfinished()
            raise RemoteUnreadable(f"the request is too large: {problem.message}") from problem

    def _git_environment(self) -> dict[str, str]:
        """The environment for git: no prompts, and only these protocols."""
        allowed = "file:ssh:https" + (":http" if self._where.protocol == "http" else "")
        env = {
            "GIT_ALLOW_PROTOCOL": allowed,
            "GIT_ASKPASS": "",
            "SSH_ASKPASS_REQUIRE": "never",
            "GCM_INTERACTIVE": "never",
        }
        if self._where.protocol == "ssh" and not os.environ.get("GIT_SSH"):
            ssh_command = (
                os.environ.get("GIT_SSH_COMMAND") or self._copy.run("config", "--get", "core.sshCommand").text
            )
            words = (ssh_command or "ssh").split()
            # Only OpenSSH has these options; other programs have no terminal to ask at either.
            if re.split(r"[/\\]", words[0].strip("'\""))[-1].lower().removesuffix(".exe") == "ssh":
                env["GIT_SSH_COMMAND"] = f"{ssh_command or 'ssh'} -o BatchMode=yes -o ConnectTimeout=20"
        return env

    def _error(self, verb: str, answer: GitResult, *, first: bool = False) -> HoldfastError:
        words = self._where.clean(answer.message)
        lower = words.lower()
        for marks, sentence, hint in _ERRORS:
            if any(mark in lower for mark in marks):
                if marks is _NO_REPOSITORY and not first:
                    return missing_error(self._where, words)
                return Failed(
                    sentence.format(shown=self._where.shown),
                    hint=f"{hint.format(shown=self._where.shown)}\n{words}",
                    operation=f"git {verb}",
                )
        if any(mark in lower for mark in _HASHES):
            return self._other_hash()
        return Unreachable(
            f"{self._where.shown} could not be reached",
            hint=words or f"git exited with code {answer.code} and no message.",
            operation=f"git {verb}",
        )

    def _other_hash(self) -> Failed:
        return Failed(
            f"the repository {self._where.shown} names its objects by SHA-256, which is not supported",
            hint="Use one that was created by `git init --bare` without an object format.",
            operation="git",
        )


_IN_THE_WAY: Final = f"exists; cannot create '{REF}'"
_MAX_CLEARED: Final = 500  # at a time
_REFUSALS: Final = ("hook declined", "denied", "prohibited", "deny", "hidden ref", "funny refname", "unpacker error")
# Messages of the server, or of git here, for a ref with missing or broken objects.
_INCOMPLETE: Final = (
    *("repository corruption on the remote side", "did not send all necessary objects", "bad object", "bogus commit"),
    *("bad tree", "too-short tree", "malformed mode", "empty filename in tree", "truncated", "not a tree"),
    *("is a blob, not", "is a tree, not", "is a commit, not", "is a tag, not", "failed to traverse parents"),
)
_HASHES: Final = ("mismatched algorithms", "hash algorithm", "object format")
_NO_REPOSITORY: Final = (
    *("does not appear to be a git repository", "not a git repository", "not found", "does not exist"),
)
_ERRORS: Final = (
    (
        ("dubious ownership",),
        "git does not trust the repository {shown}, because it belongs to another user",
        "If you do, say so to git:",
    ),
    (
        ("host key verification failed",),
        "ssh does not know the host of {shown}, or its key has changed",
        "Run `git ls-remote {shown}` once and compare its key.",
    ),
    (
        (
            *("authentication failed", "could not read username", "could not read password", "permission denied"),
            *("terminal prompts disabled", "access denied", "insufficient permission", "error: 401", "error: 403"),
        ),
        "{shown} denied access",
        "Check that `git ls-remote {shown}` works without a prompt: use an ssh key, or a credential helper.",
    ),
    (
        _NO_REPOSITORY,
        "there is no git repository at {shown}, or you have no access",
        "Holdfast creates none: use an existing one, or create it with `git init --bare`.",
    ),
    (
        ("transport '", "no space left", "disk quota"),
        "{shown} cannot be used",
        "Git says:",
    ),
    (
        (_IN_THE_WAY,),
        "{shown} has another ref where " + REF + " should be",
        "Anyone with write access there can do that. To remove it: holdfast sync --put-back. It says:",
    ),
    (
        _REFUSALS,
        "{shown} refuses Holdfast's ref",
        "Ask its administrator to allow the ref " + REF + ". It says:",
    ),
)


def _invalid_address() -> Invalid:
    return Invalid(
        "that is not a supported address of a git repository",
        hint="For example: git:git@host:me/repo.git, git:ssh://host/repo.git, git:https://host/me/repo.git, "
        "git:/path/to/bare.git",
        operation="remote",
    )
