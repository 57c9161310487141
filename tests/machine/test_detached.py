"""Detached processes: started without waiting, and reaped once they have ended."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from holdfast.machine import background_process


@pytest.mark.skipif(os.name == "nt", reason="there are no children to bury")
def test_ended_processes_are_reaped_when_more_are_started(tmp_path: Path) -> None:
    for number in range(3):
        assert background_process.start("os", "mkdir", str(tmp_path / str(number)))
    end = time.monotonic() + 30
    while background_process._started:
        assert time.monotonic() < end
        background_process._reap()
        time.sleep(0.01)
    assert sorted(os.listdir(tmp_path)) == ["0", "1", "2"]


def test_arguments_that_no_process_can_have_start_nothing() -> None:
    """And raise nothing."""
    assert not background_process.start("os", "mkdir", "a\0b")
