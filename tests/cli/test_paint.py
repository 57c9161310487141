"""Text shown in a terminal is harmless, fits, and reads the same without colour."""

from __future__ import annotations

import io
import os
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli.cells import cut, head, safe, width_of, wrap
from holdfast.cli.paint import Column, Paint, Painted, paint_for

ANY = st.text(st.characters())
TRICKY = st.text(
    st.one_of(
        st.characters(),
        st.sampled_from(
            "\x1b\x07\x9b\r\n\t\u200b\u200c\u200d\u202e\u2066\u2028\ufeff\u0301\ufe0f\u3164 ab漢👩❤क्\U000e0041\udcff"
        ),
    ),
    max_size=30,
)
JOINERS = "\u200c\u200d"
PLAIN = Paint(60)
COLOUR = Paint(60, colour=True)


def bare(text: str) -> str:
    """The text without our colour codes."""
    first, *others = text.split("\x1b[")
    return first + "".join(part.split("m", 1)[1] for part in others)


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("\x1b[2Jgone", r"\x1b[2Jgone"),
        ("\x9b31m", r"\x9b31m"),
        ("a\rb\x07\x7f", r"a\rb\x07\x7f"),
        ("a\nb\tc", r"a\nb\tc"),
        ("evil\u202etxt.exe", r"evil\u202etxt.exe"),
        ("\u2066x\u2069", r"\u2066x\u2069"),
        ("a\u2028b\u2029", r"a\u2028b\u2029"),
        ("pass\u200bword\ufeff", r"pass\u200bword\ufeff"),
        ("a\u200db", r"a\u200db"),
        ("caf\udce9", r"caf\udce9"),
        ("hid\U000e0041\U000e0042", r"hid\U000e0041\U000e0042"),
        ("blank\u3164", r"blank\u3164"),
        ("\u0301x", r"\u0301x"),
        ("e" + "\u0301" * 6, "e" + "\u0301" * 4 + r"\u0301\u0301"),
    ],
)
def test_control_characters_are_shown_escaped(hostile: str, shown: str) -> None:
    """Whatever moves the cursor, reorders, hides or overprints."""
    assert safe(hostile) == shown


@pytest.mark.parametrize(
    "friendly",
    [
        "plain",
        "Grüße – ‘quoted’ …",
        "日本語",
        "שלום",
        "مرحبا",
        "e\u0301",
        "👩‍💻 ❤️‍🔥 👍🏽 🇩🇪",
        "می‌خواهم",
        "a\xa0b",
        "C:\\x1b",
        "█▌ ─",
    ],
)
def test_ordinary_text_is_kept(friendly: str) -> None:
    """Accents, every script, emoji sequences and backslashes."""
    assert safe(friendly) == friendly


def test_line_breaks_and_tabs_are_kept_where_lines_are_shown() -> None:
    assert safe("one\r\ntwo\n\tthree\x1b\rfour", lines=True) == "one\ntwo\n\tthree\\x1b\\rfour"


@given(TRICKY, st.booleans())
def test_safe_text_has_no_character_that_controls_the_terminal(text: str, lines: bool) -> None:
    """No control, format, surrogate or separator; joiners only between characters that join."""
    for char in safe(text, lines=lines):
        allowed = char in JOINERS or (lines and char in "\n\t")
        assert allowed or unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Zl", "Zp")
    safe(text).encode()


@given(TRICKY, st.booleans())
def test_making_text_safe_twice_changes_nothing(text: str, lines: bool) -> None:
    """So layers need not know whether another did it."""
    once = safe(text, lines=lines)
    assert safe(once, lines=lines) == once


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        ("", 0),
        ("abc", 3),
        ("é", 1),
        ("e\u0301", 1),
        ("日本", 4),
        ("ｆ", 2),
        ("👍", 2),
        ("👍🏽", 2),
        ("👩‍💻", 2),
        ("❤", 1),
        ("❤️", 2),
        ("🇩🇪", 2),
        ("한글", 4),
        ("█▌…─", 4),
        ("שלום", 4),
    ],
)
def test_width_is_counted_in_cells(text: str, cells: int) -> None:
    """Wide characters take two cells, marks none, an emoji sequence as much as one emoji."""
    assert width_of(text) == cells


@given(TRICKY.map(safe), st.integers(-3, 40))
def test_cut_text_fits_the_width(text: str, cells: int) -> None:
    """With a mark where something is missing."""
    short = cut(text, cells)
    assert width_of(short) <= max(cells, 0)
    if width_of(text) <= cells:
        assert short == text
    elif cells > 0:
        assert short.endswith("…")
        assert text.startswith(short[:-1])


@given(TRICKY.map(safe), st.integers(0, 40))
def test_split_text_joins_to_the_original(text: str, cells: int) -> None:
    """It is split only between whole characters."""
    first = head(text, cells)
    assert text.startswith(first)
    assert width_of(first) + width_of(text[len(first) :]) >= width_of(text)


@given(TRICKY.map(lambda text: safe(text, lines=True)), st.integers(-1, 30))
def test_wrapped_lines_fit_and_keep_every_letter(text: str, cells: int) -> None:
    lines = wrap(text, cells)
    assert all(width_of(line) <= max(cells, 2) for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


def test_wrap_breaks_at_blanks_and_keeps_short_lines() -> None:
    assert wrap("one two  three\n  kept   as is\n\nabcdefghijklmnop", 14) == [
        "one two  three",
        "  kept   as is",
        "",
        "abcdefghijklmn",
        "op",
    ]
    assert wrap("the quick brown fox", 10) == ["the quick", "brown fox"]


def test_styles_add_nothing_without_colour() -> None:
    """The same calls serve a pipe and a terminal."""
    assert PLAIN.bold(PLAIN.red("x")) == "x"
    assert COLOUR.red("x") == "\x1b[31mx\x1b[39m"
    names = ("bold", "dim", "red", "green", "yellow", "blue", "magenta", "cyan")
    assert len({getattr(COLOUR, name)("x") for name in names}) == len(names)


def test_outer_style_continues_after_an_inner_one() -> None:
    inner = COLOUR.join("a", COLOUR.green("b"), "c")
    assert COLOUR.red(inner) == "\x1b[31ma\x1b[32mb\x1b[39m\x1b[31mc\x1b[39m"


def test_stored_text_cannot_contain_colour_codes() -> None:
    """Only Paint's own codes pass, even if text is passed as paint by mistake."""
    assert COLOUR.bold("\x1b[31mx") == "\x1b[1m\\x1b[31mx\x1b[22m"
    mixed = COLOUR.red("a") + "\x1b]0;title\x07"
    assert not isinstance(mixed, Painted)
    assert "\x1b" not in COLOUR.plain(mixed)
    assert "\x1b" not in PLAIN.table([["\x1b[2J", "\x07"]], [Column("\x1b"), Column("b")])
    assert "\x1b" not in PLAIN.pairs([("\x1b", "a\n\x1b")])
    assert "\x1b" not in PLAIN.heading("\x1b", "\x1b")


@given(TRICKY, st.integers(0, 30))
def test_cut_coloured_text_closes_its_colours(text: str, cells: int) -> None:
    """It fits like the plain text, and the next line starts without colour."""
    painted = COLOUR.join("x", COLOUR.red(text), COLOUR.bold("end"))
    short = COLOUR.cut(painted, cells)
    assert width_of(bare(short)) <= cells
    assert COLOUR.width_of(short) == width_of(bare(short))
    assert short == painted or short.endswith("\x1b[0m") or "\x1b" not in short


@given(st.floats(), st.integers(0, 50), st.booleans())
def test_bar_has_its_width_and_is_full_only_at_100_percent(fraction: float, cells: int, ascii_only: bool) -> None:
    """A little more than nothing shows something."""
    bar = Paint(80, ascii_only=ascii_only).bar(fraction, cells)
    full, empty = "#." if ascii_only else "█·"
    assert len(bar) == cells
    assert (bar == full * cells) is (fraction >= 1 or cells == 0 or (ascii_only and cells == 1 and fraction > 0))
    assert (bar == empty * cells) is (not fraction > 0 or cells == 0)


def test_bar_is_exact_to_an_eighth_and_coloured_by_its_level() -> None:
    assert PLAIN.bar(0.5625, 4) == "██▎·"
    assert Paint(80, ascii_only=True).bar(0.5, 4) == "##.."
    assert COLOUR.bar(0.5, 4, "compress") == "\x1b[31m██\x1b[39m\x1b[2m··\x1b[22m"
    assert COLOUR.bar(0.5, 4, "warning").startswith("\x1b[33m")


def test_table_is_aligned_without_trailing_blanks() -> None:
    """Titles over thin lines, numbers to the right."""
    table = PLAIN.table(
        [["6f1c", "ship it", "12 min"], ["a9d0", "日本語 goal", "3 h 05 min"]],
        [Column("id"), Column("goal", weight=1), Column("worked", "right")],
    )
    assert table.split("\n") == [
        "id    goal             worked",
        "────  ───────────  ──────────",
        "6f1c  ship it          12 min",
        "a9d0  日本語 goal  3 h 05 min",
    ]


def test_table_omits_an_empty_head_or_body() -> None:
    assert PLAIN.table([["a", "b"]], [Column(""), Column("")]) == "a  b"
    assert PLAIN.table([], [Column("id"), Column("goal")]) == "id  goal\n──  ────"
    assert PLAIN.table([], []) == ""


def test_flexible_column_is_cut_first() -> None:
    """An id stays whole while a long goal is cut."""
    paint = Paint(40)
    table = paint.table(
        [["6f1c2a90", "a goal " * 20, "active"]], [Column("id"), Column("goal", weight=1), Column("status")]
    )
    last = table.split("\n")[-1]
    assert last.startswith("6f1c2a90  a goal")
    assert last.endswith("…  active")
    assert width_of(last) == paint.width


@given(
    st.integers(40, 120),
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 20), st.integers(0, 30)), min_size=1, max_size=8),
    st.data(),
)
def test_table_is_no_wider_than_the_terminal(
    width: int, shape: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    """For any columns and cells, with colours or without."""
    columns = [
        Column("title", weight=weight, min_width=least, max_width=most, style="cyan") for weight, least, most in shape
    ]
    cell = st.one_of(st.text(max_size=5), st.text(min_size=30, max_size=60))
    rows = data.draw(st.lists(st.lists(cell, min_size=len(columns), max_size=len(columns)), max_size=3))
    plain = Paint(width).table(rows, columns)
    assert all(width_of(line) <= width for line in plain.split("\n"))
    coloured = Paint(width, colour=True).table(rows, columns)
    assert bare(coloured) == plain


def test_pairs_are_aligned_and_wrapped_under_their_value() -> None:
    """Coloured values keep their colour."""
    paint = Paint(40)
    text = paint.pairs(
        [("goal", "one two three four five six seven eight"), ("note", "a\nb"), ("mode", ""), ("wide", "ok")]
    )
    assert text.split("\n") == [
        "goal  one two three four five six seven",
        "      eight",
        "note  a",
        "      b",
        "mode",
        "wide  ok",
    ]
    assert "\x1b[32mactive" in COLOUR.pairs([("status", COLOUR.green("active"))])
    assert PLAIN.pairs([]) == ""


def test_heading_and_its_aside_share_a_line() -> None:
    assert PLAIN.heading("Session", "6f1c") == "Session  6f1c"
    assert COLOUR.heading("Session", "6f1c") == "\x1b[1mSession\x1b[22m  \x1b[2m6f1c\x1b[22m"
    assert width_of(Paint(40).heading("x" * 90)) == 40


@given(ANY)
def test_ascii_terminal_gets_only_ascii(text: str) -> None:
    """For any stored text."""
    paint = Paint(60, ascii_only=True)
    for shown in (paint.plain(text), paint.bold(text), paint.cut(text, 7), paint.table([[text]], [Column(text)])):
        assert shown.isascii()
    assert width_of(paint.cut("x" * 20, 7)) == 7
    assert paint.cut("x" * 20, 7) == "xxxx..."


class Screen(io.StringIO):
    """A stream that claims to be a terminal, or not."""

    def __init__(self, *, tty: bool = True, encoding: str = "utf-8") -> None:
        super().__init__()
        self._tty = tty
        self._encoding = encoding

    def isatty(self) -> bool:
        return self._tty

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding


@pytest.mark.parametrize(
    ("tty", "no_color", "environ", "colour"),
    [
        (True, False, {}, True),
        (False, False, {}, False),
        (True, True, {}, False),
        (True, True, {"FORCE_COLOR": "1"}, False),
        (True, False, {"NO_COLOR": "1"}, False),
        (True, False, {"NO_COLOR": ""}, True),
        (True, False, {"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        (False, False, {"FORCE_COLOR": "1"}, True),
        (True, False, {"FORCE_COLOR": "0"}, False),
        (False, False, {"CLICOLOR_FORCE": "1"}, True),
        (True, False, {"CLICOLOR_FORCE": "0"}, True),
        (True, False, {"CLICOLOR": "0"}, False),
        (False, False, {"CLICOLOR": "1"}, False),
        (True, False, {"TERM": "dumb"}, False),
    ],
)
def test_colour_depends_on_option_environment_and_stream(
    tty: bool, no_color: bool, environ: dict[str, str], colour: bool
) -> None:
    """In this order; any of them can switch it off."""
    paint = paint_for(Screen(tty=tty), no_color=no_color, environ=environ)
    assert paint.colour is colour
    assert paint.tty is tty


@pytest.mark.parametrize(
    ("columns", "width"),
    [
        (None, 80),
        ("100", 100),
        ("7", 40),
        ("5000", 200),
        ("wide", 80),
        ("-5", 80),
        ("0", 80),
        ("9" * 50, 80),
        ("٨", 80),
    ],
)
def test_width_comes_from_columns_without_a_terminal(columns: str | None, width: int) -> None:
    """If it is a reasonable number."""
    environ = {} if columns is None else {"COLUMNS": columns}
    assert paint_for(Screen(), environ=environ).width == width


def test_width_of_a_real_terminal_outranks_columns() -> None:
    fcntl = pytest.importorskip("fcntl", reason="no pseudo terminals here")
    import struct
    import termios

    main, other = os.openpty()
    try:
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 93, 0, 0))
        with open(other, "w", encoding="utf-8", closefd=False) as stream:
            paint = paint_for(stream, environ={"COLUMNS": "50"})
    finally:
        os.close(main)
        os.close(other)
    assert (paint.width, paint.colour, paint.tty) == (93, True, True)


@pytest.mark.parametrize(
    ("encoding", "ascii_only"), [("utf-8", False), ("UTF8", False), ("latin-1", True), ("ascii", True)]
)
def test_encoding_without_the_characters_gets_ascii(encoding: str, ascii_only: bool) -> None:
    assert paint_for(Screen(encoding=encoding), environ={}).ascii_only is ascii_only


def test_missing_or_closed_stream_is_no_terminal() -> None:
    closed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    closed.close()
    for stream in (None, closed):
        paint = paint_for(stream, environ={})
        assert (paint.width, paint.colour, paint.tty) == (80, False, False)
