"""A table of ours in somebody else's TOML file: inserted and removed exactly."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.conversations.connect.agent_settings import SettingsEntry
from holdfast.conversations.connect.mcp_entry import call_of, home_of
from holdfast.conversations.connect.toml_edit import insert, plain, remove, texts
from holdfast.core.canonical import Json
from holdfast.core.errors import Invalid

AT = ("mcp_servers", "holdfast")
VALUE: dict[str, Json] = {
    "command": "/a home/hooks/holdfast-mcp",
    "args": ['x"\\\u007f\u0001é', "-P"],
    "enabled": True,
}
ENTRY = SettingsEntry(AT, VALUE, only=True)
FILE = "config.toml"
PIECES = (
    'model = "gpt"\n', "# a comment\n", "\n", "[features]\nhooks = true\n", '[mcp_servers.other]\ncommand = "x"\n',
    "[[array]]\nn = nan\n", "[text]\nlong = '''\n[mcp_servers.holdfast]\ncommand = \"no\"\n'''\n",
    "[list]\nmany = [\n  1, # one\n  [2],\n]\n", "[dates]\nday = 2026-10-06\n", "[mcp_servers]\n",
    '["quoted.key"]\na.b = 1\n', '[projects."/x [y]"]\ntrust_level = "trusted"\n',
)  # fmt: skip


def ours(text: str) -> bool:
    return home_of(text) == "/a home" or text == call_of(VALUE)


def valid(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


@st.composite
def files(draw: st.DrawFn) -> str:
    """A file as people write it: tables in any order, with or without a final line end, perhaps Windows line ends."""
    chosen = draw(st.lists(st.sampled_from(PIECES), unique=True, max_size=6))
    text = "".join(sorted(chosen, key=lambda piece: not piece.startswith("model")))
    if draw(st.booleans()):
        text = text.removesuffix("\n")
    if draw(st.booleans()):
        text += draw(st.sampled_from(("\n\n", "  ", "# the end")))
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    return draw(st.sampled_from(("", "\ufeff"))) + text


@given(files())
def test_removal_restores_the_exact_text(text: str) -> None:
    """Our table is appended, and nothing else changes."""
    if not valid(text.removeprefix("\ufeff")):
        return
    new, receipt = insert(text, [ENTRY], FILE)
    assert new.startswith(text)
    assert ("\r\n" in text) == ("\r\n" in new)
    assert plain(new, FILE)["mcp_servers"]["holdfast"] == VALUE  # type: ignore[index]
    assert any(map(ours, texts(new, FILE)))
    assert insert(new, [ENTRY], FILE)[0] == new
    assert remove(new, ours, receipt, FILE) == text
    without = remove(new, ours, None, FILE, whole=[AT])
    assert plain(without, FILE).get("mcp_servers", {}) == plain(text, FILE).get("mcp_servers", {})
    assert without.rstrip() == text.rstrip()


@given(files(), files())
def test_additions_of_others_stay(first: str, second: str) -> None:
    """Before, after and within our table: only ours is removed."""
    second = second.removeprefix("\ufeff").replace('model = "gpt"', "")  # it would belong to our table
    new, receipt = insert(first, [ENTRY], FILE) if valid(first.removeprefix("\ufeff")) else ("", None)
    tools = '[mcp_servers.holdfast.tools.note]\napproval = "always"\n'
    edited = f"{new}startup_timeout_sec = 20\n\n{tools}# for what follows\n{second}"
    if receipt is None or not valid(edited.removeprefix("\ufeff")):
        return
    rest = remove(edited, ours, receipt, FILE)
    assert not any(map(ours, texts(rest, FILE)))
    expected = plain(edited, FILE)
    del expected["mcp_servers"]["holdfast"]  # type: ignore[attr-defined]
    if not expected["mcp_servers"]:
        del expected["mcp_servers"]
    read = plain(rest, FILE)
    assert read == expected or read == expected | {"mcp_servers": {}}
    assert rest.startswith(first.rstrip("\r\n"))
    assert "# for what follows" in rest
    assert rest.endswith(second)


@pytest.mark.parametrize(
    "text",
    ["mcp_servers = {}\n", "mcp_servers = { other = { args = [] } }", "mcp_servers = 1", "[[mcp_servers]]\na = 1"],
)
def test_insert_is_refused_when_a_form_cannot_be_extended(text: str) -> None:
    """An inline table, or no table, with what to do."""
    with pytest.raises(Invalid) as caught:
        insert(text, [ENTRY], FILE)
    assert "mcp_servers" in caught.value.message
    assert "[mcp_servers.NAME]" in str(caught.value.hint)


@pytest.mark.parametrize("text", ["a = ", "a = 1\n[", "a = 1\na = 2", "\rb = 1", "[" * 2000])
def test_invalid_file_is_refused(text: str) -> None:
    """With its name."""
    with pytest.raises(Invalid, match=r"config\.toml is not TOML"):
        insert(text, [ENTRY], FILE)


def test_foreign_tables_stay() -> None:
    """Another server of that name, and one in our name written differently."""
    theirs = '[mcp_servers.holdfast]\ncommand = "their own"\n'
    assert insert(theirs, [ENTRY], FILE)[0] == theirs
    assert remove(theirs, ours, None, FILE, whole=[AT]) == theirs
    with pytest.raises(Invalid, match="cannot be removed"):
        remove('mcp_servers.holdfast.command = "/a home/hooks/holdfast-mcp"\n', ours, None, FILE, whole=[AT])


def test_header_within_a_string_is_ignored() -> None:
    """In a multi-line string."""
    text = 'a = """\n[mcp_servers.holdfast]\n"""\n'
    table = '\n[mcp_servers.holdfast]\ncommand = "/a home/hooks/holdfast-mcp"\n'
    assert remove(f"{text}{table}[z]\n", ours, None, FILE, whole=[AT]) == f"{text}[z]\n"


def test_additions_in_our_table_are_rewritten_unchanged() -> None:
    """Subtables, numbers and dates: a parser reads the same."""
    text = (
        '[mcp_servers.holdfast]\ncommand = "x"\nseconds = 1.50\nendless = -inf\nlist = [{ a = 1 }, {}]\n'
        "[mcp_servers.holdfast.tools.note]\nday = 2026-10-06\nat = 2026-10-06T01:02:03Z\nhour = 01:02:03\n"
        '[mcp_servers.holdfast.env]\n"A b" = "c"\n'
    )
    value = plain(text, FILE)["mcp_servers"]["holdfast"]  # type: ignore[index]
    new, receipt = insert("a = 1", [SettingsEntry(AT, value, only=True)], FILE)
    assert tomllib.loads(new) == {"a": 1} | tomllib.loads(text)
    assert remove(new, lambda call: call == call_of(value), receipt, FILE) == "a = 1"
