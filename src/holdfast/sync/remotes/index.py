"""The kinds of remotes, by the scheme of their address; each is loaded only when it is opened."""

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
    """Open the remote at this address. `scratch` is a private directory for caches: losing it costs time.

    With `create`, a missing place is created: only for `remote add`.
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
    """The kind of remote, in the words of the craft format."""
    scheme = url.partition(":")[0].lower()
    return "s3" if scheme == "s3" else "claude-desktop" if scheme == "claude-desktop" else "local"


def caveat(url: str) -> str | None:
    """A warning for people who expect such a remote to reach other devices, if there is one."""
    if backend_of(url) != "claude-desktop":
        return None
    from holdfast.sync.remotes.folder import CAVEAT

    return CAVEAT


def checked_url(url: str) -> str:
    """The address as it is stored: normalised, and without secrets."""
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
            raise Invalid("a claude-desktop: remote has no path", hint="Write: claude-desktop:")
        return "claude-desktop:"
    raise _unknown(url, scheme if colon else "")


def _unknown(url: str, scheme: str) -> HoldfastError:
    if not url:
        return Invalid("the address of the remote is empty", hint=_HINT)
    if not scheme or len(scheme) == 1 or "/" in scheme or "\\" in scheme:
        hint = _HINT if "@" in url else f"A folder? folder:{url}"  # a password must not be repeated
        return Invalid("the address does not say what kind of remote it is", hint=hint)
    if scheme in ("https", "http", "ssh", "file") or "@" in scheme:
        return Invalid("the address of a git repository starts with git:", hint=_HINT)
    return Invalid(f"unknown remote type {scheme[:40]!r}", hint=_HINT)


# ── each kind ────────────────────────────────────────────────────────────────────────────────────────────


def _folder(path: str) -> str:
    empty = Invalid("a folder: remote needs a path", hint="For example: folder:/media/stick/holdfast")
    if not path.strip("/ "):
        raise empty
    if os.sep == "/" and path.startswith("//"):
        # folder:///x means folder:/x; in folder://x/y, x could be a host.
        if not path.startswith("///"):
            raise Invalid("a folder: remote has no host", hint=f"Write: folder:/{path.lstrip('/')}")
        path = "/" + path.lstrip("/")
    absolute = os.path.abspath(os.path.expanduser(path))
    if not absolute.strip("/ "):
        raise empty
    return absolute


def _s3(url: str) -> str:
    from holdfast.sync.remotes.s3_server import read_place

    # Any region will do: the normalised address does not depend on it.
    return read_place(url, {"AWS_REGION": "us-east-1"}).url


def _git(address: str) -> str:
    from holdfast.core.secrets.patterns import redact

    hint = "For example: git:git@github.com:me/sessions.git, git:https://HOST/PATH or git:/srv/sessions.git"
    empty = Invalid("a git: remote needs the address of a repository", hint=hint)
    if not address.strip("/ "):
        raise empty
    if address.startswith("///"):
        address = "/" + address.lstrip("/")
    elif address.startswith("//"):
        raise Invalid("git:// is not encrypted, and cannot be written to", hint=hint)
    if address.startswith("-") or "::" in address.partition("/")[0].partition("[")[0]:
        # Git takes the first as an option; the second names a program to run.
        raise Invalid("git would run a program for that address", hint=hint)
    scheme, mark, rest = address.partition("://")
    if mark:
        if scheme.lower() not in ("https", "ssh", "file"):
            raise Invalid(f"{scheme[:40]!a} is not a safe protocol for a git repository", hint=hint)
        user, at, _ = rest.partition("/")[0].rpartition("@")
        if at and (":" in user or redact(user).counts):
            # A token may be in place of the user. The message omits the address: errors may be logged.
            raise Invalid(
                "the address of the git: remote holds a password or a token, which would be stored and shown with it",
                hint="Leave it out: use git's credential helper, or ssh.",
            )
        return address
    full = address if _SSH.fullmatch(address) else os.path.abspath(os.path.expanduser(address))
    if not full.strip("/ "):
        raise empty
    return full
