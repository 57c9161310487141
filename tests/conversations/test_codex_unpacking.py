"""Rollouts that Codex has put away compressed, whole and damaged."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.conversations.adapters.codex import rollouts
from holdfast.conversations.adapters.codex.rollouts import unpack
from holdfast.conversations.adapters.jsonl import ReadProblems
from holdfast.conversations.signals import Ran
from holdfast.machine.zstd import zstandard
from tests.support.codex_rollouts import ID, WHOLE, kinds, lines, tell


@pytest.fixture
def rollout(tmp_path: Path) -> Path:
    return tmp_path / ".codex" / "sessions" / "2026" / "11" / "15" / f"rollout-2026-11-15T09-00-00-{ID}.jsonl"


def packed(content: bytes) -> bytes:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        zstd = pytest.importorskip("backports.zstd", reason="this Python has no Zstandard")
    found: bytes = zstd.compress(content)
    return found


def test_compressed_rollout_reads_the_same(rollout: Path) -> None:
    """Compressed, in one frame or in several, a rollout is told as it was before."""
    (whole,) = tell(rollout, WHOLE)
    content = lines(WHOLE)
    for shape in (packed(content), packed(content[:5_000]) + packed(content[5_000:])):
        (transcript,) = tell(rollout.with_name(f"{rollout.name}.zst"), shape)
        assert transcript == whole


def test_damaged_compression_is_a_problem(rollout: Path) -> None:
    """What can be unpacked is told, and that there was more is said."""
    path = rollout.with_name(f"{rollout.name}.zst")
    frame = packed(lines(WHOLE))
    half = len(frame) // 2
    for broken in (frame[:-10], frame[:half], frame[:half] + b"\0" * half, packed(b"")[:3], b"not compressed at all"):
        (transcript,) = tell(path, frame + broken)
        assert any("compression" in problem for problem in transcript.problems)
        assert kinds(transcript, Ran) == [Ran(command="make test", code=2, took_ms=1500)]
        (alone,) = tell(path, broken)
        assert alone.problems


def test_missing_zstd_module_is_a_problem(rollout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Python has no Zstandard, the reader says what to install and goes on."""
    shape = packed(lines(WHOLE))
    monkeypatch.setitem(sys.modules, "compression.zstd", None)
    monkeypatch.setitem(sys.modules, "backports.zstd", None)
    monkeypatch.setattr(rollouts, "zstandard", zstandard.__wrapped__)  # it remembers what it found
    (transcript,) = tell(rollout.with_name(f"{rollout.name}.zst"), shape)
    assert "backports.zstd" in transcript.problems[0]


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=5_000), st.integers(1, 700), st.integers(0, 6_000))
def test_unpacking_in_any_chunks(content: bytes, size: int, cut: int) -> None:
    """However the pieces fall, the content is the same, and a cut one is a beginning of it."""
    shape = packed(content)
    for part in (shape, shape[:cut]):
        pieces = [part[at : at + size] for at in range(0, len(part), size)]
        found = b"".join(unpack(iter(pieces), ReadProblems()))
        assert content.startswith(found)
    assert b"".join(unpack([shape[at : at + size] for at in range(0, len(shape), size)], ReadProblems())) == content


def test_unpacking_stops_at_size_limit() -> None:
    problems = ReadProblems()
    size = sum(len(piece) for piece in unpack([packed(b"\n" * (40 << 20))], problems))
    assert size <= 18 << 20
    assert "300 times" in problems.sentences()[0]
