"""F10: sizes from nothing to far too much: the limit is reported, memory stays small."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from holdfast.core.text import MAX_NAME_LENGTH, MAX_PATH_LENGTH, MAX_TEXT_LENGTH
from tests.faults.sandbox import Sandbox
from tests.support.scale import scale

MIB = 1 << 20
MEMORY = 256 * 1024  # KiB, as getrusage counts


def measured(sandbox: Sandbox, code: str, *words: str) -> tuple[int, str, str, int]:
    """Run Python code in a child process: its exit code, output, and peak memory in KiB."""
    script = textwrap.dedent(code)
    wrapper = (
        "import resource, subprocess, sys\n"
        "done = subprocess.run([sys.executable, '-c', sys.argv[1], *sys.argv[2:]], capture_output=True, text=True)\n"
        "most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss\n"
        "import json; print(json.dumps([done.returncode, done.stdout, done.stderr, most]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", wrapper, script, *words], cwd=sandbox.project, env=sandbox.environ,
        capture_output=True, text=True, check=False,
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
def test_text_of_any_size_is_stored_or_refused_with_the_limit(tmp_path: Path, size: int) -> None:
    """Up to a million characters; beyond that exit code 4, in less than 256 MiB."""
    sandbox = Sandbox(tmp_path)
    sandbox.call("start", "G")
    code, out, err, most = measured(sandbox, CALL, "note", f"='x' * {size}", "--json")
    assert most < MEMORY
    if size <= MAX_TEXT_LENGTH:
        assert (code, err) == (0, "")
        assert len(json.loads(out)["session"]["notes"][0]["text"]) == size
    else:
        error = json.loads(out)["error"]
        assert code == 4
        assert f"{MAX_TEXT_LENGTH:,}" in error["hint"]
        assert len(out) < 2_000
    sandbox.assert_sound()


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
def test_every_field_has_a_limit(tmp_path: Path, words: list[str], limit: int) -> None:
    """One character more is exit code 4, and so is an empty required value."""
    sandbox = Sandbox(tmp_path)
    sandbox.call("start", "G")
    for size, code in ((limit, 3 if words[0] == "show" else 0), (limit + 1, 4)):
        answer = sandbox.call(*[word.replace("X", "x" * size) for word in words])
        assert answer.code == code, answer.err[:300]
        assert len(answer.err) < 2_000
        if words[0] in ("pause", "fail"):
            sandbox.call("resume")
    empty = sandbox.call(*[word.replace("X", "") for word in words])
    assert empty.code == (0 if words[-1] in ("pause", "--why=X", "--option=X") or words[0] == "pause" else 4), empty
    sandbox.assert_sound()


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
def test_invalid_numbers_are_refused(tmp_path: Path, words: list[str]) -> None:
    """Too large, negative, not finite, not ASCII digits."""
    sandbox = Sandbox(tmp_path)
    sandbox.call("start", "G")
    sandbox.call("agent", "start", "a", "--type", "t")
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
        answer = sandbox.call(*[word.replace("N", str(number)) for word in words])
        assert answer.code in (2, 4), (number, answer)
        assert len(answer.err) < 2_000
    sandbox.assert_sound()


@pytest.mark.parametrize("number", ["9223372036854775808", "nan", "inf", "-1", "1e400", "9" * 5000])
def test_invalid_number_in_a_settings_file_is_ignored_and_reported(tmp_path: Path, number: str) -> None:
    """Recording works."""
    sandbox = Sandbox(tmp_path)
    sandbox.home.mkdir()
    (sandbox.home / "config.toml").write_text(f"[history]\nlimit = {number}\n")
    answer = sandbox.call("config", "list")
    assert answer.code == 0
    assert str(sandbox.home / "config.toml") in answer.err
    assert sandbox.call("config", "get", "history.limit", "--json").document["value"] == 20
    assert sandbox.call("start", "G").code == 0


@pytest.mark.parametrize(
    "content",
    [b"[a]\nx = 1\nx = 2\n", b"a = " + b"[" * 1_000 + b"]" * 1_000, b"[a" + b".a" * 1_000 + b"]\n",
     b"#" * (2 * MIB), b"\0" * 100],
    ids=["twice", "deep", "deep tables", "large", "zeros"],
)  # fmt: skip
def test_invalid_settings_file_is_ignored_and_reported(tmp_path: Path, content: bytes) -> None:
    """Duplicate keys, depth, size."""
    sandbox = Sandbox(tmp_path)
    sandbox.home.mkdir()
    for path in (sandbox.home / "config.toml", sandbox.project / ".holdfast.toml"):
        path.write_bytes(content)
        answer = sandbox.call("config", "list", "--json")
        assert answer.code == 0
        problems = answer.document["problems"]
        assert [problem["file"] for problem in problems] == [str(path)] * len(problems)
        assert sandbox.call("start", "G", "--replace").code == 0
        path.unlink()


@pytest.mark.parametrize("way", ["settings", "project settings", "backup", "plan", "plan on stdin"])
def test_64_mib_of_input_are_refused_in_256_mib(tmp_path: Path, way: str) -> None:
    """The limit is reported where there is one."""
    sandbox = Sandbox(tmp_path)
    sandbox.call("start", "G")
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(64 * MIB)
    words = {"backup": ["restore", str(large)], "plan": ["plan", "import", str(large)],
             "plan on stdin": ["plan", "import", "-"]}.get(way, ["config", "list"])  # fmt: skip
    if "settings" in way:
        large.rename(sandbox.home / "config.toml" if way == "settings" else sandbox.project / ".holdfast.toml")
    script = (
        CALL if way != "plan on stdin" else f"import sys; sys.stdin = open({str(large)!r})\n" + textwrap.dedent(CALL)
    )
    code, out, err, most = measured(sandbox, script, *words)
    # Settings that cannot be read must not block commands: they are ignored, and reported.
    assert code == 0 if "settings" in way else code in (3, 4, 6), (out, err)
    assert most < MEMORY
    assert "Traceback" not in err
    if way != "backup":
        assert "MiB" in err or "large" in err


def test_large_file_is_hashed_in_little_memory(tmp_path: Path) -> None:
    """It is read in chunks, and not stored."""
    sandbox = Sandbox(tmp_path)
    sandbox.call("start", "G")
    with (sandbox.project / "large").open("wb") as file:
        file.truncate(64 * MIB)
    code, _, err, most = measured(sandbox, CALL, "file", "large", "--action", "created", "--json")
    assert (code, err) == (0, "")
    assert most < 64 * 1024
    assert sandbox.store.stat().st_size < MIB


@pytest.mark.parametrize(
    "content", ["[" * 1_000 + "]" * 1_000, '{"a":' * 1_000 + "1" + "}" * 1_000, "- " * 1_000 + "x"]
)
def test_plan_with_a_thousand_levels_is_handled(tmp_path: Path, content: str) -> None:
    """No traceback, whatever the format."""
    sandbox = Sandbox(tmp_path)
    sandbox.call("start", "G")
    for ending in ("json", "yaml", "md"):
        path = sandbox.project / f"plan.{ending}"
        path.write_text(content)
        sandbox.call("plan", "import", str(path))
    sandbox.assert_sound()


def test_session_of_many_events_needs_little_memory(tmp_path: Path) -> None:
    """Neither writing nor reading needs much."""
    many = scale(3_000, 100_000, 1_000_000)
    sandbox = Sandbox(tmp_path)
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
    done, out, err, most = measured(sandbox, code, str(sandbox.home), str(many))
    assert (done, err, out.strip()) == (0, "", str(many + 1))
    assert most < MEMORY
    code_, out, err, most = measured(sandbox, CALL, "status", "--json")
    assert (code_, err) == (0, "")
    assert most < MEMORY
    if many <= 100_000:
        sandbox.assert_sound()


def test_getrusage_counts_in_kib() -> None:
    """The unit of the limits above."""
    assert 10_000 < resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 10_000_000
