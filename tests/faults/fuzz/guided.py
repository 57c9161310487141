"""Fuzzes one target with Atheris, guided by coverage: `python -m tests.faults.fuzz.guided TARGET SECONDS DIRECTORY`.

The directory collects the corpus; an input that fails is left there as `crash-…`.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> None:
    import atheris

    name, seconds, folder = sys.argv[1:4]
    with atheris.instrument_imports(include=["holdfast"]):
        from tests.faults.fuzz.targets import TARGETS, seeds
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
