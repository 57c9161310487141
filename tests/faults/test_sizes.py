"""F10: sizes from nothing to far too much: the limit is named, memory stays small."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from holdfast.core.text import MAX_NAME_LENGTH, MAX_PATH_LENGTH, MAX_TEXT_LENGTH
from tests.faults.program import Desk
from tests.support.scale import scale

MIB = 1 << 20
MEMORY = 256 * 1024  # KiB, as getrusage counts


def measured(desk: Desk, code: str, *words: str) -> tuple[int, str, str, int]:
    """Run Python code in a child of its own: its exit code, output, and most memory in KiB."""
    script = textwrap.dedent(code)
    wrapper = (
        "import resource, subprocess, sys\n"
        "done = subprocess.run([sys.executable, '-c', sys.argv[1], *sys.argv[2:]], capture_output=True, text=True)\n"
        "most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss\n"
        "import json; print(json.dumps([done.returncode, done.stdout, done.stderr, most]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", wrapper, script, *words], cwd=desk.project, env=desk.environ, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    code_, out, err, most = json.loads(done.stdout)
    return int(code_), str(out), str(err), int(most)


CALL = """
    import sys
    from holdfast.cli.main import main
    words = [eval(word[1:]) if word.startswith("=") else word for word in sys.argv[1:]]
    sys.exit(main(words))
"""


@pytest.mark.parametrize("size", [1, 2, 65_535, MAX_TEXT_LENGTH - 1, MAX_TEXT_LENGTH, MAX_TEXT_LENGTH + 1, 64 * MIB])
def test_a_text_of_any_size_is_kept_whole_or_refused_with_the_limit(tmp_path: Path, size: int) -> None:
    """Up to a million characters; beyond that exit 4, and less than 256 MiB in either case."""
    desk = Desk(tmp_path)
    desk.call("start", "G")
    code, out, err, most = measured(desk, CALL, "note", f"='x' * {size}", "--json")
    assert most < MEMORY
    if size <= MAX_TEXT_LENGTH:
        assert (code, err) == (0, "")
        assert len(json.loads(out)["session"]["notes"][0]["text"]) == size
    else:
        error = json.loads(out)["error"]
        assert code == 4
        assert f"{MAX_TEXT_LENGTH:,}" in error["hint"]
        assert len(out) < 2_000
    desk.sound()


@pytest.mark.parametrize(
    ("words", "limit"),
    [
        (["edit", "--goal=X"], MAX_TEXT_LENGTH), (["edit", "--tag=X"], MAX_NAME_LENGTH),
        (["decide", "X"], MAX_TEXT_LENGTH),
        (["decide", "x", "--why=X"], MAX_TEXT_LENGTH), (["decide", "x", "--option=X"], MAX_TEXT_LENGTH),
        (["task", "add", "X"], MAX_TEXT_LENGTH), (["task", "add", "x", "--phase=X"], MAX_NAME_LENGTH),
        (["task", "add", "x", "--id=X"], 100), (["agent", "start", "X", "--type=t"], 100),
        (["agent", "start", "i", "--type=X"], 100),
        (["agent", "start", "j", "--type=t", "--task=X"], MAX_TEXT_LENGTH),
        (["file", "X", "--action=deleted"], MAX_PATH_LENGTH), (["hill", "X", "3"], MAX_NAME_LENGTH),
        (["pause", "X"], MAX_TEXT_LENGTH), (["fail", "X"], MAX_TEXT_LENGTH), (["show", "X"], MAX_NAME_LENGTH),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_every_field_has_a_limit_and_says_it(tmp_path: Path, words: list[str], limit: int) -> None:
    """Exactly the limit is taken, one more is exit 4; nothing at all is exit 4 where something is needed."""
    desk = Desk(tmp_path)
    desk.call("start", "G")
    for size, code in ((limit, 3 if words[0] == "show" else 0), (limit + 1, 4)):
        answer = desk.call(*[word.replace("X", "x" * size) for word in words])
        assert answer.code == code, answer.err[:300]
        assert len(answer.err) < 2_000
        if words[0] in ("pause", "fail"):
            desk.call("resume")
    empty = desk.call(*[word.replace("X", "") for word in words])
    assert empty.code == (0 if words[-1] in ("pause", "--why=X", "--option=X") or words[0] == "pause" else 4), empty
    desk.sound()


@pytest.mark.parametrize(
    "words",
    [
        ["context", "--tokens=N"], ["context", "--tokens=1", "--window=N"], ["compress", "--to=N"],
        ["agent", "done", "a", "--tokens=N"], ["agent", "start", "b", "--type=t", "--pid=N"], ["hill", "s", "N"],
        ["edit", "--progress=N"], ["agent", "progress", "a", "N"], ["history", "--limit=N"], ["log", "--limit=N"],
        ["briefing", "--max-chars=N"], ["config", "set", "history.limit", "N"],
        ["config", "set", "timer.idle_minutes", "N"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_numbers_that_are_none(tmp_path: Path, words: list[str]) -> None:
    """Too large, negative, not finite, not in our digits: exit 4."""
    desk = Desk(tmp_path)
    desk.call("start", "G")
    desk.call("agent", "start", "a", "--type", "t")
    for number in (
        2**63,
        -(2**63),
        2**64,
        "9" * 400,
        "9" * 5000,
        -1,
        "nan",
        "inf",
        "-inf",
        "1e999",
        "٣",
        "0x10",
        "",
        "1 ",
        "--1",
    ):
        answer = desk.call(*[word.replace("N", str(number)) for word in words])
        assert answer.code in (2, 4), (number, answer)
        assert len(answer.err) < 2_000
    desk.sound()


@pytest.mark.parametrize("number", ["9223372036854775808", "nan", "inf", "-1", "1e400", "9" * 5000])
def test_numbers_in_files_of_settings(tmp_path: Path, number: str) -> None:
    """A number that cannot be is left out and named; recording goes on."""
    desk = Desk(tmp_path)
    desk.home.mkdir()
    (desk.home / "config.toml").write_text(f"[history]\nlimit = {number}\n")
    answer = desk.call("config", "list")
    assert answer.code == 0
    assert str(desk.home / "config.toml") in answer.err
    assert desk.call("config", "get", "history.limit", "--json").document["value"] == 20
    assert desk.call("start", "G").code == 0


@pytest.mark.parametrize(
    "content",
    [b"[a]\nx = 1\nx = 2\n", b"a = " + b"[" * 1_000 + b"]" * 1_000, b"[a" + b".a" * 1_000 + b"]\n",
     b"#" * (2 * MIB), b"\0" * 100],
    ids=["twice", "deep", "deep tables", "large", "zeros"],
)  # fmt: skip
def test_files_of_settings_that_are_too_much(tmp_path: Path, content: bytes) -> None:
    """Duplicate keys, depth, size: the settings are as if the file said nothing, and `config list` names it."""
    desk = Desk(tmp_path)
    desk.home.mkdir()
    for path in (desk.home / "config.toml", desk.project / ".holdfast.toml"):
        path.write_bytes(content)
        answer = desk.call("config", "list", "--json")
        assert answer.code == 0
        problems = answer.document["problems"]
        assert [problem["file"] for problem in problems] == [str(path)] * len(problems)
        assert desk.call("start", "G", "--replace").code == 0
        path.unlink()


@pytest.mark.parametrize("way", ["settings", "project settings", "backup", "plan", "plan on stdin"])
def test_64_mib_of_input_are_refused_in_little_memory(tmp_path: Path, way: str) -> None:
    """The limit is named where there is one, and memory stays under 256 MiB."""
    desk = Desk(tmp_path)
    desk.call("start", "G")
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(64 * MIB)
    words = {"backup": ["restore", str(large)], "plan": ["plan", "import", str(large)],
             "plan on stdin": ["plan", "import", "-"]}.get(way, ["config", "list"])  # fmt: skip
    if "settings" in way:
        large.rename(desk.home / "config.toml" if way == "settings" else desk.project / ".holdfast.toml")
    script = (
        CALL if way != "plan on stdin" else f"import sys; sys.stdin = open({str(large)!r})\n" + textwrap.dedent(CALL)
    )
    code, out, err, most = measured(desk, script, *words)
    # Settings that cannot be read must not stop work: they are left out, and named.
    assert code == 0 if "settings" in way else code in (3, 4, 6), (out, err)
    assert most < MEMORY
    assert "Traceback" not in err
    if way != "backup":
        assert "MiB" in err or "large" in err


def test_a_large_file_is_hashed_in_little_memory(tmp_path: Path) -> None:
    """Contents are read in pieces and never kept."""
    desk = Desk(tmp_path)
    desk.call("start", "G")
    with (desk.project / "large").open("wb") as file:
        file.truncate(64 * MIB)
    code, _, err, most = measured(desk, CALL, "file", "large", "--action", "created", "--json")
    assert (code, err) == (0, "")
    assert most < 64 * 1024
    assert desk.store.stat().st_size < MIB


@pytest.mark.parametrize(
    "content", ["[" * 1_000 + "]" * 1_000, '{"a":' * 1_000 + "1" + "}" * 1_000, "- " * 1_000 + "x"]
)
def test_plans_a_thousand_levels_deep(tmp_path: Path, content: str) -> None:
    """A typed answer, whatever the format."""
    desk = Desk(tmp_path)
    desk.call("start", "G")
    for ending in ("json", "yaml", "md"):
        path = desk.project / f"plan.{ending}"
        path.write_text(content)
        desk.call("plan", "import", str(path))
    desk.sound()


def test_many_events_in_little_memory(tmp_path: Path) -> None:
    """A long session: exact count, sound, and neither writing nor looking needs much."""
    many = scale(3_000, 100_000, 1_000_000)
    desk = Desk(tmp_path)
    code = """
        import sys
        from holdfast import Keeper
        from holdfast.core.events import MessageExchanged
        from holdfast.store.interface import Draft
        with Keeper.open(".", home=sys.argv[1]) as keeper:
            session = keeper.start("G").id
            done, many = 0, int(sys.argv[2])
            while done < many:
                with keeper.store().transaction() as transaction:
                    for _ in range(min(1_000, many - done)):
                        done += 1
                        transaction.record(session, Draft(MessageExchanged(), keeper.now(), "me"))
            print(keeper.state(session).count)
    """
    done, out, err, most = measured(desk, code, str(desk.home), str(many))
    assert (done, err, out.strip()) == (0, "", str(many + 1))
    assert most < MEMORY
    code_, out, err, most = measured(desk, CALL, "status", "--json")
    assert (code_, err) == (0, "")
    assert most < MEMORY
    if many <= 100_000:
        desk.sound()


def test_this_process_was_measured_as_getrusage_counts() -> None:
    """KiB on Linux: a sanity check of the unit the limits above are in."""
    assert 10_000 < resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 10_000_000
