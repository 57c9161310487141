"""Minimal edits of JSON with comments: additions change nothing else, and can be removed exactly."""

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


def test_new_file_is_indented_by_two() -> None:
    """With a final line break."""
    text, _ = insert("", VERSIONED, FILE)
    assert text == json.dumps({"version": 1, "hooks": {"stop": [{"command": OUR}]}}, indent=2) + "\n"


def test_layout_of_the_file_is_kept() -> None:
    """Tabs, Windows line ends, comments, a byte order mark and a trailing comma."""
    text = '\ufeff{\r\n\t// mine\r\n\t"model": "x", // why\r\n\t"hooks": {\r\n\t\t"Stop": [],\r\n\t},\r\n}\r\n'
    new, receipt = insert(text, [SettingsEntry(("hooks", "Stop"), {"command": OUR})], FILE)
    added = f'[\r\n\t\t\t{{\r\n\t\t\t\t"command": "{OUR}"\r\n\t\t\t}}\r\n\t\t]'
    assert new == text.replace("[]", added)
    assert remove(new, ours, receipt, FILE) == text


def test_one_line_stays_one_line() -> None:
    """With its own spacing."""
    new, _ = insert('{"a":1}', [SettingsEntry(("b", "c"), "d")], FILE)
    assert new == '{"a":1,"b":{"c":["d"]}}'
    new, _ = insert('{"a": [1, 2]}', [SettingsEntry(("a",), "d")], FILE)
    assert new == '{"a": [1, 2, "d"]}'


def test_comment_at_the_end_stays_with_its_line() -> None:
    """The comma precedes the comment, the new value follows it."""
    new, _ = insert('{\n  "a": 1 // one\n  // last\n}\n', [SettingsEntry(("b",), 2, only=True)], FILE)
    assert new == '{\n  "a": 1, // one\n  // last\n  "b": 2\n}\n'


def test_default_value_does_not_replace_an_existing_one() -> None:
    text = '{"statusLine": null}'
    assert insert(text, ENTRIES[2:], FILE)[0] == text


def test_second_insertion_changes_nothing() -> None:
    once, _ = insert("{}", ENTRIES, FILE)
    again, receipt = insert(once, ENTRIES, FILE)
    assert again == once
    assert (receipt.created, receipt.gaps, receipt.values) == ([], [], [])


# ── after somebody edited it ─────────────────────────────────────────────────────────────────────────────


def test_additions_of_others_stay() -> None:
    """A foreign hook in our list or group survives the removal of ours."""
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


def test_version_stays_while_other_hooks_need_it() -> None:
    """In a file that we created."""
    new, receipt = insert("", VERSIONED, FILE)
    theirs = new.replace('"stop": [', '"stop": [\n      {"command": "say done"},')
    left = {"version": 1, "hooks": {"stop": [{"command": "say done"}]}}
    assert json.loads(remove(theirs, ours, receipt, FILE)) == left
    assert remove(new, ours, receipt, FILE) == ""


def test_empty_containers_are_removed_without_a_receipt() -> None:
    """Our entries are recognized by command line; containers that were empty before stay."""
    new, _ = insert('{\n  "a": {}\n}\n', ENTRIES[:2], FILE)
    assert remove(new, ours, None, FILE) == '{\n  "a": {}\n}\n'
    assert holds(new, ours, FILE)
    assert OUR in texts(new, FILE)


# ── what is not JSON ─────────────────────────────────────────────────────────────────────────────────────


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
    with pytest.raises(Invalid, match=rf"settings\.json.*\(line {line}\)"):
        insert(text, [hook("Stop")], FILE)


def test_other_encoding_is_refused() -> None:
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
    """JSON text of any layout: blanks, breaks and comments anywhere, with or without trailing commas."""
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
def test_removal_restores_the_exact_text(text: str) -> None:
    new, receipt = _added(text)
    assert remove(new, ours, receipt, FILE) == text


@given(layouts())
def test_insertion_only_adds_text(text: str) -> None:
    """The old text stays in order and meaning, with our entries at the ends of their lists."""
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
    """Whatever the order after an edit."""
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
