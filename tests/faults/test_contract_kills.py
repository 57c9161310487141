"""F2 for `.ai-session/`: SIGKILL before any call that changes a file, and in the middle of any write.

The next process settles it: every feature is complete and listed, or absent; nothing acknowledged is lost, and doing
the same work again ends where an undisturbed run ends.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.formats.mirror.contract import feature_dirs, history, layout, registry
from holdfast.formats.mirror.contract.check import check_directory
from holdfast.formats.mirror.contract.restore import restore
from holdfast.formats.text.read import read_yaml
from tests.support.scale import scale

FEATURES = ("one-2026-11-15", "two-2026-11-15")
LINES = 3

# Kills itself at the call with the given number, in the middle if it is a write. Without a number, prints the count.
WORK = textwrap.dedent("""
    import os, signal, sys
    import msgspec
    from holdfast.core.canonical import canonical_json
    from holdfast.core.envelope import make_event
    from holdfast.core.fold import fold
    from holdfast.core.events import TYPE_OF, NoteAdded, ProjectFacts, SessionStarted
    from holdfast.formats.contract.history import history_line
    from holdfast.formats import registry as formats  # loaded before anything is counted
    from holdfast.formats.text import yaml
    from holdfast.formats.mirror.contract import feature_dirs, history, layout, feature_files

    root, last, features, lines_each = sys.argv[1], int(sys.argv[2]), sys.argv[3].split(), int(sys.argv[4])
    calls = 0

    def counted(name):
        real = getattr(os, name)
        def call(*words, **named):
            global calls
            calls += 1
            if calls == last:
                if name == "write":
                    real(words[0], words[1][: len(words[1]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*words, **named)
        setattr(os, name, call)

    def document(name, minute):
        at = f"2026-11-15T10:{minute:02d}:00Z"
        return {
            "state": {"version": "1.0", "feature_id": name, "current_state": {
                "active_task": None, "model_in_use": "opus", "started_at": "2026-11-15T10:00:00Z",
                "last_updated": at}},
            "plan": {"feature": {"id": name, "name": "N", "description": "D", "created_at": "2026-11-15T10:00:00Z"},
                     "phases": []},
            "entry": {"feature_id": name, "started_at": "2026-11-15T10:00:00Z", "last_active": at,
                      "status": "active"},
        }

    def lines(name):
        # Of real events: the first one starts the session, the others are notes.
        session, prev, state = "00000000-0000-4000-8000-000000000000", None, None
        project = ProjectFacts(id="p", name="p")
        datas = [SessionStarted(goal="N", project=project, device="d", aliases={"contract": name})]
        datas += [NoteAdded(text=f"{number}") for number in range(2, lines_each + 1)]
        made, events = [], []
        for seq, data in enumerate(datas, 1):
            kind = TYPE_OF[type(data)]
            event = make_event(session=session, writer="w" * 20, seq=seq, prev=prev, clock=seq, actor="a",
                         at=1794736800000 + seq * 60000, type=kind.name, version=kind.version,
                         data=canonical_json(msgspec.to_builtins(data)), salt=bytes(16))
            events.append(event)
            prev = event.hash
            made.append(history_line(event, data, fold(events)))
        return made

    ready = {name: lines(name) for name in features}
    for name in ("open", "write", "fsync", "rename", "mkdir", "rmdir", "unlink", "ftruncate"):
        counted(name)
    for name in features:
        feature_dirs.finish_interrupted(root)
        if not os.path.lexists(layout.feature(root, name).path):
            feature_dirs.create(root, document(name, 0))
        print("made", name, flush=True)
        for number in range(1, lines_each + 1):
            feature_files.update(root, document(name, number), [ready[name][number - 1]])
            print("line", name, number, flush=True)
    print("calls", calls, flush=True)
""")


def work(root: Path, last: int = 0) -> tuple[int, list[list[str]]]:
    """Its exit code, and what it acknowledged until then."""
    words = [sys.executable, "-c", WORK, str(root), str(last), " ".join(FEATURES), str(LINES)]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode, [line.split() for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, dict[str, Any]]:
    """How many calls an undisturbed run makes, and the files it leaves."""
    root = tmp_path_factory.mktemp("whole") / ".ai-session"
    code, acknowledged = work(root)
    assert code == 0
    return int(acknowledged[-1][1]), contents(root)


def contents(root: Path) -> dict[str, Any]:
    """The parsed content of every visible file."""
    parsed: dict[str, Any] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if not path.is_file() or any(part.startswith(".") for part in path.relative_to(root).parts):
            continue
        parsed[name] = read_yaml(path.read_bytes(), name).value if name.endswith(".yaml") else path.read_text()
    return parsed


def chosen(calls: int) -> Iterator[int]:
    """A sample, and the calls around the first appended line, half of which stays in the file."""
    every = list(range(1, calls + 1))
    some = random.Random(2).sample(every, min(scale(16, calls, calls), calls))
    yield from sorted({*some, *range(68, 76)})


def assert_consistent(root: Path, acknowledged: list[list[str]], *, killed: bool = False) -> None:
    """After the next process settled it: complete or absent, with everything acknowledged.

    Half of the line at which a writer was `killed` may be at the very end until the next append.
    """
    if not root.exists():
        assert acknowledged == []
        return
    feature_dirs.finish_interrupted(str(root))
    features = [feature.id for feature in layout.features(str(root))]
    assert sorted(str(entry["feature_id"]) for entry in registry.entries(str(root))) == features
    visible = {name for name in os.listdir(root) if not name.startswith(".")}
    assert visible <= {"README.md", "active-features.yaml", *FEATURES}
    assert not [name for name in os.listdir(root) if name.startswith(".creating-")]
    findings = check_directory(str(root))
    if killed and any(is_cut(Path(feature.history)) for feature in layout.features(str(root))):
        assert [finding.kind for finding in findings] == ["unused"]
    else:
        assert findings == []
    assert restore(str(root), now=0) == []
    for kind, name, *number in acknowledged:
        assert name in features
        if kind == "line":
            lines = [item for _, item in history.read(layout.feature(str(root), name).history)]
            assert int(number[0]) in [history.mark_of(line).seq for line in lines if isinstance(line, dict)]  # type: ignore[union-attr]
    for feature in layout.features(str(root)):
        assert set(os.listdir(feature.path)) >= {
            "artifacts",
            "history.jsonl",
            "implementation-plan.yaml",
            "state.yaml",
        }
        assert not os.path.lexists(feature.unregistered)


def is_cut(path: Path) -> bool:
    written = path.read_bytes()
    return bool(written) and not written.endswith(b"\n")


def test_contract_files_are_consistent_after_a_kill_at_any_call(
    undisturbed: tuple[int, dict[str, Any]], tmp_path: Path
) -> None:
    calls, expected = undisturbed
    for last in chosen(calls):
        root = tmp_path / str(last) / ".ai-session"
        root.parent.mkdir()
        try:
            code, acknowledged = work(root, last)
            assert code == -signal.SIGKILL
            assert_consistent(root, acknowledged, killed=True)
            code, acknowledged = work(root)
            assert code == 0
            assert_consistent(root, acknowledged[:-1])
            ended = contents(root)
            torn = {name: without_torn(text) for name, text in ended.items() if name.endswith(".jsonl")}
            assert {**ended, **torn} == expected
        except BaseException as error:
            error.add_note(f"killed at call {last} of {calls}")
            raise


def without_torn(text: str) -> str:
    """History without the lines that a kill truncated: at most one."""
    kept, torn = [], 0
    for line in text.splitlines(keepends=True):
        try:
            json.loads(line)
        except ValueError:
            torn += 1
        else:
            kept.append(line)
    assert torn <= 1
    return "".join(kept)


def test_concurrent_workers_survive_kills(tmp_path: Path) -> None:
    """Several workers in one directory, killed at random: in the end each line is there once."""
    rng = random.Random(3)
    for turn in range(scale(2, 50, 500)):
        root = tmp_path / str(turn) / ".ai-session"
        root.parent.mkdir()
        words = [sys.executable, "-c", WORK, str(root)]
        rest = [" ".join(FEATURES), str(LINES)]
        victims = [subprocess.Popen([*words, str(rng.randrange(1, 120)), *rest], stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL) for _ in range(3)]  # fmt: skip
        for popen in victims:
            popen.wait()
        code, acknowledged = work(root)
        assert code == 0
        assert_consistent(root, acknowledged[:-1])
        for name in FEATURES:
            lines = [item for _, item in history.read(layout.feature(str(root), name).history)]
            numbers = [history.mark_of(line).seq for line in lines if isinstance(line, dict)]  # type: ignore[union-attr]
            assert sorted(numbers) == [*range(1, LINES + 1)]
