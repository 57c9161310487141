"""`watch`, the dashboard, the MCP server and mirrored files on a server: they show what other machines record."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest
from mcp_types import TextResourceContents

from holdfast.cli.main import main
from holdfast.cli.paint import Paint
from holdfast.cli.watch import loop
from holdfast.keeper import Keeper, change_feed, pool
from holdfast.keeper.change_feed import ChangeFeed
from holdfast.machine.terminal import WaitResult
from holdfast.mcp.context import McpContext, ServerOptions
from holdfast.mcp.server import HoldfastServer
from holdfast.store.postgres import transaction
from holdfast.web import live as web_live
from holdfast.web.pages import PageRequest
from holdfast.web.pages.session import SESSION
from mcp import Client
from tests.postgres.failing_proxy import FailingProxy
from tests.postgres.machines import TIMEOUT, Machine
from tests.postgres.team import Team
from tests.support.postgres.server import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def team(postgres: Server, database: str) -> Team:
    return Team(postgres, database)


@pytest.fixture
def here(team: Team, line: FailingProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """The machine that shows sessions, on a connection that can be cut. Polling is disabled."""
    monkeypatch.setattr(change_feed, "LOOK_INTERVAL", 600.0)
    machine = Machine(tmp_path, team.url(line), "here")
    with machine.keeper() as keeper:
        keeper.home.prepare()
    return machine


@pytest.fixture
def there(team: Team, tmp_path: Path) -> Machine:
    return Machine(tmp_path, team.url(), "there")


# ── watch ────────────────────────────────────────────────────────────────────────────────────────────────


class Window:
    """A terminal whose user waits for words to appear, then acts, and quits in the end."""

    def __init__(self, *acts: tuple[str, Callable[[], object]]) -> None:
        self._acts = list(acts)
        self._woken = threading.Event()
        self._written = ""
        self._until = time.monotonic() + TIMEOUT

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def size(self) -> os.terminal_size:
        return os.terminal_size((80, 24))

    def write(self, text: str) -> None:
        self._written += text

    def wake(self) -> None:
        self._woken.set()

    def wait(self, seconds: float | None) -> WaitResult:
        words, act = self._acts[0]
        if words in self._written:
            self._acts.pop(0)
            act()
            if not self._acts:
                return WaitResult(typed=b"q")
        assert time.monotonic() < self._until, (words, self._written)
        self._woken.wait(TIMEOUT if seconds is None else seconds)
        self._woken.clear()
        return WaitResult()


def test_watch_shows_what_another_machine_records(
    here: Machine, there: Machine, line: FailingProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new session, and an edit after the connection was cut."""
    monkeypatch.setattr(loop, "_FULL_REFRESH_INTERVAL", 600.0)
    with there.keeper() as keeper, here.keeper() as own:
        own.start("Mine")

        def cut_and_edit() -> None:
            line.cut()
            keeper.session().edit(goal="Elsewhere")

        window = Window(
            ("Mine", lambda: keeper.start("Theirs")), ("Theirs", cut_and_edit), ("Elsewhere", lambda: None)
        )
        monkeypatch.setattr(loop, "own_terminal", lambda: window)
        loop.watch(here.open, Paint(80), only=None, prepare=lambda _: None)


# ── the dashboard ────────────────────────────────────────────────────────────────────────────────────────


def test_dashboard_shows_what_another_machine_records(
    here: Machine, there: Machine, line: FailingProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after an outage; the page's version changes each time."""
    monkeypatch.setattr(web_live, "_REDRAW_SECONDS", 600.0)
    monkeypatch.setattr(web_live, "_RETRY_SECONDS", 0.05)
    with there.keeper() as keeper:
        session = keeper.start("Build the shop")
        request = PageRequest({"id": session.id})
        place = web_live.LivePage(f"/session/{session.id}", SESSION, request)

        async def read_stream() -> list[str]:
            machine = pool.KeeperPool(here.open)
            live = web_live.Live(machine)
            await live.start()
            stream = live.stream([(place, "")])
            versions = [(await _next_news(stream, "Build the shop"))["version"]]
            await asyncio.to_thread(session.note, "Painted blue")
            versions.append((await _next_news(stream, "Painted blue"))["version"])
            line.refuse()
            await asyncio.to_thread(session.note, "Painted red")
            line.accept()
            versions.append((await _next_news(stream, "Painted red"))["version"])
            await stream.aclose()  # type: ignore[attr-defined]
            await live.stop()
            machine.close()
            return versions

        versions = asyncio.run(read_stream())
    assert len(set(versions)) == len(versions)


async def _next_news(stream: Any, words: str) -> dict[str, Any]:
    """The next news with these words."""

    async def read() -> dict[str, Any]:
        async for event in stream:
            if event.startswith(b"event: news"):
                news: dict[str, Any] = json.loads(event.split(b"data: ")[1])
                if any(words in html for html in news["put"].values()):
                    return news
        raise AssertionError

    return await asyncio.wait_for(read(), TIMEOUT)


# ── the MCP server ───────────────────────────────────────────────────────────────────────────────────────


def test_mcp_server_shows_what_another_machine_records(here: Machine, there: Machine, line: FailingProxy) -> None:
    """In resources and tools of one connection, also after the connection to the store was cut. During an outage it
    reports an error, and works again afterwards.
    """
    context = McpContext(ServerOptions(directory=str(here.project), home=str(here.home), store=here.url, actor="ada"))
    with there.keeper() as keeper:
        session = keeper.start("Build the shop")
        with here.keeper() as own:
            own.session(session.id).resume(force=True)

        async def use_server() -> tuple[str, str]:
            async with Client(HoldfastServer(context), mode="2026-07-28") as client:
                uri = f"holdfast://session/{session.id}"
                before = (await client.read_resource(uri)).contents[0]
                await asyncio.to_thread(session.note, "Painted blue")
                line.cut()
                after = (await client.read_resource(uri)).contents[0]
                done = await client.call_tool("record", {"session": session.id, "notes": ["Heard"]})
                assert not done.is_error, done.content
                line.refuse()
                away = await client.call_tool("record", {"session": session.id, "notes": ["Lost"]})
                assert away.is_error
                assert "cannot be reached" in str(away.content)
                line.accept()
                back = await client.call_tool("record", {"session": session.id, "notes": ["Back"]})
                assert not back.is_error, back.content
            assert isinstance(before, TextResourceContents)
            assert isinstance(after, TextResourceContents)
            return before.text, after.text

        before, after = asyncio.run(use_server())
        context.close()
        assert "Painted blue" not in before
        assert "Painted blue" in after
        assert [note.text for note in session.document().notes] == ["Painted blue", "Heard", "Back"]


# ── run ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_run_finishes_its_command_when_the_server_disconnects(
    here: Machine,
    there: Machine,
    line: FailingProxy,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Output and exit code are passed on, with a message; without a server at the start, it does not run."""
    monkeypatch.setattr(transaction, "PATIENCE", 0.3)  # the start may be recorded during the disconnect
    monkeypatch.setenv("HOLDFAST_HOME", str(here.home))
    monkeypatch.setenv("HOLDFAST_STORE", here.url)
    monkeypatch.chdir(here.project)
    with here.keeper() as keeper:
        keeper.start("Build the shop")

    def disconnect() -> None:
        _wait_until((here.project / "begun").exists)
        line.refuse()
        (here.project / "go").touch()

    thread = threading.Thread(target=disconnect)
    thread.start()
    waits = "touch begun; while [ ! -e go ]; do sleep 0.02; done; echo done; exit 3"
    assert main(["run", "--", "sh", "-c", waits]) == 3
    thread.join()
    output = capfd.readouterr()
    assert output.out == "done\n"
    assert "the server cannot be reached: the result of run-1 is stored here" in output.err
    assert main(["run", "--", "sh", "-c", "echo ran"]) == 7
    assert capfd.readouterr().out == ""


# ── mirrored files ───────────────────────────────────────────────────────────────────────────────────────

MIRRORED = ".claude/orchestrator-session.json"


@pytest.fixture
def both(here: Machine, there: Machine) -> Iterator[tuple[Keeper, Keeper]]:
    """Two machines with the same current session, each with a mirror in its own work tree."""
    with here.open() as own, there.open() as other:
        for keeper in (own, other):
            keeper.collect_mode = "each"
            keeper.mirrors.switch_on("orchestrator")
        session = other.start("Build the shop").id
        own.session(session).resume(force=True)
        assert own.current() is not None
        yield own, other


def _shown(machine: Machine) -> Any:
    return json.loads((machine.project / MIRRORED).read_text())


def _edit(machine: Machine, **changes: object) -> None:
    """As a program that knows only the file."""
    (machine.project / MIRRORED).write_text(json.dumps(_shown(machine) | changes, indent=2))


def test_mirrored_files_show_what_another_machine_records(
    here: Machine, there: Machine, both: tuple[Keeper, Keeper]
) -> None:
    """After the next command there; and at once while a change feed is open."""
    own, other = both
    other.session().edit(goal="Sell the shop")
    assert _shown(here)["goal"] == "Build the shop"
    own.collect()
    assert _shown(here)["goal"] == _shown(there)["goal"] == "Sell the shop"
    with ChangeFeed(here.open, lambda _: None):
        other.session().edit(goal="Let the shop")
        _wait_until(lambda: bool(_shown(here)["goal"] == "Let the shop"))


def test_edits_of_mirrored_files_on_two_machines_are_recorded_once(
    here: Machine, there: Machine, both: tuple[Keeper, Keeper]
) -> None:
    """Different fields both take effect, on both; and neither machine's own writes count as an edit."""
    own, other = both
    _edit(here, goal="Sell the shop")
    _edit(there, mode="debug")
    for _ in range(2):
        own.collect()
        other.collect()
    for machine in (here, there):
        assert (_shown(machine)["goal"], _shown(machine)["mode"]) == ("Sell the shop", "debug")
    session = own.session()
    for words in (b"Sell the shop", b"debug"):
        assert [words in (event.data or b"") for event in own.events(session.id)].count(True) == 1
    count = len(own.events(session.id))
    for keeper in (own, other):
        keeper.collect()
        assert len(keeper.events(session.id)) == count
    assert session.document().conflicts == []


def test_each_machine_has_its_own_current_session(here: Machine, there: Machine, both: tuple[Keeper, Keeper]) -> None:
    """And its mirrored files show that one."""
    own, other = both
    first = other.session().id
    second = own.start("Paint the shop", replace=True).id
    other.collect()
    assert (own.session().id, other.session().id) == (second, first)
    assert (_shown(here)["goal"], _shown(there)["goal"]) == ("Paint the shop", "Build the shop")


def _wait_until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + TIMEOUT
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.02)
