"""What the S3 client reports, in the terms of a remote.

The client gives one long text: method, address, status, the server's answer, its own insides. Only the status and the
server's short code are taken from it. The rest is never shown: servers put signatures and keys into their answers.
"""

from __future__ import annotations

import builtins
import contextlib
import re
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Self, TypeVar

from holdfast.core import extras
from holdfast.core.errors import Failed, HoldfastError, NotFound, Refused, Unreachable
from holdfast.sync.remotes.base import Missing, ObjectInfo, ObjectTooLarge, checked, is_name
from holdfast.sync.remotes.s3_address import (
    S3Address,
    S3Keys,
    goes_through_proxy,
    read_certificates,
    read_keys,
    read_place,
    refuse_endpoint_elsewhere,
)
from holdfast.sync.remotes.s3_listing import ListingFailed, keys_below, opener_for

if TYPE_CHECKING:
    from obstore.store import ClientConfig, S3Credential, S3CredentialProvider, S3Store

# Requests that a server sends elsewhere end here, at a port where nothing answers: see `s3.py`.
NOWHERE: Final = "127.0.0.1:1"

_STATUS: Final = re.compile(r"status code: (\d{3})\b")
_CODE: Final = re.compile(r"<Code>([A-Za-z0-9]{1,60})</Code>|\(code: ([A-Za-z0-9]{1,60})\)")
_WRONG_KEYS: Final = frozenset({"InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidClientTokenId"})
_OLD_KEYS: Final = frozenset({"ExpiredToken", "ExpiredTokenException", "InvalidToken", "TokenRefreshRequired"})
_OTHER_REGION: Final = frozenset(
    {"AuthorizationHeaderMalformed", "PermanentRedirect", "IllegalLocationConstraintException", "TemporaryRedirect"}
)
_LATER: Final = frozenset({"RequestTimeout", "SlowDown", "OperationAborted", "ConditionalRequestConflict"})
_BUSY: Final = frozenset({408, 409, 425, 429})
_AGAIN: Final = "Try again later."
_ELSEWHERE: Final = "Add the bucket's region to the address (?region=…), or check its endpoint."


def status_of(error: BaseException) -> int | None:
    found = _STATUS.search(str(error))
    return int(found[1]) if found else None


def code_of(error: BaseException) -> str:
    """The server's own short word for it, or nothing."""
    found = _CODE.search(str(error))
    return (found[1] or found[2]) if found else ""


def is_missing(error: BaseException) -> bool:
    """The object is not there; that the bucket is not there is another matter."""
    code = code_of(error)
    return code != "NoSuchBucket" and (isinstance(error, FileNotFoundError) or code == "NoSuchKey")


def is_unlistable(error: BaseException) -> bool:
    """The server listed something that the client cannot read."""
    return type(error).__name__ == "InvalidPathError" or "Got invalid list response" in str(error)


def translated(error: BaseException, bucket: str) -> HoldfastError:
    status, code, text = status_of(error), code_of(error), str(error)
    known = _by_code(code, bucket)
    if known is not None:
        return known
    said = f" ({code or status})" if code or status else ""
    if NOWHERE in text or "Received redirect without LOCATION" in text or (status and 300 <= status < 400):
        return Refused("the S3 server points elsewhere; it is not followed there with your keys", hint=_ELSEWHERE)
    if "InvalidCertificate" in text:
        return Refused(
            "the certificate of the S3 server cannot be verified, so nothing was sent",
            hint="Check the endpoint; for an authority of your own, let AWS_CA_BUNDLE name its certificate.",
        )
    if "the listing is none" in text:
        return Failed("what the S3 server lists cannot be read", hint="Check the address of the remote.")
    if status in {401, 403} or code == "AccessDenied":
        return Refused(
            f"the S3 server does not allow it{said}",
            hint=f"The keys need GetObject, PutObject and DeleteObject in bucket {bucket!r}, and ListBucket on it.",
        )
    if status == 404:
        return _no_bucket(bucket)
    if status == 501:
        return _unable(said)
    if status is not None and 400 <= status < 500 and status not in _BUSY:
        return Failed(f"the S3 server does not understand the request{said}", hint="Check the address of the remote.")
    if "kind: Timeout" in text or "TimedOut" in text:
        return Unreachable("the S3 server did not answer in time", hint=_AGAIN)
    return Unreachable(
        f"the S3 server could not be reached{said}" if status is None else f"the S3 server failed{said}", hint=_AGAIN
    )


def _by_code(code: str, bucket: str) -> HoldfastError | None:
    if code in _WRONG_KEYS:
        return Failed(
            f"the S3 server does not accept the keys ({code})",
            hint="Check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE.",
        )
    if code in _OLD_KEYS:
        return Failed(f"the S3 keys are no longer valid ({code})", hint="Get new ones, and check AWS_SESSION_TOKEN.")
    if code == "RequestTimeTooSkewed":
        return Failed("the S3 server finds that this machine's clock is wrong", hint="Set the clock, then try again.")
    if code in _OTHER_REGION:
        return Failed(f"the bucket is in another region ({code})", hint=_ELSEWHERE)
    if code == "NoSuchBucket":
        return _no_bucket(bucket)
    if code == "NotImplemented":
        return _unable(f" ({code})")
    if code in _LATER:
        return Unreachable(f"the S3 server asks to come back later ({code})", hint=_AGAIN)
    return None


def _no_bucket(bucket: str) -> NotFound:
    return NotFound(
        f"there is no bucket {bucket!r} at the S3 server",
        hint="Make it there (it may stay private and empty), or check the address of the remote.",
    )


def _unable(said: str) -> Refused:
    return Refused(
        f"the S3 server cannot do what is needed{said}",
        hint="Use a server with conditional writes (If-None-Match), or a folder: or git: remote.",
    )


_T = TypeVar("_T")

CONNECT_SECONDS: Final = 5
REQUEST_SECONDS: Final = 30  # for up to 1 MiB; twice as long for each doubling, which 17 kB a second will do
MOST_LISTED: Final = 1_000_000  # a listing that goes on for longer is not ours, or does not mean well
_PAGE: Final = 1000
_MOST_REPORTED: Final = 20
_SIGNED_FOR: Final = timedelta(hours=1)  # clocks differ
_NO_PATH: Final = re.compile(r"/\.{0,2}/|/\.{1,2}\Z")


class S3Remote:
    """One prefix of a bucket. May be used by several threads at once; after a fork, open another."""

    def __init__(
        self, place: S3Address, keys: S3Keys, *, certificates: bytes | None = None, proxied: bool = False
    ) -> None:
        self.url = place.url
        self._place = place
        self._keys = keys
        self._certificates = certificates
        self._proxied = proxied
        self._stores: dict[tuple[int, bool], S3Store] = {}
        self._foreign: set[str] = set()

    @classmethod
    def open(cls, url: str, environ: Mapping[str, str], create: bool = False) -> Self:
        """The remote at this address. Nothing is asked of the server, unless it is to become a remote (`create`).

        What `probe` finds out holds for a server, not for a moment, and costs five requests, more than a small sync:
        so it is done when a remote is added, not by each process again.
        """
        _client()
        place = read_place(url, environ)
        if create:
            refuse_endpoint_elsewhere(place, environ)
        remote = cls(
            place,
            read_keys(environ),
            certificates=read_certificates(environ),
            proxied=place.endpoint.startswith("https:") and goes_through_proxy(environ),
        )
        if create:
            remote.probe()
        return remote

    def list(self, prefix: str) -> Sequence[ObjectInfo]:
        import obstore
        from obstore.exceptions import BaseError

        # The client asks for whole folders only, and servers differ in how they order what they list.
        folder = prefix.rpartition("/")[0]
        if folder and not is_name(folder):
            return []  # no name begins so
        store = self._store()

        def ask() -> builtins.list[ObjectInfo]:
            try:
                pages = obstore.list(store, folder or None, chunk_size=_PAGE)
                return self._named(
                    prefix,
                    (
                        (typed_dict_type["path"], typed_dict_type["size"])
                        for page in pages
                        for typed_dict_type in page
                    ),
                )
            except BaseError as error:
                if not is_unlistable(error):
                    raise
                return self._named(prefix, self._keys_below(folder))

        return self._asked(ask)

    def _named(self, prefix: str, listed: Iterable[tuple[str, int]]) -> builtins.list[ObjectInfo]:
        """The objects in a listing; and some of the names in it that no file could have."""
        found: dict[str, int] = {}
        for seen, (name, size) in enumerate(listed):
            if seen >= MOST_LISTED:
                raise ObjectTooLarge("the S3 listing has no end", hint="Give Holdfast a prefix of its own.")
            if is_name(name):
                if name.startswith(prefix):
                    found[name] = size
            elif len(self._foreign) < _MOST_REPORTED and (not name.isprintable() or _NO_PATH.search(f"/{name}")):
                self._foreign.add(name)
        return [ObjectInfo(name, found[name]) for name in sorted(found)]

    def _keys_below(self, folder: str) -> Iterator[tuple[str, int]]:
        from urllib.parse import quote, unquote, urlencode, urlsplit

        import obstore

        # Where the client puts the prefix in a key is the client's business.
        path = urlsplit(obstore.sign(self._store(), "GET", "x", _SIGNED_FOR)).path
        inside = unquote(path).removeprefix(urlsplit(self._place.endpoint).path.rstrip("/"))
        inside = inside.removeprefix(f"/{self._place.bucket}/").removesuffix("x")

        def sign(query: Mapping[str, str]) -> str:
            # The client signs addresses of objects: to it, this is an object of a host whose name ends in a query.
            address = f"{self._place.endpoint}/{self._place.bucket}?{urlencode(query, quote_via=quote)}&x-id="
            return obstore.sign(self._made(address), "GET", "list", _SIGNED_FOR)

        opener = opener_for(self._certificates, proxied=self._proxied)
        for key, size in keys_below(f"{inside}{folder}/" if folder else inside, sign, opener, REQUEST_SECONDS):
            yield key.removeprefix(inside), size

    @property
    def foreign(self) -> Sequence[str]:
        return sorted(self._foreign)

    def replace_unreadable(self) -> None:
        """Every object is by itself: there is nothing that hides the others."""

    def get(self, name: str, limit: int) -> bytes:
        import obstore

        store = self._store(limit, reading=True)

        def ask() -> bytes:
            answer = obstore.get(store, checked(name))
            # Its size comes first, before any of it; that it then is no longer than that is checked all the same.
            if answer.meta["size"] > limit:
                raise ObjectTooLarge("an object at the remote is larger than it can be")
            pieces: builtins.list[bytes] = []
            size = 0
            for piece in answer.stream(min_chunk_size=1 << 20):
                size += len(piece)
                if size > limit:
                    raise ObjectTooLarge("an object at the remote is larger than it can be")
                pieces.append(bytes(piece))
            return b"".join(pieces)

        try:
            return self._asked(ask)
        except (Failed, Refused) as error:
            # Put there in an archive, under a key of somebody's own, or closed to us: that must not hide all others.
            if isinstance(error, ObjectTooLarge) or not self._gives_others():
                raise
            raise Missing("the S3 server lists this object, and does not give it") from None

    def _gives_others(self) -> bool:
        """Whether objects may be read here: of one that nobody made, the server says that it is not there."""
        import obstore

        store, name = self._store(), f"probe/{secrets.token_hex(16)}"
        try:
            self._asked(lambda: obstore.get(store, name))
        except Missing:
            return True
        except HoldfastError:
            return False
        return False

    def put(self, objects: Sequence[tuple[str, bytes]], *, remove: Sequence[str] = ()) -> frozenset[str]:
        for name in (*(name for name, _ in objects), *remove):
            checked(name)
        there = frozenset(name for name, data in objects if not self._create(name, data))
        if remove:
            self._remove(remove)
        return there

    def close(self) -> None:
        self._stores.clear()

    def probe(self) -> None:
        """See whether the server keeps what is there when told to create it again, and whether the keys suffice."""
        name, first, second = f"probe/{secrets.token_hex(16)}", secrets.token_bytes(32), secrets.token_bytes(32)
        try:
            if not self._create(name, first):
                raise Refused(
                    "the S3 server says that an object is there which nobody made",
                    hint="Use another server, or a folder: or git: remote.",
                )
            if self._create(name, second) or self.get(name, 1000) != first:
                raise Refused(
                    "this S3 server overwrites objects although it was told not to, so work could be lost there",
                    hint="Use a server with conditional writes (If-None-Match), or a folder: or git: remote.",
                )
            if ObjectInfo(name, len(first)) not in self.list("probe/"):
                raise Refused(
                    "this S3 server does not list an object that was just made there",
                    hint="Use a server whose listings are up to date, or a folder: or git: remote.",
                )
        except HoldfastError:
            with contextlib.suppress(HoldfastError):
                self._remove([name])
            raise
        self._remove([name])

    def _create(self, name: str, data: bytes) -> bool:
        """Whether it was made now; otherwise it is there already."""
        import obstore
        from obstore.exceptions import AlreadyExistsError

        store = self._store(len(data))

        def ask() -> bool:
            try:
                # In one piece: uploads in parts know no conditions everywhere, and leave their parts behind.
                obstore.put(store, name, data, mode="create", use_multipart=False)
                return True
            except AlreadyExistsError as error:
                if status_of(error) != 409:
                    return False
            # A conflict may also mean that somebody was removing it: then it was not made, and is not there.
            try:
                obstore.head(store, name)
            except FileNotFoundError:
                raise Unreachable(
                    "the S3 server was changing that object at this moment", hint="Try again."
                ) from None
            return False

        return self._asked(ask)

    def _remove(self, names: Sequence[str]) -> None:
        import obstore

        store = self._store()
        # Missing ones are no error at S3, except at servers that differ: then the others are asked for one by one.
        try:
            self._asked(lambda: obstore.delete(store, builtins.list(names)))
        except Missing:
            if len(names) > 1:
                for name in names:
                    self._remove([name])

    def _asked(self, ask: Callable[[], _T]) -> _T:
        from obstore.exceptions import BaseError

        try:
            return _interruptible(ask)
        except (BaseError, FileNotFoundError, ListingFailed) as error:
            # `from None`: what the client says may hold the server's whole answer, and that our signature.
            if is_missing(error):
                raise Missing("the remote has no such object") from None
            raise translated(error, self._place.bucket) from None

    def _store(self, size: int = 0, *, reading: bool = False) -> S3Store:
        """A client whose time is enough for so many bytes. The client's time limits are fixed when it is made."""
        longer = min((size >> 20).bit_length(), 6)
        known = self._stores.get((longer, reading))
        if known is not None:
            return known
        options: ClientConfig = {"timeout": f"{REQUEST_SECONDS << longer}s"}
        if reading:  # silence in the middle of it; when writing, the client would count the time of sending, too
            options["read_timeout"] = f"{REQUEST_SECONDS}s"
        return self._stores.setdefault((longer, reading), self._made(None, options))

    def _made(self, address: str | None, options: ClientConfig | None = None) -> S3Store:
        """A client of this remote; or one that only signs, for an address that has the bucket in it."""
        from obstore.store import S3Store

        place = self._place
        options = {
            "allow_http": place.endpoint.startswith("http:"),
            "allow_invalid_certificates": False,
            "connect_timeout": f"{CONNECT_SECONDS}s",
            **(options or {}),
        }
        if self._certificates is not None:
            options["root_certificate"] = self._certificates
        if not self._proxied:
            # The client follows redirects, with the session token, and cannot be told not to. So everything but the
            # one host is sent to a "proxy" that is not there. This also keeps plain http out of real proxies. Only
            # where a person's own proxy is needed redirects are still followed: to https, without the signature.
            options["proxy_url"] = f"http://{NOWHERE}"
            options["proxy_excludes"] = place.host
        return S3Store(
            place.bucket,
            prefix=(place.prefix or None) if address is None else None,
            config={
                "endpoint": address or place.endpoint,
                "aws_endpoint_url_s3": address or place.endpoint,
                "region": place.region,
                "virtual_hosted_style_request": address is not None,
                "conditional_put": "etag",
                "s3_express": False,
                "skip_signature": False,
                "unsigned_payload": False,
                "disable_bulk_delete": False,
            },
            client_options=options,
            # Trying again is for the wrapper around remotes. Here it would take our own object for somebody else's.
            retry_config={"max_retries": 0},
            credential_provider=_provider(self._keys),
        )


def _client() -> None:
    try:
        import obstore  # noqa: F401
    except ImportError:
        raise extras.missing("S3 remotes need", "s3", operation="open") from None


def _provider(keys: S3Keys) -> S3CredentialProvider:
    """Keys this way are all there is; given as settings, a token from the environment would be added to them."""

    def provide() -> S3Credential:
        return {
            "access_key_id": keys.key,
            "secret_access_key": keys.secret,
            "token": keys.token,
            "expires_at": None,
        }

    return provide


def _interruptible(ask: Callable[[], _T]) -> _T:
    """The client hears no Ctrl-C while it waits, so it waits in a thread that nobody waits for."""
    if threading.current_thread() is not threading.main_thread():
        return ask()
    answers: list[_T] = []
    troubles: list[BaseException] = []

    def work() -> None:
        try:
            answers.append(ask())
        except BaseException as trouble:  # noqa: BLE001
            troubles.append(trouble)

    thread = threading.Thread(target=work, name="holdfast-s3", daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(0.5)  # in steps: some systems hear Ctrl-C only between two
    if troubles:
        raise troubles[0]
    return answers[0]
