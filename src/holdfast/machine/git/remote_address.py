"""The address of a repository, however it is written: what two clones of one repository have in common."""

from __future__ import annotations

import re

_BRACKETED = re.compile(r"(?:[^/]*@)?\[([^\]/]+)\]:(.*)")  # [user@host:port]:path, user@[::1]:path
_ABBREVIATED = re.compile(r"[A-Za-z0-9_+-]{2,}:(?!:).*", re.DOTALL)  # no dot, no user: hardly a host
_SCHEMES = ("https://", "http://", "ssh://", "git://", "file://", "ftp://", "ftps://", "git+ssh://", "ssh+git://")
_PORTS = {"https": "443", "http": "80", "ssh": "22", "git": "9418"}


def normalise_remote(url: str) -> str:
    """`github.com/o/r`, however the address is written, and never with credentials.

    >>> normalise_remote("https://me:secret@GitHub.com/o/r.git")
    'github.com/o/r'
    >>> normalise_remote("git@github.com:o/r")
    'github.com/o/r'
    """
    url = "".join(c for c in url.strip() if c.isprintable())
    helper, double, rest = url.partition("::")
    if double and helper.replace("-", "").isalnum():
        if "://" not in rest:
            return ""  # `ext::` and its like hold whole commands
        url = rest
    scheme, mark, rest = url.partition("://")
    scheme = scheme.lower().removeprefix("git+").removesuffix("+git").removesuffix("+ssh")
    if mark and scheme != "file":
        return _from_url(scheme, rest)
    if mark:
        return _trimmed(rest)
    bracketed = _BRACKETED.fullmatch(url)
    if bracketed is not None:
        host = bracketed[1].rpartition("@")[2]
        return _joined(f"[{host}]" if host.count(":") > 1 else host.removesuffix(":22"), bracketed[2])
    before, colon, path = url.partition(":")
    # A single letter is a drive. A slash before the colon makes it a path that has a colon in it.
    if colon and len(before) > 1 and not {*before} & {*"/\\"}:
        if "@" in path.partition("/")[0] and "@" not in before:
            before, _, path = path.rpartition("@")[2].partition(":")  # user:password@host:path
        return _joined(before.rpartition("@")[2], path)
    return _trimmed(url)


def is_abbreviated(url: str) -> bool:
    """Whether it may be short for something that only this person's git knows.

    >>> is_abbreviated("gh:o/r"), is_abbreviated("git@github.com:o/r"), is_abbreviated("https://github.com/o/r")
    (True, False, False)
    """
    return _ABBREVIATED.fullmatch(url) is not None and not url.lower().startswith(_SCHEMES)


def _from_url(scheme: str, rest: str) -> str:
    rest = rest.partition("#")[0].partition("?")[0]
    authority, _, path = rest.partition("/")
    if "@" not in authority and not authority.rpartition(":")[2].isdigit() and ":" in authority and "@" in rest:
        # A password with a slash in it: everything up to the last @ may be secret.
        authority, _, path = rest.rpartition("@")[2].partition("/")
    host = authority.rpartition("@")[2]
    return _joined(host.removesuffix(":" + _PORTS.get(scheme, "")), path)


def _joined(host: str, path: str) -> str:
    path = _trimmed(path.lstrip("/"))
    return f"{host.lower()}/{path}" if path else host.lower()


def _trimmed(path: str) -> str:
    return path.rstrip("/").removesuffix(".git").rstrip("/")
