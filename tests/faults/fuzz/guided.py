"""Fuzz one target with Atheris, guided by coverage: `python guided.py TARGET SECONDS DIRECTORY`.

The directory holds what was found worth keeping; an input that fails is left there under `crash-…`.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "formats")]


def main() -> None:
    import atheris

    name, seconds, folder = sys.argv[1:4]
    with atheris.instrument_imports(include=["holdfast"]):
        from targets import TARGETS, seeds
    corpus = Path(folder)
    for number, seed in enumerate(seeds(name)):
        (corpus / f"seed-{number}").write_bytes(seed)
    words = [
        sys.argv[0], f"-max_total_time={seconds}", "-max_len=6000", "-timeout=30", "-rss_limit_mb=1024",
        f"-artifact_prefix={corpus}/", "-print_final_stats=0", "-verbosity=0", str(corpus),
    ]  # fmt: skip
    atheris.Setup(words, TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
