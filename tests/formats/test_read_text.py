"""Documents as they come from outside: JSON and YAML are read exactly or refused, and plain JSON quickly."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.errors import Invalid
from holdfast.formats.base import Place
from holdfast.formats.text.json import parse_plain
from holdfast.formats.text.nodes import NotADocument
from holdfast.formats.text.read import LIMIT, ReadDocument, read, read_json, read_lines, read_yaml
from tests.support.scale import scale

JSON = '{\n  "a": [1, 2.5,\n    {"b": null}],\n  "c": "ü\\n"\n}\n'
YAML = "a:\n  - 1\n  - b: x\nc: {d: [true]}\n"


def refused(raw: bytes, path: str = "x.json") -> NotADocument:
    with pytest.raises(NotADocument) as caught:
        read(raw, path)
    return caught.value


def test_json_is_read_as_data_with_lines() -> None:
    value, line, notes = read(JSON.encode(), "x.json")
    assert value == {"a": [1, 2.5, {"b": None}], "c": "ü\n"}
    assert notes == []
    places: dict[Place, int] = {(): 1, ("a",): 2, ("a", 1): 2, ("a", 2): 3, ("a", 2, "b"): 3, ("c",): 4}
    assert {place: line(place) for place in places} == places


def test_line_of_what_is_missing_is_that_of_its_surroundings() -> None:
    line = read(JSON.encode(), "x.json").line
    assert line(("a", 2, "missing")) == 3
    assert line(("a", 9)) == 2
    assert line(("c", "inside")) == 4


def test_yaml_is_read_as_data_with_lines() -> None:
    value, line, _ = read(YAML.encode(), "x.yaml")
    assert value == {"a": [1, {"b": "x"}], "c": {"d": [True]}}
    assert [line(place) for place in ((), ("a", 0), ("a", 1, "b"), ("c", "d", 0))] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("null", None), ("~", None), ("", None), ("true", True), ("FALSE", False), ("yes", "yes"), ("on", "on"),
        ("12", 12), ("-12", -12), ("+12", 12), ("0o17", 15), ("0xfF", 255), ("017", 17), ("1.5", 1.5), ("1.", 1.0),
        (".5", 0.5), ("1e3", 1000.0), ("1.0", 1.0), ("1_000", "1_000"), ("12:30", "12:30"),
        ("2026-01-05", "2026-01-05"), ("2026-01-05T08:00:00Z", "2026-01-05T08:00:00Z"), ('"12"', "12"),
        ("'true'", "true"), ('"null"', "null"), ("1.2.3", "1.2.3"), ("0x", "0x"), ("-", [None]),
    ],
)  # fmt: skip
def test_scalars_of_yaml_mean_what_yaml_1_2_says(written: str, meant: Any) -> None:
    value = read_yaml(f"a: {written}\n".encode() if meant != [None] else b"a:\n  -\n", "x.yaml").value
    assert value == {"a": meant}
    assert type(value["a"]) is type(meant)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(st.characters(exclude_categories=["Cs"])),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
        max_leaves=20,
    )
)  # fmt: skip
def test_any_json_value_is_read_exactly(value: Any) -> None:
    for ascii_only in (True, False):
        raw = json.dumps(value, ensure_ascii=ascii_only, indent=1).encode()
        result = read_json(raw, "x.json")
        assert result.value == value
        assert result.line(()) == 1
        assert list(_keys(result.value)) == list(_keys(value))


def _keys(value: Any) -> Any:
    if isinstance(value, dict):
        yield from value
        for inner in value.values():
            yield from _keys(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _keys(inner)


@given(st.binary(max_size=60) | st.text("{}[]\":,\\u0dD8e1-. \n\t'#&*!|>%@`?~", max_size=60).map(str.encode))
@settings(max_examples=400)
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    """Nothing but an answer or a sentence comes out."""
    for path in ("x.json", "x.yaml"):
        try:
            result = read(raw, path)
        except NotADocument:
            continue
        else:
            json.dumps(result.value, allow_nan=False).encode()
            result.line(("a", 0))
    for _, line in read_lines(raw, "x.jsonl"):
        assert isinstance(line, (ReadDocument, Invalid))


# ── what is refused ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "why", "line"),
    [
        ('{"a": 1,\n "b": {"c": 1,\n "c": 2}}', "duplicate key 'c'", 3),
        ('{"a": 1,\n "\\u0061": 2}', "duplicate key 'a'", 2),
        ('{"a":\n NaN}', "NaN is not JSON", 2),
        ('["NaN",\n -Infinity]', "-Infinity is not JSON", 2),
        ("[1,\n 1e999]", "the number 1e999… is too large", 2),
        (f"[1,\n {10**30 + 1}]", "is too large", 2),
        ("[1,\n" + "9" * 5000 + "]", "is too large", 2),
        ('["a",\n "\\ud800"]', "half of a surrogate pair", 2),
        ('["a",\n "\\udc00\\ud800"]', "half of a surrogate pair", 2),
        ('{"a": 1,\n "\\ud800": 2}', "half of a surrogate pair", 2),
        ("[\n" * 101 + "]" * 101, "nested too deeply", 101),
        ("[" * 100_000, "nested too deeply", 1),
        ("[" + "0," * 100_000 + "0]", "more than 100,000 parts", None),
        ("[1,\n2", "it is not JSON", 2),
        ("", "it is empty", None),
        (" \n", "it is empty", None),
        ("{'a': 1}", "it is not JSON", 1),
        ('"a\tb"', "it is not JSON", 1),
        ("{}{}", "it is not JSON", 1),
    ],
)
def test_json_that_is_refused(text: str, why: str, line: int | None) -> None:
    error = refused(text.encode())
    assert why in error.why
    assert error.line == line
    assert (f"line {line}:" in error.message) is (line is not None)


@pytest.mark.parametrize(
    ("text", "why", "line"),
    [
        ("a: 1\nb:\n  c: 1\n  c: 2\n", "duplicate key 'c'", 4),
        ("a: 1\nb: .nan\n", "not a number that can be stored", 2),
        ("a: 1\nb: -.inf\n", "not a number that can be stored", 2),
        ("a: 1\nb: 1e999\n", "too large", 2),
        (f"a: 1\nb: {10**30 + 1}\n", "too large", 2),
        ("a: 1\nb: 0x" + "f" * 60, "too large", 2),
        ('a: 1\nb: "\\ud800"\n', "half of a surrogate pair", 2),
        ("a: &x 1\nb: *x\n", "anchors and aliases", 1),
        ("a: 1\nb: !!python/object:os.system x\n", "tags are not read", 2),
        ("a: 1\n---\nb: 1\n", "more than one document", 2),
        ("[" * 101 + "]" * 101, "nested too deeply", 1),
        ("- a\n" * 100_001, "more than 100,000 parts", 100_000),
        ("? [a]\n: 1\n", "a key must be text", 1),
        ("a: [1\n", "", 2),
        ("", "it is empty", None),
        ("# only this\n", "it is empty", None),
    ],
)
def test_yaml_that_is_refused(text: str, why: str, line: int | None) -> None:
    error = refused(text.encode(), "x.yml")
    assert why in error.why
    assert error.line == line


def test_what_is_just_within_the_limits_is_read() -> None:
    assert read(b"[" * 100 + b"]" * 100, "x.json").value is not None
    assert read(b"[" * 100 + b"]" * 100, "x.yaml").value is not None
    assert len(read(b"[" + b"0," * 99_998 + b"0]", "x.json").value) == 99_999  # type: ignore[arg-type]
    assert read(str(10**30).encode(), "x.json").value == 10**30
    assert read(b'["[[[[' + b"[" * 200 + b'"]', "x.json").value == ["[[[[" + "[" * 200]


@pytest.mark.parametrize(
    ("encoding", "name"), [("utf-16", "UTF-16"), ("utf-16-le", "UTF-16 or UTF-32"), ("utf-16-be", "UTF-16 or UTF-32"),
                           ("utf-32", "UTF-32"), ("utf-32-be", "UTF-16 or UTF-32")]
)  # fmt: skip
@pytest.mark.parametrize("path", ["x.json", "x.yaml"])
def test_other_encodings_are_refused_by_name(encoding: str, name: str, path: str) -> None:
    error = refused('{"a": 1}'.encode(encoding), path)
    assert error.why == f"its text is {name}"
    assert error.hint == "Save it as UTF-8."


def test_bytes_that_are_no_text_are_refused_with_their_line() -> None:
    assert refused(b'{"a":\n"\xff"}').line == 2


def test_file_that_is_too_large_is_refused() -> None:
    assert "4 MiB" in refused(b" " * (LIMIT + 1)).why


def test_lines_are_not_one_document() -> None:
    assert "one per line" in refused(b"{}\n{}\n", "history.jsonl").why


# ── what is read, and noted ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("path", "text"), [("x.json", '{\n"a": 1\n}\n'), ("x.yaml", "a:\n  1\n")])
def test_byte_order_mark_and_windows_lines_are_read_and_noted(path: str, text: str) -> None:
    plain = read(text.encode(), path)
    marked = read(b"\xef\xbb\xbf" + text.encode(), path)
    windows = read(text.replace("\n", "\r\n").encode(), path)
    assert plain.value == marked.value == windows.value == {"a": 1}
    assert plain.notes == []
    assert ["byte order mark" in note.message for note in marked.notes] == [True]
    assert ["Windows" in note.message for note in windows.notes] == [True]
    assert windows.line(("a",)) == plain.line(("a",)) == 2


# ── lines ────────────────────────────────────────────────────────────────────────────────────────────────


def test_each_line_is_read_by_itself() -> None:
    raw = b'\xef\xbb\xbf{"a": 1}\r\n\n{"a": 2, "a": 3}\n\xff\n{"b": 4}\n{"torn'
    result = dict(read_lines(raw, "history.jsonl"))
    assert list(result) == [1, 3, 4, 5, 6]
    values = {number: match.value for number, match in result.items() if isinstance(match, ReadDocument)}
    assert values == {1: {"a": 1}, 5: {"b": 4}}
    errors = {number: match for number, match in result.items() if isinstance(match, NotADocument)}
    assert {number: error.line for number, error in errors.items()} == {3: 3, 4: 4, 6: 6}
    assert "duplicate key" in errors[3].why
    last = result[5]
    assert isinstance(last, ReadDocument)
    assert last.line(("b",)) == 5


def test_lines_end_with_an_error_when_there_are_more_than_any_history_has() -> None:
    *_, (number, last) = read_lines(b"\n" * 600_000 + b"{}\n", "history.jsonl")
    assert number == 500_001
    assert isinstance(last, NotADocument)
    assert "more than 500,000 lines" in last.why


# ── memory ───────────────────────────────────────────────────────────────────────────────────────────────

HUNGRY = {
    "empty lists": ("x.json", 'b"[" + b"[]," * (LIMIT // 3 - 2) + b"[]]"'),
    "small objects": ("x.json", "b'[' + b'{\"\":0},' * (LIMIT // 7 - 1) + b'0]'"),
    "escapes": ("x.json", "b'\"' + b'\\\\\\\\' * (LIMIT // 2 - 1) + b'\"'"),
    "escapes without end": ("x.json", "b'\"' + b'\\\\\"' * (LIMIT // 2 - 1)"),
    "as many parts as allowed": (
        "x.json", "b'[' + b','.join(b'{\"k%05d\":\"%s\"}' % (i, b'x' * 71) for i in range(49_000)) + b']'",
    ),
    # These take many seconds: with `make torture`.
    "words": ("x.yaml", 'b"a " * (LIMIT // 2)'),
    "keys": ("x.yaml", 'b"".join(b"k%06d: a\\n" % i for i in range(LIMIT // 11))'),
}  # fmt: skip


@pytest.mark.skipif(sys.platform == "win32", reason="there is no resource module")
@pytest.mark.parametrize("name", [name for name in HUNGRY if name not in {"words", "keys"} or scale(0, 1, 1)])
def test_no_input_takes_more_memory_than_it_may(name: str) -> None:
    """A process that reads the worst four megabytes stays under 256 MiB."""
    path, made = HUNGRY[name]
    program = f"""
import os, resource, sys
from holdfast.core.errors import Invalid
from holdfast.formats.text.read import LIMIT, read
raw = {made}
assert LIMIT - 100_000 < len(raw) <= LIMIT, len(raw)
try:
    read(raw, "{path}").line(("a", 0))
except Invalid:
    pass
if os.path.exists("/proc/self/status"):
    # Linux counts in ru_maxrss what the process was before it became this program: a copy of whoever started it.
    peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
else:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> (10 if sys.platform == "darwin" else 0)
print(peak // 1024)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 256


# Built to collide: few keys, quotes and colons in texts, every spelling of both, blanks where they are allowed.
_BLANK = st.sampled_from(["", " ", "\n", "\t", "  "])
_STRING = st.sampled_from(
    ['"a"', '"b"', '"\\u0061"', '"\\":"', '"\\" :"', '"\\u0022:"', '"\\"\\u003a"', '":"', '"\\\\"', '""', '"\u2028"']
)
_SCALAR = st.one_of(_STRING, st.sampled_from(["1", "-0.5", "true", "null", "1e400", "NaN", "9" * 31, '"\\ud800"']))


def _pairs(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pair = st.builds(lambda key, gap, value: f"{key}{gap}:{value}", _STRING, _BLANK, inner)
    return st.lists(pair, max_size=4).map(lambda pairs: "{" + ",".join(pairs) + "}")


TEXTS = st.recursive(
    _SCALAR,
    lambda inner: _pairs(inner) | st.lists(inner, max_size=3).map(lambda a: f"[{','.join(a)}]"),
    max_leaves=12,
)


@given(TEXTS)
@settings(max_examples=scale(200, 1_000, 10_000))
def test_what_passes_is_what_the_careful_reader_reads(text: str) -> None:
    value = parse_plain(text.encode())
    if value is not None:
        read = read_json(text.encode(), "x.json")
        assert (read.value, read.notes) == (value, [])


@pytest.mark.parametrize(
    "text",
    ['{"a":1,"a":2}', '{"a":1,"a" :2}', '{"a":1,"a"\n:"\\u0022:"}', '{"a":{"b":1,"b":2},"c":"\\u0022:"}', "",
     '\ufeff{"a":1}', '{"a":1}\r\n', "[" * 101 + "]" * 101, "[" * 5000 + "]" * 5000, "1" * 31, "[NaN]",
     "[" + "0," * 200_000 + "0]"],
)  # fmt: skip
def test_what_must_not_pass_does_not(text: str) -> None:
    assert parse_plain(text.encode()) is None


@pytest.mark.parametrize(
    "value", [{"a": 1, "b": {"a": 2}}, {"text": 'he said ":" and left'}, {"a": [{"b": [{}] * 200}]}, {"ü": "\u2014"}]
)
def test_ordinary_documents_pass(value: object) -> None:
    """Otherwise the quick look would be no help."""
    for indent in (None, 2):
        assert parse_plain(json.dumps(value, indent=indent).encode()) == value
