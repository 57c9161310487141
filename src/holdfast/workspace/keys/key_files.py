"""Where a device's keys are kept: HOME/device.json, private; the secret half in the OS keyring for who wants that.

The public half is in the file in clear, so that showing it costs nothing. Keys are made once. A file that is
damaged, planted or open to others is reported, and never replaced by new keys: they would be another device.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from holdfast.core.decode import decodable
from holdfast.core.errors import Damaged, Failed, HoldfastError, Invalid, Refused, missing_extra
from holdfast.core.text import check_text
from holdfast.machine.os_errors import WINDOWS, display_path, explain
from holdfast.machine.private_paths import make_private_dir, open_private
from holdfast.workspace.keys.device_keys import DeviceKeys, PublicKeys

if TYPE_CHECKING:
    from types import ModuleType

KeyPlace = Literal["file", "keyring"]

FILE: Final = "device.json"
SERVICE: Final = "holdfast"
MAX_DEVICE_NAME_LENGTH: Final = 100
_LOCK: Final = "device.lock"
_MAX_SIZE: Final = 64 << 10
_RESTORE: Final = (
    "Restore it from a backup of the home. Without one, move the home's device.json away and ask to join again with "
    "new keys: holdfast remote remove NAME, then holdfast remote add NAME URL."
)


class Device(msgspec.Struct, frozen=True, omit_defaults=True):
    """The file. Bytes are base64; with the keyring, `seed` and `identity` are not in it."""

    holdfast: int
    name: str
    signing: bytes
    age: str
    place: KeyPlace
    made_at: int | None = None
    seed: bytes | None = None
    identity: str | None = None

    def __repr__(self) -> str:
        return f"<Device {self.name!a}>"

    @property
    def public(self) -> PublicKeys:
        return PublicKeys(self.signing, self.age)


class _Secrets(msgspec.Struct, frozen=True):
    """What the keyring keeps, as JSON under the fingerprint."""

    seed: bytes
    identity: str

    def __repr__(self) -> str:
        return "<_Secrets>"


def device(home: str) -> Device | None:
    """The file as it is, public half checked; None where this installation has no keys yet."""
    return _read(os.path.join(home, FILE), secrets=False)


def public(home: str) -> PublicKeys | None:
    stored = device(home)
    return None if stored is None else stored.public


def load(home: str) -> DeviceKeys | None:
    """The whole keys, checked against the public half; None where this installation has none yet."""
    path = os.path.join(home, FILE)
    stored = _read(path, secrets=True)
    if stored is None:
        return None
    if stored.place == "keyring":
        secrets = _from_keyring(stored.public.id)
        seed, identity = secrets.seed, secrets.identity
    elif stored.seed is None or stored.identity is None:
        raise _damaged(path, "the secret keys are missing")
    else:
        seed, identity = stored.seed, stored.identity
    try:
        keys = DeviceKeys(seed, identity)
    except Invalid:
        raise _damaged(path, "the secret keys are incomplete") from None
    if keys.public != stored.public:
        raise _damaged(path, "the secret keys do not match the public ones")
    return keys


def create(home: str, *, name: str, place: KeyPlace = "file", made_at: int | None = None) -> DeviceKeys:
    """This device's keys, made now unless they are there: of two processes one makes them, both return the same."""
    from holdfast.machine.locks import locked

    name = _name(name)
    make_private_dir(home)
    path = os.path.join(home, FILE)
    with locked(os.path.join(home, _LOCK), purpose="making this device's keys"):
        existing = load(home)
        if existing is not None:
            return existing
        keys = DeviceKeys.generate()
        public = keys.public
        device = Device(1, name, public.signing, public.age, place, made_at)
        if place == "keyring":
            # First the secret, then the file that says where it is: if interrupted, an unused entry stays.
            _to_keyring(public.id, _Secrets(keys.seed, keys.identity))
        else:
            device = msgspec.structs.replace(device, seed=keys.seed, identity=keys.identity)
        _write(path, device)
    return keys


def set_name(home: str, name: str) -> None:
    """What people call this device. Its keys stay as they are."""
    from holdfast.machine.locks import locked

    name = _name(name)
    path = os.path.join(home, FILE)
    with locked(os.path.join(home, _LOCK), purpose="naming this device"):
        data = _bytes(path, secrets=True)
        if data is None:
            raise Refused("this device has no keys yet", hint="They are made with the first: holdfast remote add.")
        stored = _decoded(path, data)
        before = msgspec.json.decode(data, type=decodable(dict[str, object]))
        _write(path, msgspec.structs.replace(stored, name=name), before)


def _name(name: str) -> str:
    name = check_text(name.strip(), "the device's name", max_length=MAX_DEVICE_NAME_LENGTH)
    if not name.isprintable():
        raise Invalid("the device's name holds characters that cannot be shown", hint="Use letters, digits, dashes.")
    return name


# --- the file ----------------------------------------------------------------------------------------


def _write(path: str, device: Device, before: dict[str, object] | None = None) -> None:
    """`before`: the present content. Unknown fields are kept: a newer version may have written them."""
    from holdfast.machine.files import write_atomic

    data = msgspec.json.encode({**(before or {}), **msgspec.to_builtins(device)})
    write_atomic(path, msgspec.json.format(data, indent=2) + b"\n")


def _read(path: str, *, secrets: bool) -> Device | None:
    data = _bytes(path, secrets=secrets)
    return None if data is None else _decoded(path, data)


def _bytes(path: str, *, secrets: bool) -> bytes | None:
    if not os.path.lexists(path):
        return None
    fd = open_private(path, os.O_RDONLY)
    try:
        mode = stat.S_IMODE(os.fstat(fd).st_mode)
        # A reader of the secrets could pose as this device: they are not used before the person has checked.
        if secrets and not WINDOWS and mode & 0o077:
            raise Refused(
                f"{display_path(path)} holds this device's keys and is open to others (mode {mode:04o})",
                hint=f"If nobody else can have read it: chmod 600 {display_path(path)}",
                operation="read",
                file=path,
            )
        return os.read(fd, _MAX_SIZE)
    except OSError as error:
        raise explain(error, "read", path) from error
    finally:
        os.close(fd)


def _decoded(path: str, data: bytes) -> Device:
    try:
        device = msgspec.json.decode(data, type=decodable(Device))
        if device.holdfast == 1:
            PublicKeys(device.signing, device.age)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        if _version(data) > 1:
            raise _newer(path) from None
        raise _damaged(path, "it is not what Holdfast wrote") from None
    if device.holdfast != 1:
        raise _newer(path)
    return device


class _Version(msgspec.Struct):
    holdfast: int


def _version(data: bytes) -> int:
    try:
        return msgspec.json.decode(data, type=decodable(_Version)).holdfast
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return 0


def _newer(path: str) -> HoldfastError:
    return Refused(
        f"{display_path(path)} was written by a newer Holdfast", hint="Update Holdfast.", operation="read", file=path
    )


def _damaged(path: str, reason: str) -> HoldfastError:
    return Damaged(
        f"this device's keys in {display_path(path)} are damaged: {reason}",
        hint=_RESTORE,
        operation="read",
        file=path,
    )


# --- the keyring -------------------------------------------------------------------------------------


def _keyring() -> ModuleType:
    try:
        import keyring
    except ImportError:
        raise missing_extra(
            "the OS keyring",
            "keyring",
            otherwise="keep the keys in a private file.",
            operation="use the keyring",
        ) from None
    return keyring


def _to_keyring(account: str, secrets: _Secrets) -> None:
    keyring = _keyring()
    text = msgspec.json.encode(secrets).decode("ascii")
    try:
        keyring.set_password(SERVICE, account, text)
        stored = keyring.get_password(SERVICE, account)
    except Exception as error:  # noqa: BLE001 - each backend has its own errors
        raise Failed(
            f"the OS keyring rejected the keys: {type(error).__name__}",
            hint="Unlock it and try again, or keep the keys in a private file.",
            operation="use the keyring",
        ) from None
    if stored != text:
        raise Failed(
            "the OS keyring did not store the keys",
            hint="Keep them in a private file.",
            operation="use the keyring",
        )


def _from_keyring(account: str) -> _Secrets:
    keyring = _keyring()
    try:
        stored = keyring.get_password(SERVICE, account)
    except Exception as error:  # noqa: BLE001 - each backend has its own errors
        raise Failed(
            f"this device's keys are in the OS keyring, which cannot be read: {type(error).__name__}",
            hint="Unlock the keyring and try again; new devices can keep their keys in a private file.",
            operation="use the keyring",
        ) from None
    if stored is None:
        raise Damaged(
            "this device's keys are no longer in the OS keyring",
            hint=f"They are under {SERVICE!r}, account {account}. {_RESTORE}",
            operation="use the keyring",
        )
    try:
        return msgspec.json.decode(stored, type=decodable(_Secrets))
    except (msgspec.MsgspecError, ValueError):
        raise Damaged(
            "this device's keys in the OS keyring are damaged", hint=_RESTORE, operation="use the keyring"
        ) from None
