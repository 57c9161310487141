"""Open the browser at the dashboard without a secret on a command line.

Every user of the machine can read command lines, so an address in one would admit others. Instead the browser
gets the name of a file that only its owner can read: its page leads to the dashboard with a single-use
ticket. The file is removed when the ticket is used, after a while, or when the dashboard ends.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
import webbrowser
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from holdfast.core.errors import HoldfastError
from holdfast.machine import files
from holdfast.machine.wall import Wall, monotonic
from holdfast.web.serve import Dashboard

_PAGE: Final = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Holdfast</title>
<meta name="referrer" content="no-referrer"><meta http-equiv="refresh" content="0;url={url}"></head>
<body><p><a href="{url}">Holdfast's dashboard</a></p></body></html>
"""
_NAME: Final = re.compile(r"holdfast-ui-[0-9a-f]{16}\.html")
_NOTE_AFTER: Final = 15.0  # seconds without a browser, before a note says so
_TICKET_SECONDS: Final = 120.0  # seconds for which the ticket is valid
# Browsers from snaps cannot read hidden directories, and have their own /tmp.
_SNAP_DIRS: Final = ("/snap/bin", "/var/lib/snapd/snap/bin")
_NOT_OPENED: Final = "No browser has opened the dashboard. Open the address above in one."
_TICKET_REUSED: Final = (
    "A single-use link was used again. If you do not see the dashboard, another person used it before you: "
    "press Ctrl-C and run holdfast ui again."
)


@contextlib.contextmanager
def browser_opened(dashboard: Dashboard, home: str, note: Callable[[str], None]) -> Iterator[None]:
    """Open the browser while this block serves the dashboard. `note` gets what the person should know."""
    dashboard.secrets.reused = lambda: note(_TICKET_REUSED)
    directory = _directory(home)
    _remove_old_files(directory)
    path = os.path.join(directory, f"holdfast-ui-{os.urandom(8).hex()}.html")
    url = dashboard.ticket()
    try:
        if directory == home:
            files.make_private_dir(home)
        files.write_atomic(path, _PAGE.format(url=url).encode(), durable=False)
    except (HoldfastError, OSError):  # a full or read-only disk: reading still works
        note(_NOT_OPENED)
        yield
        return
    failed, ended = threading.Event(), threading.Event()

    def start() -> None:
        if not webbrowser.open(Path(path).as_uri()):
            failed.set()

    def watch() -> None:
        ticket, began, noted = url.rpartition("/")[2], monotonic(), False
        while not ended.wait(0.1) and not dashboard.secrets.is_used(ticket):
            waited = monotonic() - began
            if not noted and (failed.is_set() or waited > _NOTE_AFTER):
                note(_NOT_OPENED)
                noted = True
            if waited > _TICKET_SECONDS:
                break
        dashboard.secrets.withdraw(ticket)
        _remove(path)

    threading.Thread(target=start, daemon=True).start()  # some browsers run until they are closed
    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield
    finally:
        ended.set()
        watching.join()


def _directory(home: str) -> str:
    """Where the browser can read a file, and other users cannot."""
    user_home = os.path.expanduser("~")
    has_snaps = sys.platform == "linux" and any(os.path.isdir(place) for place in _SNAP_DIRS)
    return user_home if has_snaps and os.access(user_home, os.W_OK | os.X_OK) else home


def _remove_old_files(directory: str) -> None:
    """Remove files of killed dashboards: their tickets are worthless."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(directory):
            if _NAME.fullmatch(entry.name):
                age = Wall().now() / 1000 - entry.stat(follow_symlinks=False).st_mtime
                if age > _TICKET_SECONDS:
                    _remove(entry.path)


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)
