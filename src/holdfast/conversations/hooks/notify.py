"""Show reminders as desktop notifications, for agents that cannot show any.

The library `desktop-notifier` uses each system's own notifications; it is an extra (`notify`), and without it nothing
happens. A separate process shows the notification: an agent waits for the hook, but not for the desktop.
"""

from __future__ import annotations

import os
import sys
import threading
from importlib import import_module
from importlib.util import find_spec
from typing import Final

from holdfast.core.wording import one_line
from holdfast.machine import background_process, error_log

LIBRARY: Final = "desktop_notifier"
_MAX_LENGTH: Final = 300
_TIMEOUT_SECONDS: Final = 15.0  # until a desktop that does not answer is given up
_DESKTOPS: Final = ("DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "DISPLAY", "WAYLAND_DISPLAY")


def is_available() -> bool:
    """Whether a notification could be shown, as far as that is known without trying."""
    if find_spec(LIBRARY) is None:
        return False
    return sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in _DESKTOPS)


def notify(home: str, title: str, text: str) -> bool:
    """Start to show a sentence as a notification, without waiting for it; returns whether it was started.

    Where the library or the desktop is missing, nothing happens. Never raises.
    """
    try:
        if not is_available():
            return False
        return background_process.start(
            __name__, "show", home, one_line(title)[:_MAX_LENGTH], one_line(text)[:_MAX_LENGTH]
        )
    except Exception as error:  # noqa: BLE001 (an agent waits for the hook that reminds)
        error_log.note(home, "notify", f"{type(error).__name__}: {error}")
        return False


def show(home: str, title: str, text: str) -> None:
    """Show a notification, in a process that does nothing else."""
    timer = threading.Timer(_TIMEOUT_SECONDS, os._exit, (0,))
    timer.daemon = True
    timer.start()
    try:
        import_module(LIBRARY).DesktopNotifierSync(app_name="Holdfast").send(title=title, message=text)
    except Exception as error:  # noqa: BLE001 (no desktop, no permission, another version: it is only a reminder)
        error_log.note(home, "notify", f"{type(error).__name__}: {error}")
