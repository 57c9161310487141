"""F6 for sync: a really full disk, at the remote or at home. With free space, all devices catch up."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import processes
from tests.support.scale import scale

SIZES = scale(1, 4, 16)
TRIALS = [
    *(f"full remote:{512 * 1024 + number * 36_864}" for number in range(SIZES)),
    *(f"full home:{2 * 1024 * 1024 + number * 36_864}" for number in range(SIZES)),
    *([f"no names:{number}" for number in (60, 80)] if scale(0, 1, 1) else []),
]


@pytest.mark.parametrize("trial", TRIALS)
def test_sync_recovers_from_a_full_disk(trial: str, tmp_path: Path) -> None:
    """Sending or receiving fails with a message, nothing is lost, and the next sync with free space finishes it."""
    if sys.platform != "linux" or shutil.which("unshare") is None:
        pytest.skip("small file systems are mounted with Linux's unshare, which is not here")
    if subprocess.run(["unshare", "-Urm", "true"], check=False, capture_output=True).returncode:
        pytest.skip("this system does not permit user namespaces: no small file system can be mounted")
    program = str(Path(__file__).with_name("fill_sync_disk.py"))
    done = subprocess.run(
        ["unshare", "-Urm", sys.executable, program, str(tmp_path), trial],
        check=False,
        capture_output=True,
        text=True,
        env=processes.environ_with_tests(),
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"trial": trial, "wrong": []}
