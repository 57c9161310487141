"""Equal data has equal bytes, in the canonical form of RFC 8785."""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.canonical import (
    MAX_DEPTH,
    MAX_SAFE_INTEGER,
    Json,
    _encode_carefully,
    canonical_json,
    digest,
    is_too_deep,
    with_json_numbers,
)
from holdfast.core.errors import Invalid

# RFC 8785, appendix B: the bits of a double, and how it is written.
NUMBERS = [
    ("0000000000000000", "0"),
    ("8000000000000000", "0"),
    ("0000000000000001", "5e-324"),
    ("8000000000000001", "-5e-324"),
    ("7fefffffffffffff", "1.7976931348623157e+308"),
    ("ffefffffffffffff", "-1.7976931348623157e+308"),
    ("4340000000000000", "9007199254740992"),
    ("c340000000000000", "-9007199254740992"),
    ("4430000000000000", "295147905179352830000"),
    ("44b52d02c7e14af5", "9.999999999999997e+22"),
    ("44b52d02c7e14af6", "1e+23"),
    ("44b52d02c7e14af7", "1.0000000000000001e+23"),
    ("444b1ae4d6e2ef4e", "999999999999999700000"),
    ("444b1ae4d6e2ef4f", "999999999999999900000"),
    ("444b1ae4d6e2ef50", "1e+21"),
    ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
    ("3eb0c6f7a0b5ed8d", "0.000001"),
    ("41b3de4355555553", "333333333.3333332"),
    ("41b3de4355555554", "333333333.33333325"),
    ("41b3de4355555555", "333333333.3333333"),
    ("41b3de4355555556", "333333333.3333334"),
    ("41b3de4355555557", "333333333.33333343"),
    ("becbf647612f3696", "-0.0000033333333333333333"),
    ("43143ff3c1cb0959", "1424953923781206.2"),
]


@pytest.mark.parametrize(("bits", "written"), NUMBERS)
def test_numbers_match_the_table_of_the_rfc(bits: str, written: str) -> None:
    """Every number of appendix B is written as listed there."""
    assert canonical_json(struct.unpack(">d", bytes.fromhex(bits))[0]) == written.encode()


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (1e21, "1e+21"), (1e20, "100000000000000000000"), (123456789012345680000.0, "123456789012345680000"),
        (1e-7, "1e-7"), (1.5e-7, "1.5e-7"), (0.000001, "0.000001"), (0.0000015, "0.0000015"), (1e-5, "0.00001"),
        (1e-4, "0.0001"), (4.5, "4.5"), (2e-3, "0.002"), (333333333.33333329, "333333333.3333333"),
        (1e30, "1e+30"), (1e-27, "1e-27"), (-0.0, "0"), (0.0, "0"), (-1.5, "-1.5"), (1e16, "10000000000000000"),
        (5.0, "5"), (5, "5"), (True, "true"), (False, "false"), (None, "null"),
        (MAX_SAFE_INTEGER, "9007199254740991"),
        (-MAX_SAFE_INTEGER, "-9007199254740991"), (1.7976931348623157e308, "1.7976931348623157e+308"),
    ],
)  # fmt: skip
def test_scalars_are_written_as_in_ecmascript(value: Json, written: str) -> None:
    assert canonical_json(value) == written.encode()


def test_example_of_the_rfc_matches_byte_for_byte() -> None:
    """Section 3.2.2."""
    data: Json = {
        "numbers": [333333333.33333329, 1e30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": "\u20ac$\u000f\u000aA'\u0042\u0022\u005c\\\"/",
        "literals": [None, True, False],
    }
    assert canonical_json(data).decode() == (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )


def test_keys_are_sorted_by_utf16_code_units() -> None:
    """The RFC's sorting example: an emoji sorts before U+FB33, unlike in code point order."""
    data: Json = {"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5, "\u0080": 6, "\u00f6": 7}
    written = '{"\\r":2,"1":4,"\u0080":6,"ö":7,"€":1,"😀":5,"\ufb33":3}'
    assert canonical_json(data) == written.encode()


def test_control_characters_are_escaped_in_their_short_form() -> None:
    """Five have short escapes, the others are lower-case hex, and nothing else is escaped."""
    assert canonical_json('\b\t\n\f\r\x00\x1f\x7f/\u2028"\\') == (
        b'"\\b\\t\\n\\f\\r\\u0000\\u001f\x7f/\xe2\x80\xa8\\"\\\\"'
    )
    assert canonical_json({"\x01": "\x0b"}) == b'{"\\u0001":"\\u000b"}'


@pytest.mark.parametrize(
    "value", [MAX_SAFE_INTEGER + 1, -MAX_SAFE_INTEGER - 1, 10**400, [MAX_SAFE_INTEGER + 1], {"ä": {"x": 2**64}}]
)
def test_integers_beyond_the_limit_are_refused(value: Json) -> None:
    """Other programs would read them as different numbers."""
    with pytest.raises(Invalid):
        canonical_json(value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, "\ud800", {"\udfff": 1}, {"ä\ud800": 0.5}, {1: 2}])
def test_values_outside_json_are_refused(value: Any) -> None:
    """NaN, infinities, lone surrogates and non-text keys have no canonical form."""
    with pytest.raises(Invalid):
        canonical_json(value)


@pytest.mark.parametrize("value", [object(), b"x", {"x": {1, 2}}])
def test_types_outside_json_are_refused(value: Any) -> None:
    with pytest.raises(Invalid):
        canonical_json(value)


def test_depth_limit_is_the_same_in_writer_and_parser() -> None:
    """Data at the limit passes and one level more is refused, whatever its strings contain."""
    value: Json = "[[[{{{" * MAX_DEPTH
    for _ in range(MAX_DEPTH):
        value = [value]
    assert not is_too_deep(canonical_json(value))
    with pytest.raises(Invalid):
        canonical_json([value])
    for _ in range(5000):
        value = [value]
    with pytest.raises(Invalid):
        canonical_json(value)


def test_depth_is_counted_correctly_after_escaped_quotes() -> None:
    """A quote after one backslash does not end a string; after two it does."""
    deep = b"[" * (MAX_DEPTH + 1)
    assert not is_too_deep(b'["\\"' + deep + b'"]')
    assert is_too_deep(b'["\\\\",' + deep)


_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_scalars = st.none() | st.booleans() | st.integers(-MAX_SAFE_INTEGER, MAX_SAFE_INTEGER) | _texts
_plain = st.recursive(
    _scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_texts, inner, max_size=4), max_leaves=12
)
_any = st.recursive(
    _scalars | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_texts, inner, max_size=4),
    max_leaves=12,
)


@given(_plain)
def test_fast_encoder_writes_the_same_bytes(value: Json) -> None:
    """Data that is plain enough for the fast encoder gets the canonical bytes."""
    assert canonical_json(value) == _encode_carefully(value).encode()


@given(_any)
def test_canonical_json_round_trips(value: Json) -> None:
    """Another JSON reader returns the same data, and writing that again gives the same bytes."""
    written = canonical_json(value)
    again = with_json_numbers(json.loads(written))
    assert again == value
    assert canonical_json(again) == written


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_doubles_round_trip_in_shortest_digits(value: float) -> None:
    """Every double reads back as itself, with as few digits as Python's `repr`."""
    written = canonical_json(value).decode()
    assert float(written) == value
    assert written.lstrip("-").replace(".", "").split("e")[0].strip("0") == (
        repr(abs(value)).split("e")[0].replace(".", "").strip("0")
    )


@given(_any)
def test_key_order_does_not_change_the_bytes(value: Json) -> None:
    def reverse(part: Json) -> Json:
        if isinstance(part, dict):
            return {key: reverse(item) for key, item in reversed(part.items())}
        return [reverse(item) for item in part] if isinstance(part, list) else part

    assert canonical_json(reverse(value)) == canonical_json(value)


def test_parser_refuses_numbers_too_large_for_a_double() -> None:
    with pytest.raises(Invalid):
        with_json_numbers([10**400])
    assert with_json_numbers({"x": [10**17, 5]}) == {"x": [1e17, 5]}


def test_digest_is_sha256_of_all_parts() -> None:
    """In lower-case hex."""
    assert digest(b"a", b"bc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
