"""The contract: agents, tasks, decisions, files, context, hills."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.support.command_line import Calling, at

BAD_IDS = ["", ".", "..", "-x", ".x", "a/b", "a b", "ä", "a\nb", "x" * 101, "a:b", "a%b", "../x", "a\\b"]


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Calling:
    calling = Calling(tmp_path, monkeypatch, capsys)
    calling.session("start", "G", "--at", at(0))
    return calling


# ── agents ───────────────────────────────────────────────────────────────────────────────────────────────


def test_life_of_an_agent(cli: Calling) -> None:
    """Started, measured, done: each verb answers with the agent as it then is."""
    agent = cli.document("agent", "start", "arch-1", "--type", "architect", "--task", "Design", "--at", at(1))[
        "agent"
    ]
    assert agent == {
        "id": "arch-1", "type": "architect", "task": "Design", "status": "running", "progress": None,
        "started_at": at(1), "completed_at": None, "duration_ms": 0, "result": None, "summary": None,
        "blocking_on": None, "tokens": None, "retries": 0, "pid": None, "background": False, "error": None,
        "files": {"created": [], "modified": [], "deleted": []},
    }  # fmt: skip
    agent = cli.document("agent", "progress", "arch-1", "0.6", "--at", at(2))["agent"]
    assert (agent["progress"], agent["duration_ms"]) == (0.6, 60_000)
    agent = cli.document("agent", "done", "arch-1", "--summary", "Two pages", "--tokens", "1200", "--at", at(3))[
        "agent"
    ]
    entries = [
        agent[name] for name in ("status", "result", "summary", "tokens", "progress", "completed_at", "duration_ms")
    ]
    assert entries == ["completed", "success", "Two pages", 1200, 1.0, at(3), 120_000]


def test_failing_and_retrying(cli: Calling) -> None:
    """A failure has category and message, a retry counts, success clears the error."""
    cli.session("agent", "start", "a", "--type", "t")
    failed = cli.document("agent", "fail", "a", "--category", "transient", "--message", "no network")["agent"]
    assert (failed["status"], failed["result"]) == ("error", "failure")
    assert failed["error"] == {
        "category": "transient", "message": "no network", "retry_count": 0, "last_retry_at": None,
    }  # fmt: skip
    retried = cli.document("agent", "retry", "a")["agent"]
    assert (retried["status"], retried["retries"]) == ("running", 1)
    assert retried["error"]["retry_count"] == 1
    assert retried["error"]["last_retry_at"] is not None
    done = cli.document("agent", "done", "a")
    assert done["agent"]["error"] is None
    assert done["session"]["errors"] == [
        {"at": done["session"]["errors"][0]["at"], "message": "no network", "category": "transient", "agent": "a"}
    ]


def test_pausing_resuming_and_aborting(cli: Calling) -> None:
    """An agent pauses and goes on; aborted it is over."""
    cli.session("agent", "start", "a", "--type", "t")
    assert cli.document("agent", "pause", "a")["agent"]["status"] == "paused"
    assert cli.document("agent", "resume", "a")["agent"]["status"] == "running"
    aborted = cli.document("agent", "abort", "a")["agent"]
    assert (aborted["status"], aborted["result"]) == ("aborted", "aborted")
    for verb in (["retry"], ["resume"], ["pause"], ["done"], ["abort"]):
        cli.refused(1, "agent", *verb, "a")


ALLOWED = {
    "running": {"progress", "pause", "done", "fail", "abort"},
    "paused": {"resume", "done", "fail", "abort"},
    "error": {"retry", "abort"},
    "completed": set(),
}
VERBS = {
    "progress": ["0.5"], "pause": [], "resume": [], "retry": [], "abort": [], "done": [],
    "fail": ["--category", "logical", "--message", "m"],
}  # fmt: skip


@pytest.mark.parametrize("status", list(ALLOWED))
def test_what_an_agent_may_do_next(cli: Calling, status: str) -> None:
    """Every verb against every status: allowed, or exit 1 with nothing changed."""
    way = {"running": [], "paused": ["pause"], "error": ["fail"], "completed": ["done"]}[status]
    for verb, words in VERBS.items():
        name = f"{status}-{verb}"
        cli.session("agent", "start", name, "--type", "t")
        for step in way:
            cli.session("agent", step, name, *VERBS[step])
        if verb in ALLOWED[status]:
            cli.session("agent", verb, name, *words)
        else:
            cli.refused(1, "agent", verb, name, *words)
            agents = {agent["id"]: agent["status"] for agent in cli.document("agent", "list")["agents"]}
            assert agents[name] == status


def test_agents_id_is_taken_once(cli: Calling) -> None:
    """A second start under one id is a conflict, also after the first has ended."""
    cli.session("agent", "start", "a", "--type", "t")
    cli.refused(5, "agent", "start", "a", "--type", "t")
    cli.session("agent", "done", "a")
    cli.refused(5, "agent", "start", "a", "--type", "t")


@pytest.mark.parametrize("bad", BAD_IDS)
def test_ids_outside_the_alphabet_are_invalid(cli: Calling, bad: str) -> None:
    """Exit 4 wherever an agent's or task's id is taken."""
    for words in (
        ["agent", "start", "--type=t", "--", bad],
        ["agent", "done", "--", bad],
        ["task", "add", "x", f"--id={bad}"],
        ["task", "done", "--", bad],
        ["task", "add", "x", f"--agent={bad}"],
        ["file", "f", "--action=created", f"--agent={bad}"],
        ["context", "--tokens=1", f"--agent={bad}"],
        ["agent", "start", "ok", "--type=t", f"--blocking-on={bad}"],
    ):
        with_json = cli("--json", *words)
        assert with_json.code == 4, (words, with_json)
        assert cli(*words).code == 4


@pytest.mark.parametrize("good", ["a", "A.b_c-9", "_x", "0", "x" * 100, "a..b", "CON"])
def test_ids_inside_the_alphabet_are_taken(cli: Calling, good: str) -> None:
    """1 to 100 letters, digits, dots, underscores and dashes."""
    assert cli.document("agent", "start", good, "--type", "t")["agent"]["id"] == good
    assert cli.document("task", "add", "x", "--id", good)["task"]["id"] == good


def test_unknown_agents_are_not_found(cli: Calling) -> None:
    """Exit 3 for every verb; a file change may name anybody."""
    for verb, words in VERBS.items():
        assert cli.refused(3, "agent", verb, "nobody", *words)["hint"]
    cli.refused(3, "agent", "start", "b", "--type", "t", "--blocking-on", "nobody")
    assert cli.document("file", "f.txt", "--action", "deleted", "--agent", "gone")["file"]["agent"] == "gone"


def test_wrong_calls_of_agent_verbs(cli: Calling) -> None:
    """Usage is exit 2, values that cannot be are exit 4."""
    cli.session("agent", "start", "a", "--type", "t")
    for words in (["agent"], ["agent", "bogus"], ["agent", "start", "b"], ["agent", "fail", "a", "--message", "m"],
                  ["agent", "progress", "a"], ["agent", "fail", "a", "--category", "logical"]):  # fmt: skip
        cli.refused(2, *words)
    for words in (["progress", "a", "1.1"], ["progress", "a", "-1"], ["progress", "a", "x"],
                  ["done", "a", "--tokens", "-1"],
                  ["fail", "a", "--category", "bad", "--message", "m"], ["start", "c", "--type", "t", "--pid", "0"],
                  ["fail", "a", "--category", "logical", "--message", ""], ["start", "c", "--type", ""]):  # fmt: skip
        cli.refused(4, "agent", *words)


def test_blocking_background_and_pid_are_recorded(cli: Calling) -> None:
    """The options of `agent start` are fields of the agent."""
    cli.session("agent", "start", "a", "--type", "t")
    agent = cli.document(
        "agent", "start", "b", "--type", "t", "--blocking-on", "a", "--background", "--pid", "4194000"
    )["agent"]
    assert (agent["blocking_on"], agent["background"], agent["pid"]) == ("a", True, 4194000)


def test_too_many_agents_are_recorded_with_a_warning(cli: Calling) -> None:
    """What is true is recorded; the mode's limit is only said, and not to programs."""
    for name in ("a", "b"):
        assert cli("agent", "start", name, "--type", "t").err == ""
    warned = cli("agent", "start", "c", "--type", "t")
    assert warned.code == 0
    assert "3 agents" in warned.err
    assert cli("agent", "start", "d", "--type", "t", "--json").err == ""
    assert cli("agent", "start", "e", "--type", "t", "--quiet").err == ""


# ── tasks ────────────────────────────────────────────────────────────────────────────────────────────────


def test_life_of_a_task(cli: Calling) -> None:
    """Added, started, done, with outcome and artifacts."""
    cli.session("agent", "start", "a", "--type", "t", "--at", at(0))
    added = cli.document("task", "add", "Write it", "--phase", "one", "--agent", "a", "--at", at(1))
    assert added["task"] == {
        "id": "t1", "text": "Write it", "phase": "one", "agent": "a", "status": "pending", "outcome": None,
        "artifacts": [], "created_at": at(1), "started_at": None, "completed_at": None,
    }  # fmt: skip
    assert cli.document("task", "start", "t1", "--at", at(2))["task"]["status"] == "in_progress"
    done = cli.document(
        "task", "done", "t1", "--outcome", "written", "--artifact", "a.md", "--artifact", "b/c.md", "--at", at(3)
    )
    entries = [done["task"][name] for name in ("status", "outcome", "artifacts", "started_at", "completed_at")]
    assert entries == ["completed", "written", ["a.md", "b/c.md"], at(2), at(3)]
    assert done["session"]["progress"] == 1


MOVES = {
    "pending": {"start", "done", "block", "drop"},
    "in_progress": {"done", "block", "drop"},
    "blocked": {"start", "drop", "reopen"},
    "completed": {"reopen"},
    "dropped": {"reopen"},
}


@pytest.mark.parametrize("status", list(MOVES))
def test_what_may_become_of_a_task(cli: Calling, status: str) -> None:
    """Nothing leaves completed or dropped except by `reopen`; what is not allowed is exit 1."""
    way = {"pending": [], "in_progress": ["start"], "blocked": ["block"], "completed": ["done"], "dropped": ["drop"]}
    for verb in ("start", "done", "block", "reopen", "drop"):
        name = f"{status}-{verb}"
        cli.session("task", "add", "x", "--id", name)
        for step in way[status]:
            cli.session("task", step, name)
        if verb in MOVES[status]:
            cli.session("task", verb, name)
        else:
            cli.refused(1, "task", verb, name)


def test_tasks_have_ids_of_their_own(cli: Calling) -> None:
    """Ids are given in order, skip what is taken, and are taken once."""
    cli.session("task", "add", "x", "--id", "t2")
    assert cli.document("task", "add", "y")["task"]["id"] == "t3"
    cli.refused(5, "task", "add", "z", "--id", "t2")
    cli.refused(3, "task", "done", "t9")
    cli.refused(4, "task", "add", "")
    cli.refused(2, "task", "add")
    assert [task["id"] for task in cli.document("task", "list")["tasks"]] == ["t2", "t3"]


def test_progress_follows_tasks_then_agents(cli: Calling) -> None:
    """Explicit progress first, then tasks done of all that are not dropped, then the mean of the agents."""
    cli.session("agent", "start", "a", "--type", "t")
    cli.session("agent", "start", "b", "--type", "t")
    assert cli.session("agent", "progress", "a", "0.5")["progress"] == 0.25
    for _ in range(4):
        cli.session("task", "add", "x")
    cli.session("task", "drop", "t4")
    assert cli.session("task", "done", "t1")["progress"] == pytest.approx(1 / 3, abs=1e-4)
    assert cli.session("edit", "--progress", "0.9")["progress"] == 0.9


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", "~/x", "C:\\x"])
def test_artifacts_stay_inside_the_project(cli: Calling, path: str) -> None:
    """A path that leads out is invalid."""
    cli.session("task", "add", "x")
    cli.refused(4, "task", "done", "t1", "--artifact", path)


# ── decisions, files, context, hills ─────────────────────────────────────────────────────────────────────


def test_decisions(cli: Calling) -> None:
    """What was chosen, between what, and why."""
    made = cli.document(
        "decide", "Hybrid", "--context", "Token kind", "--option", "JWT", "--option", "Cookie", "--why", "Scales",
        "--at", at(1),
    )  # fmt: skip
    assert made["session"]["decisions"] == [
        {"at": at(1), "chosen": "Hybrid", "context": "Token kind", "options": ["JWT", "Cookie"], "why": "Scales"}
    ]
    plain = cli.document("decide", "Later", "--at", at(2))["decision"]
    assert plain == {"at": at(2), "chosen": "Later", "context": None, "options": [], "why": None}
    cli.refused(4, "decide", "")
    cli.refused(2, "decide")


def test_files_with_their_hashes(cli: Calling) -> None:
    """Each change has the hash after it, and the one recorded before."""
    file = cli.project / "a.txt"
    file.write_text("one")
    one = hashlib.sha256(b"one").hexdigest()
    created = cli.document("file", "a.txt", "--action", "created")["file"]
    assert (created["hash_before"], created["hash_after"]) == (None, one)
    file.write_text("two")
    two = hashlib.sha256(b"two").hexdigest()
    modified = cli.document("file", "a.txt", "--action", "modified")["file"]
    assert (modified["hash_before"], modified["hash_after"]) == (one, two)
    file.unlink()
    deleted = cli.document("file", "a.txt", "--action", "deleted")["file"]
    assert (deleted["hash_before"], deleted["hash_after"]) == (two, None)


def test_files_belong_to_their_agents(cli: Calling) -> None:
    """An agent lists what it created, modified and deleted, each path once."""
    cli.session("agent", "start", "a", "--type", "t")
    for name, action in (("n", "created"), ("m", "modified"), ("m", "modified"), ("d", "deleted")):
        (cli.project / name).write_text(name)
        cli.session("file", name, "--action", action, "--agent", "a")
    agent = cli.document("agent", "list")["agents"][0]
    assert agent["files"] == {"created": ["n"], "modified": ["m"], "deleted": ["d"]}


def test_paths_are_meant_from_where_one_stands(cli: Calling) -> None:
    """In a subdirectory of a repository, names are relative to it; recorded they are relative to the root."""
    cli.session("stop")
    cli.repository()
    cli.session("start", "G")
    below = cli.project / "src" / "deep"
    below.mkdir(parents=True)
    (below / "a.py").write_text("a")
    (cli.project / "top.py").write_text("t")
    cli.patch.chdir(below)
    document = {
        words[0]: cli.document("file", *words)["file"]["path"]
        for words in (
            ["a.py", "--action", "created"],
            ["../../top.py", "--action", "modified"],
            [str(below / "a.py"), "--action", "modified"],
            ["top.py", "--action", "modified"],
            ["gone.py", "--action", "deleted"],
        )
    }
    assert document == {
        "a.py": "src/deep/a.py", "../../top.py": "top.py", str(below / "a.py"): "src/deep/a.py",
        "top.py": "top.py", "gone.py": "src/deep/gone.py",
    }  # fmt: skip


def test_lines_are_counted_where_git_can(cli: Calling) -> None:
    """Against the last commit."""
    cli.session("stop")
    cli.repository()
    cli.session("start", "G")
    (cli.project / "README.md").write_text("hello\nnew\nlines\n")
    change = cli.document("file", "README.md", "--action", "modified")["file"]
    assert (change["lines_added"], change["lines_removed"]) == (2, 0)


@pytest.mark.parametrize("path", ["/etc/passwd", "..", "../x", "", ".", "a\x1bb", "x" * 5000])
def test_paths_outside_the_project_are_invalid(cli: Calling, path: str) -> None:
    """Exit 4, and nothing is recorded."""
    cli.refused(4, "file", path, "--action", "modified")
    assert cli.session("status")["files"] == []


def test_directory_that_is_a_link_leads_nowhere_else(cli: Calling, tmp_path: Path) -> None:
    """A link out of the project is not a way out of it."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("s")
    (cli.project / "link").symlink_to(tmp_path / "outside")
    cli.refused(4, "file", "link/secret", "--action", "modified")


def test_wrong_calls_of_file(cli: Calling) -> None:
    """The action is required and closed."""
    cli.refused(2, "file", "x")
    cli.refused(4, "file", "x", "--action", "renamed")


@pytest.mark.parametrize(
    ("tokens", "level"),
    [(0, "normal"), (63_999, "normal"), (64_000, "shown"), (89_599, "shown"), (89_600, "warning"),
     (108_799, "warning"), (108_800, "compress"), (128_000, "compress"), (200_000, "compress")],
)  # fmt: skip
def test_levels_of_the_context(cli: Calling, tokens: int, level: str) -> None:
    """Of the usual window of 128,000 tokens: shown from 50, a warning from 70, compress from 85 percent."""
    context = cli.session("context", "--tokens", str(tokens))["context"]
    assert (context["tokens"], context["window"], context["level"]) == (tokens, 128_000, level)
    assert context["percent"] == round(tokens / 1280, 1)


def test_context_by_agent_window_and_compression(cli: Calling) -> None:
    """A window, agents' own shares, and how often it was compressed."""
    measured = ["context", "--tokens", "500", "--window", "1000", "--agent", "a", "--at", at(1)]
    context = cli.session(*measured)["context"]
    assert (context["window"], context["by_agent"], context["tokens"]) == (1000, {"a": 500}, 500)
    context = cli.session("compress", "--to", "100", "--at", at(2))["context"]
    assert (context["compressions"], context["tokens"]) == (1, 100)
    assert context["last_compression"] == at(2)
    assert cli.session("compress")["context"]["compressions"] == 2
    for words in (["context", "--tokens", "-1"], ["context", "--tokens", "1", "--window", "0"],
                  ["context", "--tokens", "x"], ["compress", "--to", "-1"],
                  ["context", "--tokens", "9" * 16]):  # fmt: skip
        cli.refused(4, *words)
    cli.refused(2, "context")


@pytest.mark.parametrize(
    ("position", "code"), [("0", 0), ("5", 0), ("10", 0), ("11", 4), ("-1", 4), ("x", 4), ("1.5", 4)]
)
def test_places_on_the_hill(cli: Calling, position: str, code: int) -> None:
    """0 to 10, and nothing else."""
    assert cli("hill", "auth", position, "--json").code == code


def test_hill_needs_both_words(cli: Calling) -> None:
    """A scope without a place is a wrong command line."""
    cli.refused(2, "hill", "auth")
    cli.refused(4, "hill", "", "3")
