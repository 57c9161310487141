"""F9: text that breaks other programs is returned unchanged, or refused; a terminal never gets it raw."""

from __future__ import annotations

import json
import random
import unicodedata
from pathlib import Path

import pytest

from holdfast import Keeper
from holdfast.core.errors import Invalid
from tests.faults.sandbox import Sandbox, assert_well_formed
from tests.support.scale import scale

PIECES = [
    "plain", " ", "\n", "\r\n", "\r", "\t", "\u2028", "\u2029", "\u0085", "\ufeff", "\x0b", "\x0c", "\x7f",
    "\x1b[31m", "\x1b]0;x\x07",
    "\x9b31m", "\x00", "\x01", "\x08", "\ud800", "\udfff", "\udc80", "é", "e\u0301", "Å", "\u212b", "\u202e",
    "\u2066", "\u200b", "\u200d",
    "👩‍👩‍👧", "漢字", "ﷺ", "Ã©", "â€™", "\\u0000", "\\ud800", '"', "'", "\\", "`", "$(x)", "%s", "{}", "<b>", "&amp;",
    "]]>", "--",
    "\ufffe", "\uffff", "\U0010ffff", "\U000e0001", "ſ", "İ", "ß", "؀", "\u061c", "\u180e", "\ufff9", "\x1bP\x1b\\",
    "\x1b_x\x1b\\",
]  # fmt: skip
HIDDEN = set("\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u061c\u200e\u200f\ufeff")
VIEWS = (["status"], ["show", "@"], ["log"], ["history"], ["timeline"], ["budget"], ["briefing"],
           ["briefing", "--for", "agent"], ["agent", "list"], ["task", "list"], ["plan", "show"], ["report"],
           ["stats"])  # fmt: skip


def storable(text: str) -> bool:
    """The rule, repeated here: not blank, no lone surrogate, no NUL."""
    return bool(text.strip()) and "\0" not in text and not any(0xD800 <= ord(name) <= 0xDFFF for name in text)


def raw_characters(shown: str) -> set[str]:
    """Characters that must never reach a terminal unescaped."""
    return {name for name in shown if (unicodedata.category(name) in ("Cc", "Cs") and name != "\n") or name in HIDDEN}


def random_text(rng: random.Random) -> str:
    return "".join(rng.choices(PIECES, k=rng.randrange(1, 8)))


def test_text_is_returned_unchanged_or_refused(tmp_path: Path) -> None:
    """Notes made of the worst pieces: equal, byte for byte, or `Invalid`."""
    sandbox = Sandbox(tmp_path)
    rng = random.Random(9)
    kept: list[str] = []
    with sandbox.keeper() as keeper:
        session = keeper.start("G")
        for _ in range(scale(250, 1_000, 20_000)):
            text = random_text(rng)
            if storable(text):
                session.note(text)
                kept.append(text)
            else:
                with pytest.raises(Invalid):
                    session.note(text)
    with sandbox.keeper() as keeper:
        assert [note.text for note in keeper.session().document().notes] == kept
    sandbox.assert_sound()


FIELDS = {
    "goal": ["edit", "--goal={}"], "summary": ["edit", "--summary={}"], "scope": ["edit", "--scope={}"],
    "tag": ["edit", "--tag={}"], "note": ["note", "--", "{}"], "decision": ["decide", "--why={}", "--context={}",
    "--", "{}"],
    "option": ["decide", "x", "--option={}"], "task": ["task", "add", "--phase={}", "--", "{}"],
    "agent type": ["agent", "start", "NEW", "--type={}"], "agent task": ["agent", "start", "NEW", "--type=t",
    "--task={}"],
    "hill": ["hill", "--", "{}", "3"], "fail": ["fail", "--", "{}"], "pause": ["pause", "--", "{}"],
}  # fmt: skip


def test_every_field_accepts_or_refuses_hostile_text_and_no_view_prints_it_raw(tmp_path: Path) -> None:
    """Through the command line: exit code 0 or 4, JSON in one document, no control characters."""
    sandbox = Sandbox(tmp_path)
    sandbox.call("start", "G")
    pieces = PIECES if scale(0, 1, 1) else random.Random(3).sample(PIECES, 14)
    for number, piece in enumerate(pieces):
        for name, words in FIELDS.items():
            text = f"a{piece}b"
            answer = sandbox.call(*[word.replace("{}", text).replace("NEW", f"{name[6:]}{number}") for word in words])
            assert answer.code == (0 if storable(text) else 4), (name, ascii(piece), answer)
            assert not raw_characters(answer.out + answer.err), (name, ascii(piece), answer)
            if name in ("fail", "pause"):
                sandbox.call("resume")
    for words in VIEWS:
        answer = sandbox.call(*words)
        assert_well_formed(answer)
        assert answer.code == 0, (words, answer.err)
        raw = raw_characters(answer.out + answer.err)
        # A report may have characters of its own, but no control characters.
        assert not {name for name in raw if unicodedata.category(name) == "Cc"}, (words, raw)
        if words[0] != "report":
            assert not raw, (words, raw)
        document = sandbox.call(*words, "--json")
        assert document.code == 0, (words, document)
        json.loads(document.out)
        assert not {name for name in document.out if ord(name) < 32 and name != "\n"}
    sandbox.assert_sound()


@pytest.mark.parametrize("raw", [b"\xff", b"caf\xe9", b"\xed\xa0\x80", b"\xc0\x80", b"\xf8\x88\x80\x80\x80", b"\x80"])
def test_invalid_utf_8_in_arguments_is_refused(tmp_path: Path, raw: bytes) -> None:
    """In any argument of a real process: exit code 4, nothing recorded."""
    sandbox = Sandbox(tmp_path)
    assert sandbox.run("start", "G").code == 0
    for words in (
        [b"note", raw],
        [b"note", b"x", b"--store", raw],
        [raw],
        [b"show", raw],
        [b"file", raw, b"--action", b"deleted"],
    ):
        answer = sandbox.run(*words)
        assert_well_formed(answer)
        assert answer.code == 4, (words, answer)
        document = sandbox.run(*words, b"--json")
        assert (document.code, document.document["error"]["kind"]) == (4, "invalid")
    with sandbox.keeper() as keeper:
        assert len(keeper.events(keeper.session().id)) == 1


@pytest.mark.parametrize(
    "name", [b"caf\xe9", "e\u0301-é".encode(), "a\u202eb".encode(), b"new\nline", b"esc\x1b[31m", b"-dash", b" "]
)
def test_directories_with_hostile_names_work_or_are_refused(tmp_path: Path, name: bytes) -> None:
    """As project and as home; only names that are not UTF-8 are refused."""
    import os

    place = os.path.join(os.fsencode(tmp_path), b"x" + name)
    os.mkdir(place)
    sandbox = Sandbox(tmp_path)
    legible = name != b"caf\xe9"
    for cwd, home in (
        (place, os.fsencode(sandbox.home)),
        (os.fsencode(sandbox.project), os.path.join(place, b"home")),
    ):
        for words in (["start", "G"], ["note", "x"], ["status"], ["history"], ["start", "again"]):
            answer = sandbox.run(*words, env={"HOLDFAST_HOME": os.fsdecode(home)}, cwd=cwd)
            assert_well_formed(answer)
            assert answer.code == ((5 if words[-1] == "again" else 0) if legible else 4), answer
            assert not raw_characters(answer.out + answer.err), answer


def test_search_ignores_unicode_normalization_of_stored_text(tmp_path: Path) -> None:
    """Stored text is not normalized; a search finds either form by either."""
    sandbox = Sandbox(tmp_path)
    with sandbox.keeper() as keeper:
        one = keeper.start("Caf\u00e9").id
        two = keeper.start("Cafe\u0301", replace=True).id
        for words in ("Caf\u00e9", "Cafe\u0301", "cafe", "CAFÉ"):
            assert {row.id for row in keeper.history(search=words)} == {one, two}
        assert {row.goal for row in keeper.history()} == {"Caf\u00e9", "Cafe\u0301"}


def test_mojibake_bom_and_line_ends_are_stored_unchanged(tmp_path: Path) -> None:
    texts = ["\ufeffwith a mark", "a\r\nb\rc\nd", "â€œquotedâ€\u009d", "tail\u2028", "x" + "\u0300" * 1000]
    (tmp_path / "p").mkdir()
    with Keeper.open(str(tmp_path / "p"), home=str(tmp_path / "h")) as keeper:
        session = keeper.start(texts[0])
        for text in texts:
            session.decide(text, options=texts, why=text)
        for decision, text in zip(session.document().decisions, texts, strict=True):
            assert (decision.chosen, decision.options, decision.why) == (text, texts, text)
