"""Ids and paths from outside: any that could escape a directory or deceive on a screen are refused."""

from __future__ import annotations

import itertools
import json
import re
import string
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import Invalid
from holdfast.core.text import (
    MAX_PATH_LENGTH,
    MAX_TEXT_LENGTH,
    check_identifier,
    check_relative_path,
    check_text,
    escaped_json,
    shorten,
    slug,
)

ALPHABET = string.ascii_letters + string.digits + "._-"


def hostile_ids() -> list[str]:
    """Ids that must never be accepted: path traversal, other roots, control characters, lookalikes, overlong ones."""
    ids = [
        "",
        " ",
        ".",
        "..",
        "...",
        "-",
        "--",
        "-rf",
        "--help",
        ".git",
        ".env",
        "a" * 101,
        "a" * 10_000,
        "é" * 5_000,
    ]
    steps = ["..", ".", "%2e%2e", "..%00", "....", "\u2024\u2024", "．．"]
    slashes = ["/", "\\", "%2f", "\u2044", "\u2215", "\u29f8", "／", "＼", "//", "\\\\"]
    ids += [step + slash + "etc" for step, slash in itertools.product(steps, slashes)]
    ids += ["x" + slash + step + slash + "y" for step, slash in itertools.product(steps, slashes)]
    ids += [
        root + "x" for root in ("/", "\\", "//", "\\\\server\\", "C:\\", "c:", "~/", "~root/", "file:///", "\\\\?\\")
    ]
    ends = [chr(code) for code in (*range(0x20), 0x7F, *range(0x80, 0xA1))]
    hidden = [chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) in ("Cf", "Zl", "Zp", "Zs")]
    for character in ends + hidden:
        ids += ["a" + character, character + "a", "a" + character + "b"]
    ids += ["a" + mark for mark in "!\"#$%&'()*+,:;<=>?@[]^`{|}~ /\\"]
    ids += ["\u0430gent", "а1", "ａ1", "agent\u0301", "١", "a\ud800", "\udc80", "a\n", "a\r\n", "a1 ", " a1", "ﬁ"]
    ids += [f"$({name})" for name in ("id", "reboot")] + [
        "`id`",
        "a;b",
        "a|b",
        "a&b",
        "a>b",
        "a'b",
        'a"b',
        "*",
        "?",
    ]
    return ids


def test_hostile_ids_are_refused() -> None:
    """All of more than 500."""
    corpus = hostile_ids()
    assert len(set(corpus)) >= 500
    accepted = []
    for name in corpus:
        try:
            accepted.append(check_identifier(name, "an agent's id"))
        except Invalid:
            continue
    assert accepted == []


def test_message_about_a_refused_id_is_short_plain_ascii() -> None:
    """And says what is allowed."""
    for name in hostile_ids():
        with pytest.raises(Invalid) as caught:
            check_identifier(name, "an agent's id")
        assert caught.value.message.isascii()
        assert caught.value.message.isprintable()
        assert len(caught.value.message) < 600
        assert caught.value.hint is not None


@pytest.mark.parametrize("name", ["a", "7", "_", "arch-1", "t1.2_x-", "A" * 100, "a..b", "0-9"])
def test_ordinary_ids_are_accepted_unchanged(name: str) -> None:
    """1 to 100 letters, digits, dots, underscores and dashes."""
    assert check_identifier(name, "a task's id") == name


@given(st.text(st.sampled_from(ALPHABET), min_size=1, max_size=100).filter(lambda name: name[0] not in ".-"))
def test_ids_of_the_contract_are_accepted(name: str) -> None:
    assert check_identifier(name, "an id") == name


@given(st.text(max_size=120))
def test_accepted_ids_are_those_of_the_contract(name: str) -> None:
    allowed = 1 <= len(name) <= 100 and all(c in ALPHABET for c in name) and name[0] not in ".-"
    try:
        check_identifier(name, "an id")
    except Invalid:
        assert not allowed
    else:
        assert allowed


@pytest.mark.parametrize(
    "path",
    [
        "", " ", ".", "./", "/", "//", "/etc/passwd", "\\windows", "\\\\server\\share", "~", "~/x", "~root/x",
        "C:\\x", "./~/x", "./C:/x", ".\\c:x", "a\u202e/../x",
        "c:x", "Z:/x", "..", "../x", "a/../../x", "a/..", "a/../b", "..\\x", "a\\..\\..\\x", "a\0b", "a\nb",
        "\x1b[2J",
        "a\x7f", "a\x85b", "a\r", "\ud800", "x" * 4097, "a/" * 3000, "./.", "./..", "C:", "c:/../x", "///..///",
    ],
)  # fmt: skip
def test_paths_outside_the_project_are_refused(path: str) -> None:
    """Absolute paths, other roots, upward steps and control characters."""
    with pytest.raises(Invalid) as caught:
        check_relative_path(path)
    assert caught.value.message.isascii()


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("a.py", "a.py"), ("./src//a.py", "src/a.py"), ("src\\a.py", "src/a.py"), ("a/./b/", "a/b"),
        ("...", "..."), ("..a/b..", "..a/b.."), ("déjà vu/ü.md", "déjà vu/ü.md"), ("ab:c", "ab:c"),
        ("-rf", "-rf"), (".env", ".env"), ("x" * MAX_PATH_LENGTH, "x" * MAX_PATH_LENGTH),
    ],
)  # fmt: skip
def test_paths_inside_the_project_are_normalized(path: str, kept: str) -> None:
    """To forward slashes, without empty or single-dot steps; names are kept."""
    assert check_relative_path(path) == kept


@given(st.text(st.sampled_from("ab./\\~:C -\0\n"), max_size=12))
def test_accepted_path_stays_inside_the_project(path: str) -> None:
    """It is relative, has no upward step, and normalizing it again changes nothing."""
    try:
        kept = check_relative_path(path)
    except Invalid:
        return
    assert not kept.startswith(("/", "\\", "~"))
    assert "\\" not in kept
    assert ".." not in kept.split("/")
    assert not re.match(r"[A-Za-z]:", kept)
    assert check_relative_path(kept) == kept


@pytest.mark.parametrize("value", ["", " \n", "a\0b", "a\ud800", "x" * (MAX_TEXT_LENGTH + 1)])
def test_text_that_cannot_be_stored_is_refused(value: str) -> None:
    """Empty, with NUL, not UTF-8, or too long."""
    with pytest.raises(Invalid):
        check_text(value, "the note")


def test_storable_text_is_kept_exactly() -> None:
    """Including its spaces; empty text only where that is allowed."""
    assert check_text(" a\n\tb 😀 ", "the note") == " a\n\tb 😀 "
    assert check_text("", "the note", empty=True) == ""
    assert check_text("x" * MAX_TEXT_LENGTH, "the note") == "x" * MAX_TEXT_LENGTH


@pytest.mark.parametrize(
    ("value", "made"),
    [
        ("Add OAuth 2.0!", "add-oauth-2-0"), ("Ünïcode café", "unicode-cafe"),
        ("one two three four five", "one-two-three-four"),
        ("", "session"), ("漢字", "session"), ("---", "session"), ("x" * 100, "x" * 60), ("../../etc", "etc"),
    ],
)  # fmt: skip
def test_slug_is_four_lowercase_ascii_words_at_most(value: str, made: str) -> None:
    """Joined by dashes, never empty."""
    assert slug(value) == made


@given(st.text())
def test_slug_of_any_text_has_the_form_the_formats_require(value: str) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", slug(value))


@given(st.text(), st.integers(1, 40))
def test_shortened_text_is_one_line_that_fits(value: str, longest: int) -> None:
    """And unchanged where it already does."""
    short = shorten(value, longest)
    assert len(short) <= longest
    assert "\n" not in short
    assert shorten(short, longest) == short


@given(st.text())
def test_escaped_json_parses_to_the_same_value_without_control_characters(text: str) -> None:
    escaped = escaped_json(json.dumps(text, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    assert json.loads(escaped.decode("utf-8", "surrogatepass")) == text
    assert not re.search("[\x00-\x1f\x7f-\x9f]", escaped.decode("utf-8", "surrogatepass"))
