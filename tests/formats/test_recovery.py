"""Damaged documents: what is complete is recovered exactly, and losses are reported with their place."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from holdfast.core.errors import HoldfastError, Invalid
from holdfast.formats.recovery.parse import recover_document
from holdfast.formats.recovery.text import is_mojibake
from tests.support import spec_examples

WORDS = st.text(st.characters(codec="utf-8"), max_size=20)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | WORDS
    | st.floats(allow_nan=False, allow_infinity=False)
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4), max_leaves=12
)
DOCUMENTS = st.dictionaries(WORDS, VALUES, min_size=1, max_size=6)
STYLES: list[dict[str, Any]] = [
    {"indent": 2, "ensure_ascii": False},
    {"separators": (",", ":")},
    {"indent": None},
    {"indent": 0},
]


def ends(document: dict[str, Any], style: dict[str, Any]) -> dict[str, int]:
    """The byte after which each field of the root is complete for sure: after whatever follows its value."""
    if not style.get("indent") and style.get("indent") != 0:
        colon, comma = (":", ",") if "separators" in style else (": ", ", ")
        position, result = 1, {}
        for key, value in document.items():
            position += len(json.dumps(key, **style)) + len(colon) + len(json.dumps(value, **style))
            result[key] = position + 1
            position += len(comma)
        return result
    result = {}
    for number, key in enumerate(document):
        first = dict(list(document.items())[: number + 1])
        result[key] = len(json.dumps(first, **style).encode()) - 2 + 1  # without the line break and the bracket
    return result


# ── laws ─────────────────────────────────────────────────────────────────────────────────────────────────


@given(DOCUMENTS, st.sampled_from(STYLES), st.data())
def test_each_field_that_ends_before_the_cut_comes_back(
    document: dict[str, Any], style: dict[str, Any], data: st.DataObject
) -> None:
    text = json.dumps(document, **style)
    assume(not is_mojibake(text))
    raw = text.encode()
    cut = data.draw(st.integers(0, len(raw)))
    result = recover_document(raw[:cut])
    for key, end in ends(document, style).items():
        if end <= cut:
            assert isinstance(result.value, dict)
            assert result.value[key] == document[key]
            assert type(result.value[key]) is type(document[key])


@given(DOCUMENTS, st.sampled_from(STYLES), st.data())
def test_nothing_is_invented_by_a_cut(document: dict[str, Any], style: dict[str, Any], data: st.DataObject) -> None:
    """Whatever comes back from a cut document is part of it."""
    text = json.dumps(document, **style)
    assume(not is_mojibake(text))
    raw = text.encode()
    result = recover_document(raw[: data.draw(st.integers(0, len(raw)))])
    assert result.value is None or part_of(result.value, document)
    assert all(place is None or place <= len(raw) for place in [result.lost_from])


def part_of(result: Any, whole: Any) -> bool:
    if isinstance(result, dict) and isinstance(whole, dict):
        return all(key in whole and part_of(value, whole[key]) for key, value in result.items())
    if isinstance(result, list) and isinstance(whole, list):
        return len(result) <= len(whole) and all(part_of(a, b) for a, b in zip(result, whole, strict=False))
    return bool(result == whole)


@given(DOCUMENTS, st.sampled_from(STYLES))
def test_sound_document_is_whole(document: dict[str, Any], style: dict[str, Any]) -> None:
    text = json.dumps(document, **style)
    assume(not is_mojibake(text))
    result = recover_document(text.encode())
    assert (result.value, result.whole, result.lost_from) == (document, True, None)


PIECES = st.sampled_from(
    [
        *"{}[]\",:\\'",
        "\0",
        "\n",
        "//",
        "/*",
        "*/",
        "#",
        "null",
        "NaN",
        "tru",
        "1",
        "-",
        "1e9",
        '{"a":',
        "\ufeff",
        "é",
        "---\n",
        "a: b\n",
        "- ",
    ]
)


@given(st.lists(PIECES, max_size=60).map("".join) | st.text(max_size=50))
@example("{")
@example('{"a":{"a":{"a":1}\n{"a":')
def test_any_text_gives_an_answer(text: str) -> None:
    result = recover_document(text.encode("utf-8", "surrogatepass"))
    json.dumps(result.value, allow_nan=False).encode()
    assert result.whole or result.notes


@given(st.binary(max_size=200))
def test_any_bytes_give_an_answer(raw: bytes) -> None:
    result = recover_document(raw)
    assert result.lost_from is None or 0 <= result.lost_from <= len(raw)


@pytest.mark.parametrize("name", spec_examples.JSON_FILES)
def test_texts_examples_cut_after_any_byte(name: str) -> None:
    raw = spec_examples.JSON_FILES[name]
    document = spec_examples.documents()[name]
    for cut in range(0, len(raw), 7):
        result = recover_document(raw[:cut]).value
        assert result is None or part_of(result, document), cut


# ── kinds of damage ──────────────────────────────────────────────────────────────────────────────────────

RAW = spec_examples.ORCHESTRATOR
DOCUMENT = json.loads(RAW)


def test_cut_is_reported_with_byte_and_line() -> None:
    cut = RAW.index(b'"status": "complete"') + 12
    result = recover_document(RAW[:cut])
    assert isinstance(result.value, dict)
    assert result.value["agents"] == [{"id": "arch-1", "type": "arch", "task": "Design sensitivity API"}]
    assert result.lost_from == RAW.index(b'"status": "complete"')
    line = RAW[: result.lost_from].count(b"\n") + 1
    assert f"(byte {result.lost_from:,}, line {line})" in result.notes[-1].message


def test_number_at_the_cut_may_have_had_more_digits() -> None:
    assert recover_document(b'{"a": 1, "b": 12').value == {"a": 1}


def test_shorter_text_over_a_longer_one() -> None:
    new = json.dumps({"schema_version": "1.0", "goal": "Another"}, indent=2).encode()
    result = recover_document(new + RAW[len(new) :])
    assert (result.value, result.lost_from, result.whole) == (
        {"schema_version": "1.0", "goal": "Another"},
        None,
        False,
    )
    assert f"older, longer text was ignored (byte {len(new)}" in result.notes[0].message


def test_zeros_at_the_end_cost_nothing() -> None:
    result = recover_document(RAW + b"\0" * 500)
    assert (result.value, result.lost_from) == (DOCUMENT, None)


def test_zeros_in_the_middle_cost_only_what_they_cover() -> None:
    """What follows the hole in an unknown place is left out; fields of the root after it are known."""
    start, end = RAW.index(b'"arch-1"'), RAW.index(b'"progress"')
    result = recover_document(RAW[:start] + b"\0" * (end - start) + RAW[end:])
    assert result.value == {key: value for key, value in DOCUMENT.items() if key != "agents"}
    assert result.lost_from is not None
    assert result.lost_from <= start


def test_zeros_in_one_line_cost_that_line_alone() -> None:
    line = spec_examples.CONTRACT_HISTORY
    entry = json.loads(line)
    torn = line[:50] + b"\0" * 40 + line[90:]
    result = recover_document(line + torn + line)
    assert (result.documents[0], result.documents[-1]) == (entry, entry)
    assert part_of(result.documents[1], entry)
    assert len(result.documents) == 3


def test_zeros_at_the_beginning_leave_the_end() -> None:
    start = RAW.index(b'"pending_tasks"') - 30
    result = recover_document(b"\0" * start + RAW[start:])
    assert isinstance(result.value, dict)
    assert result.value == {key: DOCUMENT[key] for key in result.value}
    assert {"pending_tasks", "decisions_made", "context_usage", "errors"} <= set(result.value)
    assert recover_document(RAW[start:]).value == result.value


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_other_encodings(encoding: str) -> None:
    text = RAW.decode()
    raw = ("\ufeff" + text).encode("utf-16-be") if encoding == "utf-16-be" else text.encode(encoding)
    assert recover_document(raw).value == DOCUMENT
    result = recover_document(raw[: len(raw) // 2]).value
    assert isinstance(result, dict)
    assert result["goal"] == DOCUMENT["goal"]


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("wrong", ["latin-1", "cp1252"])
def test_text_that_was_read_in_the_wrong_encoding(times: int, wrong: str) -> None:
    raw = '{"goal": "Größe prüfen – „bald“", "x": "naïve café"}'.encode()
    for _ in range(times):
        shown = "".join(_shown(byte, wrong) for byte in raw)
        raw = shown.encode()
    result = recover_document(raw)
    assert result.value == {"goal": "Größe prüfen – „bald“", "x": "naïve café"}
    assert "Latin-1" in result.notes[0].message
    cut = recover_document(raw[:-5]).value
    assert cut == {"goal": "Größe prüfen – „bald“"}


def _shown(byte: int, wrong: str) -> str:
    try:
        return bytes([byte]).decode(wrong)
    except UnicodeDecodeError:
        return chr(byte)


def test_latin_1_itself_is_read() -> None:
    assert recover_document('{"a": "café", "b": "naïve"}'.encode("latin-1")).value == {"a": "café", "b": "naïve"}


@pytest.mark.parametrize("times", [1, 2])
def test_document_within_a_string(times: int) -> None:
    text = json.dumps(DOCUMENT)
    for _ in range(times):
        text = json.dumps(text)
    result = recover_document(text.encode())
    assert (result.value, result.whole) == (DOCUMENT, False)
    cut = recover_document(text.encode()[: len(text) // 2])
    assert isinstance(cut.value, dict)
    assert part_of(cut.value, DOCUMENT)
    assert cut.value["goal"] == DOCUMENT["goal"]
    assert cut.lost_from is not None
    assert len(text) // 4 < cut.lost_from <= len(text) // 2


def test_two_documents_in_one_file() -> None:
    """All are given; the last whole one counts."""
    craft = json.loads(spec_examples.CRAFT)
    assert recover_document(RAW + spec_examples.CRAFT).documents == [DOCUMENT, craft]
    assert recover_document(RAW + spec_examples.CRAFT).value == craft
    broken = recover_document(RAW + spec_examples.CRAFT[:900])
    assert broken.value == DOCUMENT
    assert len(broken.documents) == 2
    glued = recover_document(RAW[:700] + RAW)
    assert glued.value == DOCUMENT
    assert part_of(glued.documents[0], DOCUMENT)


def test_lines_each_with_a_document() -> None:
    line = spec_examples.CONTRACT_HISTORY
    entry = json.loads(line)
    assert recover_document(line * 3).documents == [entry] * 3
    assert recover_document(line * 3).whole
    cut = recover_document(line * 2 + line[:60])
    assert cut.documents == [entry, entry, {"timestamp": entry["timestamp"], "command": "plan"}]
    assert not cut.whole


@pytest.mark.parametrize("cut", range(2, 170, 3))
def test_half_a_record_glued_to_the_next(cut: int) -> None:
    """With or without a line break between them, the next one is whole."""
    line = spec_examples.CONTRACT_HISTORY
    entry = json.loads(line)
    for between in (b"", b"\n"):
        result = recover_document(line + line[:cut].rstrip(b"\n") + between + line + line)
        assert result.documents[0] == entry
        assert result.documents[-2:] == [entry, entry]
        assert all(part_of(item, entry) for item in result.documents)


# ── liberties ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "value", "fragment"),
    [
        ('{"a": "x\ny", "b": 1}', {"a": "x\ny", "b": 1}, "line break"),
        ('{"a": 1, "b": [1, 2,],}', {"a": 1, "b": [1, 2]}, "extra comma"),
        ('{"a": 1 "b": [1 2]}', {"a": 1, "b": [1, 2]}, "comma is missing"),
        ('{"a": 1, // why\n /* and */ "b": 2 # so\n}', {"a": 1, "b": 2}, "comment"),
        ("{'a': 'it\\'s \"x\"', 'b': True}", {"a": 'it\'s "x"', "b": True}, "single quotes"),
        ('{a: 1, "b": NaN, "c": -Infinity, "d": None}', {"a": 1, "b": None, "c": None, "d": None}, "without quotes"),
        ('{"a": "Add this,\n "b": "x"}', {"a": "Add this", "b": "x"}, "closing quote"),
        ('{"a": "C:\\Users\\new", "b": 1}', {"a": "C:\\Users\new", "b": 1}, "invalid escape"),
        ('{"a": [{"b": 1], "c": 2}', {"a": [{"b": 1}], "c": 2}, "closing bracket"),
        ('{"a": 1, "a": 2}', {"a": 2}, "duplicate key"),
        ('{"a": 1e999, "b": 1}', {"a": "1e999", "b": 1}, "as text"),
        ('{"a": hello, "b": 1, "c": {x}, "d": [1, oops, 2]}', {"b": 1, "c": {}, "d": [1, 2]}, "not JSON"),
        ('{"a": "\\ud800", "b": 1}', {"a": "\ufffd", "b": 1}, "invalid bytes"),
    ],
)
def test_safe_repairs_are_made_and_noted(text: str, value: Any, fragment: str) -> None:
    result = recover_document(text.encode())
    assert result.value == value
    assert fragment in "\n".join(note.message for note in result.notes)
    assert not result.whole


def test_depth_and_size_are_bounded() -> None:
    deep = recover_document(b'{"a": 1, "b": ' + b"[" * 100_000 + b"]" * 100_000 + b', "c": 2}')
    assert isinstance(deep.value, dict)
    assert (deep.value["a"], deep.value["c"]) == (1, 2)
    assert any("nested too deeply" in note.message for note in deep.notes)
    assert recover_document(b"[" * 100_000).value is None
    many = recover_document(b'{"a": [' + b"0," * 300_000)
    assert isinstance(many.value, dict)
    assert "more than" in many.notes[0].message
    with pytest.raises(Invalid, match="4 MiB"):
        recover_document(b" " * ((4 << 20) + 1))


@pytest.mark.parametrize(
    "unit",
    [
        '"',
        '"\n',
        '\\"',
        '{"a":',
        "[",
        "]",
        ',"x"',
        '{"a":x',
        "/*",
        "'",
        '"a\n"b',
        "{'",
        "\0x",
        '{"a":1}x',
        "a: b\n",
        '"a":1,',
    ],
)
def test_no_repetition_exhausts_it(unit: str) -> None:
    """A long text of any nasty piece gives an answer; a quadratic parser would not end."""
    for head in ("", '{"a": 1, '):
        result = recover_document((head + unit * ((1 << 17) // len(unit))).encode())
        assert len(result.notes) <= 110


def test_flipped_bytes_never_raise_and_cost_little() -> None:
    chance = random.Random(7)
    kept = 0
    for _ in range(200):
        raw = bytearray(RAW)
        raw[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
        result = recover_document(bytes(raw))
        if isinstance(result.value, dict):
            kept += sum(result.value.get(key) == value for key, value in DOCUMENT.items())
    assert kept > 200 * len(DOCUMENT) * 0.8


# ── YAML ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_yaml_is_kept_up_to_the_last_line_that_parses() -> None:
    raw = spec_examples.CONTRACT_STATE
    assert recover_document(raw).whole
    broken = raw.replace(b'"opus"', b'"opus')
    result = recover_document(broken, "state.yaml")
    assert isinstance(result.value, dict)
    assert result.value["feature_id"] == "ai-orchestrator-2025-01-09"
    assert result.value["current_state"] == {"active_task": "impl-core-commands"}
    assert result.lost_from == broken.index(b"  model_in_use")
    assert "line 5" in result.notes[-1].message


@pytest.mark.parametrize("name", spec_examples.YAML_FILES)
def test_yaml_cut_after_any_byte(name: str) -> None:
    raw = spec_examples.YAML_FILES[name]
    whole = recover_document(raw).value
    for cut in range(0, len(raw), 11):
        try:
            result = recover_document(raw[:cut], name)
        except HoldfastError:
            pytest.fail(f"cut at {cut}")
        assert result.whole or result.notes
        assert not isinstance(result.value, dict) or isinstance(whole, dict)
        if isinstance(result.value, dict) and isinstance(whole, dict):
            assert set(result.value) <= set(whole)


def test_two_documents_of_yaml_in_one_file() -> None:
    raw = spec_examples.CONTRACT_STATE
    newer = raw.replace(b"impl-core-commands", b"impl-tests")
    result = recover_document(raw + b"---\n" + newer, "state.yaml")
    assert result.documents == [recover_document(raw).value, recover_document(newer).value]
    assert (result.value, result.lost_from) == (result.documents[1], None)
    torn = recover_document(raw + b"---\n" + newer[:-30], "state.yaml")
    assert torn.value == recover_document(raw).value
    assert torn.lost_from is not None


# ── documents glued together, and keys that stand twice ──────────────────────────────────────────────────


@pytest.mark.parametrize("second", [RAW, spec_examples.CRAFT])
def test_whole_document_glued_to_a_torn_one_counts(second: bytes) -> None:
    """Wherever the first was torn, also within text; but not where an object may stand, which could be its own."""
    for cut in range(30, len(RAW) - 1, 7):
        if RAW[:cut].rstrip()[-1:] in (b":", b"[", b","):
            continue
        result = recover_document(RAW[:cut] + second)
        assert result.value == json.loads(second), cut
        assert part_of(result.documents[0], DOCUMENT), cut


@pytest.mark.parametrize(("text", "lost"), [('{"a": 1, "a": 2}', True), ('{"a": [1], "b": 0, "a": [1]}', False)])
def test_duplicate_key_loses_a_value_only_if_they_differ(text: str, lost: bool) -> None:
    result = recover_document(text.encode())
    assert (result.lost_from is not None) == lost
    assert [note.place for note in result.notes] == [("a",)]


def test_many_empty_lines_before_nonsense_take_no_time() -> None:
    """From fuzzing: thirty empty lines once took exponential time."""
    assert not recover_document(b"\n" * 3000 + b'\0\0t": "b"}i\0 "x: ["}').whole
