"""`history.jsonl` is append-only, has each event once, and survives whatever a crash leaves."""

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


def test_lines_are_appended(path: str) -> None:
    history.append(path, [line(1)])
    before = Path(path).read_bytes()
    assert history.append(path, [line(2), line(3)]) == 2
    assert Path(path).read_bytes().startswith(before)
    assert commands(path) == ["c1", "c2", "c3"]
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_event_is_appended_once(path: str) -> None:
    """Given twice, in one call or two, by one process or another."""
    history.append(path, [line(1), line(1)])
    assert history.append(path, [line(1), line(2)]) == 1
    assert commands(path) == ["c1", "c2"]


def test_line_without_an_event_is_appended_each_time(path: str) -> None:
    plain = {"timestamp": "2026-11-15T10:00:00Z", "command": "same"}
    history.append(path, [plain])
    history.append(path, [plain])
    assert commands(path) == ["same", "same"]


def test_torn_last_line_stays_separate_from_the_next(path: str) -> None:
    history.append(path, [line(1)])
    with open(path, "ab") as file:
        file.write(b'{"timestamp": "2026-')
    history.append(path, [line(2)])
    assert commands(path) == ["c1", None, "c2"]
    numbers = [number for number, _ in history.read(path)]
    assert numbers == [1, 2, 3]


def test_bad_history_lines_are_reported_by_number(path: str) -> None:
    bad = b"\xef\xbb\xbf{}\n\n[1]\r\nnonsense\n" + b"[" * 100_000 + b'\n\xff\n{"a": 1}\r\n{"cut'
    Path(path).write_bytes(bad)
    lines_read = list(history.read(path))
    assert [(number, isinstance(match, Invalid)) for number, match in lines_read] == [
        (1, False), (3, True), (4, True), (5, True), (6, True), (7, False), (8, True),
    ]  # fmt: skip
    error_text = str(lines_read[-1][1])
    assert "line 8" in error_text
    assert "cut off" in error_text


def test_reading_is_limited(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    history.append(path, [line(1)])
    monkeypatch.setattr(history, "MAX_SIZE", 10)
    with pytest.raises(Invalid, match="larger than"):
        list(history.read(path))


def written_events(path: str, tail: int | None) -> history.WrittenEvents:
    with open(path, "rb") as file:
        return history._written_events(file.fileno(), tail)


def test_tail_shows_which_events_exist(path: str) -> None:
    """Only the end of a long file is read: a writer's last event implies the earlier ones."""
    history.append(path, [line(number, pad="x" * 500) for number in range(1, 401)])
    assert os.stat(path).st_size > 3 * history._TAIL
    there = written_events(path, history._TAIL)
    assert not there.whole
    assert there.latest == {"w": 400}
    assert there.has(line(1)) is True
    assert there.has(line(401)) is False
    assert there.has(line(1, "stranger")) is None
    assert written_events(path, None).has(line(1, "stranger")) is False


def test_writer_missing_in_the_tail_is_searched_in_the_whole_file(path: str) -> None:
    history.append(path, [line(1, "early")])
    history.append(path, [line(number, pad="x" * 500) for number in range(1, 401)])
    assert history.append(path, [line(1, "early"), line(2, "early")]) == 1
    assert history.append(path, [line(1), line(400), line(401)]) == 1
    assert len(commands(path)) == 403


def test_append_reads_a_constant_amount(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    history.append(path, [line(number, pad="x" * 500) for number in range(1, 401)])
    asked: list[int | None] = []
    real = history._written_events

    def spied(fd: int, tail: int | None) -> history.WrittenEvents:
        asked.append(tail)
        return real(fd, tail)

    monkeypatch.setattr(history, "_written_events", spied)
    history.append(path, [line(401)])
    assert asked == [history._TAIL]


def test_concurrent_processes_do_not_mix_their_lines(path: str) -> None:
    """With or without our lock, every line is whole, each event is there once, in its writer's order."""
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


def test_link_in_place_of_the_file_is_not_followed(path: str, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("keep\n")
    os.symlink(tmp_path / "other", path)
    with pytest.raises(Refused):
        history.append(path, [line(1)])
    assert (tmp_path / "other").read_text() == "keep\n"


def test_thorough_append_checks_every_event(path: str) -> None:
    """A later line implies nothing, and a changed event counts as missing."""
    history.append(path, [line(number, pad="x" * 500) for number in range(1, 401)])
    before = Path(path).read_bytes()
    assert history.append(path, [line(7)]) == 0
    assert history.append(path, [line(7)], thorough=True) == 1
    assert Path(path).read_bytes().startswith(before)
