"""Parsers under fuzzing: guided by coverage for a minute each in `make torture`, by chance alone otherwise."""

from __future__ import annotations

import importlib.util
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.fuzz.targets import TARGETS, seeds
from tests.support import processes
from tests.support.scale import scale

NASTY = [
    b"{", b"}", b"[", b"]", b'"', b"\\", b",", b":", b"\0", b"\n", b"null", b"1e999", b"-", b"&a", b"*a", b"!!x",
    b"\xff", b"\xef\xbb\xbf", b"9" * 400, b'"\\ud800"', b"2025-02-30T00:00:00Z", b"true", b"\xe2\x80\xae", b"  ",
    b"{}", b"[]",
]  # fmt: skip
SECONDS = scale(0, 60, 600)


def changed(raw: bytes, chance: random.Random) -> bytes:
    """A few small accidents: bytes flipped, cut, doubled, moved, replaced by something nasty."""
    made = bytearray(raw)
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(made) + 1)
        until = min(at + chance.choice((1, 1, 2, 8, 64)), len(made))
        match chance.randrange(5):
            case 0 if at < len(made):
                made[at] ^= 1 << chance.randrange(8)
            case 1:
                del made[at:until]
            case 2:
                made[at:at] = made[at:until]
            case 3:
                made[at:until] = chance.choice(NASTY)
            case _:
                made[at:at] = chance.choice(NASTY)
    return bytes(made)


@pytest.mark.parametrize("name", TARGETS)
def test_by_chance(name: str) -> None:
    """The same accidents each time, so that a failure can be looked at."""
    chance = random.Random(f"holdfast {name}")
    for _ in range(scale(150, 1000, 5000)):
        raw = changed(chance.choice(seeds(name)), chance)
        try:
            TARGETS[name](raw)
        except Exception as error:
            error.add_note(f"input: {raw!r}")
            raise


if SECONDS:  # a minute for each target, in `make torture` only

    @pytest.mark.parametrize("name", TARGETS)
    def test_guided_by_coverage(name: str, tmp_path: Path) -> None:
        if importlib.util.find_spec("atheris") is None:
            pytest.skip("Atheris is not installed: pip install --group torture (it has wheels for Linux and macOS)")
        words = [sys.executable, "-m", "tests.faults.fuzz.guided", name, str(SECONDS), str(tmp_path)]
        done = subprocess.run(
            words, env=processes.environ_with_tests(), capture_output=True, check=False, timeout=SECONDS * 3 + 120
        )
        crashes = [
            (path.name, path.read_bytes())
            for path in tmp_path.iterdir()
            if path.name.startswith(("crash", "timeout", "oom"))
        ]
        assert (done.returncode, crashes) == (0, []), done.stderr.decode("utf-8", "replace")[-4000:]
