"""The contract's YAML files as data: read with care, and written over what people made of them.

Comments, the order of keys and what other programs added survive a write. A file with conflict markers is not written
until a person has merged it; one that cannot be understood can be set aside, never lost.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from holdfast.core.canonical import Json
from holdfast.core.errors import Conflict, Damaged, HoldfastError, Invalid, NotFound
from holdfast.core.times import file_stamp
from holdfast.formats.mirror import git_ignore
from holdfast.formats.text import read
from holdfast.machine.files import free_name, sync_directory, write_atomic
from holdfast.machine.os_errors import display_path, explain, retry_interrupted
from holdfast.machine.private_paths import open_private

MAX_SIZE: Final = read.LIMIT
ASIDE: Final = ".rejected-"
# A program that writes all the time is not waited for.
_MAX_TRIES: Final = 5
_WAITS: Final = (0.01, 0.02, 0.05, 0.1)

Mapping = dict[str, Json]


class YamlFile(NamedTuple):
    """A file's content, and its text, which the next version is written over."""

    value: Mapping
    text: str


def load(path: str) -> YamlFile | None:
    """The mapping in a YAML file; None if there is no file.

    Raises `Conflict` for an unfinished merge, `Damaged` if it is not a YAML mapping.
    """
    raw = read_raw(path)
    if raw is None:
        return None
    return parse(raw, path)


def read_raw(path: str) -> bytes | None:
    """The bytes of one of our files: never through a link, never more than such a file can have."""
    try:
        fd = open_private(path, os.O_RDONLY)
    except NotFound:
        return None
    try:
        parts: list[bytes] = []
        size = 0
        while size <= MAX_SIZE and (part := retry_interrupted(os.read, fd, 1 << 18)):
            parts.append(part)
            size += len(part)
    except OSError as error:
        raise explain(error, "read", path) from error
    finally:
        os.close(fd)
    if size > MAX_SIZE:
        raise _damaged(path, f"{display_path(path)} is larger than {MAX_SIZE >> 20} MiB")
    return b"".join(parts)


def has_conflict_markers(raw: bytes) -> bool:
    """Whether it contains git's conflict markers."""
    return git_ignore.unmerged_reason(raw) is not None


def unfinished_merge_error(path: str) -> Conflict:
    return Conflict(
        f"{display_path(path)} contains the conflict markers of an unfinished merge",
        hint="Decide what stays in the file, remove the markers (<<<<<<<, =======, >>>>>>>), and try again.",
        operation="read",
        file=path,
    )


def parse(raw: bytes, path: str) -> YamlFile:
    """Parse the bytes of a file. Raises like `load`."""
    if has_conflict_markers(raw):
        raise unfinished_merge_error(path)
    try:
        value = read.read_yaml(raw, path).value
    except Invalid as error:
        raise _damaged(path, error.message) from error
    if not isinstance(value, dict):
        raise _damaged(path, f"{display_path(path)} is not a mapping of names to values")
    return YamlFile(value, raw.decode())


def rewrite(
    path: str,
    change: Callable[[bytes | None], bytes | None],
    displaced: Callable[[str], None] | None = None,
    *,
    report_current: bool = False,
) -> None:
    """Write what `change` makes of the file; None if it is up to date.

    A program without locks may write between our read and our write. Then the change is applied again, to what it
    wrote, and `displaced` gets the path where that can be found for a moment. With `report_current` it also gets the
    file as it is read, for callers that looked at it a while ago.
    """
    old = read_raw(path)
    if report_current and old is not None and displaced is not None:
        displaced(path)
    expected = old
    for _ in range(_MAX_TRIES):
        data = change(old)
        if data is None:
            return
        late: list[bytes] = []

        def look(displaced_path: str, expected: bytes | None = expected, late: list[bytes] = late) -> None:
            theirs = _read_finished(displaced_path)
            if theirs is None or theirs == expected:
                return
            if displaced is not None:
                displaced(displaced_path)
            try:
                parse(theirs, path)
                late.append(theirs)
            except HoldfastError:
                # A writer interrupted half-way loses nothing: its text is kept next to the file.
                edited = os.stat(displaced_path).st_mtime_ns // 1_000_000
                write_atomic(free_name(f"{path}{ASIDE}{file_stamp(edited)}"), theirs)

        write_atomic(path, data, displaced=look)
        if not late:
            return
        old, expected = late[0], data


def _read_finished(path: str) -> bytes | None:
    """A file's bytes. A program that has just emptied it gets a moment to fill it."""
    raw = read_raw(path)
    for wait in _WAITS:
        if raw is None or raw.strip():
            break
        time.sleep(wait)
        raw = read_raw(path)
    return raw


def render(value: Mapping, over: YamlFile | None = None) -> bytes:
    from holdfast.formats.text import yaml

    return yaml.render_yaml(value, over=None if over is None else over.text).encode()


def render_missing(path: str, value: Mapping) -> bytes:
    """The content for a missing file, with the comments and order of the one set aside there last, if any."""
    from holdfast.formats.text import yaml

    folder, name = os.path.split(path)
    try:
        aside = max((item for item in os.listdir(folder) if item.startswith(f"{name}{ASIDE}")), default=None)
        raw = None if aside is None else read_raw(os.path.join(folder, aside))
    except (OSError, HoldfastError):
        raw = None
    over = None if raw is None or has_conflict_markers(raw) else raw.decode("utf-8", "replace")
    return yaml.render_yaml(value, over=over).encode("utf-8", "replace")


def set_aside(path: str, now: int) -> str:
    """Rename an unusable file to `NAME.rejected-20261115T093000Z`, where it is kept."""
    aside = free_name(f"{path}{ASIDE}{file_stamp(now)}")
    try:
        os.rename(path, aside)
        sync_directory(os.path.dirname(path))
    except OSError as error:
        raise explain(error, "set aside", path) from error
    return aside


def _damaged(path: str, why: str) -> HoldfastError:
    return Damaged(
        why, hint="holdfast doctor --repair sets it aside and restores it from history.", operation="read", file=path
    )
