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


def test_agent_verbs_answer_with_the_agent(cli: Calling) -> None:
    """Started, measured, done."""
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


def test_failed_agent_is_retried_and_completed(cli: Calling) -> None:
    """With category and message; a retry counts, and success clears the error."""
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


def test_agent_is_paused_resumed_and_aborted(cli: Calling) -> None:
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
def test_agent_status_decides_the_allowed_verbs(cli: Calling, status: str) -> None:
    """A forbidden verb is exit 1 and changes nothing."""
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


def test_agent_id_is_used_once(cli: Calling) -> None:
    """Also after the agent has ended."""
    cli.session("agent", "start", "a", "--type", "t")
    cli.refused(5, "agent", "start", "a", "--type", "t")
    cli.session("agent", "done", "a")
    cli.refused(5, "agent", "start", "a", "--type", "t")


@pytest.mark.parametrize("bad", BAD_IDS)
def test_ids_outside_the_alphabet_are_invalid(cli: Calling, bad: str) -> None:
    """Wherever an agent's or task's id is accepted."""
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
def test_ids_within_the_alphabet_are_accepted(cli: Calling, good: str) -> None:
    """1 to 100 letters, digits, dots, underscores and dashes."""
    assert cli.document("agent", "start", good, "--type", "t")["agent"]["id"] == good
    assert cli.document("task", "add", "x", "--id", good)["task"]["id"] == good


def test_unknown_agents_are_not_found(cli: Calling) -> None:
    """For every verb, except that a file change may name anybody."""
    for verb, words in VERBS.items():
        assert cli.refused(3, "agent", verb, "nobody", *words)["hint"]
    cli.refused(3, "agent", "start", "b", "--type", "t", "--blocking-on", "nobody")
    assert cli.document("file", "f.txt", "--action", "deleted", "--agent", "gone")["file"]["agent"] == "gone"


def test_invalid_agent_calls_are_usage_or_input_errors(cli: Calling) -> None:
    """Exit 2 or 4."""
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
    cli.session("agent", "start", "a", "--type", "t")
    agent = cli.document(
        "agent", "start", "b", "--type", "t", "--blocking-on", "a", "--background", "--pid", "4194000"
    )["agent"]
    assert (agent["blocking_on"], agent["background"], agent["pid"]) == ("a", True, 4194000)


def test_too_many_agents_are_recorded_with_a_warning(cli: Calling) -> None:
    """The warning is printed for people only."""
    for name in ("a", "b"):
        assert cli("agent", "start", name, "--type", "t").err == ""
    warned = cli("agent", "start", "c", "--type", "t")
    assert warned.code == 0
    assert "3 agents" in warned.err
    assert cli("agent", "start", "d", "--type", "t", "--json").err == ""
    assert cli("agent", "start", "e", "--type", "t", "--quiet").err == ""


# ── tasks ────────────────────────────────────────────────────────────────────────────────────────────────


def test_task_is_added_started_and_completed(cli: Calling) -> None:
    """With outcome and artifacts."""
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
def test_task_status_decides_the_allowed_verbs(cli: Calling, status: str) -> None:
    """Only `reopen` leaves completed or dropped; a forbidden verb is exit 1."""
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


def test_task_ids_are_given_in_order(cli: Calling) -> None:
    """Skipping taken ones; each is used once."""
    cli.session("task", "add", "x", "--id", "t2")
    assert cli.document("task", "add", "y")["task"]["id"] == "t3"
    cli.refused(5, "task", "add", "z", "--id", "t2")
    cli.refused(3, "task", "done", "t9")
    cli.refused(4, "task", "add", "")
    cli.refused(2, "task", "add")
    assert [task["id"] for task in cli.document("task", "list")["tasks"]] == ["t2", "t3"]


def test_progress_prefers_explicit_over_tasks_over_agents(cli: Calling) -> None:
    """Dropped tasks do not count."""
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
    cli.session("task", "add", "x")
    cli.refused(4, "task", "done", "t1", "--artifact", path)


# ── decisions, files, context, hills ─────────────────────────────────────────────────────────────────────


def test_decision_records_choice_options_and_reason(cli: Calling) -> None:
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


def test_file_change_has_the_hashes_before_and_after(cli: Calling) -> None:
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


def test_agent_lists_its_files_once_per_action(cli: Calling) -> None:
    cli.session("agent", "start", "a", "--type", "t")
    for name, action in (("n", "created"), ("m", "modified"), ("m", "modified"), ("d", "deleted")):
        (cli.project / name).write_text(name)
        cli.session("file", name, "--action", action, "--agent", "a")
    agent = cli.document("agent", "list")["agents"][0]
    assert agent["files"] == {"created": ["n"], "modified": ["m"], "deleted": ["d"]}


def test_paths_are_relative_to_the_current_directory(cli: Calling) -> None:
    """They are recorded relative to the root."""
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


def test_changed_lines_are_counted_against_the_last_commit(cli: Calling) -> None:
    cli.session("stop")
    cli.repository()
    cli.session("start", "G")
    (cli.project / "README.md").write_text("hello\nnew\nlines\n")
    change = cli.document("file", "README.md", "--action", "modified")["file"]
    assert (change["lines_added"], change["lines_removed"]) == (2, 0)


@pytest.mark.parametrize("path", ["/etc/passwd", "..", "../x", "", ".", "a\x1bb", "x" * 5000])
def test_paths_outside_the_project_are_invalid(cli: Calling, path: str) -> None:
    """Nothing is recorded."""
    cli.refused(4, "file", path, "--action", "modified")
    assert cli.session("status")["files"] == []


def test_path_through_a_link_out_of_the_project_is_invalid(cli: Calling, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("s")
    (cli.project / "link").symlink_to(tmp_path / "outside")
    cli.refused(4, "file", "link/secret", "--action", "modified")


def test_file_requires_a_known_action(cli: Calling) -> None:
    cli.refused(2, "file", "x")
    cli.refused(4, "file", "x", "--action", "renamed")


@pytest.mark.parametrize(
    ("tokens", "level"),
    [(0, "normal"), (63_999, "normal"), (64_000, "shown"), (89_599, "shown"), (89_600, "warning"),
     (108_799, "warning"), (108_800, "compress"), (128_000, "compress"), (200_000, "compress")],
)  # fmt: skip
def test_context_level_follows_from_the_tokens(cli: Calling, tokens: int, level: str) -> None:
    """Of 128,000: shown from 50, a warning from 70, compress from 85 percent."""
    context = cli.session("context", "--tokens", str(tokens))["context"]
    assert (context["tokens"], context["window"], context["level"]) == (tokens, 128_000, level)
    assert context["percent"] == round(tokens / 1280, 1)


def test_context_records_window_agents_and_compressions(cli: Calling) -> None:
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
def test_hill_position_is_0_to_10(cli: Calling, position: str, code: int) -> None:
    assert cli("hill", "auth", position, "--json").code == code


def test_hill_needs_scope_and_position(cli: Calling) -> None:
    cli.refused(2, "hill", "auth")
    cli.refused(4, "hill", "", "3")
