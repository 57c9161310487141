"""F27 for git: a repository names a program wherever git would take one, and none of them runs.

The breaks that were seen come first, by name. Then every verb and every hook of Holdfast, with every key of git's
documentation that names a program; and the documentation of the git that is installed is searched for more of them.
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
from tests.faults.connected_agent import Hooked, asked, ran
from tests.faults.harness.hostile_git import PROGRAMS, Traps, explained, git
from tests.faults.harness.room import Room
from tests.faults.harness.travel import Travel
from tests.faults.harness.verbs import VERBS, Verb
from tests.faults.program import CODES, Desk
from tests.support.scale import scale

if sys.platform == "win32":
    pytest.skip("the programs are sh scripts", allow_module_level=True)


@pytest.fixture
def traps(tmp_path: Path) -> Traps:
    return Traps(tmp_path / "traps")


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A project with a repository and a session, and a person with a name and nothing else in their configuration."""
    settings = tmp_path / "gitconfig"
    settings.write_text("[user]\n\tname = t\n\temail = t@example.org\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    desk = Desk(tmp_path)
    repository(desk.project)
    assert desk.call("start", "Find what runs").code == 0
    return desk


def repository(where: Path) -> Path:
    where.mkdir(exist_ok=True)
    git(where, "init", "-q", "-b", "main")
    for name in ("tracked.txt", "tracked.eq", "tracked.raw", "tracked.proc", "tracked.inc"):
        (where / name).write_text("one\ntwo\n")
    git(where, "add", ".")
    git(where, "commit", "-q", "-m", "first")
    return where


def last_file(desk: Desk) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(desk.call("show", "@", "--json").out)["session"]["files"][-1]
    return found


# ── breaks that were seen ────────────────────────────────────────────────────────────────────────────────


def test_file_created_runs_no_clean_filter_when_the_file_is_untracked(desk: Desk, traps: Traps) -> None:
    """`file NEW --action created` counts the lines itself."""
    traps.plant(desk.project)
    (desk.project / "new.txt").write_text("1\n2\n3\n")
    answer = desk.run("file", "new.txt", "--action", "created")
    assert (answer.code, answer.err, traps.names()) == (0, "", [])
    assert last_file(desk)["lines_added"] == 3


@pytest.mark.parametrize("name", ["tracked.txt", "tracked.eq", "tracked.raw", "tracked.proc", "tracked.inc"])
def test_file_runs_no_filter_whatever_its_name_is_made_of(desk: Desk, traps: Traps, name: str) -> None:
    """A filter called `a=b`, or by bytes that are no UTF-8, or in an included file, is not run either."""
    traps.plant(desk.project)
    (desk.project / name).write_text("one\n2\n3\n")
    answer = desk.call("file", name, "--action", "modified")
    assert (answer.code, answer.err, traps.names()) == (0, "", [])
    found = last_file(desk)
    assert (found["lines_added"], found["lines_removed"]) == (2, 1)


def test_mcp_record_runs_no_clean_filter(desk: Desk, traps: Traps) -> None:
    """The MCP server records a new file and a tracked one."""
    from holdfast.mcp.context import McpContext, ServerOptions
    from holdfast.mcp.server import HoldfastServer
    from mcp import Client

    traps.plant(desk.project)
    (desk.project / "new.txt").write_text("1\n")
    (desk.project / "tracked.txt").write_text("1\n")
    context = McpContext(ServerOptions(directory=str(desk.project), home=str(desk.home), actor="ada"))

    async def talk() -> bool:
        async with Client(HoldfastServer(context)) as client:
            changed = [{"path": "new.txt", "action": "created"}, {"path": "tracked.txt", "action": "modified"}]
            answer = await client.call_tool("record", {"files": changed})
            return bool(getattr(answer, "is_error", True))

    try:
        assert asyncio.run(talk()) is False
    finally:
        context.close()
    assert traps.names() == []
    assert last_file(desk)["path"] == "tracked.txt"


def test_resume_of_another_devices_session_runs_no_program(traps: Traps) -> None:
    """The work tree is compared with what is committed, submodules included, and nothing is run for it."""
    with Travel() as room:
        room.put({})
        repository(Path(room.project))
        inner = repository(Path(room.project, "inner"))
        Path(room.project, ".gitmodules").write_text('[submodule "inner"]\n\tpath = inner\n\turl = ./inner\n')
        git(Path(room.project), "add", ".")
        git(Path(room.project), "commit", "-q", "-m", "with a submodule")
        room.kept = room.take()
        room.reach("joined")
        traps.plant(Path(room.project))
        traps.plant(inner)
        for path in (Path(room.project, "tracked.txt"), inner / "tracked.txt"):
            path.write_text("changed\n")
        room.sync("ab", times=2)
        session = room.session("a")
        answer = room.at("b", "resume", session, "--force", "--json")
        assert answer.code == 0, answer
        assert traps.names() == []
        differences = {item["what"]: item["detail"] for item in json.loads(answer.out)["ground"]}
        assert "tracked.txt" in differences["dirty"], differences
        assert "inner" in differences["dirty"], differences


def test_stop_keep_runs_no_hook_and_no_driver(desk: Desk, traps: Traps) -> None:
    """What a person asked for is done by git, without the hooks, drivers and signing program of the repository."""
    assert desk.call("start", "On a branch", "--branch", "--replace").code == 0
    (desk.project / "work.txt").write_text("work\n")
    git(desk.project, "add", "work.txt")
    git(desk.project, "commit", "-q", "-m", "work")
    traps.plant(desk.project, without=("filter.<driver>.smudge", "filter.<driver>.process", "commit.gpgSign=true"))
    git(desk.project, "-c", f"core.hooksPath={os.devnull}", "update-index", "--refresh")
    (desk.project / ".gitattributes").unlink()
    for name in traps.names():  # the person's own git has just run some
        (traps.sprung / name).unlink()
    answer = desk.call("stop", "--keep")
    assert (answer.code, traps.names()) == (0, []), answer
    assert (desk.project / "work.txt").read_text() == "work\n"
    assert (desk.project / ".git/HEAD").read_text() == "ref: refs/heads/main\n"


def test_stop_keep_is_refused_when_a_file_needs_a_filter_that_only_the_repository_names(
    desk: Desk, traps: Traps
) -> None:
    """Without the filter the work tree would hold what git stores, for instance what is encrypted: say so before."""
    assert desk.call("start", "On a branch", "--branch", "--replace").code == 0
    (desk.project / "work.txt").write_text("work\n")
    git(desk.project, "add", "work.txt")
    git(desk.project, "commit", "-q", "-m", "work")
    (desk.project / ".git/info").mkdir(exist_ok=True)
    (desk.project / ".git/info/attributes").write_text("*.txt filter=hostile\n")
    with (desk.project / ".git/config").open("a") as config:
        config.write(f'[filter "hostile"]\n\tsmudge = {traps.script("smudge")}\n')
    for words in (("stop", "--keep"), ("stop", "--discard")):
        answer = desk.call(*words)
        assert (answer.code, traps.names()) == (1, []), answer
        assert "work.txt has a filter that only the repository's own configuration names" in answer.err
        assert "git switch main" in answer.err
    assert (desk.project / "work.txt").read_text() == "work\n"
    assert desk.call("stop").code == 0


def test_partial_clone_fetches_nothing_when_an_object_is_missing(desk: Desk, traps: Traps, tmp_path: Path) -> None:
    """Git would run a transport for what a partial clone left out: the file is recorded without counts instead."""
    with (desk.project / ".git/config").open("a") as config:
        config.write(
            '[core]\n\trepositoryformatversion = 1\n[extensions]\n\tpartialClone = origin\n[protocol "ext"]\n'
            f'\tallow = always\n[remote "origin"]\n\tpromisor = true\n\turl = ext::{traps.script("transport")}\n'
        )
    blob = git(desk.project, "rev-parse", "HEAD:tracked.txt")
    (desk.project / ".git/objects" / blob[:2] / blob[2:]).unlink()
    (desk.project / "tracked.txt").write_text("changed\n")
    answer = desk.call("file", "tracked.txt", "--action", "modified")
    assert (answer.code, traps.names()) == (0, [])
    assert "without line counts" in answer.err
    assert last_file(desk)["lines_added"] is None


@pytest.mark.parametrize("url", ["ext::TRAP", "./evil.git", "TREE/evil.git", "file://TREE/.git/evil.git"])
def test_git_remote_by_name_leads_to_no_program_of_the_repository(desk: Desk, traps: Traps, url: str) -> None:
    """`remote add NAME git:origin` takes the address from the repository, which may bring one with hooks."""
    url = url.replace("TRAP", str(traps.script("transport"))).replace("TREE", str(desk.project))
    for place in ("evil.git", ".git/evil.git"):
        git(desk.project, "init", "-q", "--bare", place)
        (desk.project / place / "hooks").mkdir(exist_ok=True)
        shutil.copy(traps.script("receive"), desk.project / place / "hooks/pre-receive")
    with (desk.project / ".git/config").open("a") as config:
        config.write(f'[remote "origin"]\n\turl = {url}\n[protocol "ext"]\n\tallow = always\n')
    answer = desk.call("remote", "add", "cloud", "git:origin")
    assert (answer.code in (1, 4), traps.names()) == (True, []), answer


def test_relative_hooks_of_the_persons_own_configuration_are_not_the_repositorys(
    desk: Desk, traps: Traps, tmp_path: Path
) -> None:
    """`core.hooksPath = .hooks` in a person's own configuration would run whatever a repository has there."""
    (tmp_path / "gitconfig").write_text("[core]\n\thooksPath = .hooks\n")
    (desk.project / ".hooks").mkdir()
    shutil.copy(traps.script("relative"), desk.project / ".hooks/post-checkout")
    answer = desk.call("start", "On a branch", "--branch", "--replace")
    assert (answer.code, traps.names()) == (0, []), answer


def test_linked_work_tree_runs_no_hook_of_the_main_repository(desk: Desk, traps: Traps, tmp_path: Path) -> None:
    """Hooks and configuration are the main repository's, wherever git is called."""
    git(desk.project, "worktree", "add", "-q", str(tmp_path / "tree"))
    traps.plant(desk.project)
    (tmp_path / "tree/tracked.txt").write_text("changed\n")
    for words in (("start", "There", "--branch"), ("file", "tracked.txt", "--action", "modified")):
        answer = desk.call(*words, project=tmp_path / "tree")
        assert (answer.code, answer.err, traps.names()) == (0, "", [])


# ── what cannot be read stops nothing ────────────────────────────────────────────────────────────────────


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
def test_recording_goes_on_and_says_so_when_git_cannot_be_read(desk: Desk, spoil: Any) -> None:
    """A file is recorded, a session begun; what git would have added is missing, and a sentence says so."""
    (desk.project / "tracked.txt").write_text("changed\n")
    spoil(desk.project)
    answer = desk.call("file", "tracked.txt", "--action", "modified")
    assert answer.code == 0, answer
    assert "Recorded without line counts" in answer.err
    assert desk.call("start", "Go on", "--replace").code == 0
    assert desk.call("note", "it goes on").code == 0


def test_tree_without_end_costs_no_memory(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trees of trees: a few objects name more files than there are atoms. Git is stopped, and resume says so."""
    blob = git(desk.project, "hash-object", "-w", "tracked.txt")
    listing = "".join(f"100644 blob {blob}\tf{number}\n" for number in range(10))
    for _ in range(12):
        made = subprocess.run(
            ["git", "mktree"], cwd=desk.project, input=listing, check=True, capture_output=True, text=True
        )
        listing = "".join(f"040000 tree {made.stdout.strip()}\tf{number}\n" for number in range(10))
    commit = git(desk.project, "commit-tree", "-m", "bomb", made.stdout.strip())
    git(desk.project, "update-ref", "refs/heads/main", commit)
    from holdfast.core.errors import HoldfastError

    monkeypatch.setattr(GitReader, "_compare_patience", 1.0)
    with pytest.raises(HoldfastError):
        GitReader(str(desk.project)).changes()
    assert desk.call("file", "tracked.txt", "--action", "modified").code == 0


# ── every verb, every hook, every key ────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def room() -> Iterator[Room]:
    with Room() as room:
        yield room


# These look at a repository or change it; the sample is of them alone.
SAMPLE = {"file", "resume", "--branch", "--keep", "--discard"}
CHOSEN = [verb for verb in VERBS if scale(0, 1, 1) or SAMPLE & {verb.argv[0], verb.argv[-1]}]


@pytest.mark.parametrize("verb", [pytest.param(verb, id=verb.name) for verb in CHOSEN])
def test_every_verb_runs_no_program_that_a_repository_names(room: Room, traps: Traps, verb: Verb) -> None:
    """A verb that changes something does it as anywhere else, and what comes next does too."""
    room.prepare(verb.before)
    project = Path(room.project)
    if not (project / ".git").exists():
        git(project, "init", "-q", "-b", "main")
        (project / "tracked.txt").write_text("one\n")
        git(project, "add", "tracked.txt")
        git(project, "commit", "-q", "-m", "first")
    traps.plant(project)
    answer = room.run(verb.argv)
    if verb.argv in (("stop", "--keep"), ("stop", "--discard")):
        assert answer.code == 1, answer
        assert "Holdfast runs no program of a repository" in answer.err or "uncommitted changes" in answer.err
    else:
        assert answer.code == 0, answer
    assert traps.names() == []
    assert room.run(("start", "what comes next", "--replace")).code == 0
    assert room.run(("note", "it goes on")).code == 0
    assert traps.names() == []


# Servers and screens that do not end by themselves, and the tour, which has a repository of its own.
ENDLESS = {("ui",), ("watch",), ("mcp",), ("tour",), ("hook",), ("statusline",)}
WORDS = {"format": "timer", "agent": "claude", "agents": "claude", "shell": "bash", "url": "folder:/nowhere"}


def _leaves(commands: tuple[Command, ...], before: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Command]]:
    for command in commands:
        path = (*before, command.name)
        if command.verbs:
            yield from _leaves(command.verbs, path)
        if command.handler and path not in ENDLESS:
            yield path, command


def _words(command: Command) -> list[str]:
    """Something for each argument that has to be there."""
    words: list[str] = []
    for param in command.params:
        if not param.required:
            continue
        word = param.choices[0] if param.choices else WORDS.get(param.name, "tracked.txt")
        words += [word] if isinstance(param, Argument) else [param.label, word]
    return words


def test_every_other_command_runs_no_program_that_a_repository_names(desk: Desk, traps: Traps) -> None:
    """Whatever is not in the list of verbs is called with some words for its arguments."""
    traps.plant(desk.project)
    (desk.project / "tracked.txt").write_text("changed\n")
    known = {verb.argv[: len(path)] for verb in VERBS for path, _ in _leaves(COMMANDS)}
    rest = [(path, command) for path, command in _leaves(COMMANDS) if path not in known]
    assert len(rest) > 20
    for path, command in rest:
        # `doctor` has a check by the name of what no answer may say.
        answer = (desk.run if path == ("doctor",) else desk.call)(*path, *_words(command))
        assert answer.code in CODES, (path, answer)
        assert traps.names() == [], path
    assert desk.call("note", "it goes on").code == 0


def test_every_hook_runs_no_program_that_a_repository_names(tmp_path: Path, traps: Traps) -> None:
    """Agents' hooks, by the installed script and by the program, of prompts, commands and edits."""
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
        for payload in (json.dumps(start).encode(), asked(cwd=hooked.project), json.dumps(edit).encode()):
            assert hooked.say(payload, way)[0] == 0
    assert hooked.say(ran(1, cwd=hooked.project))[0] == 0
    assert hooked.commands() == {"": ["1"]} or hooked.commands()
    assert traps.names() == []


def test_reader_and_git_run_no_program_in_any_of_their_methods(tmp_path: Path, traps: Traps) -> None:
    """Every public method that reads, called by itself."""
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


def test_history_runs_no_program_in_any_of_its_methods(tmp_path: Path, traps: Traps) -> None:
    """Logs, files and trailers of commits, lines and their commits: what recording and `why` ask."""
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
        "log": (head,), "precisely": (commit,),
    }  # fmt: skip
    own = {name for name in vars(GitHistory) if not name.startswith("_")}
    assert own == set(arguments)
    for name in sorted(own):
        getattr(GitHistory(str(project)), name)(*arguments[name])
        assert traps.names() == [], name


# ── the table is complete ────────────────────────────────────────────────────────────────────────────────

_SPEAKS_OF_PROGRAMS = re.compile(
    r"\b(?:command|program|script|executable|helper|tool|editor|pager|hook|browser|proxy|driver)s?\s+"
    r"(?:to|that|which|used|is|will|for|named)\b|shell command|\bexecut(?:e|ed|es)\b|\binvok(?:e|ed|es)\b|"
    r"\b(?:to|be|is) run\b",
    re.IGNORECASE,
)
_NAMED_SO = re.compile(
    r"(?:command|cmd|program|helper|hook|hookspath|editor|pager|driver|textconv|clean|smudge|process|external|askpass|"
    r"proxy|browser|viewer|pack|vcs|tool|tunnel|fsmonitor|diffFilter)$",
    re.IGNORECASE,
)


def _documented() -> dict[str, str]:
    """Each key of the manual page of git-config, with what it says."""
    page = subprocess.run(
        ["man", "git-config"], check=False, capture_output=True, env={**os.environ, "MANWIDTH": "200"}
    )
    text = re.sub(r".\x08", "", page.stdout.decode("utf-8", "replace"))
    found: dict[str, str] = {}
    keys: list[str] = []
    said = False
    for line in text.splitlines():
        heading = re.fullmatch(r" {7}([a-zA-Z][\w<>*-]*(?:\.[\w<>*-]+)+)(?: \(deprecated\))?(?:, .*)?", line)
        if heading:
            keys, said = ([] if said else keys), False
            keys.append(heading[1])
        elif line.strip():
            said = True
            for key in keys:
                found[key] = f"{found.get(key, '')} {line.strip()}"
    return found


def test_table_of_keys_holds_all_that_the_installed_gits_documentation_names() -> None:
    """Each key of the installed git whose name or text speaks of programs is in the table, or known to name none."""
    listed = subprocess.run(["git", "help", "--config"], check=False, capture_output=True, text=True).stdout.split(
        "\n"
    )
    keys = {key.strip() for key in listed if "." in key and " " not in key.strip()}
    assert len(keys) > 500
    by_name = {key for key in keys if _NAMED_SO.search(key)}
    by_text = {key for key, text in _documented().items() if _SPEAKS_OF_PROGRAMS.search(text)}
    assert len(by_name) > 40
    unexplained = sorted(key for key in by_name | by_text if not explained(key))
    assert unexplained == [], "add them to PROGRAMS, or to NO_PROGRAM with the reason"


def test_every_key_of_the_table_is_known_to_our_configuration_as_unwanted(tmp_path: Path) -> None:
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
    # Addresses are only shown: nothing is fetched, and what is shown holds no command.
    assert named <= {("remote", "url"), ("url", "insteadof")}
    assert GitReader(str(project)).remote() is None
