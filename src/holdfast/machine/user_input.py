"""Read a file that a person named, or standard input, up to a limit; never a pipe or device.

Links are followed, because the person named them; Holdfast is stricter only when it writes.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from holdfast.core.errors import Failed, HoldfastError, Invalid
from holdfast.machine.os_errors import display_path, explain, retry_interrupted
from holdfast.machine.private_paths import file_kind

if TYPE_CHECKING:
    from collections.abc import Iterator

_CHUNK: Final = 1 << 18
_FLAGS: Final = (
    os.O_RDONLY
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_NOCTTY", 0)
    # Opening a pipe that was planted after the check must not block.
    | getattr(os, "O_NONBLOCK", 0)
)


def read_limited(path: str, limit: int, *, subject: str) -> bytes:
    """The content of a file the user named, or of standard input for `-`; refuses more than `limit` bytes."""
    if path == "-":
        return _read_stdin(limit, subject)
    try:
        fd = open_regular(path)
        if isinstance(fd, str):
            hint = "Name a file." if fd == "a directory" else "Name a regular file, or - for standard input."
            raise Invalid(f"{subject}: {display_path(path)} is {fd}", hint=hint, operation="read", file=path)
        try:
            if os.fstat(fd).st_size > limit:
                raise _too_large(subject, path, limit)
            data = b"".join(_chunks(fd, limit + 1))
        finally:
            os.close(fd)
    except (OSError, ValueError) as error:
        raise explain(error, "read", path) from error
    if len(data) > limit:
        raise _too_large(subject, path, limit)
    return data


def _read_stdin(limit: int, subject: str) -> bytes:
    source = getattr(sys.stdin, "buffer", None)
    if source is None:
        raise Invalid(f"{subject}: there is no standard input", hint="Name a file.", operation="read", file="-")
    parts: list[bytes] = []
    left = limit + 1
    try:
        while left and (part := source.read(min(left, _CHUNK))):
            parts.append(part)
            left -= len(part)
    except (OSError, ValueError) as error:
        raise Failed(
            f"{subject}: standard input cannot be read",
            hint="Check the pipe, or name a file.",
            operation="read",
            file="-",
        ) from error
    if not left:
        raise _too_large(subject, "-", limit)
    return b"".join(parts)


def _too_large(subject: str, path: str, limit: int) -> HoldfastError:
    size = f"{limit >> 20} MiB" if limit >= 1 << 20 and not limit % (1 << 20) else f"{limit:,} bytes"
    source = "standard input" if path == "-" else display_path(path)
    return Invalid(
        f"{subject}: {source} is larger than {size}",
        hint=f"The limit is {size}: give less, or split it.",
        operation="read",
        file=path,
    )


def hash_file(path: str, limit: int | None = None) -> str | None:
    """SHA-256 of a regular file in hex; None if there is none, or it is larger than `limit` bytes.

    A file that exists but cannot be read is an error.
    """
    import hashlib

    try:
        fd = open_regular(path)
        if isinstance(fd, str):
            return None
        try:
            digest = hashlib.sha256()
            size = 0
            for part in _chunks(fd, None if limit is None else limit + 1):
                digest.update(part)
                size += len(part)
        finally:
            os.close(fd)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise explain(error, "read", path) from error
    return None if limit is not None and size > limit else digest.hexdigest()


def open_regular(path: str) -> int | str:
    """A descriptor, or the kind of file that is not regular. Links are followed."""
    kind = file_kind(os.stat(path).st_mode)
    if kind is not None:
        return kind
    fd = retry_interrupted(os.open, path, _FLAGS)
    kind = file_kind(os.fstat(fd).st_mode)
    if kind is not None:
        os.close(fd)
        return kind
    return fd


def _chunks(fd: int, limit: int | None) -> Iterator[bytes]:
    left = limit
    while left is None or left > 0:
        size = _CHUNK if left is None else min(left, _CHUNK)
        part = retry_interrupted(os.read, fd, size)
        if not part:
            return
        if left is not None:
            left -= len(part)
        yield part
