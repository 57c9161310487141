"""A plain folder as a remote: a disk, a USB stick, a network share, a folder that another program synchronises.

The object `NAME` is the file `NAME` in the folder, created whole or not at all; a file being written has a temporary
name that no object can have. A missing folder is never created in passing: most likely its disk is not plugged in.

Claude Desktop's data directory is one such folder.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from holdfast.core.errors import HoldfastError, Refused, Unreachable
from holdfast.machine.files import PREFIX, SUFFIX, sync_file, write_all
from holdfast.machine.os_errors import display_path, explain
from holdfast.machine.private_paths import make_private_dir, refuse_foreign_links
from holdfast.sync.remotes.base import Missing, ObjectInfo, ObjectTooLarge, checked, is_name
from holdfast.sync.remotes.folder_directory import CLAIM, Directory, name_once

_DAY: Final = 86_400.0
_OUR_NAMES: Final = frozenset({"vault", "m", "k", "h", "p"})
_SYSTEM_NAMES: Final = frozenset({"lost+found", "System Volume Information", "$RECYCLE.BIN", "desktop.ini"})
_MAX_SWEPT: Final = 10_000  # names checked for leftovers of killed writers
# Errors when a disk was unplugged or a server went away.
_UNREACHABLE: Final = frozenset(
    getattr(errno, name)
    for name in (
        "EIO", "ENXIO", "ENODEV", "ESTALE", "ENOTCONN", "ESHUTDOWN", "ECONNRESET", "ECONNABORTED", "ECONNREFUSED",
        "EHOSTDOWN", "EHOSTUNREACH", "ENETDOWN", "ENETUNREACH", "ENETRESET", "ETIMEDOUT", "EREMOTEIO", "ENOMEDIUM",
    )
    if hasattr(errno, name)
)  # fmt: skip


class FolderRemote:
    """A folder, opened for each call, so that an open remote does not keep a disk from being unmounted."""

    def __init__(
        self, path: str, *, url: str | None = None, create: bool = False, max_names: int = 1_000_000
    ) -> None:
        self.path = os.path.abspath(os.path.expanduser(path))
        self.url = url or f"folder:{self.path}"
        self._max_names = max_names  # names in one listing: a folder can be made to look endless
        if create:
            self._make()

    def _make(self) -> None:
        """Create the folder, but nothing above it, which is missing when its disk is not plugged in."""
        parent = os.path.dirname(self.path)
        if not os.path.isdir(parent):
            raise Unreachable(
                f"cannot create the folder {display_path(self.path)}: there is no {display_path(parent)}",
                hint="Plug in or mount its disk; or, if the path is right, create the parent folder first.",
                operation="make",
                file=self.path,
            )
        if not os.path.isdir(self.path):
            make_private_dir(self.path)
        elif self._has_other_files():
            raise Refused(
                f"{display_path(self.path)} holds other files",
                hint=f"Use a separate folder: folder:{display_path(os.path.join(self.path, 'holdfast'))}",
                operation="use",
                file=self.path,
            )

    def _has_other_files(self) -> bool:
        """Whether it holds files, but no vault. Files that systems put everywhere do not count."""
        with self._open("list") as root:
            names = {
                entry.name for entry in islice(root.entries(), self._max_names) if not entry.name.startswith(".")
            }
        return bool(names - _SYSTEM_NAMES) and not names & _OUR_NAMES

    def list(self, prefix: str) -> Sequence[ObjectInfo]:
        parent, _, _ = prefix.rpartition("/")
        if parent and not is_name(parent):
            return ()  # no object can have such a name, and it must not lead anywhere else
        listing = _Listing(prefix, self._max_names, self.path)
        with self._open("list") as root, _open_path(root, parent) as folder:
            if folder is not None:
                listing.collect(folder, f"{parent}/" if parent else "")
        return [ObjectInfo(name, listing.sizes[name]) for name in sorted(listing.sizes)]

    def get(self, name: str, limit: int) -> bytes:
        folder, _, last = checked(name).rpartition("/")
        data = None
        with self._open("read") as root, _open_path(root, folder) as directory:
            if directory is not None:
                # One unreadable object must not block all others.
                with contextlib.suppress(PermissionError):
                    data = directory.read(last, limit + 1)
        if data is None:
            raise Missing(
                f"there is no {name} in {display_path(self.path)} that this user may read",
                operation="read",
                file=os.path.join(self.path, name),
            )
        if len(data) > limit:
            raise ObjectTooLarge(
                f"{name} in {display_path(self.path)} is larger than {limit:,} bytes", operation="read"
            )
        return data

    def put(self, objects: Sequence[tuple[str, bytes]], *, remove: Sequence[str] = ()) -> frozenset[str]:
        for name in (*(name for name, _ in objects), *remove):
            checked(name)
        existing: set[str] = set()
        with self._open("write to") as root:
            like = root.stat()
            swept = False
            for name, data in objects:
                folder, _, last = name.rpartition("/")
                with _make_path(root, folder, like) as directory:
                    taken = directory.look(last) is not None
                    if not taken:
                        taken = not _create(root, directory, last, data, like, sweep=not swept)
                        swept = True
                    directory.sync()  # also what another process created and may not have synced
                if taken:
                    existing.add(name)
            _remove(root, remove)
        return frozenset(existing)

    def close(self) -> None:
        """Nothing is kept open between calls."""

    @contextlib.contextmanager
    def _open(self, operation: str) -> Iterator[Directory]:
        try:
            refuse_foreign_links(self.path)
            with Directory.open(self.path) as root:
                yield root
        except (OSError, ValueError) as error:
            raise self._explain(error, operation) from error

    def _explain(self, error: OSError | ValueError, operation: str) -> HoldfastError:
        where = display_path(self.path)
        if isinstance(error, OSError):
            if os.path.lexists(self.path) and not os.path.isdir(self.path):
                return Refused(f"{where} is not a folder", hint="Give a folder.", operation=operation, file=self.path)
            if error.errno in _UNREACHABLE or error.errno == errno.ENOENT:
                # It may vanish while in use: unplugged, or deleted by somebody.
                reason = (
                    (error.strerror or "it went away").lower() if error.errno in _UNREACHABLE else "it is not there"
                )
                return Unreachable(
                    f"cannot {operation} the folder {where}: {reason}",
                    hint="Plug in or mount its disk; if the folder is lost, create it or add another remote.",
                    operation=operation,
                    file=self.path,
                )
        return explain(error, operation, self.path)


class _Listing:
    """A listing in progress: objects and their sizes."""

    def __init__(self, prefix: str, max_names: int, folder: str) -> None:
        self.sizes: dict[str, int] = {}
        self._prefix = prefix
        self._left = max_names
        self._folder = folder

    def collect(self, folder: Directory, prefix: str) -> None:
        subfolders: list[str] = []
        for entry in folder.entries():
            self._left -= 1
            if self._left < 0:
                raise Refused(
                    f"{display_path(self._folder)} holds more files than any vault needs",
                    hint="Keep other files out of the folder, or use another one.",
                    operation="list",
                    file=self._folder,
                )
            name = prefix + entry.name
            if not is_name(name):
                continue
            # Skipped before anything is opened: neither has the prefix nor leads to it.
            if not name.startswith(self._prefix) and not self._prefix.startswith(f"{name}/"):
                continue
            try:
                info = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue  # removed meanwhile
            if stat.S_ISREG(info.st_mode):
                self.sizes[name] = info.st_size
            elif stat.S_ISDIR(info.st_mode):
                subfolders.append(entry.name)
        for name in subfolders:
            # An unreadable subfolder must not block the others.
            with contextlib.suppress(PermissionError):
                subfolder = folder.step(name)
                if subfolder is not None:
                    with subfolder:
                        self.collect(subfolder, f"{prefix}{name}/")


# ── steps ────────────────────────────────────────────────────────────────────────────────────────────────


@contextlib.contextmanager
def _open_path(root: Directory, path: str) -> Iterator[Directory | None]:
    """The directory at this path, step by step; None when there is none."""
    directory = root
    with contextlib.ExitStack() as opened:
        for part in path.split("/") if path else ():
            below = directory.step(part)
            if below is None:
                yield None
                return
            directory = opened.enter_context(below)
        yield directory


@contextlib.contextmanager
def _make_path(root: Directory, path: str, like: os.stat_result) -> Iterator[Directory]:
    directory = root
    with contextlib.ExitStack() as opened:
        for part in path.split("/") if path else ():
            directory = opened.enter_context(directory.make(part, like))
        yield directory


def _create(
    root: Directory, directory: Directory, name: str, data: bytes, like: os.stat_result, *, sweep: bool
) -> bool:
    """Write to a temporary name, sync, then give the file its name; False when that was taken."""
    fd, temporary = root.temporary(like)
    try:
        try:
            write_all(fd, data)
            sync_file(fd)
        finally:
            os.close(fd)
        if sweep:
            _sweep(root, temporary)
        return name_once(root, temporary, directory, name)
    finally:
        # Also on KeyboardInterrupt. What cannot be removed now is swept a day later.
        with contextlib.suppress(OSError):
            root.remove(temporary)


def _sweep(root: Directory, ours: str) -> None:
    """Remove leftovers of killed writers that are older than a day, by the file system's clock."""
    now = root.look(ours)
    if now is None:
        return
    with contextlib.suppress(OSError):
        for entry in islice(root.entries(), _MAX_SWEPT):
            if not (entry.name.startswith(PREFIX) and entry.name.endswith((SUFFIX, CLAIM))):
                continue
            with contextlib.suppress(OSError):
                info = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(info.st_mode) and now.st_mtime - info.st_mtime > _DAY:
                    root.remove(entry.name)


def _remove(root: Directory, names: Sequence[str]) -> None:
    for name in names:
        folder, _, last = name.rpartition("/")
        with _open_path(root, folder) as directory:
            if directory is not None:
                directory.remove(last)
                directory.sync()


URL: Final = "claude-desktop:"
CAVEAT: Final = (
    "Claude Desktop does not copy this folder to other devices: sessions reach another one only if something else"
    " copies it there (a synchronised profile, a sync program, a backup)."
)


def data_directory(environ: Mapping[str, str], system: str) -> str:
    """Where Claude Desktop keeps its data, by environment and `sys.platform`."""
    if system == "win32":
        roaming = environ.get("APPDATA", "").strip()
        return os.path.join(roaming or os.path.join(_home(environ, "USERPROFILE"), "AppData", "Roaming"), "Claude")
    if system == "darwin":
        return os.path.join(_home(environ, "HOME"), "Library", "Application Support", "Claude")
    config = environ.get("XDG_CONFIG_HOME", "").strip()
    # The XDG rules say that a path which is not absolute counts as unset.
    return os.path.join(
        config if os.path.isabs(config) else os.path.join(_home(environ, "HOME"), ".config"), "Claude"
    )


def _home(environ: Mapping[str, str], variable: str) -> str:
    home = environ.get(variable, "").strip()
    if not home:
        raise Refused(
            "Claude Desktop's data directory is unknown: this account has no home directory",
            hint=f"Set {variable}, or use a folder: remote.",
        )
    return os.path.abspath(home)


def open_claude_desktop(environ: Mapping[str, str], *, system: str, create: bool = False) -> FolderRemote:
    """The folder in Claude Desktop's data directory; `Refused` where there is no Claude Desktop."""
    base = data_directory(environ, system)
    if not os.path.isdir(base):
        raise Refused(
            f"Claude Desktop is not set up here: there is no {display_path(base)}",
            hint="Install and start Claude Desktop once, or use another remote (folder:, s3:, git:).",
            operation="open",
            file=base,
        )
    return FolderRemote(os.path.join(base, "holdfast"), url=URL, create=create)
