"""Canonical JSON, so that equal data has equal hashes in every program: RFC 8785 (JCS).

Almost everything that is hashed has ASCII keys and no fractions; `msgspec` encodes that canonically. The rest takes a
slower path. Both give the same bytes, which tests check by literal examples.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from holdfast.core.errors import Invalid

if TYPE_CHECKING:
    import hashlib

    Json: TypeAlias = "bool | int | float | str | list[Json] | tuple[Json, ...] | dict[str, Json] | None"
else:  # msgspec reads annotations at run time and has no recursive types
    Json = Any

MAX_SAFE_INTEGER = 2**53 - 1  # programs that read JSON numbers as doubles would hash a larger one differently
MAX_DEPTH = 100  # of nested lists and objects: beyond it, programs run out of stack at different depths

_plain = msgspec.json.Encoder(order="sorted")


def canonical_json(value: Json) -> bytes:
    try:
        written = _plain.encode(value) if _is_plain(value) else _encode_carefully(value).encode()
    except UnicodeEncodeError:
        raise Invalid("text contains a lone surrogate and cannot be stored as UTF-8") from None
    except RecursionError:
        written = None
    if written is None or is_too_deep(written):
        raise Invalid("the data is nested too deeply", hint=f"The limit is {MAX_DEPTH} levels.")
    return written


def is_too_deep(written: bytes) -> bool:
    """Whether this JSON is nested too deeply for some programs. Decided by counting, the same everywhere."""
    if written.count(b"[") + written.count(b"{") <= MAX_DEPTH:
        return False
    depth = deepest = 0
    quoted = escaped = False
    for byte in written:
        if quoted:
            quoted = escaped or byte != 0x22
            escaped = not escaped and byte == 0x5C
        elif byte == 0x22:
            quoted = True
        elif byte in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif byte in b"]}":
            depth -= 1
    return deepest > MAX_DEPTH


def with_json_numbers(value: Json) -> Json:
    """Decoded JSON with numbers as RFC 8785 defines them: whole numbers beyond `MAX_SAFE_INTEGER` are doubles."""
    if type(value) is int and not -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER:
        try:
            return float(value)
        except OverflowError:
            raise Invalid("the number is too large") from None
    if isinstance(value, dict):
        return {key: with_json_numbers(item) for key, item in value.items()}
    return [with_json_numbers(item) for item in value] if isinstance(value, (list, tuple)) else value


_sha256: Callable[[bytes], hashlib._Hash] | None = None


def digest(*parts: bytes) -> str:
    """SHA-256 of the joined parts, in hex."""
    global _sha256  # noqa: PLW0603
    if _sha256 is None:
        _sha256 = _light_sha256()
    return _sha256(b"".join(parts)).hexdigest()


def _light_sha256() -> Callable[[bytes], hashlib._Hash]:
    """Python's own SHA-256: as fast as OpenSSL's for short data, and without its three milliseconds of loading."""
    from importlib import import_module  # noqa: PLC0415

    for name in ("_sha2", "_sha256", "hashlib"):  # since 3.12, before, and where neither was built
        try:
            sha256: Callable[[bytes], hashlib._Hash] = import_module(name).sha256
        except ImportError:
            continue
        return sha256
    raise ImportError("hashlib")


def _is_plain(value: Json) -> bool:
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return True
    if kind is int:
        return -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER or _refuse_too_large(value)  # type: ignore[operator]
    if kind is dict:
        return all(type(key) is str and key.isascii() and _is_plain(member) for key, member in value.items())  # type: ignore[union-attr]
    if kind is list or kind is tuple:  # structs keep their sequences as tuples
        return all(_is_plain(item) for item in value)  # type: ignore[union-attr]
    return False


def _encode_carefully(value: Json) -> str:
    match value:
        case bool() | None | str():
            return _plain.encode(value).decode()
        case int():
            return str(value) if -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER else str(_refuse_too_large(value))
        case float():
            return _format_number(value)
        case list() | tuple():
            return "[" + ",".join(_encode_carefully(item) for item in value) + "]"
        case dict():
            if not all(isinstance(key, str) for key in value):
                raise Invalid("keys of an object must be text")
            keys = sorted(value, key=lambda key: key.encode("utf-16-be"))
            return "{" + ",".join(f"{_encode_carefully(key)}:{_encode_carefully(value[key])}" for key in keys) + "}"
    raise Invalid(f"{type(value).__name__} is not JSON data")


def _refuse_too_large(value: object) -> bool:
    raise Invalid(f"the number {str(value)[:40]} is too large", hint=f"Whole numbers go up to {MAX_SAFE_INTEGER}.")


def _format_number(value: float) -> str:
    """A number as ECMAScript writes it: the shortest digits that read back as the same double."""
    if value != value or value in (float("inf"), float("-inf")):  # noqa: PLR0124 (NaN is not equal to itself)
        raise Invalid("NaN and infinity are not JSON numbers")
    if value == int(value) and abs(value) <= MAX_SAFE_INTEGER:
        return str(int(value))
    mantissa, _, exponent = repr(value).partition("e")
    if not exponent:
        return mantissa.removesuffix(".0")
    sign, digits = ("-", mantissa[1:]) if mantissa[0] == "-" else ("", mantissa)
    exponent_value, bare_digits = int(exponent), digits.replace(".", "")
    if -7 < exponent_value < 0:  # ECMAScript writes 1e-5 as 0.00001, down to 1e-6
        return f"{sign}0.{'0' * (-exponent_value - 1)}{bare_digits}"
    if 0 < exponent_value < 21:  # and 1e20 in full
        return sign + bare_digits.ljust(exponent_value + 1, "0")
    return f"{sign}{digits}e{'+' if exponent_value > 0 else '-'}{abs(exponent_value)}"
