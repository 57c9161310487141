"""The home: the one directory with everything Holdfast keeps on a device, and whose it is.

A writer id is bound to this machine, this home and this store file: a restored backup, a cloned machine or a copied
home does not match the binding and continues as a new writer, so that no two installations number their events in one
stream. So does a home whose keys have changed or are missing: no key would vouch for what it records. A server, which
many homes share, knows each by the id of its installation.
"""

from __future__ import annotations

import contextlib
import errno
import os

import msgspec

from holdfast.core.canonical import digest
from holdfast.core.decode import decodable
from holdfast.core.errors import HoldfastError, Refused
from holdfast.machine import files, host
from holdfast.machine.wall import Wall
from holdfast.store.address import Address
from holdfast.workspace import spool


class Binding(msgspec.Struct, frozen=True):
    writer: str
    machine: str
    home: int
    store: int
    # Fingerprint of the key file when its keys last vouched for the writer; empty without keys.
    keys: str = ""


class Installation(msgspec.Struct, frozen=True):
    """One home on one machine. A copy is another installation."""

    id: str
    machine: str
    home: int


def default_home() -> str:
    """The platform's directory for a program's data."""
    from platformdirs import user_data_dir

    return user_data_dir("holdfast", appauthor=False)


class Home:
    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self._writer: str | None = None
        self._installation: str | None = None

    @property
    def store(self) -> str:
        return os.path.join(self.path, "store.db")

    @property
    def config(self) -> str:
        return os.path.join(self.path, "config.toml")

    @property
    def mirrors(self) -> str:
        return os.path.join(self.path, "mirrors")

    @property
    def device(self) -> str:
        """The keys and the name of this device; it exists once a remote was added."""
        return os.path.join(self.path, "device.json")

    @property
    def remotes(self) -> str:
        return os.path.join(self.path, "remotes.json")

    @property
    def people(self) -> str:
        return os.path.join(self.path, "people.json")

    def binding(self, key: str) -> str:
        """The file with the writer of a store; a store outside the home has its own."""
        if key == self.store:
            return os.path.join(self.path, "writer.json")
        return os.path.join(self.path, f"writer-{digest(key.encode(errors='surrogateescape'))[:16]}.json")

    def spool_tag(self, key: str) -> str:
        """The tag of a store in the names of waiting payloads."""
        if key == self.store:
            return spool.HOME
        return f"s{digest(key.encode(errors='surrogateescape'))[:32]}"

    def prepare(self) -> None:
        """Create the private directory. Refuse network file systems and synced folders."""
        if not os.path.isdir(self.path):
            from holdfast.machine import disk

            wrong = disk.unsuitable_reason(self.path)
            if wrong is not None:
                raise Refused(
                    wrong,
                    hint="Set HOLDFAST_HOME to a directory on a local disk; for a team, HOLDFAST_STORE to a server.",
                    file=self.path,
                )
        files.make_private_dir(self.path)

    def refuse_impossible(self) -> None:
        """Raise if the home cannot be read or created: to a long-running reader it would look empty."""
        try:
            os.listdir(self.path)
        except FileNotFoundError:
            parent = os.path.dirname(self.path)
            while not os.path.lexists(parent):
                parent = os.path.dirname(parent)
            if not os.access(parent, os.W_OK | os.X_OK):
                raise files.explain(PermissionError(errno.EACCES, ""), "make", self.path) from None
        except OSError as error:
            raise files.explain(error, "read", self.path) from None

    def installation(self, *, make: bool) -> str | None:
        """The id by which a server knows this home; with `make`, created if missing."""
        if self._installation is not None:
            return self._installation
        path = os.path.join(self.path, "installation.json")
        id_ = self._read_installation(path)
        if id_ is None and make:
            from holdfast.machine.locks import locked

            self.prepare()
            # Under a lock: two processes would each keep an id of their own.
            with locked(os.path.join(self.path, "installation.lock"), purpose="the installation"):
                id_ = self._read_installation(path) or self._make_installation(path)
        self._installation = id_
        return id_

    def _read_installation(self, path: str) -> str | None:
        """The id that was created here; None if the file was copied from elsewhere or cannot be read."""
        if not os.path.lexists(path):
            return None
        try:
            written = msgspec.json.decode(
                files.read_limited(path, 4096, subject="the installation"), type=decodable(Installation)
            )
        except msgspec.MsgspecError:
            return None
        is_ours = (written.machine, written.home) == (host.machine_id(), host.inode(self.path))
        return written.id if is_ours and written.id.isalnum() and written.id.isascii() else None

    def _make_installation(self, path: str) -> str:
        installation = Installation(os.urandom(10).hex(), host.machine_id(), host.inode(self.path))
        files.write_atomic(path, msgspec.json.encode(installation) + b"\n")
        return installation.id

    def directories(self) -> list[str]:
        """The home and its directories, in which processes write temporary files."""
        with contextlib.suppress(OSError), os.scandir(self.path) as entries:
            inside = [
                entry.path
                for entry in entries
                if entry.name != spool.DIRECTORY and entry.is_dir(follow_symlinks=False)
            ]
            return [self.path, *inside]
        return []

    def remove_leftovers(self, store: Address) -> None:
        """Remove what killed processes left here and next to the store."""
        now = Wall().now()
        for place in {*self.directories(), *([] if store.path is None else [os.path.dirname(store.path)])}:
            files.remove_abandoned(place, now)

    def writer(self, store: Address) -> str:
        """This installation's writer id; a new one if anything was copied or restored."""
        if self._writer is not None:
            return self._writer
        self.prepare()
        self.remove_leftovers(store)  # once in each process that writes
        current = self._current_binding(store)
        path = self.binding(store.key)
        binding = _read_binding(path)
        if binding is not None and self._is_still_valid(path, binding, current):
            self._writer = binding.writer
        else:
            self._writer = self._bind_new_writer(path, current)
        return self._writer

    def known_writer(self, store: Address) -> str | None:
        """The last writer id of this home, without creating one or checking that it is still valid."""
        if self._writer is None:
            binding = _read_binding(self.binding(store.key))
            return None if binding is None else binding.writer
        return self._writer

    def _current_binding(self, store: Address) -> Binding:
        return Binding(
            writer="",
            machine=host.machine_id(),
            home=host.inode(self.path),
            # Nothing local identifies the database of a server.
            store=0 if store.path is None or not os.path.exists(store.path) else host.inode(store.path),
            keys=self._keys(),
        )

    def _keys(self) -> str:
        """A fingerprint of the key file, without reading it."""
        try:
            status = os.lstat(self.device)
        except OSError:
            return ""
        return f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}"

    def _is_still_valid(self, path: str, binding: Binding, current: Binding) -> bool:
        """Whether the bound writer is still this installation's. Keys are read only if their file changed."""
        updated = msgspec.structs.replace(current, writer=binding.writer)
        if binding == updated:
            return True
        if binding != msgspec.structs.replace(updated, keys=binding.keys):
            return False
        from holdfast.workspace.keys import device_keys, key_files

        try:
            public = key_files.public(self.path)
        except HoldfastError:
            return True  # damaged keys are reported where they are needed, and do not prevent recording
        is_ours = (
            not device_keys.is_certified(binding.writer)
            if public is None
            else device_keys.certifies(binding.writer, public.signing)
        )
        if is_ours:
            files.write_atomic(path, msgspec.json.encode(updated) + b"\n")
        return is_ours

    def renew(self, store: Address) -> str:
        """Create a new writer: the present one was used elsewhere, or the keys do not vouch for it yet."""
        self._writer = self._bind_new_writer(self.binding(store.key), self._current_binding(store))
        return self._writer

    def _bind_new_writer(self, path: str, current: Binding) -> str:
        binding = msgspec.structs.replace(current, writer=self._new_writer())
        files.write_atomic(path, msgspec.json.encode(binding) + b"\n")
        return binding.writer

    def _new_writer(self) -> str:
        """An id that only this device's keys can vouch for, once it has any."""
        if not os.path.lexists(self.device):
            return os.urandom(10).hex()
        from holdfast.workspace.keys import device_keys, key_files

        public = key_files.public(self.path)
        return os.urandom(10).hex() if public is None else device_keys.certified_writer(public.signing)


def _read_binding(path: str) -> Binding | None:
    if not os.path.lexists(path):
        return None
    try:
        return msgspec.json.decode(
            files.read_limited(path, 4096, subject="the writer's binding"), type=decodable(Binding)
        )
    except msgspec.MsgspecError:
        # A new writer costs nothing; a doubtful id could fork a stream.
        return None
