"""The library: what programs can do with a keeper and its sessions, alone and in a batch."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from holdfast import Keeper
from holdfast.core.errors import Busy, Conflict, NotFound, Refused
from holdfast.keeper.session import SessionHandle

# ── the keeper ───────────────────────────────────────────────────────────────────────────────────────────


DESIGN = """\
from holdfast import Keeper

with Keeper.open(project=".") as keeper:
    session = keeper.start("Add OAuth with PKCE", mode="optimize")
    with session.agent("arch-1", type="backend-architect", task="Design the flow") as agent:
        agent.progress(0.5)
        agent.changed("docs/auth.md")
    session.decide("Hybrid", context="Token kind", options=["JWT", "Cookie", "Hybrid"], why="Scales, and can be revoked")
    print(session.briefing())
"""  # noqa: E501 (word for word)


@pytest.fixture
def keeper(tmp_path: Path) -> Keeper:
    (tmp_path / "project").mkdir()
    return Keeper.open(str(tmp_path / "project"), home=str(tmp_path / "home"))


def test_example_of_the_design_runs_verbatim(tmp_path: Path) -> None:
    """As a script, with the platform's default home."""
    project = tmp_path / "project"
    project.mkdir()
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "XDG_DATA_HOME": str(tmp_path / "data")}
    done = subprocess.run(
        [sys.executable, "-c", DESIGN], cwd=project, env=env, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    for words in ("Add OAuth with PKCE", "arch-1", "Hybrid", "docs/auth.md"):
        assert words in done.stdout
    with Keeper.open(str(project), home=str(tmp_path / "data" / "holdfast")) as keeper:
        document = keeper.session().document()
    assert [(agent.id, agent.status, agent.progress) for agent in document.agents] == [("arch-1", "completed", 1.0)]
    assert document.decisions[0].options == ["JWT", "Cookie", "Hybrid"]
    assert document.files[0].agent == "arch-1"


def test_library_prints_nothing(keeper: Keeper, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Neither to sys.stdout nor to the descriptors, whatever fails."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), keeper:
        session = keeper.start("Use ghp_" + "c4n4ry0" * 5 + "x")
        with contextlib.suppress(Conflict):
            keeper.start("Again")
        with contextlib.suppress(RuntimeError), session.agent("a", type="t"):
            raise RuntimeError
        session.pause()
        session.resume()
        session.changed("f", "created")
        session.briefing()
        keeper.history()
        keeper.backup(str(tmp_path / "copy"))
        keeper.restore(str(tmp_path / "copy"))
        session.stop()
        keeper.delete(session.id, force=True)
    assert (out.getvalue(), err.getvalue(), *capfd.readouterr()) == ("", "", "", "")


def test_library_reads_no_variable_of_the_environment(tmp_path: Path) -> None:
    """All of ours are set to nonsense, and any access to them is detected."""
    code = textwrap.dedent("""
        import os, sys
        seen = []
        class Watched(type(os.environ)):
            def __getitem__(self, key):
                seen.append(key)
                return super().__getitem__(key)
        os.environ.clear()
        os.environ.__class__ = Watched
        from holdfast import Keeper
        seen.clear()
        with Keeper.open(sys.argv[1], home=sys.argv[2], actor="me", device="here") as keeper:
            session = keeper.start("G")
            with session.agent("a", type="t"):
                session.note("x")
            session.pause(); session.resume(); session.briefing(); keeper.history()
            session.stop()
        ours = [key for key in seen if key.startswith(("HOLDFAST", "NO_COLOR", "XDG", "HOME", "USER"))]
        assert not ours, ours
        for key in ("HOLDFAST_HOME", "HOLDFAST_STORE", "HOLDFAST_ACTOR"):
            os.environ[key] = "/nonsense/x"
        with Keeper.open(sys.argv[1], home=sys.argv[2]) as keeper:
            assert keeper.history()[0].goal == "G"
    """)
    project = tmp_path / "project"
    project.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", code, str(project), str(tmp_path / "home")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_agent_completes_when_its_block_ends(keeper: Keeper) -> None:
    """Unless the block ended it otherwise."""
    with keeper:
        session = keeper.start("G")
        with session.agent("a", type="t"):
            pass
        with session.agent("b", type="t") as agent:
            agent.fail("no", category="permanent")
        with session.agent("c", type="t") as agent:
            agent.abort()
        with session.agent("d", type="t") as agent:
            agent.done(summary="by hand", tokens=3)
        with session.agent("e", type="t"):
            session.stop()
        statuses = {agent.id: agent.status for agent in session.document().agents}
    assert statuses == {"a": "completed", "b": "error", "c": "aborted", "d": "completed", "e": "aborted"}


@pytest.mark.parametrize(
    ("error", "category"),
    [
        (TimeoutError("slow"), "transient"), (ConnectionResetError(), "transient"),
        (KeyboardInterrupt(), "transient"),
        (Busy("held"), "transient"), (MemoryError(), "resource"), (OSError(28, "full"), "resource"),
        (FileNotFoundError("x"), "configuration"), (PermissionError("x"), "configuration"),
        (ModuleNotFoundError("x"), "configuration"), (ValueError("wrong"), "logical"), (Refused("no"), "logical"),
        (NotImplementedError(), "permanent"), (ValueError("\ud800 \0 \x1b[31m"), "logical"),
        (ValueError("x" * 10_000), "logical"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)  # fmt: skip
def test_agent_fails_with_the_category_of_an_exception(keeper: Keeper, error: BaseException, category: str) -> None:
    """The exception reaches the caller unchanged, whatever its message contains."""
    with keeper:
        session = keeper.start("G")
        with pytest.raises(type(error)) as caught, session.agent("a", type="t"):
            raise error
        assert caught.value is error
        agent = session.document().agents[0]
    assert agent.status == "error"
    assert agent.error is not None
    assert agent.error.category == category
    assert agent.error.message.startswith(type(error).__name__)


def test_exception_of_a_block_survives_a_failure_to_record_it(keeper: Keeper) -> None:
    """It is raised with a note of ours."""
    with keeper:
        session = keeper.start("G")
        with pytest.raises(ValueError, match="mine") as caught, session.agent("a", type="t"):  # noqa: PT012
            keeper.delete(session.id, force=True)
            raise ValueError("mine")
    assert "agent a" in caught.value.__notes__[0]


def test_verbs_return_the_session_and_documents_follow_the_contract(keeper: Keeper) -> None:
    """Verbs can be chained, and reading changes nothing."""
    with keeper:
        session = keeper.start("G")
        assert session.note("x").pause("y").id == session.id
        before = len(keeper.events(session.id))
        assert session.document().status == "paused"
        session.briefing()
        session.check_resume()
        keeper.history()
        assert len(keeper.events(session.id)) == before


def test_keepers_see_each_others_events_at_once(tmp_path: Path) -> None:
    """Nothing is cached that the store has changed."""
    (tmp_path / "project").mkdir()
    with (
        Keeper.open(str(tmp_path / "project"), home=str(tmp_path / "home")) as one,
        Keeper.open(str(tmp_path / "project"), home=str(tmp_path / "home")) as two,
    ):
        session = one.start("G")
        for number in range(50):
            two.session(session.id).note(f"two {number}")
            session.note(f"one {number}")
        texts = [note.text for note in two.session().document().notes]
    assert texts == [f"{who} {number}" for number in range(50) for who in ("two", "one")]


# ── batches ──────────────────────────────────────────────────────────────────────────────────────────────


def test_batch_is_recorded_completely_or_not_at_all(tmp_path: Path) -> None:
    """A refusal undoes what came before it in the block, not what follows the block."""
    (tmp_path / "p").mkdir()
    with Keeper.open(str(tmp_path / "p"), home=str(tmp_path / "home")) as keeper:
        session = keeper.start("Together")
        with keeper.batch():
            session.note("one")
            with session.agent("a", type="coder", pid=None) as agent, keeper.batch():
                agent.progress(0.5)
            assert session.add_task("two") == "t1"
        before = keeper.events(session.id)
        with pytest.raises(NotFound):
            _note_and_end(session, "nobody")
        assert keeper.events(session.id) == before
        session.note("four")
        document = session.document()
    assert [note.text for note in document.notes] == ["one", "four"]
    assert [agent.status for agent in document.agents] == ["completed"]
    with Keeper.open(str(tmp_path / "p"), home=str(tmp_path / "home")) as again:
        assert [note.text for note in again.session().document().notes] == ["one", "four"]


def _note_and_end(session: SessionHandle, agent: str) -> None:
    with session.keeper.batch():
        session.note("three")
        session.find_agent(agent).done()


def _note_and_divide(session: SessionHandle) -> None:
    with session.keeper.batch():
        session.note("lost")
        raise ZeroDivisionError


def test_batch_is_undone_by_any_exception(tmp_path: Path) -> None:
    """The keeper can be used afterwards."""
    (tmp_path / "p").mkdir()
    with Keeper.open(str(tmp_path / "p"), home=str(tmp_path / "home")) as keeper:
        session = keeper.start("Together")
        with pytest.raises(ZeroDivisionError):
            _note_and_divide(session)
        session.note("kept")
        assert [note.text for note in session.document().notes] == ["kept"]
