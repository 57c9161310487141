"""List a bucket that holds keys which `obstore` cannot read.

The client refuses a whole page of a listing for one key that is not a path (`//`, `.`, `..`, control characters), and
anybody who may write to the bucket can leave one. Only then the listing is read here: `obstore` signs the requests,
and every key is given as it is. Answers are bounded, and a redirect is an error like any other status.
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from holdfast.machine.wall import monotonic

if TYPE_CHECKING:
    from http.client import HTTPResponse
    from urllib.request import OpenerDirector

_LARGEST_PAGE: Final = 16 << 20  # 1,000 keys of 1,024 bytes, each byte as %XX
_CHUNK: Final = 1 << 16
# What XML has no room for, as bytes or as references: keys with it are none of ours, and must not hide the others.
_NOT_XML: Final = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]|&#(?:x0*(?:[0-9a-f]|1[0-9a-f])|0*[12]?[0-9]|0*3[01]);", re.IGNORECASE
)


class ListingFailed(Exception):
    """In the form of the client's own errors: `s3_errors` takes the status and the code from it."""


def keys_below(
    prefix: str, sign: Callable[[Mapping[str, str]], str], opener: OpenerDirector, seconds: float
) -> Iterator[tuple[str, int]]:
    """Every key that begins so, with its size; `sign` gives the address of a request with these parameters."""
    token = None
    while True:
        query = {"list-type": "2", "encoding-type": "url", "prefix": prefix}
        body = _page(sign(query if token is None else {**query, "continuation-token": token}), opener, seconds)
        found, following = _read(body)
        for key, size in found:
            # Servers differ in whether a space is `+` or `%20`.
            names = (urllib.parse.unquote(key), urllib.parse.unquote_plus(key))
            yield next((name for name in names if name.startswith(prefix)), key), size
        if following is None or following == token:
            return
        token = following


def opener_for(certificates: bytes | None, *, proxied: bool) -> OpenerDirector:
    """Checks certificates, and follows no redirect: a signed address is for one host."""
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

    until = monotonic() + seconds
    try:
        with opener.open(url, timeout=seconds) as answer:
            return _body(answer, until)
    except urllib.error.HTTPError as error:
        with error:
            said = error.read(_CHUNK).decode("utf-8", "replace")
        raise ListingFailed(f"status code: {error.code} {said}") from None
    except (OSError, http.client.HTTPException) as error:
        why = error.reason if isinstance(error, urllib.error.URLError) else error
        kind = "InvalidCertificate" if isinstance(why, ssl.SSLCertVerificationError) else "not reached"
        raise ListingFailed("kind: Timeout" if isinstance(why, TimeoutError) else kind) from None


def _body(answer: HTTPResponse, until: float) -> str:
    pieces: list[bytes] = []
    size = 0
    while piece := answer.read(_CHUNK):
        pieces.append(piece)
        size += len(piece)
        if size > _LARGEST_PAGE or monotonic() > until:
            raise ListingFailed("kind: Timeout")
    return b"".join(pieces).decode("utf-8", "replace")


def _read(body: str) -> tuple[list[tuple[str, int]], str | None]:
    """The keys of a page, as addresses have them, with sizes; and what to ask for the next one."""
    from xml.etree import ElementTree as ET

    if "<!" in body:  # declarations of entities could make much of little; a listing has none
        raise ListingFailed("the listing is none")
    try:
        root = ET.fromstring(_NOT_XML.sub("?", body))  # noqa: S314 (no declarations, bounded)
        found = []
        following = None
        is_encoded = any(element.tag.rpartition("}")[2] == "EncodingType" for element in root)
        for element in root:
            tag = element.tag.rpartition("}")[2]
            if tag == "Contents":
                fields = {field.tag.rpartition("}")[2]: field.text or "" for field in element}
                key = fields["Key"]
                found.append((key if is_encoded else urllib.parse.quote(key), int(fields["Size"])))
            elif tag == "NextContinuationToken":
                following = element.text or None
    except (ET.ParseError, KeyError, ValueError):
        raise ListingFailed("the listing is none") from None
    return found, following
