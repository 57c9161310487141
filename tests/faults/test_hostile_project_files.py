"""F27: files that come with a repository cost no gigabytes, block no command, and never prevent recording.

Every command and hook is run in a project with such a file, under a memory limit, after the same command in the same
project without it: settings that cannot be read do not change its answer. The sample runs real processes, whose
startup counts as memory too; the whole table is run in children of a warm process, with the same limits.
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
from tests.faults.connected_agent import Hooked, command_payload, prompt_payload
from tests.faults.harness.verbs import VERBS
from tests.faults.harness.warm import without_privileges
from tests.faults.harness.warm_sandbox import Tree, WarmProcess, bind, empty, read_tree, write_tree
from tests.faults.hostile_files import BAD_SETTINGS, HISTORY, LINE, SETTINGS, Hostile, others, put, settings
from tests.faults.sandbox import CODES, CommandResult
from tests.support.scale import scale

MIB = 1 << 20
MEMORY = 300 * MIB
LATER = LINE.replace(b"2026", b"2027")
STARTED = 50 * MIB  # of MEMORY, for a process that has started
FORMATS = ("orchestrator", "timer", "contract", "craft")
HANGING = 300.0  # seconds, as a timeout
ALL = scale(0, 1, 1) == 1
LIMITS: dict[str, Any] = {"memory": MEMORY - STARTED, "unprivileged": True, "seconds": HANGING}

# Arguments of commands that only read; the others need none.
_ARGUMENTS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("show",): ("@",), ("convert",): ("given.json", "--to", "craft"), ("export",): ("--format", "craft"),
    ("recover",): ("torn.json",), ("migrate",): ("given.json",), ("statusline",): ("claude",), ("redact",): ("@",),
    ("config", "get"): ("history.limit",), ("why",): ("given.json",), ("validate",): (".",),
    ("contract", "verify"): ("--spec", "spec.md"), ("contract", "summary"): ("--spec", "spec.md"),
}  # fmt: skip
# These run until they are stopped, are in VERBS, ask a server, or work elsewhere.
_EXCLUDED = {
    ("watch",), ("hook",), ("tour",), ("ui",), ("mcp",), ("completion",), ("connect",), ("disconnect",),
    ("uninstall",), ("backfill",), ("init",), ("backup",), ("contract", "acknowledge"),
}  # fmt: skip


def limited() -> None:
    """For `preexec_fn`: the memory limit, and no rights that only root has."""
    without_privileges()
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _mark(path: Path) -> tuple[int, ...]:
    """Changes when a file is written, replaced or removed."""
    if not os.path.lexists(path):
        return ()
    here = path.lstat()
    return here.st_size, here.st_ino, here.st_mode, here.st_nlink, here.st_mtime_ns


class Project(Hooked):
    """A project with a session, and a mirror of every format."""

    def __init__(self, root: Path, warm: WarmProcess | None) -> None:
        super().__init__(root)
        self.warm = warm
        self.begun: Tree = {}
        self.planted: dict[Path, tuple[int, ...]] = {}

    def begin(self, *formats: str) -> Project:
        for word in formats:
            assert self.call("mirror", "on", word).code == 0
        self.start_session()
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
        """Restore the initial files and plant the hostile one, so that earlier commands have no effect.

        A hostile file that is unchanged is moved back: many are large.
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

    def start_session(self) -> None:
        """A new session with an agent and a task."""
        for words in (
            ("start", "G", "--replace", "--quiet"), ("agent", "start", "a1", "--type", "coder"),
            ("task", "add", "first", "--id", "t1"),
        ):  # fmt: skip
            answer = self.call(*words)
            assert answer.code == 0, answer

    def run_limited(self, words: Sequence[str]) -> CommandResult:
        words = [word.replace("{project}", str(self.project)) for word in words]
        me = {"HOLDFAST_ACTOR": "me"}
        if self.warm is None:
            return self.run(*words, preexec_fn=limited, timeout=HANGING, env=me)
        answer = self.warm.run(words, cwd=str(self.project), environ=self.environ | me, **LIMITS)
        return CommandResult(answer.code, answer.out, answer.err)

    def run_limited_hook(self, payload: bytes) -> tuple[int, bytes, bytes]:
        done = subprocess.run(
            [sys.executable, "-m", "holdfast", "hook", "claude"], input=payload, env=self.environ, cwd=self.project,
            capture_output=True, check=False, timeout=HANGING, preexec_fn=limited,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def warm() -> Iterator[WarmProcess | None]:
    """For the whole table, where the system can limit its children."""
    if not ALL or sys.platform != "linux":
        yield None
        return
    with WarmProcess() as process:
        yield process


@pytest.fixture(scope="module")
def answers(
    tmp_path_factory: pytest.TempPathFactory, warm: WarmProcess | None
) -> dict[tuple[str, ...], CommandResult]:
    """What every command answers in a project without hostile files."""
    project = make_project(tmp_path_factory.mktemp("clean") / "project", FORMATS if ALL else (), warm)
    return dict(run_commands(project, None))


def make_project(root: Path, formats: Sequence[str], warm: WarmProcess | None) -> Project:
    root.mkdir()
    return Project(root, warm).begin(*formats)


def read_only_commands(
    commands: tuple[Command, ...] = COMMANDS, above: tuple[str, ...] = ()
) -> Iterator[tuple[str, ...]]:
    for command in commands:
        path = (*above, command.name)
        yield from read_only_commands(command.verbs, path)
        if not command.verbs and not command.writes and path not in _EXCLUDED:
            yield path + _ARGUMENTS.get(path, ())


# `start` and `note` first: they are in a sample.
WORK = [("note", "a note"), ("start", "another goal", "--replace")]
EVERY = list(dict.fromkeys([*WORK, *(verb.argv for verb in VERBS), *read_only_commands(), ("doctor", "--repair")]))
# The commands of a sample.
SAMPLE_WITH_SETTINGS = [*WORK, ("config", "list"), ("history",)]
SAMPLE_WITH_OTHERS = [("status",), ("doctor",), ("connect", "claude", "--scope", "project")]


def chosen(hostile: list[Hostile], sample: int) -> list[object]:
    picked = hostile if ALL else random.Random(27).sample(hostile, sample)
    return [pytest.param(hostile, id=hostile.name) for hostile in picked]


def assert_well_formed(answer: CommandResult, words: Sequence[str]) -> None:
    """A documented code and the form of its errors; too much input was refused, and memory was not exhausted."""
    assert answer.code in CODES, (words, answer)
    output = answer.out + answer.err
    assert "Traceback" not in output, (words, answer)
    assert "something unexpected" not in output, (words, answer)
    assert "memory" not in answer.err, (words, answer)
    if answer.code and words[0] not in ("doctor", "validate", "run"):
        assert "holdfast: " in answer.err, (words, answer)


def assert_records(project: Project, number: int) -> None:
    """Commands and hooks still record."""
    answer = project.run_limited(("note", f"still here {number}", "--json"))
    assert answer.code == 0, answer
    assert json.loads(answer.out)["session"]["notes"][-1]["text"] == f"still here {number}"
    assert project.run_limited_hook(command_payload(number, cwd=project.project))[0] == 0
    shown = project.run_limited(("log", "--json", "--type", "command.ran"))
    assert f"make {number}" in shown.out, shown.err


def run_commands(project: Project, hostile: Hostile | None) -> Iterator[tuple[tuple[str, ...], CommandResult]]:
    """Each command in the same initial project, with its answer; those of a sample one after another."""
    for number, words in enumerate(EVERY if ALL else SAMPLE_WITH_SETTINGS):
        if ALL or number == 0:
            project.renew(hostile)
        yield words, project.run_limited(words)


@pytest.mark.parametrize("hostile", chosen(settings(), 2))
def test_commands_answer_as_before_with_hostile_project_settings(
    tmp_path: Path, hostile: Hostile, warm: WarmProcess | None, answers: dict[tuple[str, ...], CommandResult]
) -> None:
    """With the same code as in a project without such a file; the problem is reported."""
    bad = make_project(tmp_path / "bad", FORMATS if ALL else (), warm)
    for words, answer in run_commands(bad, hostile):
        assert_well_formed(answer, words)
        assert answer.code == answers[words].code, (words, answers[words], answer)
    assert_records(bad, 1)
    # Prompts are still answered.
    assert bad.run_limited_hook(prompt_payload(cwd=bad.project))[0] == 0
    doctor = json.loads(bad.run_limited(("doctor", "--json")).out)
    check = next(check for check in doctor["checks"] if check["name"] == "settings")
    assert check["status"] == "warning", check
    assert SETTINGS in check["detail"]
    listed = bad.run_limited(("config", "list"))
    assert SETTINGS in listed.err
    assert json.loads(bad.run_limited(("config", "list", "--json")).out)["problems"]


@pytest.mark.parametrize("hostile", chosen(others(), 2))
def test_commands_answer_and_record_with_other_hostile_project_files(
    tmp_path: Path, hostile: Hostile, warm: WarmProcess | None
) -> None:
    """Agents' settings, mirrored sessions, plans and histories of a repository."""
    bad = make_project(tmp_path / "bad", FORMATS, warm)
    bad.renew(hostile)
    for words in EVERY if ALL else SAMPLE_WITH_OTHERS:
        answer = bad.run_limited(words)
        assert_well_formed(answer, words)
        # The next command finds a session and the file. A large file is planted once: reading it may take seconds.
        if ALL and bad.small() and (answer.code or len(bad.unchanged()) < len(bad.planted)):
            bad.renew(hostile)
    bad.start_session()
    assert_records(bad, 1)


def test_dotted_key_of_50_000_parts_cost_gigabytes_and_half_a_minute(tmp_path: Path) -> None:
    """It is refused before it is parsed; `start` reports it, and works."""
    project = Project(tmp_path, warm=None)
    BAD_SETTINGS["a key of 30,000 parts"](project.project / SETTINGS)
    answer = project.run_limited(("start", "G"))
    assert answer.code == 0, answer
    assert "a key has more than 50 parts" in answer.err


def test_number_of_5_000_digits_stopped_start_note_and_hooks(tmp_path: Path) -> None:
    """They work, and payloads are recorded."""
    project = Project(tmp_path, warm=None)
    BAD_SETTINGS["a number of 5,000 digits"](project.project / SETTINGS)
    assert project.run_limited(("start", "G")).code == 0
    assert_records(project, 1)
    assert project.logged_errors() == []


@pytest.mark.parametrize("size", [scale(5, 60, 60)])
def test_history_of_60_mb_cost_the_doctor_650_mib(tmp_path: Path, size: int) -> None:
    """It is read line by line; lines beyond the limit are reported."""
    project = make_project(tmp_path / "mirrored", ("contract",), warm=None)
    path = next(project.project.glob(HISTORY))
    with path.open("ab") as file:
        file.write(LINE * (size * 1_000_000 // len(LINE)))
    answer = project.run_limited(("doctor", "--json"))
    check = next(item for item in json.loads(answer.out)["checks"] if item["name"] == "contract")
    assert check["status"] == "warning"
    assert "more than 4 MiB of lines by other programs" in check["detail"]
    assert project.run_limited(("note", "y")).code == 0


@pytest.mark.parametrize(
    ("line", "sample"),
    [(b"{}\n", 6), (b"x\n", 6), (b"\n", 6), (LATER + LINE, 1)],
    ids=["short", "unreadable", "empty", "unordered"],
)
def test_validate_of_a_history_of_millions_of_lines_ran_out_of_memory(
    tmp_path: Path, line: bytes, sample: int
) -> None:
    """Only as many lines as a history may have are read, and few problems of each kind are kept."""
    project = make_project(tmp_path / "mirrored", ("contract",), warm=None)
    path = next(project.project.glob(HISTORY))
    with path.open("ab") as file:
        file.write(line * (scale(sample, 60, 60) * 1_000_000 // len(line)))
    answer = project.run_limited(("validate", ".", "--json"))
    assert_well_formed(answer, ("validate", "."))
    problems = next(item for item in json.loads(answer.out)["files"] if item["path"].endswith(path.name))["problems"]
    assert 0 < len(problems) <= 1_010


def test_every_read_only_command_has_its_arguments() -> None:
    """A command added to the command line is run in hostile projects too."""
    required = {
        words[: len(words) - len(_ARGUMENTS.get(words, ()))]
        for words in read_only_commands()
        if words not in _EXCLUDED
    }
    assert required
    for path in read_only_commands():
        bare = next((known for known in _ARGUMENTS if path[: len(known)] == known), path)
        command = _command(bare)
        needed = [argument.name for argument in command.arguments if argument.required]
        assert not needed or bare in _ARGUMENTS, f"say what `{' '.join(bare)}` is asked, in _WORDS or _APART"


def _command(path: tuple[str, ...]) -> Command:
    commands = COMMANDS
    for name in path[:-1]:
        commands = next(command for command in commands if command.name == name).verbs
    return next(command for command in commands if command.name == path[-1])
