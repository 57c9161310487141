"""What every test shares: the number of examples of property tests, and an empty home and environment."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.support import processes

if TYPE_CHECKING:
    from playwright.sync_api import Browser

TORTURE = "HOLDFAST_TORTURE"
# Rendering in software is most of the cost of a browser without a GPU.
_CHROMIUM_OPTIONS = (
    "--disable-gpu",
    "--disable-software-rasterizer",
    "--disable-extensions",
    "--disable-background-networking",
)
_MIN_FREE_MEMORY = 2 << 30  # bytes in /dev/shm; all workers together use a small part of it
_IN_CI = bool(os.environ.get("HOLDFAST_CI"))  # tests run with an empty environment
# The agents' own programs are large and run on request only: `make real-agents`.
collect_ignore = [] if os.environ.get("HOLDFAST_REAL_AGENTS") else ["real"]

# Hundreds of processes are started: without bytecode each would compile everything again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# An agent may run the tests: its conversation is not that of the commands under test.
for _name in ("CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID"):
    os.environ.pop(_name, None)
sys.dont_write_bytecode = False


def _use_memory_for_temporary_files() -> None:
    """Waiting for a disk would take half of the time. Torture uses the real disk."""
    memory = "/dev/shm"
    if not os.path.isdir(memory) or not os.access(memory, os.W_OK) or os.environ.get(TORTURE):
        return
    status = os.statvfs(memory)
    # Some tests start programs that they have written.
    if status.f_bavail * status.f_frsize >= _MIN_FREE_MEMORY and not status.f_flag & os.ST_NOEXEC:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", memory)
        # For tests that make directories themselves, and for the processes they start.
        if "TMPDIR" not in os.environ:
            os.environ["TMPDIR"] = tempfile.tempdir = memory


_use_memory_for_temporary_files()
processes.reset_signals()
processes.limit_waits()
# Collected tests are never garbage: pytest_collection_finish freezes them.
gc.disable()

# Assertions in the exported suites show the compared values, like those of any test.
pytest.register_assert_rewrite(
    "holdfast.conversations.conformance",
    "holdfast.formats.conformance",
    "holdfast.store.conformance",
    "holdfast.sync.remotes.conformance",
)

# No deadlines: on a busy machine a slow example says nothing about the code.
# The default run takes the same examples each time, so that a failure is due to the change; torture explores.
settings.register_profile(
    "fast",
    deadline=None,
    max_examples=30,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
)
settings.register_profile("pr", settings.get_profile("fast"), max_examples=500, derandomize=False)
settings.register_profile("night", settings.get_profile("fast"), max_examples=10_000, derandomize=False)
settings.load_profile({"pr": "pr", "night": "night"}.get(os.environ.get(TORTURE, ""), "fast"))


_stderr = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    """Keep the real standard error: what a test that hangs printed to the captured one is never shown."""
    with config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        config.stash[_stderr] = os.dup(2)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    with processes.limited(processes.LONGEST_TEST, item.config.stash[_stderr]):
        return (yield)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Exclude ten thousand tests from every later garbage collection."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def empty_homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Paths of homes, numbered here: pytest would list all existing ones for each new number."""
    homes = tmp_path_factory.mktemp("homes")
    return (homes / str(number) for number in count())


@pytest.fixture(autouse=True)
def empty_home(empty_homes: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own and none of the caller's settings: no test can read or change a person's files."""
    home = next(empty_homes)
    home.mkdir(mode=0o700)
    for name in list(os.environ):
        if (name.startswith("HOLDFAST_") and name != TORTURE) or name.startswith("XDG_") or name == "NO_COLOR":
            monkeypatch.delenv(name)
    for name in ("HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(home))
    return home


@contextmanager
def _without_browser_loop(item: pytest.Item) -> Iterator[None]:
    """Hide Playwright's event loop, which stays set in this thread, from tests without a browser.

    Not during teardown, which may need the loop.
    """
    loop = asyncio._get_running_loop()
    if loop is None or "browser" in getattr(item, "fixturenames", ()):
        yield
        return
    asyncio._set_running_loop(None)
    try:
        yield
    finally:
        asyncio._set_running_loop(loop)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    with _without_browser_loop(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    with _without_browser_loop(item):
        return (yield)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The Chromium of this machine, for tests of the dashboard."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
    program = next((path for name in names if (path := shutil.which(name))), None)
    if program is None:
        if _IN_CI:
            pytest.fail("there is no Chromium: .ci/run installs it")
        pytest.skip("there is no Chromium on the PATH")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", *_CHROMIUM_OPTIONS])
        yield browser
        browser.close()
