"""The limits of the warm process's children: exceeding one of them fails the test that set it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.harness.warm_sandbox import Answer, WarmProcess
from tests.faults.sandbox import checks_permissions

if sys.platform != "linux":
    pytest.skip("the warm process limits its children with Linux's means", allow_module_level=True)

MIB = 1 << 20


@pytest.fixture(scope="module")
def warm() -> Iterator[WarmProcess]:
    with WarmProcess() as process:
        yield process


def call_in_child(warm: WarmProcess, *words: object, **limits: Any) -> Answer:
    return warm.run((), call=words, cwd="/", environ=dict(os.environ), **limits)


def test_child_is_refused_400_mib_when_memory_is_limited_to_250(warm: WarmProcess) -> None:
    assert call_in_child(warm, "builtins", "bytearray", 200 * MIB, memory=250 * MIB).code == 0
    assert call_in_child(warm, "builtins", "bytearray", 400 * MIB).code == 0
    refused = call_in_child(warm, "builtins", "bytearray", 400 * MIB, memory=250 * MIB)
    assert refused.code == 99
    assert "MemoryError" in refused.err


def test_child_and_its_programs_are_refused_what_a_mode_forbids_when_unprivileged(
    warm: WarmProcess, tmp_path: Path
) -> None:
    if not checks_permissions(tmp_path / "probe"):
        pytest.skip("this system lets a process without privileges read what its mode forbids")
    path = tmp_path / "forbidden"
    path.write_text("x")
    path.chmod(0)
    refused = call_in_child(warm, "io", "open", str(path), unprivileged=True)
    assert refused.code == 99
    assert "PermissionError" in refused.err
    assert call_in_child(warm, "subprocess", "check_call", ["cat", str(path)], unprivileged=True).code == 99


def test_child_is_aborted_with_its_stack_after_the_timeout(warm: WarmProcess) -> None:
    with pytest.raises(TimeoutError, match=r"ran longer than 0\.5 seconds: .*Fatal Python error: Aborted"):
        call_in_child(warm, "time", "sleep", 600, seconds=0.5)
    assert call_in_child(warm, "time", "sleep", 0, seconds=60).code == 0
