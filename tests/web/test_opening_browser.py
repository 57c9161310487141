"""`holdfast ui` opens a browser without exposing its ticket to other users of the machine."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from holdfast.machine import files
from holdfast.web import browser
from tests.web.dashboard import Site, serving

_LONG = 60  # seconds: a browser on a busy machine
_CHROMIUM = next(
    (
        executable
        for name in ("chromium", "chromium-browser", "google-chrome", "chrome")
        if (executable := shutil.which(name))
    ),
    "",
)
# Saves its arguments and the file they name, then runs the browser.
_WRAPPER = """#!/bin/sh
echo $$ >'{room}/pid'
printf '%s\\n' "$@" >'{room}/argv'
cp "${{1#file://}}" '{room}/page' 2>/dev/null
{then}
"""
_BROWSER = """exec '{program}' --headless=new --no-sandbox --no-first-run --disable-gpu --disable-dev-shm-usage \\
  --user-data-dir='{room}/profile' --remote-debugging-port=0 "$@" >/dev/null 2>&1"""


class DashboardProcess:
    """A dashboard in its own process, with a wrapper script as the browser."""

    def __init__(self, room: Path, then: str) -> None:
        self.room = room
        self.home = room / "home"
        wrapper = room / "browser"
        wrapper.write_text(_WRAPPER.format(room=room, then=then))
        wrapper.chmod(0o700)
        self.environ = {
            "HOLDFAST_HOME": str(self.home), "HOME": str(room), "PATH": os.environ["PATH"], "BROWSER": str(wrapper)
        }  # fmt: skip
        self.seen: set[str] = set()
        self._stop = threading.Event()
        self._watching = threading.Thread(target=self._watch, daemon=True)
        self._watching.start()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", "ui"], env=self.environ, cwd=room, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().rpartition(" ")[2].strip()

    def _watch(self) -> None:
        """Record the argument lists of all processes, which every user can read."""
        while not self._stop.wait(0.005):
            for name in os.listdir("/proc"):
                if name.isdecimal():
                    try:
                        words = Path("/proc", name, "cmdline").read_bytes()
                    except OSError:
                        continue
                    self.seen.add(words.decode(errors="replace"))

    def pages(self) -> list[dict[str, Any]]:
        """What the browser shows."""
        port = self._profile().read_text().splitlines()[0]
        with urlopen(f"http://127.0.0.1:{port}/json", timeout=_LONG) as answer:
            return [page for page in json.load(answer) if page["type"] == "page"]

    def _profile(self) -> Path:
        return self.room / "profile" / "DevToolsActivePort"

    def until(self, holds: Callable[[], bool]) -> None:
        end = time.monotonic() + _LONG
        while True:
            try:
                if holds():
                    return
            except (OSError, IndexError):
                pass  # not written yet
            assert time.monotonic() < end
            time.sleep(0.05)

    def ticket(self) -> str:
        return _ticket(self.room / "page")

    def left(self) -> list[str]:
        return [path.name for path in (*self.home.iterdir(), *self.room.iterdir()) if path.suffix == ".html"]

    def close(self) -> str:
        self._stop.set()
        self._watching.join(_LONG)
        if (self.room / "pid").exists():
            with suppress(ProcessLookupError):
                os.kill(int((self.room / "pid").read_text()), signal.SIGTERM)
        self.process.send_signal(signal.SIGINT)
        return self.process.communicate(timeout=_LONG)[1]


def _ticket(page: Path) -> str:
    match = re.search(r"/enter/([\w.-]+)", page.read_text())
    return "" if match is None else match[1]


@contextmanager
def opened(room: Path, then: str) -> Iterator[DashboardProcess]:
    made = DashboardProcess(room, then)
    try:
        yield made
    finally:
        if made.process.poll() is None:
            made.close()


needs_proc = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="argument lists are read from /proc")


@needs_proc
@pytest.mark.skipif(not _CHROMIUM, reason="there is no Chromium on the PATH")
def test_browser_arguments_contain_no_ticket(tmp_path: Path) -> None:
    """Nor do those of any other process, while a real browser opens the dashboard."""
    with opened(tmp_path, _BROWSER.format(program=_CHROMIUM, room=tmp_path)) as dashboard:
        origin, _, token = dashboard.address.partition("/enter/")
        dashboard.until(lambda: [page["url"] for page in dashboard.pages()] == [f"{origin}/now"])
        dashboard.until(lambda: "Holdfast" in dashboard.pages()[0]["title"])
        dashboard.until(lambda: dashboard.left() == [])  # used, so the file is no longer needed
        dashboard.close()
        given = (tmp_path / "argv").read_text().strip()
        assert re.fullmatch(rf"file://{tmp_path}/home/holdfast-ui-[0-9a-f]{{16}}\.html", given)
        secrets = {token, dashboard.ticket(), origin.removeprefix("http://").partition(".")[0], "/enter/"}
        lists = [words for words in dashboard.seen if "test_opening_browser" not in words]
        assert any(given in words for words in lists)
        assert [words for words in lists if any(secret in words for secret in secrets)] == []


@needs_proc
def test_file_for_the_browser_is_private_and_removed(tmp_path: Path) -> None:
    """Even when the dashboard ends before a browser reads it."""
    with opened(tmp_path, "exec sleep 60 >/dev/null 2>&1") as dashboard:
        dashboard.until(lambda: dashboard.ticket() != "")
        (name,) = dashboard.left()
        assert stat.S_IMODE((dashboard.home / name).stat().st_mode) == 0o600
        assert stat.S_IMODE(dashboard.home.stat().st_mode) == 0o700
        dashboard.close()
        assert dashboard.left() == []
        assert dashboard.process.returncode in (0, 130)


@needs_proc
def test_link_used_before_is_reported_on_page_and_terminal(tmp_path: Path) -> None:
    """The person's own browser comes second."""
    with opened(tmp_path, "") as dashboard:
        dashboard.until(lambda: dashboard.ticket() != "")
        host = dashboard.address.removeprefix("http://").partition("/")[0]
        port = host.rpartition(":")[2]
        answers = []
        for _ in range(2):
            asking = HTTPConnection("127.0.0.1", int(port), timeout=_LONG)
            asking.request("GET", f"/enter/{dashboard.ticket()}", headers={"Host": host})
            answers.append(asking.getresponse().read().decode())
            asking.close()
        assert "This link was used before" in answers[1]
        assert "A single-use link was used again" in dashboard.close()


def test_address_is_in_the_terminal_when_no_browser_opens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ticket is withdrawn after a while, and the file removed."""
    monkeypatch.setattr(webbrowser, "open", lambda _: False)
    monkeypatch.setattr(browser, "_TICKET_SECONDS", 0.5)
    notes: list[str] = []
    site = Site(tmp_path)
    with serving(site) as dashboard, browser.browser_opened(dashboard, str(site.home), notes.append):
        end = time.monotonic() + _LONG
        (page,) = site.home.glob("*.html")
        ticket = _ticket(page)
        while page.exists():
            assert time.monotonic() < end
            time.sleep(0.02)
        assert notes == ["No browser has opened the dashboard. Open the address above in one."]
        assert not dashboard.secrets.admits(ticket)


def test_dashboard_starts_when_no_file_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a full disk."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "write_atomic", refuse)
    notes: list[str] = []
    site = Site(tmp_path)
    with serving(site) as dashboard, browser.browser_opened(dashboard, str(site.home), notes.append):
        assert len(notes) == 1


def test_file_for_a_snap_browser_is_in_a_visible_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed dashboard's file is removed by the next one."""
    person, snaps = tmp_path / "ada", tmp_path / "snap"
    for path in (person, snaps):
        path.mkdir()
    old, recent, theirs = (person / f"holdfast-ui-{name}.html" for name in ("0" * 16, "1" * 16, "mine"))
    for path in (old, recent, theirs):
        path.touch()
    os.utime(old, (1_794_000_000, 1_794_000_000))
    monkeypatch.setenv("HOME", str(person))
    monkeypatch.setattr(browser, "_SNAP_DIRS", (str(snaps),))
    monkeypatch.setattr(sys, "platform", "linux")
    asked: list[str] = []
    monkeypatch.setattr(webbrowser, "open", asked.append)
    site = Site(tmp_path)
    with serving(site) as dashboard, browser.browser_opened(dashboard, str(site.home), lambda _: None):
        there = set(person.iterdir()) - {recent, theirs}
        (page,) = there
        assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert asked == [page.as_uri()]
    assert set(person.iterdir()) == {recent, theirs}
