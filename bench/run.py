"""`make bench`: how quick Holdfast is, as ratios within one run.

Machines are noisy and differ; a ratio against something measured in the same minute means something anywhere. The
table goes to the terminal, everything measured to bench/results/latest.json.

    python bench/run.py [NAME…]      only these: append, growth, cold, parallel, validate, mirrors, hooks, comparison,
                                     backfill, travel, dashboard, mcp, postgres
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path

from measures import (
    append,
    backfill,
    cold,
    comparison,
    dashboard,
    growth,
    hooks,
    mcp,
    mirrors,
    parallel,
    postgres,
    travel,
    validate,
)
from measures.figures import Figure

NAMES = (
    "append", "growth", "cold", "parallel", "validate", "mirrors", "hooks", "comparison", "backfill", "travel",
    "dashboard", "mcp", "postgres",
)  # fmt: skip
RESULTS = Path(__file__).parent / "results"


def main(names: list[str]) -> int:
    scratch = Path(tempfile.mkdtemp(prefix="holdfast-bench-", dir=os.environ.get("HOLDFAST_BENCH_DIR")))
    try:
        chosen = names or list(NAMES)
        figures: list[Figure] = []
        if "append" in chosen:
            figures += append.measure(scratch)
        if "growth" in chosen or "cold" in chosen:
            large = growth.build(scratch)
            figures += large.figures if "growth" in chosen else []
            figures += cold.measure(large) if "cold" in chosen else []
        if "parallel" in chosen:
            figures += parallel.measure(scratch)
        if "validate" in chosen:
            figures += validate.measure(scratch)
        if "mirrors" in chosen:
            figures += mirrors.measure(scratch)
        if "hooks" in chosen:
            figures += hooks.measure(scratch)
        if "comparison" in chosen:
            figures += comparison.measure(scratch)
        if "backfill" in chosen:
            figures += backfill.measure(scratch)
        if "travel" in chosen:
            figures += travel.measure(scratch)
        if "dashboard" in chosen:
            figures += dashboard.measure(scratch)
        if "mcp" in chosen:
            figures += mcp.measure(scratch)
        if "postgres" in chosen:
            figures += postgres.measure(scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    show(figures)
    RESULTS.mkdir(exist_ok=True)
    machine = {"python": platform.python_version(), "system": platform.platform(), "cores": os.cpu_count()}
    document = {"machine": machine, "figures": [figure._asdict() | {"met": figure.met} for figure in figures]}
    (RESULTS / "latest.json").write_text(json.dumps(document, indent=2) + "\n")
    return 1 if any(figure.met is False for figure in figures) else 0


def show(figures: list[Figure]) -> None:
    width = max(len(figure.name) for figure in figures)
    for figure in figures:
        mark = {True: "ok  ", False: "MISS", None: "    "}[figure.met]
        rule = f"({figure.rule})" if figure.rule else "(no rule)"
        print(f"{mark}  {figure.name:<{width}}  {figure.value:>8.2f}  {rule}  {figure.detail}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
