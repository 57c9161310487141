"""What the S3 client reports, in the terms of a remote.

The client gives one long text: method, address, status, the server's answer, its own insides. Only the status and the
server's short code are taken from it. The rest is never shown: servers put signatures and keys into their answers.
"""

from __future__ import annotations

import re
from typing import Final

from holdfast.core.errors import Failed, HoldfastError, NotFound, Refused, Unreachable

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
