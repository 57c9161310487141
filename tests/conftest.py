"""What every test shares: how hard property tests try, and an environment that is nobody's."""

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
# What nobody sees need not be painted well: drawing by software is most of what a browser costs here.
LIGHT = ("--disable-gpu", "--disable-software-rasterizer", "--disable-extensions", "--disable-background-networking")
ROOM = 2 << 30  # bytes; what all workers have there at once is a small part of it
_OURS = bool(os.environ.get("HOLDFAST_CI"))  # now: the tests themselves have nobody's environment
# The agents' own programs are large and run on request only: `make real-agents`.
collect_ignore = [] if os.environ.get("HOLDFAST_REAL_AGENTS") else ["real"]

# The caller may keep no bytecode; here hundreds of processes are started, and each would compile all of it anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Whoever runs the tests may be an agent: its conversation is not that of the commands that are tried here.
for _name in ("CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID"):
    os.environ.pop(_name, None)
sys.dont_write_bytecode = False


def _scratch_in_memory() -> None:
    """Nothing here has to survive: half of the time would be waiting for a disk. Torture goes to the real one."""
    memory = "/dev/shm"
    if not os.path.isdir(memory) or not os.access(memory, os.W_OK) or os.environ.get(TORTURE):
        return
    there = os.statvfs(memory)
    # Some tests start programs that they have written.
    if there.f_bavail * there.f_frsize >= ROOM and not there.f_flag & os.ST_NOEXEC:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", memory)
        # Also what asks for a directory itself, as properties do for each example, and what is started.
        if "TMPDIR" not in os.environ:
            os.environ["TMPDIR"] = tempfile.tempdir = memory


_scratch_in_memory()
processes.reset_signals()
processes.limit_waits()
# Nothing that is collected can be given up again: see below, where it is set aside.
gc.disable()

# Failing assertions of the exported suite say what they compared, like those of any test.
pytest.register_assert_rewrite(
    "holdfast.conversations.conformance",
    "holdfast.formats.conformance",
    "holdfast.store.conformance",
    "holdfast.sync.remotes.conformance",
)

# Machines that run tests are busy: a slow example says nothing about the code, so no deadlines.
# The usual run takes the same examples each time, so that it says something about the change; torture explores.
settings.register_profile(
    "fast",
    deadline=None,
    max_examples=50,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
)
settings.register_profile("pr", settings.get_profile("fast"), max_examples=500, derandomize=False)
settings.register_profile("night", settings.get_profile("fast"), max_examples=10_000, derandomize=False)
settings.load_profile({"pr": "pr", "night": "night"}.get(os.environ.get(TORTURE, ""), "fast"))


_stderr = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    """While a test runs, standard error is a file that nobody sees if the test never ends."""
    with config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        config.stash[_stderr] = os.dup(2)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    with processes.limited(processes.LONGEST_TEST, item.config.stash[_stderr]):
        return (yield)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Ten thousand tests stay until the end: looking for garbage among them again and again finds none."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def nobodys_homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The homes, one after another. Counted here: who has a number made looks at all that are there, each time."""
    homes = tmp_path_factory.mktemp("homes")
    return (homes / str(number) for number in count())


@pytest.fixture(autouse=True)
def nobodys_environment(nobodys_homes: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, and none of the caller's settings: no test can read or harm what a person keeps."""
    home = next(nobodys_homes)
    home.mkdir(mode=0o700)
    for name in list(os.environ):
        if (name.startswith("HOLDFAST_") and name != TORTURE) or name.startswith("XDG_") or name == "NO_COLOR":
            monkeypatch.delenv(name)
    for name in ("HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(home))
    return home


@contextmanager
def _nobodys_loop(item: pytest.Item) -> Iterator[None]:
    """What drives the browser leaves its loop in this thread until the end: tests without one must not find it.

    Not while things are taken down: what others used before, and needs the loop, may be among them.
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
    with _nobodys_loop(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    with _nobodys_loop(item):
        return (yield)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The Chromium of this machine, for the dashboard."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
    program = next((found for name in names if (found := shutil.which(name))), None)
    if program is None:
        if _OURS:
            pytest.fail("there is no Chromium: .ci/run installs it")
        pytest.skip("there is no Chromium on the PATH")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", *LIGHT])
        yield made
        made.close()
