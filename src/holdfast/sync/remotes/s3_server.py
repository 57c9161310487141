"""An S3 server: its address (from the URL), its keys (from the environment), and its errors.

    s3://BUCKET/PREFIX[?endpoint=https://host:port&region=NAME&insecure=yes]

Without an endpoint it is Amazon's, of the region. Keys come from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and
AWS_SESSION_TOKEN, else from the profile (AWS_PROFILE, or `default`) in ~/.aws/credentials and ~/.aws/config. A URL is
stored and passed on, so it never holds keys; and nothing but the URL decides where they are sent.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

from holdfast.core.errors import Failed, HoldfastError, Invalid, NotFound, Refused, Unreachable

_BUCKET: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]{2,254}", re.ASCII)
_MIN_BUCKET_LENGTH: Final = 3
_PREFIX: Final = re.compile(r"[a-zA-Z0-9._/!'()=+@ -]{0,500}", re.ASCII)
_REGION: Final = re.compile(r"[a-zA-Z0-9-]{1,64}", re.ASCII)
_SETTINGS: Final = ("endpoint", "region", "insecure")
_SHAPE: Final = "Write s3://BUCKET/PREFIX, with ?endpoint=https://HOST for a server that is not Amazon's."
_MAX_FILE: Final = 1 << 20  # of settings


class S3Address(NamedTuple):
    """One prefix of one bucket at one server."""

    url: str
    bucket: str
    prefix: str
    endpoint: str
    host: str
    region: str


class S3Keys(NamedTuple):
    """The keys that sign requests. Never shown, hence the plain `repr`."""

    key: str
    secret: str
    token: str | None

    def __repr__(self) -> str:
        return "S3Keys(…)"


def read_place(url: str, environ: Mapping[str, str]) -> S3Address:
    parts = _split(url, "that is not an S3 address", _SHAPE)
    if parts.scheme != "s3" or parts.fragment:
        raise Invalid("that is not an S3 address", hint=_SHAPE)
    if "@" in parts.netloc:
        raise Invalid(
            "an S3 address must not hold keys: it is stored and passed on",
            hint="Leave out the part before the @, and set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.",
        )
    bucket, prefix = parts.netloc, unquote(parts.path).strip("/")
    if not bucket:
        raise Invalid("the S3 address names no bucket", hint=_SHAPE)
    if _BUCKET.fullmatch(bucket) is None:
        few = "it is too short" if len(bucket) < _MIN_BUCKET_LENGTH else "it is too long, or has forbidden characters"
        raise Invalid(
            f"no bucket can be called {bucket[:60]!a}: {few}",
            hint="The name of a bucket has at least three letters, digits, dots or dashes.",
        )
    if _PREFIX.fullmatch(prefix) is None or (prefix and {"", ".", ".."} & {*prefix.split("/")}):
        raise Invalid(
            "the prefix in an S3 address may have only letters, digits and dashes, separated by /", hint=_SHAPE
        )
    settings = _settings(parts.query)
    region = settings.get("region") or _region(environ)
    if _REGION.fullmatch(region) is None:
        raise Invalid("that is not the name of an S3 region", hint="Regions look like eu-central-1.")
    endpoint = settings.get("endpoint")
    host = _checked_endpoint(endpoint, insecure=settings.get("insecure") == "yes") if endpoint else _amazon(region)
    kept = urlencode([(name, settings[name]) for name in _SETTINGS if name in settings], safe=":/[]")
    shown = f"s3://{bucket}" + (f"/{quote(prefix)}" if prefix else "") + (f"?{kept}" if kept else "")
    return S3Address(shown, bucket, prefix, (endpoint or f"https://{host}").rstrip("/"), host, region)


def refuse_endpoint_elsewhere(place: S3Address, environ: Mapping[str, str]) -> None:
    """Refuse an endpoint in the environment: ignoring it would send the data to Amazon, and using it would make the
    same address another place on another day.
    """
    if "endpoint=" in place.url:
        return
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"):
        if environ.get(name):
            raise Invalid(
                f"the address names no endpoint, but {name} does",
                hint=f"Write it into the address (?endpoint=…), or unset {name} to use Amazon's.",
            )


def read_keys(environ: Mapping[str, str]) -> S3Keys:
    key, secret = environ.get("AWS_ACCESS_KEY_ID", ""), environ.get("AWS_SECRET_ACCESS_KEY", "")
    if key and secret:
        return S3Keys(key, secret, environ.get("AWS_SESSION_TOKEN") or None)
    if key or secret:
        raise Failed(
            "only one of the two S3 keys is set",
            hint="Set both AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or neither.",
        )
    name = environ.get("AWS_PROFILE") or "default"
    profile = _profile(environ)
    key, secret = profile.get("aws_access_key_id", ""), profile.get("aws_secret_access_key", "")
    if key and secret:
        return S3Keys(key, secret, profile.get("aws_session_token") or None)
    if any(
        name.startswith("sso_") or name in {"role_arn", "credential_process", "login_session"} for name in profile
    ):
        raise Failed(
            f"the AWS profile {name!r} has no keys itself",
            hint='Run: eval "$(aws configure export-credentials --format env)", then try again.',
        )
    raise Failed(
        "there are no keys for S3", hint="Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run: aws configure"
    )


def read_certificates(environ: Mapping[str, str]) -> bytes | None:
    """Additional certificates of a private authority, from AWS_CA_BUNDLE."""
    path = environ.get("AWS_CA_BUNDLE")
    if not path:
        return None
    try:
        with open(path, "rb") as file:
            return file.read(_MAX_FILE)
    except OSError:
        raise Failed(
            "the certificates that AWS_CA_BUNDLE names cannot be read",
            hint="Set it to a file with certificates, or unset it.",
            file=path,
        ) from None


def goes_through_proxy(environ: Mapping[str, str]) -> bool:
    return any(environ.get(name) for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"))


def _split(text: str, message: str, hint: str) -> SplitResult:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        raise Invalid(message, hint=hint) from None
    if not text.isascii() or not text.isprintable() or " " in text:
        raise Invalid(message, hint=hint)
    return parts


def _settings(query: str) -> dict[str, str]:
    settings: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in _SETTINGS or name in settings or not value or (name == "insecure" and value != "yes"):
            raise Invalid(
                "the S3 address has an unknown parameter after the ?",
                hint="Known are endpoint, region and insecure=yes; keys go into AWS_ACCESS_KEY_ID and so on.",
            )
        settings[name] = value
    return settings


def _checked_endpoint(endpoint: str, *, insecure: bool) -> str:
    shape = "An endpoint looks like https://s3.example.org or https://s3.example.org:9000."
    parts = _split(endpoint, "that is not an S3 endpoint", shape)
    host = parts.hostname
    if parts.scheme not in {"https", "http"} or not host or parts.query or parts.fragment or "@" in parts.netloc:
        raise Invalid("that is not an S3 endpoint", hint=shape)
    if parts.scheme == "http" and not insecure and not _is_this_machine(host):
        raise Refused(
            "the endpoint is plain http: data sent there can be read and changed on the way",
            hint="Use https, or add &insecure=yes if you trust the network.",
        )
    return host


def _is_this_machine(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _amazon(region: str) -> str:
    return f"s3.{region}.amazonaws.com" + (".cn" if region.startswith("cn-") else "")


def _region(environ: Mapping[str, str]) -> str:
    return (
        environ.get("AWS_REGION")
        or environ.get("AWS_DEFAULT_REGION")
        or _profile(environ).get("region")
        or "us-east-1"
    )


def _profile(environ: Mapping[str, str]) -> dict[str, str]:
    """The profile in ~/.aws; the credentials file wins over the config file."""
    name = environ.get("AWS_PROFILE") or "default"
    home = environ.get("HOME") or environ.get("USERPROFILE")
    # Without a home nothing is read: a relative path could be another user's.
    folder = os.path.join(home, ".aws") if home else None
    settings = environ.get("AWS_CONFIG_FILE") or (os.path.join(folder, "config") if folder else "")
    keys = environ.get("AWS_SHARED_CREDENTIALS_FILE") or (os.path.join(folder, "credentials") if folder else "")
    section = name if name == "default" else f"profile {name}"
    return {**_section(settings, section), **_section(keys, name)}


def _section(path: str, section: str) -> dict[str, str]:
    import configparser

    reader = configparser.ConfigParser(interpolation=None, strict=False, default_section="")
    try:
        with open(path, encoding="utf-8") as file:
            reader.read_string(file.read(_MAX_FILE))
        return dict(reader[section]) if reader.has_section(section) else {}
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, configparser.Error):
        raise Failed("a file of AWS settings cannot be read", file=path, hint="Run: aws configure") from None


# ── errors ───


# Requests that a server sends elsewhere end here, at a port where nothing answers: see `s3.py`.
class ListingFailed(Exception):
    """A listing failed that the client could not read. Its text is like those of the client's errors.

    `unreadable`: the server's answer is not a listing.
    """

    def __init__(self, text: str, *, unreadable: bool = False) -> None:
        super().__init__(text)
        self.unreadable = unreadable


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
    match = _STATUS.search(str(error))
    return int(match[1]) if match else None


def code_of(error: BaseException) -> str:
    """The server's error code, or an empty string."""
    match = _CODE.search(str(error))
    return (match[1] or match[2]) if match else ""


def is_missing(error: BaseException) -> bool:
    """Whether the object is missing, as opposed to the bucket."""
    code = code_of(error)
    return code != "NoSuchBucket" and (isinstance(error, FileNotFoundError) or code == "NoSuchKey")


def is_unlistable(error: BaseException) -> bool:
    """Whether the server listed something that the client cannot read."""
    return type(error).__name__ == "InvalidPathError" or "Got invalid list response" in str(error)


def translated(error: BaseException, bucket: str) -> HoldfastError:
    status, code, text = status_of(error), code_of(error), str(error)
    known = _by_code(code, bucket)
    if known is not None:
        return known
    detail = f" ({code or status})" if code or status else ""
    if NOWHERE in text or "Received redirect without LOCATION" in text or (status and 300 <= status < 400):
        return Refused("the S3 server redirects elsewhere; your keys are not sent there", hint=_ELSEWHERE)
    if "InvalidCertificate" in text:
        return Refused(
            "the certificate of the S3 server cannot be verified, so nothing was sent",
            hint="Check the endpoint; for a private authority, set AWS_CA_BUNDLE to its certificate.",
        )
    if isinstance(error, ListingFailed) and error.unreadable:
        return Failed("the listing of the S3 server cannot be read", hint="Check the address of the remote.")
    if status in {401, 403} or code == "AccessDenied":
        return Refused(
            f"the S3 server denies access{detail}",
            hint=f"The keys need GetObject, PutObject and DeleteObject in bucket {bucket!r}, and ListBucket on it.",
        )
    if status == 404:
        return _no_bucket(bucket)
    if status == 501:
        return _unable(detail)
    if status is not None and 400 <= status < 500 and status not in _BUSY:
        return Failed(
            f"the S3 server does not understand the request{detail}", hint="Check the address of the remote."
        )
    if "kind: Timeout" in text or "TimedOut" in text:
        return Unreachable("the S3 server did not answer in time", hint=_AGAIN)
    return Unreachable(
        f"the S3 server could not be reached{detail}" if status is None else f"the S3 server failed{detail}",
        hint=_AGAIN,
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
        return Failed("the S3 server says that this machine's clock is wrong", hint="Set the clock, then try again.")
    if code in _OTHER_REGION:
        return Failed(f"the bucket is in another region ({code})", hint=_ELSEWHERE)
    if code == "NoSuchBucket":
        return _no_bucket(bucket)
    if code == "NotImplemented":
        return _unable(f" ({code})")
    if code in _LATER:
        return Unreachable(f"the S3 server is busy ({code})", hint=_AGAIN)
    return None


def _no_bucket(bucket: str) -> NotFound:
    return NotFound(
        f"there is no bucket {bucket!r} at the S3 server",
        hint="Create it there (it may stay private and empty), or check the address of the remote.",
    )


def _unable(detail: str) -> Refused:
    return Refused(
        f"the S3 server lacks a needed feature{detail}",
        hint="Use a server with conditional writes (If-None-Match), or a folder: or git: remote.",
    )
