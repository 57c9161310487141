"""F6: a really full disk. Reading works, writing fails with a message and changes nothing; with free space it works
again.

Small file systems need the permission to mount them, which a user namespace gives: `unshare -Urm`.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.scale import scale

SMALLEST, LARGEST, STEP = 64 * 1024, 4 * 1024 * 1024, 4096


@pytest.fixture(scope="module", autouse=True)
def _permitted() -> None:
    if sys.platform != "linux" or shutil.which("unshare") is None:
        pytest.skip("small file systems are mounted with Linux's unshare, which is not here")
    if subprocess.run(["unshare", "-Urm", "true"], check=False, capture_output=True).returncode:
        pytest.skip("this system does not permit user namespaces: no small file system can be mounted")


def run_trials(tmp_path: Path, *lines: str) -> None:
    """Run them in a mount namespace, and fail with everything that was wrong."""
    program = str(Path(__file__).with_name("fill_disk.py"))
    done = subprocess.run(
        ["unshare", "-Urm", sys.executable, program, str(tmp_path), *lines],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert [match["trial"] for match in results] == list(lines)
    assert [match for match in results if match["wrong"]] == []


def sizes() -> list[int]:
    """Too small for an empty store, just large enough, large; and a sample of all sizes, or all."""
    every = range(SMALLEST, LARGEST + 1, STEP)
    count = scale(3, 50, len(every))
    first = [SMALLEST, 38 * STEP, 256 * STEP]
    return sorted(first + random.Random(6).sample([size for size in every if size not in first], count - 3))


@pytest.mark.parametrize("size", sizes())
def test_commands_fail_cleanly_on_a_full_disk(size: int, tmp_path: Path) -> None:
    """A file system of this size is filled to the last block while notes are added."""
    run_trials(tmp_path, f"full:{size}")


@pytest.mark.parametrize("count", [5, 8][: scale(1, 2, 2)])
def test_commands_fail_cleanly_without_inodes(count: int, tmp_path: Path) -> None:
    """Free blocks, but no new file, not even the journal's."""
    run_trials(tmp_path, f"no names:{count}")


@pytest.mark.parametrize("limit", [1, 75_000, 40_000, 100_000, 200_000, 1_000_000][: scale(2, 6, 6)])
def test_commands_fail_cleanly_at_a_file_size_limit(limit: int, tmp_path: Path) -> None:
    """`ulimit -f`: a write beyond it fails with a message, and nothing is half written."""
    run_trials(tmp_path, f"limited:{limit}")
