"""Desktop notifications: shown by a separate process, where the system can show them."""

from __future__ import annotations

import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from holdfast.conversations.hooks import notify
from holdfast.machine import error_log

# The part of the library that Holdfast uses; the real one needs a desktop.
_STANDS_IN = """
import json, os
class DesktopNotifierSync:
    def __init__(self, app_name): self.app = app_name
    def send(self, title, message):
        {first}
        with open({output!r} + ".part", "w") as file:
            json.dump([self.app, title, message, os.getpgrp() == os.getpid()], file)
        os.rename({output!r} + ".part", {output!r})
"""


@pytest.fixture
def desktop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A desktop, as far as the environment shows."""
    monkeypatch.setenv("DISPLAY", ":0")
    return tmp_path


def library(where: Path, monkeypatch: pytest.MonkeyPatch, first: str = "pass") -> Path:
    output = where / "said"
    folder = where / "library"
    folder.mkdir()
    (folder / "desktop_notifier.py").write_text(_STANDS_IN.format(output=str(output), first=first))
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, notify.LIBRARY, raising=False)
    return output


def waited_for(path: Path) -> str:
    for _ in range(600):
        if path.exists() and path.stat().st_size:
            return path.read_text()
        time.sleep(0.05)
    raise AssertionError(path)


def test_missing_library_shows_nothing(desktop: Path) -> None:
    if find_spec(notify.LIBRARY) is not None:
        pytest.skip("desktop-notifier is installed here")
    assert not notify.notify(str(desktop), "Holdfast", "40 minutes of work")
    assert list(desktop.iterdir()) == []


@pytest.mark.skipif(sys.platform in ("darwin", "win32"), reason="there is always a desktop here")
def test_missing_desktop_shows_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a server; no process is started."""
    library(tmp_path, monkeypatch)
    for name in ("DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert not notify.notify(str(tmp_path), "Holdfast", "40 minutes of work")


def test_notification_is_shown_by_own_process(desktop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In another process group, with the text unchanged."""
    output = library(desktop, monkeypatch)
    assert notify.notify(str(desktop), "Holdfast", "40 minutes; $(touch x) 'quoted' \"twice\" ü")
    assert (
        waited_for(output)
        == '["Holdfast", "Holdfast", "40 minutes; $(touch x) \'quoted\' \\"twice\\" \\u00fc", true]'
    )


def test_texts_are_made_harmless(desktop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = library(desktop, monkeypatch)
    assert notify.notify(str(desktop), "a\0b", "one\ntwo\x1b[31m" + "x" * 10_000)
    shown = waited_for(output)
    assert "\\\\x00" in shown
    assert "one two\\\\x1b[31m" in shown
    assert len(shown) < 500


def test_error_of_the_desktop_is_logged(desktop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = library(desktop, monkeypatch, first="raise RuntimeError('no bus')")
    assert notify.notify(str(desktop), "Holdfast", "40 minutes of work")
    assert "RuntimeError: no bus" in waited_for(desktop / error_log.NAME)
    assert not output.exists()
