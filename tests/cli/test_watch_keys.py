"""Input of `watch`: bytes become keys, keys edit a line, and no input is too much."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli.cells import clusters, width_of
from holdfast.cli.paint import Paint
from holdfast.cli.watch import keys as reading
from holdfast.cli.watch.keys import EditedLine, KeyPress, KeyReader, edit, visible_part

BYTES = st.lists(
    st.one_of(
        st.binary(max_size=6),
        st.sampled_from(
            [b"\x1b", b"\x1b[", b"\x1b[A", b"\x1b[200~", b"\x1b[201~", b"\x1bO", b"\xc3", b"a\r\n", b"1;5"]
        ),
    ),
    max_size=12,
)
KEYS = st.builds(
    KeyPress,
    st.sampled_from([
        "text", "paste", "left", "right", "home", "end", "backspace", "delete", "ctrl-u", "ctrl-k", "ctrl-w",
        "ctrl-a", "ctrl-e", "tab", "up", "anything",
    ]),
    st.text(st.one_of(st.characters(codec="utf-8"), st.sampled_from("ab \n\r\t漢👩\u200d💻\u0301\x1b")), max_size=8),
)  # fmt: skip


@pytest.mark.parametrize(
    ("sent", "pressed"),
    [
        (b"j", [KeyPress("text", "j")]),
        ("Grüße 漢".encode(), [KeyPress("text", "Grüße 漢")]),
        (b"\x1b[A\x1b[B\x1b[C\x1b[D", [KeyPress("up"), KeyPress("down"), KeyPress("right"), KeyPress("left")]),
        (b"\x1bOA\x1bOH", [KeyPress("up"), KeyPress("home")]),
        (b"\x1b[1;5A\x1b[1~\x1b[4~\x1b[3~", [KeyPress("up"), KeyPress("home"), KeyPress("end"), KeyPress("delete")]),
        (b"\x1b[5~\x1b[6;2~", [KeyPress("page up"), KeyPress("page down")]),
        (b"\r", [KeyPress("enter")]),
        (b"\n", [KeyPress("enter")]),
        (b"\x7f\x08", [KeyPress("backspace"), KeyPress("backspace")]),
        (b"\x15\x01", [KeyPress("ctrl-u"), KeyPress("ctrl-a")]),
        (
            b"a\x1b[200~one\r\ntwo\x1b[A\x1b[201~b",
            [KeyPress("text", "a"), KeyPress("paste", "one\r\ntwo\x1b[A"), KeyPress("text", "b")],
        ),
        (b"\x1bx\x1b[99z\x1b[?1;2cq", [KeyPress("text", "q")]),
        (b"\x1b\x1b[A", [KeyPress("escape"), KeyPress("up")]),
        (b"\x1b[\x01q", [KeyPress("ctrl-a"), KeyPress("text", "q")]),
        (b"\xff\xc3(", [KeyPress("text", "\ufffd\ufffd(")]),
        (b"\x00\xc2\x9b", []),
    ],
)
def test_bytes_become_keys(sent: bytes, pressed: list[KeyPress]) -> None:
    """In every spelling that terminals use; pasted text is one key, and unknown sequences are none."""
    assert KeyReader().feed(sent) == pressed
    one_by_one = KeyReader()
    joined = [key for byte in sent for key in one_by_one.feed(bytes([byte]))]
    assert "".join(key.text for key in joined) == "".join(key.text for key in pressed)
    assert [key.name for key in joined if key.name != "text"] == [key.name for key in pressed if key.name != "text"]


def test_escape_is_a_key_when_nothing_follows() -> None:
    """It is also the first byte of arrows."""
    keys = KeyReader()
    assert keys.feed(b"\x1b") == []
    assert keys.is_ambiguous
    assert keys.settle_escape() == [KeyPress("escape")]
    assert not keys.is_ambiguous
    assert keys.feed(b"\x1b") == []
    assert keys.feed(b"[A") == [KeyPress("up")]
    assert keys.feed(b"\x1b[1;") == []
    assert keys.settle_escape() == []
    assert keys.feed(b"q") == [KeyPress("text", "q")]


@given(BYTES)
def test_any_bytes_give_keys_without_control_characters(pieces: list[bytes]) -> None:
    """In any pieces."""
    keys = KeyReader()
    for piece in pieces:
        for key in [*keys.feed(piece), *keys.settle_escape()]:
            assert key.name
            assert key.name == "paste" or not any(char < " " or "\x7f" <= char <= "\x9f" for char in key.text)


def test_line_is_edited_by_visible_characters() -> None:
    line = EditedLine()
    for key in (
        KeyPress("text", "né"),
        KeyPress("text", "👩‍💻"),
        KeyPress("left"),
        KeyPress("left"),
        KeyPress("text", "x"),
        KeyPress("end"),
        KeyPress("text", "!"),
    ):
        line = edit(line, key)
    assert line.text == "nxé👩‍💻!"
    assert edit(edit(line, KeyPress("backspace")), KeyPress("backspace")).text == "nxé"
    assert edit(edit(line, KeyPress("home")), KeyPress("delete")).text == "xé👩‍💻!"
    assert edit(line, KeyPress("ctrl-u")) == EditedLine()
    assert edit(EditedLine("one two  ", "rest"), KeyPress("ctrl-w")) == EditedLine("one ", "rest")
    assert edit(EditedLine("one", " rest"), KeyPress("ctrl-k")) == EditedLine("one")


def test_pasted_line_break_is_kept_and_does_not_send() -> None:
    """Line breaks are normalized, and control characters removed."""
    line = edit(EditedLine("a", "z"), KeyPress("paste", "one\r\ntwo\rthree\x1b[2J\tx"))
    assert line == EditedLine("aone\ntwo\nthree[2J\tx", "z")
    assert visible_part(Paint(80), line, 60) == (r"aone\ntwo\nthree[2J\txz", 22)


@given(st.lists(KEYS, max_size=20), st.integers(0, 40), st.booleans())
def test_drawn_line_fits_and_contains_the_cursor(pressed: list[KeyPress], cells: int, ascii_only: bool) -> None:
    """After any keys."""
    line = EditedLine()
    for key in pressed:
        line = edit(line, key)
    drawn, cursor = visible_part(Paint(80, ascii_only=ascii_only), line, cells)
    assert width_of(drawn) <= cells
    assert 0 <= cursor <= max(cells - 1, 0)
    assert not any(char < " " or "\x7f" <= char <= "\x9f" for char in drawn)
    assert not ascii_only or drawn.isascii()


@given(st.text(st.characters(codec="utf-8"), max_size=12))
def test_moving_through_the_line_and_back_changes_nothing(text: str) -> None:
    """And never splits a visible character."""
    line = EditedLine(text)
    for _ in clusters(text):
        line = edit(line, KeyPress("left"))
    assert line == EditedLine("", text)
    while line.after:
        line = edit(line, KeyPress("right"))
    assert line == EditedLine(text)


@pytest.mark.parametrize("words", ["word ", "one\ntwo ", "漢字 👩‍💻"])
def test_large_paste_froze_the_line(monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    """Keys and drawing process only the text near the cursor."""
    line = edit(EditedLine(), KeyPress("paste", words * 50_000))
    assert line.length == len(words) * 50_000
    looked_at = []

    def counting(text: str) -> Iterator[tuple[str, int]]:
        looked_at.append(len(text))
        return clusters(text)

    monkeypatch.setattr(reading, "clusters", counting)
    for name in ("left", "left", "backspace", "right", "delete"):
        line = edit(line, KeyPress(name))
        drawn, cursor = visible_part(Paint(80), line, 60)
        assert drawn.startswith("…")
        assert width_of(drawn) <= 60
        assert 50 <= cursor < 60
    assert sum(looked_at) < 50_000


def test_large_paste_in_pieces_is_one_key() -> None:
    text = "grüße\n" * 30_000
    sent = b"\x1b[200~" + text.encode() + b"\x1b[201~q"
    keys = KeyReader()
    entries = [key for start in range(0, len(sent), 4_095) for key in keys.feed(sent[start : start + 4_095])]
    assert entries == [KeyPress("paste", text), KeyPress("text", "q")]


def test_paste_beyond_the_limit_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Later input is read, and the next paste counts anew."""
    monkeypatch.setattr(reading, "_MAX_PASTE", 10)
    keys = KeyReader()
    assert keys.feed(b"\x1b[200~" + b"x" * 11 + b"\x1b[201~q") == [KeyPress("flood"), KeyPress("text", "q")]
    assert keys.feed(b"\x1b[200~" + b"x" * 10 + b"\x1b[201~") == [KeyPress("paste", "x" * 10)]
    assert keys.feed(b"\x1b[200~" + b"x" * 50) == []
    assert keys.feed(b"y" * 50 + b"\x1b[201~j") == [KeyPress("flood"), KeyPress("text", "j")]
