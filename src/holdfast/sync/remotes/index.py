"""The kinds of remotes there are, by the scheme of their address; each is loaded only when it is opened."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from typing import Final, Literal

from holdfast.core.errors import HoldfastError, Invalid
from holdfast.sync.remotes.base import RemoteStore

Backend = Literal["local", "s3", "claude-desktop"]

_KINDS: Final = "folder:PATH, s3://BUCKET/PREFIX, git:URL or claude-desktop:"
_HINT: Final = f"Remotes are {_KINDS}."
_MAX_LENGTH: Final = 4096
# `host:path` as ssh has it; a single letter is a drive, and a slash before the colon makes it a path.
_SSH: Final = re.compile(r"[^/\\:]{2,}:.*|([^/\\]*@)?\[[^/\\]+\]:.*", re.DOTALL)


def open_remote(url: str, *, scratch: str, create: bool = False, environ: Mapping[str, str]) -> RemoteStore:
    """The remote at this address. `scratch` is a private directory for what it keeps at hand: losing it costs time.

    With `create`, a place that is not there yet is made: for `remote add`, and for nothing else.
    """
    url = checked_url(url)
    scheme, _, rest = url.partition(":")
    remote: RemoteStore
    if scheme == "folder":
        from holdfast.sync.remotes.folder import FolderRemote

        remote = FolderRemote(rest, create=create)
    elif scheme == "claude-desktop":
        from holdfast.sync.remotes.folder import open_claude_desktop

        remote = open_claude_desktop(environ, system=sys.platform, create=create)
    elif scheme == "git":
        from holdfast.sync.remotes.git import GitRemote

        remote = GitRemote.open(url, scratch=scratch, create=create)
    else:
        from holdfast.sync.remotes.s3 import S3Remote

        remote = S3Remote.open(url, environ=environ, create=create)
    return remote


def backend_of(url: str) -> Backend:
    """The kind of place, in the words of the craft format."""
    scheme = url.partition(":")[0].lower()
    return "s3" if scheme == "s3" else "claude-desktop" if scheme == "claude-desktop" else "local"


def caveat(url: str) -> str | None:
    """What a person must know who expects such a remote to reach other devices; None when there is nothing."""
    if backend_of(url) != "claude-desktop":
        return None
    from holdfast.sync.remotes.folder import CAVEAT

    return CAVEAT


def checked_url(url: str) -> str:
    """The address as it is kept: whole, the same however it was written, and without anything secret."""
    url = url.strip()
    if not url.isprintable() or len(url) > _MAX_LENGTH:
        raise Invalid("that is not an address of a remote", hint=_HINT)
    scheme, colon, rest = url.partition(":")
    scheme = scheme.lower()
    if colon and scheme == "folder":
        return f"folder:{_folder(rest)}"
    if colon and scheme == "s3":
        return _s3(url)
    if colon and scheme == "git":
        return f"git:{_git(rest)}"
    if scheme == "claude-desktop":
        if rest.strip("/"):
            raise Invalid("a claude-desktop: remote has no path", hint="Write it so: claude-desktop:")
        return "claude-desktop:"
    raise _unknown(url, scheme if colon else "")


def _unknown(url: str, scheme: str) -> HoldfastError:
    if not url:
        return Invalid("the address of the remote is empty", hint=_HINT)
    if not scheme or len(scheme) == 1 or "/" in scheme or "\\" in scheme:
        hint = _HINT if "@" in url else f"A folder? folder:{url}"  # what may hold a password is not repeated
        return Invalid("the address does not say what kind of remote it is", hint=hint)
    if scheme in ("https", "http", "ssh", "file") or "@" in scheme:
        return Invalid("an address of a git repository is written with git: before it", hint=_HINT)
    return Invalid(f"{scheme[:40]!r} is not a kind of remote Holdfast knows", hint=_HINT)


# ── each kind ────────────────────────────────────────────────────────────────────────────────────────────


def _folder(path: str) -> str:
    empty = Invalid("a folder: remote needs a path of its own", hint="Write it so: folder:/media/stick/holdfast")
    if not path.strip("/ "):
        raise empty
    if os.sep == "/" and path.startswith("//"):
        # folder:///x is as good as folder:/x; in folder://x/y nobody knows whether x is a host.
        if not path.startswith("///"):
            raise Invalid("a folder: remote has no host", hint=f"Write it so: folder:/{path.lstrip('/')}")
        path = "/" + path.lstrip("/")
    absolute = os.path.abspath(os.path.expanduser(path))
    if not absolute.strip("/ "):
        raise empty
    return absolute


def _s3(url: str) -> str:
    from holdfast.sync.remotes.s3_server import read_place

    # The region stands for whatever the environment will say: how an address is written does not depend on it.
    return read_place(url, {"AWS_REGION": "us-east-1"}).url


def _git(address: str) -> str:
    from holdfast.core.secrets.patterns import redact

    hint = "Write it so: git:git@github.com:me/sessions.git, git:https://HOST/PATH or git:/srv/sessions.git"
    empty = Invalid("a git: remote needs the address of a repository", hint=hint)
    if not address.strip("/ "):
        raise empty
    if address.startswith("///"):
        address = "/" + address.lstrip("/")
    elif address.startswith("//"):
        raise Invalid("git:// is not encrypted, and cannot be written to", hint=hint)
    if address.startswith("-") or "::" in address.partition("/")[0].partition("[")[0]:
        # Git takes the first for an option; the second names a program that it runs.
        raise Invalid("git would run a program for that address", hint=hint)
    scheme, mark, rest = address.partition("://")
    if mark:
        if scheme.lower() not in ("https", "ssh", "file"):
            raise Invalid(f"{scheme[:40]!a} is not a safe way to reach a git repository", hint=hint)
        user, at, _ = rest.partition("/")[0].rpartition("@")
        if at and (":" in user or redact(user).counts):
            # A token may stand where a name does. Without the address: an error is printed, and may be kept in a log.
            raise Invalid(
                "the address of the git: remote holds a password or a token, which would be kept and shown with it",
                hint="Leave it out of the address: git's credential helper knows it, or use ssh.",
            )
        return address
    full = address if _SSH.fullmatch(address) else os.path.abspath(os.path.expanduser(address))
    if not full.strip("/ "):
        raise empty
    return full
