"""F27 for git: a repository names a program wherever git would accept one, and none of them runs.

Breaks that occurred come first. Then every verb and every hook of Holdfast, with every key of git's documentation
that names a program; and the documentation of the installed git is searched for more of them.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.declaration import Argument, Command
from holdfast.cli.table import COMMANDS
from holdfast.machine.git.branches import GitBranches
from holdfast.machine.git.history import GitHistory
from holdfast.machine.git.reader import GitReader
from tests.faults.connected_agent import Hooked, command_payload, prompt_payload
from tests.faults.harness.hostile_git import PROGRAMS, Traps, git, is_covered
from tests.faults.harness.sync_sandbox import SyncSandbox
from tests.faults.harness.verbs import VERBS, Verb
from tests.faults.harness.warm_sandbox import WarmSandbox
from tests.faults.sandbox import CODES, Sandbox
from tests.support.scale import scale

if sys.platform == "win32":
    pytest.skip("the programs are sh scripts", allow_module_level=True)


@pytest.fixture
def traps(tmp_path: Path) -> Traps:
    return Traps(tmp_path / "traps")


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """A repository with a session, and a git configuration of the user with nothing but a name."""
    settings = tmp_path / "gitconfig"
    settings.write_text("[user]\n\tname = t\n\temail = t@example.org\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    sandbox = Sandbox(tmp_path)
    repository(sandbox.project)
    assert sandbox.call("start", "Find what runs").code == 0
    return sandbox


def repository(where: Path) -> Path:
    where.mkdir(exist_ok=True)
    git(where, "init", "-q", "-b", "main")
    for name in ("tracked.txt", "tracked.eq", "tracked.raw", "tracked.proc", "tracked.inc"):
        (where / name).write_text("one\ntwo\n")
    git(where, "add", ".")
    git(where, "commit", "-q", "-m", "first")
    return where


def last_file(sandbox: Sandbox) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(sandbox.call("show", "@", "--json").out)["session"]["files"][-1]
    return document


# ── breaks that occurred ─────────────────────────────────────────────────────────────────────────────────


def test_file_created_runs_no_clean_filter_when_the_file_is_untracked(sandbox: Sandbox, traps: Traps) -> None:
    """`file NEW --action created` counts the lines without git."""
    traps.plant(sandbox.project)
    (sandbox.project / "new.txt").write_text("1\n2\n3\n")
    answer = sandbox.run("file", "new.txt", "--action", "created")
    assert (answer.code, answer.err, traps.names()) == (0, "", [])
    assert last_file(sandbox)["lines_added"] == 3


@pytest.mark.parametrize("name", ["tracked.txt", "tracked.eq", "tracked.raw", "tracked.proc", "tracked.inc"])
def test_file_runs_no_filter_with_an_unusual_name(sandbox: Sandbox, traps: Traps, name: str) -> None:
    """Named `a=b`, or with bytes that are not UTF-8, or in an included file."""
    traps.plant(sandbox.project)
    (sandbox.project / name).write_text("one\n2\n3\n")
    answer = sandbox.call("file", name, "--action", "modified")
    assert (answer.code, answer.err, traps.names()) == (0, "", [])
    changed = last_file(sandbox)
    assert (changed["lines_added"], changed["lines_removed"]) == (2, 1)


def test_mcp_record_runs_no_clean_filter(sandbox: Sandbox, traps: Traps) -> None:
    """For a new file and a tracked one."""
    from holdfast.mcp.context import McpContext, ServerOptions
    from holdfast.mcp.server import HoldfastServer
    from mcp import Client

    traps.plant(sandbox.project)
    (sandbox.project / "new.txt").write_text("1\n")
    (sandbox.project / "tracked.txt").write_text("1\n")
    context = McpContext(ServerOptions(directory=str(sandbox.project), home=str(sandbox.home), actor="ada"))

    async def record_files() -> bool:
        async with Client(HoldfastServer(context)) as client:
            changed = [{"path": "new.txt", "action": "created"}, {"path": "tracked.txt", "action": "modified"}]
            answer = await client.call_tool("record", {"files": changed})
            return bool(getattr(answer, "is_error", True))

    try:
        assert asyncio.run(record_files()) is False
    finally:
        context.close()
    assert traps.names() == []
    assert last_file(sandbox)["path"] == "tracked.txt"


def test_resume_of_another_devices_session_runs_no_program(traps: Traps) -> None:
    """The work tree is compared with the commit, submodules included."""
    with SyncSandbox() as warm_sandbox:
        warm_sandbox.put({})
        repository(Path(warm_sandbox.project))
        inner = repository(Path(warm_sandbox.project, "inner"))
        Path(warm_sandbox.project, ".gitmodules").write_text('[submodule "inner"]\n\tpath = inner\n\turl = ./inner\n')
        git(Path(warm_sandbox.project), "add", ".")
        git(Path(warm_sandbox.project), "commit", "-q", "-m", "with a submodule")
        warm_sandbox.initial = warm_sandbox.take()
        warm_sandbox.restore_stage("joined")
        traps.plant(Path(warm_sandbox.project))
        traps.plant(inner)
        for path in (Path(warm_sandbox.project, "tracked.txt"), inner / "tracked.txt"):
            path.write_text("changed\n")
        warm_sandbox.sync("ab", times=2)
        session = warm_sandbox.session("a")
        answer = warm_sandbox.at("b", "resume", session, "--force", "--json")
        assert answer.code == 0, answer
        assert traps.names() == []
        differences = {item["what"]: item["detail"] for item in json.loads(answer.out)["ground"]}
        assert "tracked.txt" in differences["dirty"], differences
        assert "inner" in differences["dirty"], differences


def test_stop_keep_runs_no_hook_and_no_driver(sandbox: Sandbox, traps: Traps) -> None:
    """Git does what the user asked for, without the repository's hooks, drivers and signing program."""
    assert sandbox.call("start", "On a branch", "--branch", "--replace").code == 0
    (sandbox.project / "work.txt").write_text("work\n")
    git(sandbox.project, "add", "work.txt")
    git(sandbox.project, "commit", "-q", "-m", "work")
    traps.plant(sandbox.project, without=("filter.<driver>.smudge", "filter.<driver>.process", "commit.gpgSign=true"))
    git(sandbox.project, "-c", f"core.hooksPath={os.devnull}", "update-index", "--refresh")
    (sandbox.project / ".gitattributes").unlink()
    for name in traps.names():  # the user's own git has just run some
        (traps.triggered / name).unlink()
    answer = sandbox.call("stop", "--keep")
    assert (answer.code, traps.names()) == (0, []), answer
    assert (sandbox.project / "work.txt").read_text() == "work\n"
    assert (sandbox.project / ".git/HEAD").read_text() == "ref: refs/heads/main\n"


def test_stop_keep_is_refused_when_a_file_needs_a_filter_that_only_the_repository_names(
    sandbox: Sandbox, traps: Traps
) -> None:
    """Without the filter the work tree would contain what git stores, for example encrypted data."""
    assert sandbox.call("start", "On a branch", "--branch", "--replace").code == 0
    (sandbox.project / "work.txt").write_text("work\n")
    git(sandbox.project, "add", "work.txt")
    git(sandbox.project, "commit", "-q", "-m", "work")
    (sandbox.project / ".git/info").mkdir(exist_ok=True)
    (sandbox.project / ".git/info/attributes").write_text("*.txt filter=hostile\n")
    with (sandbox.project / ".git/config").open("a") as config:
        config.write(f'[filter "hostile"]\n\tsmudge = {traps.script("smudge")}\n')
    for words in (("stop", "--keep"), ("stop", "--discard")):
        answer = sandbox.call(*words)
        assert (answer.code, traps.names()) == (1, []), answer
        assert "work.txt has a filter that only the repository's own configuration names" in answer.err
        assert "git switch main" in answer.err
    assert (sandbox.project / "work.txt").read_text() == "work\n"
    assert sandbox.call("stop").code == 0


def test_partial_clone_fetches_nothing_when_an_object_is_missing(
    sandbox: Sandbox, traps: Traps, tmp_path: Path
) -> None:
    """Git would run a transport to fetch it: the file is recorded without line counts instead."""
    with (sandbox.project / ".git/config").open("a") as config:
        config.write(
            '[core]\n\trepositoryformatversion = 1\n[extensions]\n\tpartialClone = origin\n[protocol "ext"]\n'
            f'\tallow = always\n[remote "origin"]\n\tpromisor = true\n\turl = ext::{traps.script("transport")}\n'
        )
    blob = git(sandbox.project, "rev-parse", "HEAD:tracked.txt")
    (sandbox.project / ".git/objects" / blob[:2] / blob[2:]).unlink()
    (sandbox.project / "tracked.txt").write_text("changed\n")
    answer = sandbox.call("file", "tracked.txt", "--action", "modified")
    assert (answer.code, traps.names()) == (0, [])
    assert "without line counts" in answer.err
    assert last_file(sandbox)["lines_added"] is None


@pytest.mark.parametrize("url", ["ext::TRAP", "./evil.git", "TREE/evil.git", "file://TREE/.git/evil.git"])
def test_remote_add_by_name_runs_no_program_of_the_repository(sandbox: Sandbox, traps: Traps, url: str) -> None:
    """`remote add NAME git:origin` takes the address from the repository, which may bring one with hooks."""
    url = url.replace("TRAP", str(traps.script("transport"))).replace("TREE", str(sandbox.project))
    for place in ("evil.git", ".git/evil.git"):
        git(sandbox.project, "init", "-q", "--bare", place)
        (sandbox.project / place / "hooks").mkdir(exist_ok=True)
        shutil.copy(traps.script("receive"), sandbox.project / place / "hooks/pre-receive")
    with (sandbox.project / ".git/config").open("a") as config:
        config.write(f'[remote "origin"]\n\turl = {url}\n[protocol "ext"]\n\tallow = always\n')
    answer = sandbox.call("remote", "add", "cloud", "git:origin")
    assert (answer.code in (1, 4), traps.names()) == (True, []), answer


def test_relative_hooks_path_of_the_user_runs_no_hook_of_the_repository(
    sandbox: Sandbox, traps: Traps, tmp_path: Path
) -> None:
    """`core.hooksPath = .hooks` in the user's own configuration would run what a repository has there."""
    (tmp_path / "gitconfig").write_text("[core]\n\thooksPath = .hooks\n")
    (sandbox.project / ".hooks").mkdir()
    shutil.copy(traps.script("relative"), sandbox.project / ".hooks/post-checkout")
    answer = sandbox.call("start", "On a branch", "--branch", "--replace")
    assert (answer.code, traps.names()) == (0, []), answer


def test_linked_work_tree_runs_no_hook_of_the_main_repository(sandbox: Sandbox, traps: Traps, tmp_path: Path) -> None:
    """Hooks and configuration are shared by all work trees."""
    git(sandbox.project, "worktree", "add", "-q", str(tmp_path / "tree"))
    traps.plant(sandbox.project)
    (tmp_path / "tree/tracked.txt").write_text("changed\n")
    for words in (("start", "There", "--branch"), ("file", "tracked.txt", "--action", "modified")):
        answer = sandbox.call(*words, project=tmp_path / "tree")
        assert (answer.code, answer.err, traps.names()) == (0, "", [])


# ── repositories that cannot be read ───────────────────────────────────────────────────────────────────────


def _broken(project: Path) -> None:
    (project / ".git/config").write_text("[broken")


def _pipe(project: Path) -> None:
    (project / ".git/config").unlink()
    os.mkfifo(project / ".git/config")


def _huge(project: Path) -> None:
    (project / ".git/config").write_text("[a]\n" + "b = c\n" * 400_000)


def _later_format(project: Path) -> None:
    with (project / ".git/config").open("a") as config:
        config.write("[core]\n\trepositoryformatversion = 1\n[extensions]\n\tfrom-the-future = true\n")


def _no_index(project: Path) -> None:
    (project / ".git/index").write_bytes(b"DIRC" + b"\xff" * 1000)


def _attributes_pipe(project: Path) -> None:
    os.mkfifo(project / ".gitattributes")


def _head_pipe(project: Path) -> None:
    (project / ".git/HEAD").unlink()
    os.mkfifo(project / ".git/HEAD")


def _refs_pipe(project: Path) -> None:
    os.mkfifo(project / ".git/packed-refs")


@pytest.mark.parametrize(
    "spoil", [_broken, _pipe, _huge, _later_format, _no_index, _attributes_pipe, _head_pipe, _refs_pipe]
)
def test_recording_works_when_git_cannot_be_read(sandbox: Sandbox, spoil: Any) -> None:
    """What git would have added is missing, and a message says so."""
    (sandbox.project / "tracked.txt").write_text("changed\n")
    spoil(sandbox.project)
    answer = sandbox.call("file", "tracked.txt", "--action", "modified")
    assert answer.code == 0, answer
    assert "Recorded without line counts" in answer.err
    assert sandbox.call("start", "Go on", "--replace").code == 0
    assert sandbox.call("note", "it goes on").code == 0


def test_exponential_tree_is_given_up(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trees of trees: a few objects name more files than there are atoms. Git is stopped with an error."""
    blob = git(sandbox.project, "hash-object", "-w", "tracked.txt")
    listing = "".join(f"100644 blob {blob}\tf{number}\n" for number in range(10))
    for _ in range(12):
        made = subprocess.run(
            ["git", "mktree"], cwd=sandbox.project, input=listing, check=True, capture_output=True, text=True
        )
        listing = "".join(f"040000 tree {made.stdout.strip()}\tf{number}\n" for number in range(10))
    commit = git(sandbox.project, "commit-tree", "-m", "bomb", made.stdout.strip())
    git(sandbox.project, "update-ref", "refs/heads/main", commit)
    from holdfast.core.errors import HoldfastError

    monkeypatch.setattr(GitReader, "_compare_patience", 1.0)
    with pytest.raises(HoldfastError):
        GitReader(str(sandbox.project)).changes()
    assert sandbox.call("file", "tracked.txt", "--action", "modified").code == 0


# ── every verb, every hook, every key ────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def warm_sandbox() -> Iterator[WarmSandbox]:
    with WarmSandbox() as warm_sandbox:
        yield warm_sandbox


# These look at a repository or change it; the sample is of them alone.
SAMPLE = {"file", "resume", "--branch", "--keep", "--discard"}
CHOSEN = [verb for verb in VERBS if scale(0, 1, 1) or SAMPLE & {verb.argv[0], verb.argv[-1]}]


@pytest.mark.parametrize("verb", [pytest.param(verb, id=verb.name) for verb in CHOSEN])
def test_every_verb_runs_no_program_that_a_repository_names(
    warm_sandbox: WarmSandbox, traps: Traps, verb: Verb
) -> None:
    """The verb itself works as usual, and so does the next one."""
    warm_sandbox.prepare(verb.before)
    project = Path(warm_sandbox.project)
    if not (project / ".git").exists():
        git(project, "init", "-q", "-b", "main")
        (project / "tracked.txt").write_text("one\n")
        git(project, "add", "tracked.txt")
        git(project, "commit", "-q", "-m", "first")
    traps.plant(project)
    answer = warm_sandbox.run(verb.argv)
    if verb.argv in (("stop", "--keep"), ("stop", "--discard")):
        assert answer.code == 1, answer
        assert (
            "Holdfast runs no program that only a repository names" in answer.err
            or "uncommitted changes" in answer.err
        )
    else:
        assert answer.code == 0, answer
    assert traps.names() == []
    assert warm_sandbox.run(("start", "what comes next", "--replace")).code == 0
    assert warm_sandbox.run(("note", "it goes on")).code == 0
    assert traps.names() == []


# Servers and live views that do not end by themselves, and the tour, which has a repository of its own.
ENDLESS = {("ui",), ("watch",), ("mcp",), ("tour",), ("hook",), ("statusline",)}
WORDS = {"format": "timer", "agent": "claude", "agents": "claude", "shell": "bash", "url": "folder:/nowhere"}


def _leaves(commands: tuple[Command, ...], before: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Command]]:
    for command in commands:
        path = (*before, command.name)
        if command.verbs:
            yield from _leaves(command.verbs, path)
        if command.handler and path not in ENDLESS:
            yield path, command


def _required_arguments(command: Command) -> list[str]:
    """A value for each required argument."""
    words: list[str] = []
    for param in command.params:
        if not param.required:
            continue
        word = param.choices[0] if param.choices else WORDS.get(param.name, "tracked.txt")
        words += [word] if isinstance(param, Argument) else [param.label, word]
    return words


def test_every_other_command_runs_no_program_that_a_repository_names(sandbox: Sandbox, traps: Traps) -> None:
    """With arbitrary values for its arguments."""
    traps.plant(sandbox.project)
    (sandbox.project / "tracked.txt").write_text("changed\n")
    known = {verb.argv[: len(path)] for verb in VERBS for path, _ in _leaves(COMMANDS)}
    rest = [(path, command) for path, command in _leaves(COMMANDS) if path not in known]
    assert len(rest) > 20
    for path, command in rest:
        # `call` rejects "unexpected" errors, which is also the name of one of doctor's checks.
        answer = (sandbox.run if path == ("doctor",) else sandbox.call)(*path, *_required_arguments(command))
        assert answer.code in CODES, (path, answer)
        assert traps.names() == [], path
    assert sandbox.call("note", "it goes on").code == 0


def test_every_hook_runs_no_program_that_a_repository_names(tmp_path: Path, traps: Traps) -> None:
    """By the installed script and by the program, for prompts, commands and edits."""
    hooked = Hooked(tmp_path)
    repository(hooked.project)
    traps.plant(hooked.project)
    (hooked.project / "tracked.txt").write_text("changed\n")
    edit = {
        "session_id": "talk-1", "cwd": str(hooked.project), "hook_event_name": "PostToolUse", "tool_name": "Write",
        "tool_input": {"file_path": str(hooked.project / "tracked.txt"), "content": "changed\n"},
        "tool_response": {"type": "update"}, "tool_use_id": "e1",
    }  # fmt: skip
    start = {
        "session_id": "talk-1",
        "cwd": str(hooked.project),
        "hook_event_name": "SessionStart",
        "source": "startup",
    }
    for way in ("ask", "tell", "stir", "python"):
        for payload in (json.dumps(start).encode(), prompt_payload(cwd=hooked.project), json.dumps(edit).encode()):
            assert hooked.run_hook(payload, way)[0] == 0
    assert hooked.run_hook(command_payload(1, cwd=hooked.project))[0] == 0
    assert hooked.commands() == {"": ["1"]} or hooked.commands()
    assert traps.names() == []


def test_git_reader_runs_no_program_in_any_method(tmp_path: Path, traps: Traps) -> None:
    """Every public method that reads, called directly."""
    project = repository(tmp_path / "project")
    head = git(project, "rev-parse", "HEAD")
    traps.plant(project)
    (project / "tracked.txt").write_text("changed\n")
    arguments: dict[str, tuple[Any, ...]] = {
        "branch_exists": ("main",), "checked_out_elsewhere": ("main",), "find_commit": (None,),
        "numstat": ("tracked.txt",),
        "is_ancestor": (head, head), "merge_base": (head, head), "remote_address": ("origin",), "tip": ("main",),
        "tree_id": (head,), "upstream": ("main",), "valid_branch_name": ("main",), "merged_tree": (head, head),
        "unwritable": (head, head), "tracks": ("tracked.txt",),
    }  # fmt: skip
    more: dict[str, dict[str, Any]] = {"find_commit": {"tree": None, "message": "x"}}
    reading = {name for name in dir(GitReader) if not name.startswith("_")} - {"root"}
    for name in sorted({*reading, "merged_tree", "index_tree", "staged", "unwritable"}):
        getattr(GitBranches(str(project)), name)(*arguments.get(name, ()), **more.get(name, {}))
        assert traps.names() == [], name


def test_git_history_runs_no_program_in_any_method(tmp_path: Path, traps: Traps) -> None:
    """Logs, files and trailers of commits, blame: what recording and `why` read."""
    project = repository(tmp_path / "project")
    head = git(project, "rev-parse", "HEAD")
    message = tmp_path / "message"
    message.write_text("Fix\n")
    history = GitHistory(str(project))
    commit = history.commit(head)
    assert commit is not None
    traps.plant(project)
    (project / "tracked.txt").write_text("changed\n")
    arguments: dict[str, tuple[Any, ...]] = {
        "add_trailer": (str(message), "Holdfast-Session: x"), "blame": ("tracked.txt", 1),
        "blob_hash": (head, "tracked.txt"), "commit": (head,), "files_changed_by": ("tracked.txt", 5),
        "files_of": (head,), "head_log": (10,), "hooks_path": (), "lines_changed": (head, ["tracked.txt"]),
        "log": (head,), "with_exact_time": (commit,),
    }  # fmt: skip
    own = {name for name in vars(GitHistory) if not name.startswith("_")}
    assert own == set(arguments)
    for name in sorted(own):
        getattr(GitHistory(str(project)), name)(*arguments[name])
        assert traps.names() == [], name


# ── the table is complete ────────────────────────────────────────────────────────────────────────────────

_MENTIONS_A_PROGRAM = re.compile(
    r"\b(?:command|program|script|executable|helper|tool|editor|pager|hook|browser|proxy|driver)s?\s+"
    r"(?:to|that|which|used|is|will|for|named)\b|shell command|\bexecut(?:e|ed|es)\b|\binvok(?:e|ed|es)\b|"
    r"\b(?:to|be|is) run\b",
    re.IGNORECASE,
)
_NAME_OF_A_PROGRAM_KEY = re.compile(
    r"(?:command|cmd|program|helper|hook|hookspath|editor|pager|driver|textconv|clean|smudge|process|external|askpass|"
    r"proxy|browser|viewer|pack|vcs|tool|tunnel|fsmonitor|diffFilter)$",
    re.IGNORECASE,
)


def _documented() -> dict[str, str]:
    """Each key in the manual page of git-config, with its text."""
    page = subprocess.run(
        ["man", "git-config"], check=False, capture_output=True, env={**os.environ, "MANWIDTH": "200"}
    )
    text = re.sub(r".\x08", "", page.stdout.decode("utf-8", "replace"))
    texts: dict[str, str] = {}
    keys: list[str] = []
    has_text = False
    for line in text.splitlines():
        heading = re.fullmatch(r" {7}([a-zA-Z][\w<>*-]*(?:\.[\w<>*-]+)+)(?: \(deprecated\))?(?:, .*)?", line)
        if heading:
            keys, has_text = ([] if has_text else keys), False
            keys.append(heading[1])
        elif line.strip():
            has_text = True
            for key in keys:
                texts[key] = f"{texts.get(key, '')} {line.strip()}"
    return texts


def test_table_of_keys_covers_the_installed_gits_documentation() -> None:
    """Each key whose name or text mentions programs is in the table, or is known to name none."""
    listed = subprocess.run(["git", "help", "--config"], check=False, capture_output=True, text=True).stdout.split(
        "\n"
    )
    keys = {key.strip() for key in listed if "." in key and " " not in key.strip()}
    assert len(keys) > 500
    by_name = {key for key in keys if _NAME_OF_A_PROGRAM_KEY.search(key)}
    by_text = {key for key, text in _documented().items() if _MENTIONS_A_PROGRAM.search(text)}
    assert len(by_name) > 40
    unexplained = sorted(key for key in by_name | by_text if not is_covered(key))
    assert unexplained == [], "add them to PROGRAMS, or to NO_PROGRAM with the reason"


def test_harmless_settings_contain_no_key_of_the_table(tmp_path: Path) -> None:
    """Of a configuration with all of them nothing is left that names a program."""
    from holdfast.machine.git import config as git_config

    traps = Traps(tmp_path / "traps")
    project = repository(tmp_path / "project")
    traps.plant(project)
    settings = git_config.parse((project / ".git/config").read_bytes().decode(errors="surrogateescape"))
    assert len(settings) > len(PROGRAMS)
    kept = git_config.harmless_settings(settings, personal=True)
    named = {
        (setting.section, setting.key) for setting in kept if str(traps.root) in setting.value + (setting.name or "")
    }
    # Addresses are only shown: nothing is fetched, and what is shown has no command.
    assert named <= {("remote", "url"), ("url", "insteadof")}
    assert GitReader(str(project)).remote() is None
