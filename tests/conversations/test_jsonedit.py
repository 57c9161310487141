"""Minimal edits of JSON with comments: additions disturb nothing, and can be taken out without a trace."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from holdfast.conversations.adapters.json_tree import JsonText, decoded
from holdfast.conversations.connect.agent_settings import SettingsEntry
from holdfast.conversations.connect.json_edit import holds, insert, remove, texts
from holdfast.core.errors import Invalid

OUR = "test -x '/h/hooks/hook' && exec '/h/hooks/hook' claude tell user || :"
FILE = "/x/settings.json"


def ours(text: str) -> bool:
    return "/h/hooks/hook" in text


def hook(event: str, matcher: str = "") -> SettingsEntry:
    return SettingsEntry(("hooks", event), {"matcher": matcher, "hooks": [{"type": "command", "command": OUR}]})


ENTRIES = (
    hook("PreToolUse"),
    hook("Stop"),
    SettingsEntry(("statusLine",), {"type": "command", "command": OUR}, only=True),
)
VERSIONED = (SettingsEntry(("version",), 1, only=True), SettingsEntry(("hooks", "stop"), {"command": OUR}))


def plain(text: str) -> Any:
    document = JsonText(text, FILE)
    return None if document.root is None else document.plain(document.root)


# ── how it looks ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_new_file_is_indented_by_two() -> None:
    """Where nothing was, the usual layout is written, with a line end at the end."""
    text, _ = insert("", VERSIONED, FILE)
    assert text == json.dumps({"version": 1, "hooks": {"stop": [{"command": OUR}]}}, indent=2) + "\n"


def test_the_files_own_layout_is_followed() -> None:
    """Tabs, Windows line ends, comments, a byte order mark and a trailing comma: all stay, and the new text fits."""
    text = '\ufeff{\r\n\t// mine\r\n\t"model": "x", // why\r\n\t"hooks": {\r\n\t\t"Stop": [],\r\n\t},\r\n}\r\n'
    new, receipt = insert(text, [SettingsEntry(("hooks", "Stop"), {"command": OUR})], FILE)
    added = f'[\r\n\t\t\t{{\r\n\t\t\t\t"command": "{OUR}"\r\n\t\t\t}}\r\n\t\t]'
    assert new == text.replace("[]", added)
    assert remove(new, ours, receipt, FILE) == text


def test_one_line_stays_one_line() -> None:
    """A file without line breaks gets none, and its own spacing."""
    new, _ = insert('{"a":1}', [SettingsEntry(("b", "c"), "d")], FILE)
    assert new == '{"a":1,"b":{"c":["d"]}}'
    new, _ = insert('{"a": [1, 2]}', [SettingsEntry(("a",), "d")], FILE)
    assert new == '{"a": [1, 2, "d"]}'


def test_a_comment_at_the_end_stays_with_its_line() -> None:
    """The comma goes before the comment, the new value after it."""
    new, _ = insert('{\n  "a": 1 // one\n  // last\n}\n', [SettingsEntry(("b",), 2, only=True)], FILE)
    assert new == '{\n  "a": 1, // one\n  // last\n  "b": 2\n}\n'


def test_only_where_nothing_stands() -> None:
    """A value that is only set if none is there leaves the one that is."""
    text = '{"statusLine": null}'
    assert insert(text, ENTRIES[2:], FILE)[0] == text


def test_twice_is_once() -> None:
    """Adding what stands there already changes nothing."""
    once, _ = insert("{}", ENTRIES, FILE)
    again, receipt = insert(once, ENTRIES, FILE)
    assert again == once
    assert (receipt.created, receipt.gaps, receipt.values) == ([], [], [])


# ── after somebody edited it ─────────────────────────────────────────────────────────────────────────────


def test_additions_of_others_stay() -> None:
    """A hook somebody put beside ours, in our list and in our group, is still there when ours are gone."""
    new, receipt = insert("", ENTRIES, FILE)
    data = json.loads(new)
    data["hooks"]["Stop"].insert(0, {"matcher": "", "hooks": [{"type": "command", "command": "say done"}]})
    data["hooks"]["PreToolUse"][0]["hooks"].append({"type": "command", "command": "lint"})
    data["model"] = "opus"
    left = json.loads(remove(json.dumps(data, indent=4), ours, receipt, FILE))
    assert left == {
        "hooks": {
            "PreToolUse": [{"matcher": "", "hooks": [{"type": "command", "command": "lint"}]}],
            "Stop": [{"matcher": "", "hooks": [{"type": "command", "command": "say done"}]}],
        },
        "model": "opus",
    }


def test_a_version_others_rely_on_stays() -> None:
    """In a file that began as ours, `version` stays as long as somebody else's hooks need it."""
    new, receipt = insert("", VERSIONED, FILE)
    theirs = new.replace('"stop": [', '"stop": [\n      {"command": "say done"},')
    left = {"version": 1, "hooks": {"stop": [{"command": "say done"}]}}
    assert json.loads(remove(theirs, ours, receipt, FILE)) == left
    assert remove(new, ours, receipt, FILE) == ""


def test_empty_containers_are_removed_without_a_receipt() -> None:
    """A forgotten connection is found by its command line; what was empty before it stays."""
    new, _ = insert('{\n  "a": {}\n}\n', ENTRIES[:2], FILE)
    assert remove(new, ours, None, FILE) == '{\n  "a": {}\n}\n'
    assert holds(new, ours, FILE)
    assert OUR in texts(new, FILE)


# ── what is not JSON ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{\n  "a": 1\n  "b": 2\n}', 3),
        ("{\n  'a': 1\n}", 2),
        ('{\n"a": "x\n"}', 2),
        ('{"a": 1', 1),
        ("{}\n{}", 2),
        ('{"a": /* b }', 1),
        ('{"a": 01}', 1),
        ('{"a": nul}', 1),
        ("[" * 200, 1),
        ('{"hooks":\n 3}', 2),
        ("[]", 1),
        ('{"hooks": {\n"Stop": {}}}', 2),
    ],
)
def test_error_names_the_line_that_cannot_be_edited(text: str, line: int) -> None:
    """Broken settings are refused with the line at which they break."""
    with pytest.raises(Invalid, match=rf"settings\.json.*\(line {line}\)"):
        insert(text, [hook("Stop")], FILE)


def test_bytes_that_are_no_text() -> None:
    """A file in another encoding is refused, not guessed at."""
    with pytest.raises(Invalid, match=r"not UTF-8 \(line 2\)"):
        decoded(b"{\n\xff}", FILE)


# ── laws ─────────────────────────────────────────────────────────────────────────────────────────────────

_KEYS = st.sampled_from(["hooks", "PreToolUse", "Stop", "version", "statusLine", "a", "ключ", 'q"uote'])
_SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 5), st.text(max_size=5).filter(lambda t: t.isprintable())
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_KEYS, inner, max_size=3)),
    max_leaves=12,
)
_GROUPS = st.dictionaries(st.sampled_from(["PreToolUse", "Stop", "a"]), st.lists(_VALUES, max_size=3), max_size=3)
_ROOTS = st.builds(
    lambda rest, groups: rest | groups,
    st.dictionaries(_KEYS.filter(lambda key: key != "hooks"), _VALUES, max_size=4),
    st.one_of(st.just({}), st.builds(lambda groups: {"hooks": groups}, _GROUPS)),
)


@st.composite
def layouts(draw: st.DrawFn) -> str:
    """JSON text of any layout: blanks, breaks and comments anywhere they may stand, trailing commas or none."""
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    blanks = [
        "",
        "",
        " ",
        "\t",
        end,
        end + "  ",
        end + "\t\t",
        "/* c */",
        " // d" + end,
        end + "    // e" + end + "  ",
    ]
    trailing = draw(st.booleans())

    def gap() -> str:
        return draw(st.sampled_from(blanks))

    def written(value: Any) -> str:
        if isinstance(value, (dict, list)):
            items = (
                [
                    json.dumps(key, ensure_ascii=False) + gap() + ":" + gap() + written(item)
                    for key, item in value.items()
                ]
                if isinstance(value, dict)
                else [written(item) for item in value]
            )
            inner = ",".join(gap() + item + gap() for item in items)
            if items and trailing:
                inner += "," + gap()
            if not items:
                inner = gap()
            return ("{" + inner + "}") if isinstance(value, dict) else ("[" + inner + "]")
        return json.dumps(value, ensure_ascii=False)

    mark = "\ufeff" if draw(st.booleans()) else ""
    if draw(st.integers(0, 9)) == 0:
        return mark + gap() + gap()
    if draw(st.booleans()):
        indented = json.dumps(draw(_ROOTS), indent=draw(st.sampled_from(["", " ", "  ", "\t"])), ensure_ascii=False)
        return mark + indented.replace("\n", end) + draw(st.sampled_from(["", end]))
    return mark + gap() + written(draw(_ROOTS)) + gap()


def _added(text: str) -> tuple[str, Any]:
    try:
        return insert(text, (*ENTRIES, *VERSIONED[:1]), FILE)
    except Invalid:
        assume(False)
        raise


@given(layouts())
def test_insert_then_remove_is_nothing(text: str) -> None:
    """What was added and is taken out again leaves the very same text."""
    new, receipt = _added(text)
    assert remove(new, ours, receipt, FILE) == text


@given(layouts())
def test_only_additions(text: str) -> None:
    """The old text is still there in order, and means the same, with our entries at the end of their lists."""
    new, _ = _added(text)
    rest = iter(new)
    assert all(char in rest for char in text)
    wanted = plain(text) or {}
    for entry in (*ENTRIES[:2],):
        wanted.setdefault("hooks", {}).setdefault(entry.at[1], []).append(entry.value)
    wanted.setdefault("statusLine", ENTRIES[2].value)
    wanted.setdefault("version", 1)
    assert plain(new) == wanted
    assert re.findall(r"/\*.*?\*/|// \w", new) == re.findall(r"/\*.*?\*/|// \w", text)


@given(layouts(), st.randoms(use_true_random=False))
def test_removal_in_edited_text_keeps_the_rest(text: str, random: Any) -> None:
    """Whatever order things have after an edit, only ours go."""
    data = plain(text)
    assume(isinstance(data, dict))
    new, receipt = _added(json.dumps(data, indent=2))
    edited = json.loads(new)
    edited["later"] = [OUR.replace("/h/", "/other/"), {"x": 1}]
    for group in edited["hooks"].values():
        random.shuffle(group)
    shuffled = dict(random.sample(list(edited.items()), len(edited)))
    left = json.loads(remove(json.dumps(shuffled, indent=2), ours, receipt, FILE))
    assert left.pop("later") == edited["later"]
    for key in ("hooks",):
        assert {name: len(group) for name, group in left.get(key, {}).items()} == {
            name: len(group) for name, group in data.get(key, {}).items()
        }
    assert {key: value for key, value in left.items() if key != "hooks"} == {
        key: value for key, value in data.items() if key != "hooks"
    }
