"""Processes that go on by themselves: begun without waiting, and buried once they have ended."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from holdfast.machine import background_process


@pytest.mark.skipif(os.name == "nt", reason="there are no children to bury")
def test_whoever_begins_many_keeps_none_that_has_ended(tmp_path: Path) -> None:
    """A program that runs for long begins one after the other: those that ended leave nothing behind."""
    for number in range(3):
        assert background_process.start("os", "mkdir", str(tmp_path / str(number)))
    end = time.monotonic() + 30
    while background_process._started:
        assert time.monotonic() < end
        background_process._reap()
        time.sleep(0.01)
    assert sorted(os.listdir(tmp_path)) == ["0", "1", "2"]


def test_words_that_no_process_can_have() -> None:
    """What cannot be handed over is not begun, and nothing is raised."""
    assert not background_process.start("os", "mkdir", "a\0b")
