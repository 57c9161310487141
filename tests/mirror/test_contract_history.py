"""`history.jsonl`: lines are only added, each event once, and nothing a crash leaves stops the next."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.errors import Failed, Invalid, Refused
from holdfast.formats.mirror.contract import history


def line(number: int, writer: str = "w", **more: Any) -> dict[str, Any]:
    event = {"hash": f"{writer}-{number}", "writer": writer, "seq": number}
    return {"timestamp": "2026-11-15T10:00:00Z", "command": f"c{number}", "x-holdfast": event, **more}


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "history.jsonl")


def commands(path: str) -> list[Any]:
    return [item["command"] if isinstance(item, dict) else None for _, item in history.read(path)]


def test_lines_are_added_and_what_was_there_stays(path: str) -> None:
    history.append(path, [line(1)])
    before = Path(path).read_bytes()
    assert history.append(path, [line(2), line(3)]) == 2
    assert Path(path).read_bytes().startswith(before)
    assert commands(path) == ["c1", "c2", "c3"]
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_an_event_is_there_once(path: str) -> None:
    """Told twice, in one call or in two, by one process or another."""
    history.append(path, [line(1), line(1)])
    assert history.append(path, [line(1), line(2)]) == 1
    assert commands(path) == ["c1", "c2"]


def test_lines_without_events_are_added_each_time(path: str) -> None:
    plain = {"timestamp": "2026-11-15T10:00:00Z", "command": "same"}
    history.append(path, [plain])
    history.append(path, [plain])
    assert commands(path) == ["same", "same"]


def test_a_torn_last_line_becomes_a_bad_line_of_its_own(path: str) -> None:
    history.append(path, [line(1)])
    with open(path, "ab") as file:
        file.write(b'{"timestamp": "2026-')
    history.append(path, [line(2)])
    assert commands(path) == ["c1", None, "c2"]
    numbers = [number for number, _ in history.read(path)]
    assert numbers == [1, 2, 3]


def test_bad_history_lines_are_given_by_number(path: str) -> None:
    bad = b"\xef\xbb\xbf{}\n\n[1]\r\nnonsense\n" + b"[" * 100_000 + b'\n\xff\n{"a": 1}\r\n{"cut'
    Path(path).write_bytes(bad)
    lines_read = list(history.read(path))
    assert [(number, isinstance(match, Invalid)) for number, match in lines_read] == [
        (1, False), (3, True), (4, True), (5, True), (6, True), (7, False), (8, True),
    ]  # fmt: skip
    error_text = str(lines_read[-1][1])
    assert "line 8" in error_text
    assert "cut off" in error_text


def test_reading_has_a_limit(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    history.append(path, [line(1)])
    monkeypatch.setattr(history, "MAX_SIZE", 10)
    with pytest.raises(Invalid, match="larger than"):
        list(history.read(path))


def test_the_tail_tells_which_events_are_there(path: str) -> None:
    """Of a long file only the end is read: a writer's last event vouches for those before it."""
    history.append(path, [line(number, pad="x" * 500) for number in range(1, 401)])
    assert os.stat(path).st_size > 3 * history._TAIL
    there = history.last_events(path)
    assert not there.whole
    assert there.latest == {"w": 400}
    assert there.has(line(1)) is True
    assert there.has(line(401)) is False
    assert there.has(line(1, "stranger")) is None
    assert history.last_events(path, whole=True).has(line(1, "stranger")) is False


def test_a_writer_not_seen_in_the_tail_is_looked_for_in_the_whole(path: str) -> None:
    history.append(path, [line(1, "early")])
    history.append(path, [line(number, pad="x" * 500) for number in range(1, 401)])
    assert history.append(path, [line(1, "early"), line(2, "early")]) == 1
    assert history.append(path, [line(1), line(400), line(401)]) == 1
    assert len(commands(path)) == 403


def test_appending_reads_the_same_however_long_the_file_is(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    history.append(path, [line(number, pad="x" * 500) for number in range(1, 401)])
    asked: list[int | None] = []
    real = history._written

    def spied(fd: int, tail: int | None) -> history.WrittenEvents:
        asked.append(tail)
        return real(fd, tail)

    monkeypatch.setattr(history, "_written", spied)
    history.append(path, [line(401)])
    assert asked == [history._TAIL]


def test_a_missing_file_holds_nothing(path: str) -> None:
    assert history.last_events(path) == (frozenset(), {}, True)
    assert not os.path.exists(path)


def test_processes_do_not_mix_their_lines(path: str) -> None:
    """Ours under a lock, a stranger's with none: every line is whole, each event once, in its writer's order."""
    code = textwrap.dedent("""
        import sys
        from holdfast.formats.mirror.contract import history
        path, writer = sys.argv[1:]
        for number in range(1, 31):
            event = {"hash": f"{writer}-{number}", "writer": writer, "seq": number}
            history.append(path, [{"command": f"{writer} {number}", "pad": "x" * 3000, "x-holdfast": event}])
    """)
    other_program = textwrap.dedent("""
        import os, sys
        fd = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        for number in range(200):
            os.write(fd, b'{"command": "stranger %d", "pad": "%s"}\\n' % (number, b"y" * 2000))
    """)
    many = [subprocess.Popen([sys.executable, "-c", code, path, f"w{n}"]) for n in range(3)]
    many.append(subprocess.Popen([sys.executable, "-c", code, path, "w0"]))
    many.append(subprocess.Popen([sys.executable, "-c", other_program, path]))
    assert [popen.wait() for popen in many] == [0] * 5
    lines_read = commands(path)
    for n in range(3):
        assert [match for match in lines_read if match.startswith(f"w{n} ")] == [f"w{n} {k}" for k in range(1, 31)]
    assert len(lines_read) == 90 + 200
    assert [json.loads(raw)["command"] for raw in Path(path).read_text().splitlines()] == lines_read


def test_partial_line_is_reported_and_ended_by_the_next_writer(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    history.append(path, [line(1)])
    real = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda fd, data: real(fd, data[:7]) if b"c2" in data else real(fd, data))
        with pytest.raises(Failed, match="only part of a line"):
            history.append(path, [line(2)])
    history.append(path, [line(2)])
    assert commands(path) == ["c1", None, "c2"]


def test_a_link_in_its_place_is_not_followed(path: str, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("keep\n")
    os.symlink(tmp_path / "other", path)
    with pytest.raises(Refused):
        history.append(path, [line(1)])
    assert (tmp_path / "other").read_text() == "keep\n"


def test_a_thorough_append_believes_no_line_about_those_before_it(path: str) -> None:
    """Nor one whose event was changed: what is added is what is not there as it was written."""
    history.append(path, [line(number, pad="x" * 500) for number in range(1, 401)])
    before = Path(path).read_bytes()
    assert history.append(path, [line(7)]) == 0
    assert history.append(path, [line(7)], thorough=True) == 1
    assert Path(path).read_bytes().startswith(before)
