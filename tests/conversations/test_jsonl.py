"""Reading JSON lines as agents leave them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.conversations.adapters.jsonl import ReadProblems, decode_records, read_records


class Small(msgspec.Struct):
    type: str = ""
    text: str = ""


DECODER = msgspec.json.Decoder(Small)
A = b'{"type":"a","text":"1"}'
B = b'{"type":"b","text":"2"}'


def read(data: bytes, size: int = 1 << 20, longest: int = 64 << 20) -> tuple[list[tuple[int, str, str]], list[str]]:
    problems = ReadProblems()
    pieces = (data[at : at + size] for at in range(0, len(data), size))
    records = [
        (n, record.type, record.text) for n, record in decode_records(pieces, DECODER, problems, longest=longest)
    ]
    return records, problems.sentences()


@pytest.mark.parametrize(
    ("data", "records", "problems"),
    [
        (b"\xef\xbb\xbf" + A + b"\r\n" + B + b"\r\n", [(1, "a", "1"), (2, "b", "2")], []),
        (A + b"\n\n  \n" + B, [(1, "a", "1"), (4, "b", "2")], []),
        (A + b"\n" + B[:10], [(1, "a", "1")], ["line 2 is cut off"]),
        (A + b"\nxx\n" + B, [(1, "a", "1"), (3, "b", "2")], ["line 2 is not JSON"]),
        (A + b"\n\0\0\0\0", [(1, "a", "1")], ["line 2 contains only NUL bytes"]),
        (A + b"\0\0\0\0" + B, [(1, "a", "1"), (1, "b", "2")], []),
        (A + B, [(1, "a", "1"), (1, "b", "2")], []),
        (A[:11] + B + b"\n" + A, [(1, "b", "2"), (2, "a", "1")], ["line 1 is cut off where the next record begins"]),
        (A[:-4] + B + b"\n" + A, [(1, "b", "2"), (2, "a", "1")], ["line 1 is cut off where the next record begins"]),
        (b'{"type":"x","text":"one\n\ntwo"}\n' + A, [(1, "x", "one\n\ntwo"), (4, "a", "1")], []),
        (b'{"type":"x","te\n' + A, [(2, "a", "1")], ["line 1 is cut off"]),
        ('{"type":"x","text":"\u2028"}\n'.encode() + A, [(1, "x", "\u2028"), (2, "a", "1")], []),
        (b'{"type":"x","text":"\xff"}\n' + A, [(1, "x", "\ufffd"), (2, "a", "1")], []),
        (b'{"type":"x","text":"\\ud800"}', [(1, "x", "?")], []),
        (b"7\n[]\nnull\n" + A, [(4, "a", "1")], [f"line {number} holds no record" for number in (1, 2, 3)]),
        (b'{"type":5}\n' + A, [(2, "a", "1")], ["line 1 holds something other than expected"]),
        (b'{"x":' * 100_000 + b"\n" + A, [(2, "a", "1")], ["line 1 is not JSON"]),
        (b"[" * 100_000 + b"\n" + A, [(2, "a", "1")], ["line 1 is not JSON"]),
        (b'{"type":"new-kind","unheard":{"of":[1,2]}}', [(1, "new-kind", "")], []),
        (b"", [], []),
    ],
)  # fmt: skip
def test_damage_loses_only_damaged_lines(
    data: bytes, records: list[tuple[int, str, str]], problems: list[str]
) -> None:
    """Records around and within damaged lines are read, and each loss is reported with its line."""
    assert read(data) == (records, problems)
    assert read(data, size=7) == (records, problems) or len(data) > 100_000


@given(
    texts=st.lists(st.text(max_size=40), max_size=12),
    ends=st.sampled_from([b"\n", b"\r\n"]),
    size=st.integers(1, 64),
    bom=st.booleans(),
)
def test_good_lines_are_unchanged(texts: list[str], ends: bytes, size: int, bom: bool) -> None:
    """Each record once, in order, with its number, for any chunks."""
    whole = [json.dumps({"type": "t", "text": text}, ensure_ascii=False) for text in texts]
    data = (b"\xef\xbb\xbf" if bom else b"") + b"".join(name.encode("utf-8", "replace") + ends for name in whole)
    records, problems = read(data, size)
    assert [text for _, _, text in records] == [text.encode("utf-8", "replace").decode() for text in texts]
    assert [number for number, _, _ in records] == list(range(1, len(texts) + 1))
    assert problems == []


@given(data=st.binary(max_size=400), size=st.integers(1, 64))
def test_any_bytes_raise_nothing(data: bytes, size: int) -> None:
    """Invalid bytes are problems; good lines around them are read."""
    records, _ = read(A + b"\n" + data + b"\n" + B, size)
    assert records[0] == (1, "a", "1")


@given(data=st.binary(max_size=200).filter(lambda one: b"\n" not in one), at=st.integers(0, 5))
def test_bad_line_loses_no_other(data: bytes, at: int) -> None:
    """Unless the next line can be read as its continuation."""
    lines = [A] * 6
    lines.insert(at, b"#" + data)
    records, _ = read(b"\n".join(lines))
    assert len([match for match in records if match[1:] == ("a", "1")]) >= 6


def test_too_long_line_is_skipped() -> None:
    """It is reported, and the following lines keep their numbers."""
    long = b'{"type":"long","text":"' + b"x" * 5_000 + b'"}'
    records, problems = read(A + b"\n" + long + b"\n" + B, size=64, longest=1_000)
    assert records == [(1, "a", "1"), (3, "b", "2")]
    assert problems == ["line 2 is longer than 0 MiB"]


def test_line_of_twenty_megabytes_is_read(tmp_path: Path) -> None:
    path = tmp_path / "large.jsonl"
    path.write_bytes(A + b'\n{"type":"b","text":"' + b"y" * 20_000_000 + b'"}\n' + B)
    problems = ReadProblems()
    records = [(n, record.type, len(record.text)) for n, record in read_records(str(path), DECODER, problems)]
    assert records == [(1, "a", 1), (2, "b", 20_000_000), (3, "b", 1)]
    assert not problems


def test_number_of_problems_is_bounded() -> None:
    _, problems = read(b"rubbish\n" * 5_000)
    assert len(problems) == ReadProblems.MAX_SENTENCES + 1
    assert problems[-1] == "and 4990 more like these"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_only_regular_files_are_read(tmp_path: Path) -> None:
    """A pipe, a directory or a missing file is a problem and blocks nobody."""
    os.mkfifo(tmp_path / "pipe")
    for name, sentence in (
        ("pipe", "is not a regular file"),
        ("", "is not a regular file"),
        ("absent", "cannot be opened (no such file or directory)"),
        ("a\0b", "cannot be opened (the name is not valid here)"),
    ):
        problems = ReadProblems()
        assert list(read_records(os.path.join(tmp_path, name), DECODER, problems)) == []
        assert problems.sentences() == [sentence]
