"""An S3 bucket as a remote, through `obstore`.

The client refuses a whole page of a listing for one key that is not a path (`//`, `.`, `..`, control characters), and
anyone with write access to the bucket can leave one. Only then the listing is read here: `obstore` signs the
requests, and every key is returned as it is. Answers are bounded, and a redirect is an error like any other status.
"""

from __future__ import annotations

import builtins
import contextlib
import re
import secrets
import threading
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Self, TypeVar

from holdfast.core.errors import Failed, HoldfastError, Refused, Unreachable, missing_extra
from holdfast.machine.wall import monotonic
from holdfast.sync.remotes.base import Missing, ObjectInfo, ObjectTooLarge, checked, is_name
from holdfast.sync.remotes.s3_server import (
    NOWHERE,
    ListingFailed,
    S3Address,
    S3Keys,
    goes_through_proxy,
    is_missing,
    is_unlistable,
    read_certificates,
    read_keys,
    read_place,
    refuse_endpoint_elsewhere,
    status_of,
    translated,
)

if TYPE_CHECKING:
    from http.client import HTTPResponse
    from urllib.request import OpenerDirector

    from obstore.store import ClientConfig, S3Credential, S3CredentialProvider, S3Store

_T = TypeVar("_T")

CONNECT_SECONDS: Final = 5
REQUEST_SECONDS: Final = 30  # for up to 1 MiB; twice as long for each doubling, which needs 17 kB a second
MAX_LISTED: Final = 1_000_000  # a longer listing is not ours, or hostile
_PAGE: Final = 1000
_MAX_REPORTED: Final = 20
_SIGNATURE_LIFETIME: Final = timedelta(hours=1)  # clocks differ
_NOT_A_PATH: Final = re.compile(r"/\.{0,2}/|/\.{1,2}\Z")


class S3Remote:
    """A prefix of a bucket. May be used by several threads at once; after a fork, open another."""

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
        """Open the remote at this address. Only with `create` the server is probed.

        The result of `probe` does not change over time, and costs five requests, more than a small sync: so it is
        called when a remote is added, not by each process.
        """
        _require_client()
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

        # The client lists whole folders only, and servers order listings differently.
        folder = prefix.rpartition("/")[0]
        if folder and not is_name(folder):
            return []  # no name has this prefix
        store = self._store()

        def request() -> builtins.list[ObjectInfo]:
            try:
                pages = obstore.list(store, folder or None, chunk_size=_PAGE)
                listed = ((entry["path"], entry["size"]) for page in pages for entry in page)
                return self._object_infos(prefix, listed)
            except BaseError as error:
                if not is_unlistable(error):
                    raise
                return self._object_infos(prefix, self._keys_below(folder))

        return self._call(request)

    def _object_infos(self, prefix: str, listed: Iterable[tuple[str, int]]) -> builtins.list[ObjectInfo]:
        """The objects in a listing; remembers some names in it that no file could have."""
        sizes: dict[str, int] = {}
        for count, (name, size) in enumerate(listed):
            if count >= MAX_LISTED:
                raise ObjectTooLarge("the S3 listing is too long", hint="Give Holdfast a separate prefix.")
            if is_name(name):
                if name.startswith(prefix):
                    sizes[name] = size
            elif len(self._foreign) < _MAX_REPORTED and (not name.isprintable() or _NOT_A_PATH.search(f"/{name}")):
                self._foreign.add(name)
        return [ObjectInfo(name, sizes[name]) for name in sorted(sizes)]

    def _keys_below(self, folder: str) -> Iterator[tuple[str, int]]:
        from urllib.parse import quote, unquote, urlencode, urlsplit

        import obstore

        # Let the client say where it puts the prefix in a key.
        path = urlsplit(obstore.sign(self._store(), "GET", "x", _SIGNATURE_LIFETIME)).path
        key_prefix = unquote(path).removeprefix(urlsplit(self._place.endpoint).path.rstrip("/"))
        key_prefix = key_prefix.removeprefix(f"/{self._place.bucket}/").removesuffix("x")

        def sign(query: Mapping[str, str]) -> str:
            # The client signs only addresses of objects: so the query becomes part of the endpoint.
            address = f"{self._place.endpoint}/{self._place.bucket}?{urlencode(query, quote_via=quote)}&x-id="
            return obstore.sign(self._client_for(address), "GET", "list", _SIGNATURE_LIFETIME)

        opener = opener_for(self._certificates, proxied=self._proxied)
        for key, size in keys_below(
            f"{key_prefix}{folder}/" if folder else key_prefix, sign, opener, REQUEST_SECONDS
        ):
            yield key.removeprefix(key_prefix), size

    @property
    def foreign(self) -> Sequence[str]:
        return sorted(self._foreign)

    def replace_unreadable(self) -> None:
        """Nothing to do: no object can hide the others."""

    def get(self, name: str, limit: int) -> bytes:
        import obstore

        store = self._store(limit, reading=True)

        def request() -> bytes:
            answer = obstore.get(store, checked(name))
            # The size is checked before the body, and the body again as it arrives.
            if answer.meta["size"] > limit:
                raise ObjectTooLarge("an object at the remote is too large")
            pieces: builtins.list[bytes] = []
            size = 0
            for piece in answer.stream(min_chunk_size=1 << 20):
                size += len(piece)
                if size > limit:
                    raise ObjectTooLarge("an object at the remote is too large")
                pieces.append(bytes(piece))
            return b"".join(pieces)

        try:
            return self._call(request)
        except (Failed, Refused) as error:
            # Archived, encrypted with a foreign key, or not readable: one object must not block all others.
            if isinstance(error, ObjectTooLarge) or not self._returns_other_objects():
                raise
            raise Missing("the S3 server lists this object, but does not return it") from None

    def _returns_other_objects(self) -> bool:
        """Whether objects may be read at all: for a name that does not exist, the server must say it is missing."""
        import obstore

        store, name = self._store(), f"probe/{secrets.token_hex(16)}"
        try:
            self._call(lambda: obstore.get(store, name))
        except Missing:
            return True
        except HoldfastError:
            return False
        return False

    def put(self, objects: Sequence[tuple[str, bytes]], *, remove: Sequence[str] = ()) -> frozenset[str]:
        for name in (*(name for name, _ in objects), *remove):
            checked(name)
        existing = frozenset(name for name, data in objects if not self._create(name, data))
        if remove:
            self._remove(remove)
        return existing

    def close(self) -> None:
        self._stores.clear()

    def probe(self) -> None:
        """Check that the server never overwrites on create, and that the keys suffice."""
        name, first, second = f"probe/{secrets.token_hex(16)}", secrets.token_bytes(32), secrets.token_bytes(32)
        try:
            if not self._create(name, first):
                raise Refused(
                    "the S3 server reports an object that does not exist",
                    hint="Use another server, or a folder: or git: remote.",
                )
            if self._create(name, second) or self.get(name, 1000) != first:
                raise Refused(
                    "this S3 server overwrites objects despite If-None-Match, so data could be lost there",
                    hint="Use a server with conditional writes (If-None-Match), or a folder: or git: remote.",
                )
            if ObjectInfo(name, len(first)) not in self.list("probe/"):
                raise Refused(
                    "this S3 server does not list an object that was just created",
                    hint="Use a server whose listings are up to date, or a folder: or git: remote.",
                )
        except HoldfastError:
            with contextlib.suppress(HoldfastError):
                self._remove([name])
            raise
        self._remove([name])

    def _create(self, name: str, data: bytes) -> bool:
        """Create an object; False when it exists already."""
        import obstore
        from obstore.exceptions import AlreadyExistsError

        store = self._store(len(data))

        def request() -> bool:
            try:
                # In one piece: multipart uploads lack conditions at some servers, and leave parts behind.
                obstore.put(store, name, data, mode="create", use_multipart=False)
                return True
            except AlreadyExistsError as error:
                if status_of(error) != 409:
                    return False
            # A conflict may also mean that somebody was removing it: then it does not exist.
            try:
                obstore.head(store, name)
            except FileNotFoundError:
                raise Unreachable(
                    "the S3 server was changing this object at the same time", hint="Try again."
                ) from None
            return False

        return self._call(request)

    def _remove(self, names: Sequence[str]) -> None:
        import obstore

        store = self._store()
        # Missing objects are no error, except at some servers: then the others are removed one by one.
        try:
            self._call(lambda: obstore.delete(store, builtins.list(names)))
        except Missing:
            if len(names) > 1:
                for name in names:
                    self._remove([name])

    def _call(self, request: Callable[[], _T]) -> _T:
        from obstore.exceptions import BaseError

        try:
            return _interruptible(request)
        except (BaseError, FileNotFoundError, ListingFailed) as error:
            # `from None`: the client's message may contain the server's answer, with our signature.
            if is_missing(error):
                raise Missing("the remote has no such object") from None
            raise translated(error, self._place.bucket) from None

    def _store(self, size: int = 0, *, reading: bool = False) -> S3Store:
        """A client with enough time for this many bytes: its time limits are fixed when it is made."""
        doublings = min((size >> 20).bit_length(), 6)
        cached = self._stores.get((doublings, reading))
        if cached is not None:
            return cached
        options: ClientConfig = {"timeout": f"{REQUEST_SECONDS << doublings}s"}
        if reading:  # a pause while reading; when writing, the client would count the time of sending too
            options["read_timeout"] = f"{REQUEST_SECONDS}s"
        return self._stores.setdefault((doublings, reading), self._client_for(None, options))

    def _client_for(self, address: str | None, options: ClientConfig | None = None) -> S3Store:
        """A client of this remote; or, with an address that includes the bucket, one that only signs."""
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
            # The client follows redirects, with the session token, and has no option not to. So everything but our
            # host is sent to a "proxy" that does not exist. This also keeps plain http out of real proxies. Only
            # with a person's own proxy redirects are still followed: to https, without the signature.
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
            # Retries are for `RetryingRemote`: here our own object would look like another device's.
            retry_config={"max_retries": 0},
            credential_provider=_provider(self._keys),
        )


def _require_client() -> None:
    try:
        import obstore  # noqa: F401
    except ImportError:
        raise missing_extra("an S3 remote", "s3", operation="open") from None


def _provider(keys: S3Keys) -> S3CredentialProvider:
    """Provide exactly these keys; with settings instead, a token from the environment would be added."""

    def provide() -> S3Credential:
        return {
            "access_key_id": keys.key,
            "secret_access_key": keys.secret,
            "token": keys.token,
            "expires_at": None,
        }

    return provide


def _interruptible(request: Callable[[], _T]) -> _T:
    """Call the client in a daemon thread: it does not react to Ctrl-C while it waits."""
    if threading.current_thread() is not threading.main_thread():
        return request()
    answers: list[_T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            answers.append(request())
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    thread = threading.Thread(target=work, name="holdfast-s3", daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(0.5)  # in steps: some systems deliver Ctrl-C only in between
    if errors:
        raise errors[0]
    return answers[0]


_MAX_PAGE: Final = 16 << 20  # 1,000 keys of 1,024 bytes, each byte as %XX
_CHUNK: Final = 1 << 16
# Characters that XML cannot hold, raw or as references: keys with them are not ours, and must not hide others.
_NOT_XML: Final = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]|&#(?:x0*(?:[0-9a-f]|1[0-9a-f])|0*[12]?[0-9]|0*3[01]);", re.IGNORECASE
)


def keys_below(
    prefix: str, sign: Callable[[Mapping[str, str]], str], opener: OpenerDirector, seconds: float
) -> Iterator[tuple[str, int]]:
    """Every key with this prefix, with its size; `sign` returns the signed address of a request."""
    token = None
    while True:
        query = {"list-type": "2", "encoding-type": "url", "prefix": prefix}
        body = _page(sign(query if token is None else {**query, "continuation-token": token}), opener, seconds)
        entries, next_token = _read(body)
        for key, size in entries:
            # Servers encode a space as `+` or as `%20`.
            names = (urllib.parse.unquote(key), urllib.parse.unquote_plus(key))
            yield next((name for name in names if name.startswith(prefix)), key), size
        if next_token is None or next_token == token:
            return
        token = next_token


def opener_for(certificates: bytes | None, *, proxied: bool) -> OpenerDirector:
    """An opener that checks certificates and follows no redirects: a signed address is for one host."""
    import ssl
    import urllib.request

    class NoRedirect(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_: object) -> None:
            return None

    trusted = ssl.create_default_context()
    if certificates is not None:
        trusted.load_verify_locations(cadata=certificates.decode("ascii", "ignore"))
    proxies = urllib.request.ProxyHandler() if proxied else urllib.request.ProxyHandler({})
    return urllib.request.build_opener(proxies, NoRedirect(), urllib.request.HTTPSHandler(context=trusted))


def _page(url: str, opener: OpenerDirector, seconds: float) -> str:
    import http.client
    import ssl
    import urllib.error

    deadline = monotonic() + seconds
    try:
        with opener.open(url, timeout=seconds) as answer:
            return _body(answer, deadline)
    except urllib.error.HTTPError as error:
        with error:
            answer_text = error.read(_CHUNK).decode("utf-8", "replace")
        raise ListingFailed(f"status code: {error.code} {answer_text}") from None
    except (OSError, http.client.HTTPException) as error:
        cause = error.reason if isinstance(error, urllib.error.URLError) else error
        kind = "InvalidCertificate" if isinstance(cause, ssl.SSLCertVerificationError) else "not reached"
        raise ListingFailed("kind: Timeout" if isinstance(cause, TimeoutError) else kind) from None


def _body(answer: HTTPResponse, deadline: float) -> str:
    pieces: list[bytes] = []
    size = 0
    while piece := answer.read(_CHUNK):
        pieces.append(piece)
        size += len(piece)
        if size > _MAX_PAGE or monotonic() > deadline:
            raise ListingFailed("kind: Timeout")
    return b"".join(pieces).decode("utf-8", "replace")


def _read(body: str) -> tuple[list[tuple[str, int]], str | None]:
    """The URL-encoded keys of a page, with sizes, and the token for the next page."""
    from xml.etree import ElementTree as ET

    if "<!" in body:  # entity declarations could expand without end; a listing has none
        raise ListingFailed("not a listing", unreadable=True)
    try:
        root = ET.fromstring(_NOT_XML.sub("?", body))  # noqa: S314 (no declarations, bounded)
        entries = []
        next_token = None
        is_encoded = any(element.tag.rpartition("}")[2] == "EncodingType" for element in root)
        for element in root:
            tag = element.tag.rpartition("}")[2]
            if tag == "Contents":
                fields = {field.tag.rpartition("}")[2]: field.text or "" for field in element}
                key = fields["Key"]
                entries.append((key if is_encoded else urllib.parse.quote(key), int(fields["Size"])))
            elif tag == "NextContinuationToken":
                next_token = element.text or None
    except (ET.ParseError, KeyError, ValueError):
        raise ListingFailed("not a listing", unreadable=True) from None
    return entries, next_token
