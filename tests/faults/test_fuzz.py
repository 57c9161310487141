"""Parsers under fuzzing: guided by coverage for a minute each in `make torture`, at random otherwise."""

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


def mutated(raw: bytes, rng: random.Random) -> bytes:
    """A few small mutations: bytes flipped, cut, doubled, moved, replaced by something hostile."""
    made = bytearray(raw)
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(made) + 1)
        until = min(at + rng.choice((1, 1, 2, 8, 64)), len(made))
        match rng.randrange(5):
            case 0 if at < len(made):
                made[at] ^= 1 << rng.randrange(8)
            case 1:
                del made[at:until]
            case 2:
                made[at:at] = made[at:until]
            case 3:
                made[at:until] = rng.choice(NASTY)
            case _:
                made[at:at] = rng.choice(NASTY)
    return bytes(made)


@pytest.mark.parametrize("name", TARGETS)
def test_parser_survives_random_mutations(name: str) -> None:
    """The same mutations each time, so that a failure can be reproduced."""
    rng = random.Random(f"holdfast {name}")
    for _ in range(scale(150, 1000, 5000)):
        raw = mutated(rng.choice(seeds(name)), rng)
        try:
            TARGETS[name](raw)
        except Exception as error:
            error.add_note(f"input: {raw!r}")
            raise


if SECONDS:  # a minute for each target, in `make torture` only

    @pytest.mark.parametrize("name", TARGETS)
    def test_parser_survives_guided_fuzzing(name: str, tmp_path: Path) -> None:
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
