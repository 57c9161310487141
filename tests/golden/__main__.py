"""Runs the story and compares its output with the stored one: `python -m tests.golden [--update]`."""

from __future__ import annotations

import difflib
import sys
from pathlib import Path

from tests.golden.names import stable
from tests.golden.stage import Stage
from tests.golden.story import play

EXPECTED = Path(__file__).parent / "expected"
MOST_LINES = 400  # of differences; more would not help


def record() -> dict[str, str]:
    """All output, by chapter."""
    stage = Stage()
    try:
        play(stage)
    except BaseException:
        print(*[part for parts in stage.chapters.values() for part in parts][-5:], sep="\n", file=sys.stderr)
        raise
    finally:
        stage.close()
    return stable({name: "\n".join(parts) for name, parts in stage.chapters.items()})


def update(played: dict[str, str]) -> None:
    EXPECTED.mkdir(exist_ok=True)
    for path in EXPECTED.glob("*.txt"):
        path.unlink()
    for name, text in played.items():
        (EXPECTED / f"{name}.txt").write_text(text, encoding="utf-8", newline="")


def differences(played: dict[str, str]) -> list[str]:
    expected = {path.stem: path.read_bytes().decode() for path in EXPECTED.glob("*.txt")}
    changed_lines: list[str] = []
    for name in sorted(expected.keys() | played.keys()):
        before, after = (texts.get(name, "").split("\n") for texts in (expected, played))
        changed_lines += difflib.unified_diff(
            before, after, f"expected/{name}.txt", f"now/{name}.txt", lineterm="", n=2
        )
    return changed_lines


def main() -> int:
    played = record()
    if "--update" in sys.argv:
        update(played)
        return 0
    changed_lines = differences(played)
    print("\n".join(changed_lines[:MOST_LINES]) or "Every output is as recorded.")
    if len(changed_lines) > MOST_LINES:
        print(f"… and {len(changed_lines) - MOST_LINES} more lines.")
    return bool(changed_lines)


if __name__ == "__main__":
    sys.exit(main())
