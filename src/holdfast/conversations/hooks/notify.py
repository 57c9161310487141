"""Desktop notifications of reminders, for agents that cannot show any.

By the library `desktop-notifier`, which speaks to each system's own notifications; it is an extra (`notify`), and
without it nothing happens. A process of its own shows the notification: an agent waits for the hook, not for the
desktop, and what goes wrong there is nobody's business here.
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
_LONGEST: Final = 300
_PATIENCE: Final = 15.0  # seconds: a desktop that does not answer is left alone
_DESKTOPS: Final = ("DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "DISPLAY", "WAYLAND_DISPLAY")


def available() -> bool:
    """Whether a notification could be shown at all, as far as can be known at once."""
    if find_spec(LIBRARY) is None:
        return False
    return sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in _DESKTOPS)


def notify(home: str, title: str, text: str) -> bool:
    """Begin to show a sentence of ours as a notification, and do not wait for it; says whether it was begun.

    Where the library or the desktop is missing nothing happens. Never raises.
    """
    try:
        if not available():
            return False
        return background_process.start(__name__, "show", home, one_line(title)[:_LONGEST], one_line(text)[:_LONGEST])
    except Exception as error:  # noqa: BLE001 (an agent waits for the hook that reminds)
        error_log.note(home, "notify", f"{type(error).__name__}: {error}")
        return False


def show(home: str, title: str, text: str) -> None:
    """Show it, in a process that does nothing else."""
    timer = threading.Timer(_PATIENCE, os._exit, (0,))
    timer.daemon = True
    timer.start()
    try:
        import_module(LIBRARY).DesktopNotifierSync(app_name="Holdfast").send(title=title, message=text)
    except Exception as error:  # noqa: BLE001 (no desktop, no permission, another version: it is only a reminder)
        error_log.note(home, "notify", f"{type(error).__name__}: {error}")
