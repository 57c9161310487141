"""Reading agents' directories, settings and databases, whatever they contain."""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from holdfast.conversations.adapters.database import AgentDatabase
from holdfast.conversations.adapters.files import list_directories, list_files, list_names, stamp
from holdfast.conversations.adapters.jsonl import ReadProblems, read_whole
from holdfast.conversations.connect.agent_settings import settings_in


def test_directory_is_listed_without_links(tmp_path: Path) -> None:
    """Files of the wanted kind in order, with a stamp that changes with the file; links only on request."""
    (tmp_path / "b.jsonl").write_text("b")
    (tmp_path / "a.jsonl").write_text("a")
    (tmp_path / "c.txt").write_text("c")
    (tmp_path / "below").mkdir()
    os.symlink(tmp_path / "a.jsonl", tmp_path / "link.jsonl")
    os.symlink(tmp_path / "below", tmp_path / "elsewhere")
    entries = list_files(str(tmp_path), ".jsonl")
    assert [entry.name for entry in entries] == ["a.jsonl", "b.jsonl"]
    assert entries[0].stamp == stamp(entries[0].path)
    (tmp_path / "a.jsonl").write_text("aa")
    assert entries[0].stamp != stamp(entries[0].path)
    assert list_directories(str(tmp_path)) == [str(tmp_path / "below")]
    assert list_directories(str(tmp_path), linked=True) == [str(tmp_path / "below"), str(tmp_path / "elsewhere")]
    assert list_names(str(tmp_path)) == ["a.jsonl", "b.jsonl", "below", "c.txt", "elsewhere", "link.jsonl"]


def test_stamp_exists_only_for_the_expected_type(tmp_path: Path) -> None:
    """Not for a directory in place of a file, or the reverse, or a link."""
    (tmp_path / "file").write_text("x")
    os.symlink(tmp_path / "file", tmp_path / "link")
    assert stamp(str(tmp_path)) is None
    assert stamp(str(tmp_path), directory=True) is not None
    assert stamp(str(tmp_path / "file"), directory=True) is None
    assert stamp(str(tmp_path / "link")) is None


@pytest.mark.parametrize("where", ["nowhere", "a\0b", "x" * 5_000])
def test_missing_directory_is_empty(tmp_path: Path, where: str) -> None:
    """So are impossible names."""
    path = str(tmp_path / where) if "\0" not in where else where
    assert (list_names(path), list_directories(path), list_files(path, ".jsonl"), stamp(path)) == ([], [], [], None)
    assert settings_in(path) == {}


@pytest.mark.parametrize(
    ("content", "strictly", "generously"),
    [
        (b'\xef\xbb\xbf{"a": 1}', {"a": 1}, {"a": 1}),
        (b'{"a": 1, // one\n}', {}, {"a": 1}),
        (b"[1]", {}, {}),
        (b"", {}, {}),
        (b'{"a": "\xff"}', {}, {}),
        (b"[" * 100_000, {}, {}),
    ],
)
def test_settings_may_have_comments_where_the_agent_allows_them(
    tmp_path: Path, content: bytes, strictly: object, generously: object
) -> None:
    """Anything but an object is empty."""
    path = tmp_path / "settings.json"
    path.write_bytes(content)
    assert settings_in(str(path)) == strictly
    assert settings_in(str(path), comments=True) == generously


def test_too_large_file_is_not_read(tmp_path: Path) -> None:
    """Not even its start, and it is reported."""
    path = tmp_path / "large"
    path.write_bytes(b"x" * 11)
    problems = ReadProblems()
    assert read_whole(str(path), problems, 11) == b"x" * 11
    assert read_whole(str(path), problems, 10) == b""
    assert problems.sentences() == ["is larger than 0 MiB"]


def test_unfinished_wal_is_read_from_copy(tmp_path: Path) -> None:
    """The log of a killed agent's database is read, and no file is created next to it."""
    made = apsw.Connection(str(tmp_path / "first.db"))
    made.execute("PRAGMA journal_mode=WAL")
    made.execute("CREATE TABLE t (x); INSERT INTO t VALUES (7)")
    left = tmp_path / "left"
    left.mkdir()
    for end in ("", "-wal"):
        shutil.copyfile(tmp_path / f"first.db{end}", left / f"own.db{end}")
    made.close()
    with closing(AgentDatabase(str(left / "own.db"))) as database:
        assert database.connection.execute("SELECT x FROM t").fetchall() == [(7,)]
        with pytest.raises(apsw.ReadOnlyError):
            database.connection.execute("INSERT INTO t VALUES (8)")
    assert sorted(os.listdir(left)) == ["own.db", "own.db-wal"]
