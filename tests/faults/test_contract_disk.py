"""F6 for `.ai-session/`: no blocks, no inodes, no write permission: it is reported, nothing is half written, and
later it works.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.faults.harness.warm import without_privileges
from tests.faults.sandbox import checks_permissions, tree
from tests.support import processes


@pytest.mark.parametrize(
    ("options", "relief"),
    [("size=128k", "size=16m"), ("size=16m,nr_inodes=30", "size=32m,nr_inodes=2000")],
    ids=["no room", "no names"],
)
def test_contract_writes_fail_cleanly_on_a_full_disk(tmp_path: Path, options: str, relief: str) -> None:
    """Create, update, register and acknowledge fail with a message; with free space all of them work."""
    if sys.platform != "linux" or shutil.which("unshare") is None:
        pytest.skip("small file systems are mounted with Linux's unshare, which is not here")
    if subprocess.run(["unshare", "-Urm", "true"], check=False, capture_output=True).returncode:
        pytest.skip("this system does not permit user namespaces: no small file system can be mounted")
    program = str(Path(__file__).with_name("fill_contract_disk.py"))
    done = subprocess.run(
        ["unshare", "-Urm", sys.executable, program, str(tmp_path), options, relief],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["wrong"] == []
    assert result["said"] == {
        "create": "Failed create True", "update": "Failed update True",
        "register": "Failed update True", "acknowledge": "Failed update True",
    }  # fmt: skip


WRITE = textwrap.dedent("""
    import json, sys
    from holdfast.core.errors import HoldfastError
    from holdfast.formats.mirror.contract import feature_dirs, feature_files
    from tests.faults.fill_contract_disk import FIRST, SECOND, document
    said = []
    for attempt in (
        lambda: feature_dirs.create(sys.argv[1], document(SECOND)),
        lambda: feature_files.update(sys.argv[1], document(FIRST, 1), [{"command": "x"}]),
    ):
        try:
            attempt()
            said.append("done")
        except HoldfastError as error:
            said.append([error.kind, error.operation, error.feature_id])
    files = feature_files.read(sys.argv[1], FIRST)
    said.append([files.state is not None, files.plan is not None])
    print(json.dumps(said))
""")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes")
def test_contract_writes_are_refused_without_write_permission(tmp_path: Path) -> None:
    """Nothing changes; reading works."""
    if not checks_permissions(tmp_path / "probe"):
        pytest.skip("this system lets every process write everywhere")
    from holdfast.formats.mirror.contract import feature_dirs
    from tests.faults.fill_contract_disk import FIRST, SECOND, document

    root = tmp_path / ".ai-session"
    feature_dirs.create(str(root), document(FIRST))
    before = tree(root)
    for path in (root / FIRST, root):
        path.chmod(0o500)
    try:
        done = subprocess.run(
            [sys.executable, "-c", WRITE, str(root)], env=processes.environ_with_tests(),
            check=False, capture_output=True, text=True, preexec_fn=without_privileges,
        )  # fmt: skip
    finally:
        for path in (root, root / FIRST):
            path.chmod(0o700)
    assert done.returncode == 0, done.stderr
    created, updated, readable = json.loads(done.stdout)
    assert created == ["failed", "create", SECOND]
    assert updated == ["failed", "update", FIRST]
    assert readable == [True, True]
    assert tree(root) == before
