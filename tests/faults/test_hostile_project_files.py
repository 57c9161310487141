"""F27: files that come with a repository cost no gigabytes, stop nobody's work, and never stop recording.

Every command and hook is run in a project with such a file, under a limit of memory, after the same command in the
same project without it: settings that cannot be read change nothing about its answer. The sample runs real processes,
whose start-up counts as memory too; the whole table is run in children of a warm process, with the same limits.
"""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.declaration import Command
from holdfast.cli.table import COMMANDS
from tests.faults.connected_agent import Hooked, asked, ran
from tests.faults.harness.room import Tree, Warm, bind, empty, read_tree, write_tree
from tests.faults.harness.verbs import VERBS
from tests.faults.harness.warm import without_privileges
from tests.faults.hostile_files import BAD_SETTINGS, HISTORY, LINE, SETTINGS, Hostile, others, put, settings
from tests.faults.program import CODES, Out
from tests.support.scale import scale

MIB = 1 << 20
MEMORY = 300 * MIB
LATER = LINE.replace(b"2026", b"2027")
STARTED = 50 * MIB  # of it, for a process that has begun
FORMATS = ("orchestrator", "timer", "contract", "craft")
HANGING = 300.0  # seconds: the end of waiting, no measure
ALL = scale(0, 1, 1) == 1
LIMITS: dict[str, Any] = {"memory": MEMORY - STARTED, "unprivileged": True, "seconds": HANGING}

# What the commands that only look are asked; those without words of their own need none.
_WORDS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("show",): ("@",), ("convert",): ("given.json", "--to", "craft"), ("export",): ("--format", "craft"),
    ("recover",): ("torn.json",), ("migrate",): ("given.json",), ("statusline",): ("claude",), ("redact",): ("@",),
    ("config", "get"): ("history.limit",), ("why",): ("given.json",), ("validate",): (".",),
    ("contract", "verify"): ("--spec", "spec.md"), ("contract", "summary"): ("--spec", "spec.md"),
}  # fmt: skip
# They run until they are stopped, write what VERBS has, ask a server, or work elsewhere.
_APART = {
    ("watch",), ("hook",), ("tour",), ("ui",), ("mcp",), ("completion",), ("connect",), ("disconnect",),
    ("uninstall",), ("backfill",), ("init",), ("backup",), ("contract", "acknowledge"),
}  # fmt: skip


def limited() -> None:
    """For `preexec_fn`: no more memory than promised, no rights that only root has."""
    without_privileges()
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _mark(path: Path) -> tuple[int, ...]:
    """Another one once a file was written, replaced or removed."""
    if not os.path.lexists(path):
        return ()
    here = path.lstat()
    return here.st_size, here.st_ino, here.st_mode, here.st_nlink, here.st_mtime_ns


class Project(Hooked):
    """A project at work, with a mirror of every format."""

    def __init__(self, root: Path, warm: Warm | None) -> None:
        super().__init__(root)
        self.warm = warm
        self.begun: Tree = {}
        self.planted: dict[Path, tuple[int, ...]] = {}

    def begin(self, *formats: str) -> Project:
        for word in formats:
            assert self.call("mirror", "on", word).code == 0
        self.again()
        for path, content in (
            ("made.txt", "a"),
            ("plan.md", "- [ ] one\n"),
            ("spec.md", "# A\n\n**Version**: 1.0\n"),
        ):
            (self.project / path).write_text(content)
        document = next(step[2] for verb in VERBS for step in verb.before if step[:2] == ("write", "given.json"))
        (self.project / "given.json").write_text(document)
        (self.project / "torn.json").write_text(document[:-30])
        (self.root / "outside.toml").write_text("[timer]\nidle_minutes = 3\n")
        self.begun = read_tree(str(self.root))
        return self

    def renew(self, hostile: Hostile | None) -> None:
        """As it was when it had begun, and the hostile file: earlier commands have changed nothing.

        A hostile file that is as it was planted is kept: many are large.
        """
        unchanged = self.unchanged()
        kept = {path: path.rename(self.root.with_name(f"kept-{at}")) for at, path in enumerate(unchanged)}
        empty(str(self.root))
        write_tree(str(self.root), self.begun)
        bind(str(self.home))
        if hostile is None:
            return
        if kept and len(kept) == len(self.planted):
            for path, aside in kept.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.unlink(missing_ok=True)
                aside.rename(path)
        else:
            self.planted = {path: _mark(path) for path in put(hostile, self.project)}

    def unchanged(self) -> list[Path]:
        """The hostile files that are as they were planted."""
        return [path for path, mark in self.planted.items() if _mark(path) == mark]

    def small(self) -> bool:
        return sum(mark[0] for mark in self.planted.values()) <= MIB

    def again(self) -> None:
        """A session of its own."""
        for words in (
            ("start", "G", "--replace", "--quiet"), ("agent", "start", "a1", "--type", "coder"),
            ("task", "add", "first", "--id", "t1"),
        ):  # fmt: skip
            answer = self.call(*words)
            assert answer.code == 0, answer

    def do(self, words: Sequence[str]) -> Out:
        words = [word.replace("{project}", str(self.project)) for word in words]
        me = {"HOLDFAST_ACTOR": "me"}
        if self.warm is None:
            return self.run(*words, preexec_fn=limited, timeout=HANGING, env=me)
        answer = self.warm.run(words, cwd=str(self.project), environ=self.environ | me, **LIMITS)
        return Out(answer.code, answer.out, answer.err)

    def hear(self, payload: bytes) -> tuple[int, bytes, bytes]:
        done = subprocess.run(
            [sys.executable, "-m", "holdfast", "hook", "claude"], input=payload, env=self.environ, cwd=self.project,
            capture_output=True, check=False, timeout=HANGING, preexec_fn=limited,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def warm() -> Iterator[Warm | None]:
    """For the whole table, where the system has what limits its children."""
    if not ALL or sys.platform != "linux":
        yield None
        return
    with Warm() as process:
        yield process


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory, warm: Warm | None) -> dict[tuple[str, ...], Out]:
    """What every command answers in a project without hostile files: the same, whatever a case plants."""
    project = made(tmp_path_factory.mktemp("clean") / "project", FORMATS if ALL else (), warm)
    return dict(in_turn(project, None))


def made(root: Path, formats: Sequence[str], warm: Warm | None) -> Project:
    root.mkdir()
    return Project(root, warm).begin(*formats)


def looking(commands: tuple[Command, ...] = COMMANDS, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for command in commands:
        path = (*above, command.name)
        yield from looking(command.verbs, path)
        if not command.verbs and not command.writes and path not in _APART:
            yield path + _WORDS.get(path, ())


# `start` and `note` first: a sample has them.
WORK = [("note", "a note"), ("start", "another goal", "--replace")]
EVERY = list(dict.fromkeys([*WORK, *(verb.argv for verb in VERBS), *looking(), ("doctor", "--repair")]))
# Of a sample.
SETTLED = [*WORK, ("config", "list"), ("history",)]
LOOKED = [("status",), ("doctor",), ("connect", "claude", "--scope", "project")]


def chosen(hostile: list[Hostile], sample: int) -> list[object]:
    picked = hostile if ALL else random.Random(27).sample(hostile, sample)
    return [pytest.param(hostile, id=hostile.name) for hostile in picked]


def typed(answer: Out, words: Sequence[str]) -> None:
    """A code of the contract and the form of its errors; what is too much was refused, not met by a full memory."""
    assert answer.code in CODES, (words, answer)
    said = answer.out + answer.err
    assert "Traceback" not in said, (words, answer)
    assert "something unexpected" not in said, (words, answer)
    assert "memory" not in answer.err, (words, answer)
    if answer.code and words[0] not in ("doctor", "validate", "run"):
        assert "holdfast: " in answer.err, (words, answer)


def recorded(project: Project, number: int) -> None:
    """Commands and hooks still record."""
    noted = project.do(("note", f"still here {number}", "--json"))
    assert noted.code == 0, noted
    assert json.loads(noted.out)["session"]["notes"][-1]["text"] == f"still here {number}"
    assert project.hear(ran(number, cwd=project.project))[0] == 0
    shown = project.do(("log", "--json", "--type", "command.ran"))
    assert f"make {number}" in shown.out, shown.err


def in_turn(project: Project, hostile: Hostile | None) -> Iterator[tuple[tuple[str, ...], Out]]:
    """Each command in the same project, and its answer; a sample of them one after another."""
    for number, words in enumerate(EVERY if ALL else SETTLED):
        if ALL or number == 0:
            project.renew(hostile)
        yield words, project.do(words)


@pytest.mark.parametrize("hostile", chosen(settings(), 2))
def test_commands_answer_as_before_when_settings_of_a_project_are_hostile(
    tmp_path: Path, hostile: Hostile, warm: Warm | None, clean: dict[tuple[str, ...], Out]
) -> None:
    """Each in a project with such a file and in one without: the same code, and what was asked for is done."""
    bad = made(tmp_path / "bad", FORMATS if ALL else (), warm)
    for words, answer in in_turn(bad, hostile):
        typed(answer, words)
        assert answer.code == clean[words].code, (words, clean[words], answer)
    recorded(bad, 1)
    # What was answered to prompts is answered too; an agent is told of nothing it should not be told of.
    assert bad.hear(asked(cwd=bad.project))[0] == 0
    doctor = json.loads(bad.do(("doctor", "--json")).out)
    check = next(check for check in doctor["checks"] if check["name"] == "settings")
    assert check["status"] == "warning", check
    assert SETTINGS in check["detail"]
    listed = bad.do(("config", "list"))
    assert SETTINGS in listed.err
    assert json.loads(bad.do(("config", "list", "--json")).out)["problems"]


@pytest.mark.parametrize("hostile", chosen(others(), 2))
def test_commands_answer_and_record_when_other_files_of_a_project_are_hostile(
    tmp_path: Path, hostile: Hostile, warm: Warm | None
) -> None:
    """Whatever an agent's settings, mirrored sessions, plans and histories of a repository say, or are."""
    bad = made(tmp_path / "bad", FORMATS, warm)
    bad.renew(hostile)
    for words in EVERY if ALL else LOOKED:
        answer = bad.do(words)
        typed(answer, words)
        # What follows finds a session and the file. What is large is planted once: taking it in may take seconds.
        if ALL and bad.small() and (answer.code or len(bad.unchanged()) < len(bad.planted)):
            bad.renew(hostile)
    bad.again()
    recorded(bad, 1)


def test_a_dotted_key_of_50_000_parts_cost_gigabytes_and_half_a_minute(tmp_path: Path) -> None:
    """It is refused before anything is made of it; `start` says so, and starts."""
    project = Project(tmp_path, warm=None)
    BAD_SETTINGS["a key of 30,000 parts"](project.project / SETTINGS)
    answer = project.do(("start", "G"))
    assert answer.code == 0, answer
    assert "a key has more than 50 parts" in answer.err


def test_a_number_of_5_000_digits_stopped_start_and_note_and_left_payloads_waiting(tmp_path: Path) -> None:
    """Both work, and what hooks hand over becomes events."""
    project = Project(tmp_path, warm=None)
    BAD_SETTINGS["a number of 5,000 digits"](project.project / SETTINGS)
    assert project.do(("start", "G")).code == 0
    recorded(project, 1)
    assert project.noted() == []


@pytest.mark.parametrize("size", [scale(5, 60, 60)])
def test_a_history_of_60_mb_cost_the_doctor_650_mib(tmp_path: Path, size: int) -> None:
    """It is read line by line; what is beyond what is taken in is named."""
    project = made(tmp_path / "mirrored", ("contract",), warm=None)
    path = next(project.project.glob(HISTORY))
    with path.open("ab") as file:
        file.write(LINE * (size * 1_000_000 // len(LINE)))
    answer = project.do(("doctor", "--json"))
    check = next(item for item in json.loads(answer.out)["checks"] if item["name"] == "contract")
    assert check["status"] == "warning"
    assert "more than 4 MiB of lines by other programs" in check["detail"]
    assert project.do(("note", "y")).code == 0


@pytest.mark.parametrize(
    ("line", "sample"),
    [(b"{}\n", 6), (b"x\n", 6), (b"\n", 6), (LATER + LINE, 1)],
    ids=["short", "unreadable", "empty", "unordered"],
)
def test_validate_of_a_history_of_millions_of_lines_ran_out_of_memory(
    tmp_path: Path, line: bytes, sample: int
) -> None:
    """What is wrong with it is said: no more lines than any history has are read, and few things of each are kept."""
    project = made(tmp_path / "mirrored", ("contract",), warm=None)
    path = next(project.project.glob(HISTORY))
    with path.open("ab") as file:
        file.write(line * (scale(sample, 60, 60) * 1_000_000 // len(line)))
    answer = project.do(("validate", ".", "--json"))
    typed(answer, ("validate", "."))
    problems = next(item for item in json.loads(answer.out)["files"] if item["path"].endswith(path.name))["problems"]
    assert 0 < len(problems) <= 1_010


def test_every_command_that_looks_has_its_words() -> None:
    """A command added to the command line is run in hostile projects too."""
    required = {words[: len(words) - len(_WORDS.get(words, ()))] for words in looking() if words not in _APART}
    assert required
    for path in looking():
        bare = next((known for known in _WORDS if path[: len(known)] == known), path)
        command = _command(bare)
        needed = [argument.name for argument in command.arguments if argument.required]
        assert not needed or bare in _WORDS, f"say what `{' '.join(bare)}` is asked, in _WORDS or _APART"


def _command(path: tuple[str, ...]) -> Command:
    commands = COMMANDS
    for name in path[:-1]:
        commands = next(command for command in commands if command.name == name).verbs
    return next(command for command in commands if command.name == path[-1])
