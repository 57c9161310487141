"""The home: the one directory with everything Holdfast keeps on a device, and whose it is.

A writer is one life of one installation. Its id is bound to this machine, this home and this store file: a restored
backup, a cloned machine or a copied home does not fit the binding and goes on as a new writer, so that no two lives
ever number their events in one stream. So does a home whose keys are others than before, or gone: nobody could vouch
for what it went on to record.
"""

from __future__ import annotations

import errno
import os

import msgspec

from holdfast.core.canonical import digest
from holdfast.core.errors import HoldfastError, Invalid, Refused
from holdfast.machine import files, host


class Binding(msgspec.Struct, frozen=True):
    writer: str
    machine: str
    home: int
    store: int
    # The file of this device's keys, as it was when they were last seen to vouch for the writer; empty without keys.
    keys: str = ""


def default_home() -> str:
    """The platform's place for a program's data."""
    from platformdirs import user_data_dir

    return user_data_dir("holdfast", appauthor=False)


class Home:
    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self._writer: str | None = None

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
        """The keys of this device, and what it is called: there once it has met a remote."""
        return os.path.join(self.path, "device.json")

    @property
    def remotes(self) -> str:
        return os.path.join(self.path, "remotes.json")

    @property
    def people(self) -> str:
        return os.path.join(self.path, "people.json")

    def binding(self, store: str) -> str:
        """Where the writer of a store is remembered; a store outside the home has a life of its own."""
        if store == self.store:
            return os.path.join(self.path, "writer.json")
        return os.path.join(self.path, f"writer-{digest(store.encode(errors='surrogateescape'))[:16]}.json")

    def prepare(self) -> None:
        """Make the directory, private. Refuses places where files change behind a program's back."""
        if not os.path.isdir(self.path):
            from holdfast.machine import disk

            wrong = disk.unsuitable(self.path)
            if wrong is not None:
                raise Refused(
                    wrong,
                    hint="Set HOLDFAST_HOME to a directory on a local disk; for a team, HOLDFAST_STORE to a server.",
                    file=self.path,
                )
        files.make_private_dir(self.path)

    def refuse_impossible(self) -> None:
        """For whoever looks for long: a home that cannot be read, or can never be made, looks like an empty one."""
        try:
            os.listdir(self.path)
        except FileNotFoundError:
            above = os.path.dirname(self.path)
            while not os.path.lexists(above):
                above = os.path.dirname(above)
            if not os.access(above, os.W_OK | os.X_OK):
                raise files.explain(PermissionError(errno.EACCES, ""), "make", self.path) from None
        except OSError as error:
            raise files.explain(error, "read", self.path) from None

    def writer(self, store: str) -> str:
        """This installation's writer id, as long as nothing was copied or restored; otherwise a new one."""
        if self._writer is not None:
            return self._writer
        self.prepare()
        here = self._here(store)
        path = self.binding(store)
        found = _read_binding(path)
        if found is not None and self._goes_on(path, found, here):
            self._writer = found.writer
        else:
            self._writer = self._begin(path, here)
        return self._writer

    def _here(self, store: str) -> Binding:
        return Binding(
            writer="",
            machine=host.machine_id(),
            home=host.inode(self.path),
            store=host.inode(store) if os.path.exists(store) else 0,
            keys=self._keys(),
        )

    def _keys(self) -> str:
        """Which file of keys there is, without reading it."""
        try:
            found = os.lstat(self.device)
        except OSError:
            return ""
        return f"{found.st_ino:x}-{found.st_mtime_ns:x}-{found.st_size:x}"

    def _goes_on(self, path: str, found: Binding, here: Binding) -> bool:
        """Whether the bound writer is still this installation's. Keys are looked at only if their file changed."""
        bound = msgspec.structs.replace(here, writer=found.writer)
        if found == bound:
            return True
        if found != msgspec.structs.replace(bound, keys=found.keys):
            return False
        from holdfast.teleport import key_files, keys

        try:
            public = key_files.public(self.path)
        except HoldfastError:
            return True  # damaged: that is said where keys are needed, and keeps nobody from recording
        fits = not keys.is_certified(found.writer) if public is None else keys.certifies(found.writer, public.signing)
        if fits:
            files.write_atomic(path, msgspec.json.encode(bound) + b"\n")
        return fits

    def renew(self, store: str) -> str:
        """Begin a new life: the present writer's number was used elsewhere, or is not yet vouched for by the keys."""
        self._writer = self._begin(self.binding(store), self._here(store))
        return self._writer

    def _begin(self, path: str, here: Binding) -> str:
        bound = msgspec.structs.replace(here, writer=self._new_writer())
        files.write_atomic(path, msgspec.json.encode(bound) + b"\n")
        return bound.writer

    def _new_writer(self) -> str:
        """An id that only this device's keys can vouch for, once it has any."""
        if not os.path.lexists(self.device):
            return os.urandom(10).hex()
        from holdfast.teleport import key_files, keys

        public = key_files.public(self.path)
        return os.urandom(10).hex() if public is None else keys.certified_writer(public.signing)


def _read_binding(path: str) -> Binding | None:
    if not os.path.lexists(path):
        return None
    try:
        return msgspec.json.decode(files.read_limited(path, 4096, what="the writer's binding"), type=Binding)
    except msgspec.MsgspecError:
        # A new writer costs nothing; using a doubtful id could fork a stream.
        return None


def store_path(url: str) -> str:
    """The file of a `sqlite:///path` URL."""
    if not url.startswith("sqlite:///"):
        scheme = url.split(":", 1)[0][:20]
        if scheme == "postgresql":
            raise Refused(
                "PostgreSQL stores are not part of this version", hint="Use sqlite:///path, or leave it out."
            )
        raise Invalid(f"{scheme!a} is no kind of store", hint="HOLDFAST_STORE is sqlite:///path.")
    path = url.removeprefix("sqlite://")
    if path.startswith("/") and os.name == "nt" and path[2:3] == ":":
        path = path[1:]
    if len(path) < 2 or "\0" in path:
        raise Invalid("the store's URL names no file", hint="For instance sqlite:////home/me/holdfast.db")
    return os.path.abspath("/" + path.lstrip("/") if os.name != "nt" else path)
