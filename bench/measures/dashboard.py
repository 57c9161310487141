"""Measures the dashboard: a page against its query, an idle server, and whether many open pages miss an event.

The server is a separate process, and pages are requested over loopback.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import quote, urlsplit

from holdfast import Keeper
from holdfast.core.events import AgentCompleted, AgentStarted, SessionCompleted, SessionStarted
from holdfast.core.times import HOUR, MINUTE
from holdfast.sessions.start import new_id
from holdfast.store.interface import Draft, Filter
from measures.append import text
from measures.figures import Figure, median

SESSIONS = 10_000
UNFINISHED = 30
ROWS = 60  # what History shows first
RUNS = 60
PAGES = 50
CHANGES_A_SECOND = 20
SECONDS = int(os.environ.get("HOLDFAST_BENCH_SECONDS", "60"))
IDLE = 10


def measure(scratch: Path) -> list[Figure]:
    project, home = scratch / "ui-project", scratch / "ui-home"
    project.mkdir()
    _fill(project, home)
    with Keeper.open(str(project), home=str(home)) as keeper:
        server = Server(project, home)
        try:
            return [*_pages(server, keeper), *_idle(server), *_live(server, keeper)]
        finally:
            server.stop()


class Server:
    """A running `holdfast ui`, with its processor time and memory."""

    def __init__(self, project: Path, home: Path) -> None:
        holdfast = str(Path(sys.executable).parent / "holdfast")
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        self.process = subprocess.Popen(
            [holdfast, "ui", "--no-open", "--json"], cwd=project, env=environment | {"HOLDFAST_HOME": str(home)},
            stdout=subprocess.PIPE, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert self.process.stdout is not None
        start_output = json.loads(self.process.stdout.readline())
        self.host, self.token = urlsplit(start_output["api"]).netloc, start_output["token"]
        self.connection = http.client.HTTPConnection(self.host)

    def get(self, path: str) -> bytes:
        try:
            self.connection.request("GET", path, headers=self.headers())
            answer = self.connection.getresponse()
        except http.client.RemoteDisconnected:  # it was idle for too long
            self.connection.close()
            self.connection.request("GET", path, headers=self.headers())
            answer = self.connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise SystemExit(f"{path}: {answer.status} {body[:200]!r}")
        return body

    def headers(self) -> dict[str, str]:
        return {"Host": self.host, "Authorization": f"Bearer {self.token}"}

    def cpu(self) -> float:
        """Processor time so far, in seconds."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> float:
        """Peak memory in MiB."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return max(int(line.split()[1]) for line in lines if line.startswith(("VmRSS", "VmHWM"))) / 1024

    def stop(self) -> None:
        self.connection.close()
        self.process.terminate()
        self.process.wait(10)


def _fill(project: Path, home: Path) -> None:
    with Keeper.open(str(project), home=str(home)) as keeper:
        first_session = keeper.start("The first of many")
        project_facts = first_session.state().project
        assert project_facts is not None
        first_session.complete()
        first = keeper.now() - SESSIONS * HOUR
        with keeper.transaction() as transaction:
            for number in range(SESSIONS):
                session, at = new_id(), first + number * HOUR
                scope = ("auth", "export", "map", None)[number % 4]
                started = SessionStarted(goal=text(number)[:80], project=project_facts, device="desk", scope=scope)
                transaction.record(session, Draft(started, at, "ada"))
                transaction.record(session, Draft(AgentStarted(id="a1", type="coder"), at + MINUTE, "ada"))
                transaction.record(session, Draft(AgentCompleted(id="a1"), at + 20 * MINUTE, "ada"))
                if number < SESSIONS - UNFINISHED:
                    transaction.record(session, Draft(SessionCompleted(), at + 30 * MINUTE, "ada"))


# ── pages ────────────────────────────────────────────────────────────────────────────────────────────────


def _pages(server: Server, keeper: Keeper) -> list[Figure]:
    store = keeper.store()

    def history() -> None:
        store.rows(Filter(limit=ROWS))

    def now() -> None:
        for row in store.rows(Filter(unfinished=True)):
            store.state(row.id)

    figures = []
    for path, query in (("/history", history), ("/now", now)):
        served, queried = [], []
        for run in range(RUNS + 5):
            begin = time.perf_counter()
            size = len(server.get(path))
            middle = time.perf_counter()
            query()
            end = time.perf_counter()
            if run >= 5:
                served.append(middle - begin)
                queried.append(end - middle)
        detail = f"{median(served) * 1e3:.1f} ms served, {median(queried) * 1e3:.1f} ms the query alone"
        figures += [
            Figure(f"dashboard: {path} of {SESSIONS:,} sessions against its query", median(served) / median(queried),
                   "≤ 3", detail),
            Figure(f"dashboard: {path} in kB, all it loads", (size + _assets(server, path)) / 1000, "≤ 200"),
        ]  # fmt: skip
    return figures


def _assets(server: Server, path: str) -> int:
    """The bytes that a page loads besides itself: the modules it names, and those that they name."""
    import re

    sizes: dict[str, int] = {}
    waiting = re.findall(r'(?:src|href)="(/static/[^"]+)"', server.get(path).decode())
    while waiting:
        path = waiting.pop()
        if path in sizes:
            continue
        body = server.get(path)
        sizes[path] = len(body)
        if path.endswith(".js"):
            names = re.findall(r'from "\./([^"]+)"|SharedWorker\("(/static/[^"]+)"', body.decode())
            waiting += [f"/static/{module}" if module else worker for module, worker in names]
    return sum(sizes.values())


# ── a server that runs ───────────────────────────────────────────────────────────────────────────────────


def _idle(server: Server) -> list[Figure]:
    async def with_pages() -> float:
        listeners = [await _open_page(server, "/now") for _ in range(5)]
        await asyncio.sleep(3)
        before = server.cpu()
        await asyncio.sleep(IDLE)
        spent = server.cpu() - before
        for listener in listeners:
            listener.close()
        return spent

    time.sleep(2)
    before = server.cpu()
    time.sleep(IDLE)
    closed = server.cpu() - before
    opened = asyncio.run(with_pages())
    return [
        Figure(f"dashboard: processor time in {IDLE} s with nobody looking, %", closed / IDLE * 100, "≤ 0.5"),
        Figure(f"dashboard: processor time in {IDLE} s with 5 pages open, %", opened / IDLE * 100, "≤ 1"),
    ]


class OpenPage:
    """An open page: counts what is sent to it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.rows: set[str] = set()
        self.bytes = 0
        self.messages = 0
        self.task = asyncio.create_task(self._receive())

    async def _receive(self) -> None:
        while line := await self.reader.readline():
            if not line.startswith(b"data: "):
                continue
            self.bytes += len(line)
            self.messages += 1
            put = json.loads(line[6:]).get("put", {})
            self.rows.update(name for name in put if name.startswith("event-"))

    def close(self) -> None:
        self.task.cancel()
        self.writer.close()


async def _open_page(server: Server, page: str) -> OpenPage:
    host, port = server.host.split(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=1 << 24)
    head = "".join(f"{name}: {value}\r\n" for name, value in server.headers().items())
    writer.write(f"GET /live?page={quote(page, safe='')}&version= HTTP/1.1\r\n{head}\r\n".encode())
    await reader.readuntil(b"\r\n\r\n")
    return OpenPage(reader, writer)


def _live(server: Server, keeper: Keeper) -> list[Figure]:
    session = keeper.start("Twenty things a second", replace=True)
    before = {event.seq for event in keeper.events(session.id)}

    async def run() -> tuple[list[OpenPage], float]:
        listeners = [await _open_page(server, f"/session/{session.id}") for _ in range(PAGES)]
        await asyncio.sleep(2)
        for listener in listeners:
            listener.bytes = listener.messages = 0
        begin, cpu = time.monotonic(), server.cpu()
        for number in range(SECONDS * CHANGES_A_SECOND):
            await asyncio.to_thread(session.note, f"Thing number {number}")
            await asyncio.sleep(max(begin + (number + 1) / CHANGES_A_SECOND - time.monotonic(), 0))
        cpu = (server.cpu() - cpu) / (time.monotonic() - begin)
        await asyncio.sleep(2)
        for listener in listeners:
            listener.close()
        return listeners, cpu

    listeners, cpu = asyncio.run(run())
    added = len(keeper.events(session.id)) - len(before)
    missed = sum(added - len(listener.rows) + len(before) for listener in listeners)
    bytes_per_event = sum(listener.bytes for listener in listeners) / PAGES / added
    messages = sum(listener.messages for listener in listeners)
    bytes_per_message = sum(listener.bytes for listener in listeners) / max(messages, 1)
    page_bytes = len(server.get(f"/session/{session.id}"))
    return [
        Figure(f"dashboard: events missed by {PAGES} open pages, {CHANGES_A_SECOND} a second for {SECONDS} s", missed,
               "= 0", f"{added:,} events, {cpu:.0%} of a core"),
        Figure("dashboard: a live update against the whole page", bytes_per_message / page_bytes, "≤ 0.5",
               f"{bytes_per_message:,.0f} bytes a message, {bytes_per_event:,.0f} an event, the page {page_bytes:,}"),
        Figure("dashboard: memory after all that, MiB", server.memory(), "≤ 120"),
    ]  # fmt: skip
