"""The limits of the warm process's children: what goes beyond one of them fails the test that set it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.harness.room import Answer, Warm
from tests.faults.program import checks_permissions

if sys.platform != "linux":
    pytest.skip("the warm process limits its children with Linux's means", allow_module_level=True)

MIB = 1 << 20


@pytest.fixture(scope="module")
def warm() -> Iterator[Warm]:
    with Warm() as process:
        yield process


def called(warm: Warm, *words: object, **limits: Any) -> Answer:
    return warm.run((), call=words, cwd="/", environ=dict(os.environ), **limits)


def test_child_is_refused_400_mib_when_memory_is_limited_to_250(warm: Warm) -> None:
    assert called(warm, "builtins", "bytearray", 200 * MIB, memory=250 * MIB).code == 0
    assert called(warm, "builtins", "bytearray", 400 * MIB).code == 0
    refused = called(warm, "builtins", "bytearray", 400 * MIB, memory=250 * MIB)
    assert refused.code == 99
    assert "MemoryError" in refused.err


def test_child_and_its_programs_are_refused_what_a_mode_forbids_when_unprivileged(warm: Warm, tmp_path: Path) -> None:
    if not checks_permissions(tmp_path / "probe"):
        pytest.skip("this system lets a process without privileges read what its mode forbids")
    path = tmp_path / "forbidden"
    path.write_text("x")
    path.chmod(0)
    refused = called(warm, "io", "open", str(path), unprivileged=True)
    assert refused.code == 99
    assert "PermissionError" in refused.err
    assert called(warm, "subprocess", "check_call", ["cat", str(path)], unprivileged=True).code == 99


def test_child_is_ended_and_says_where_it_was_when_it_runs_too_long(warm: Warm) -> None:
    with pytest.raises(TimeoutError, match=r"ran longer than 0\.5 seconds: .*Fatal Python error: Aborted"):
        called(warm, "time", "sleep", 600, seconds=0.5)
    assert called(warm, "time", "sleep", 0, seconds=60).code == 0
