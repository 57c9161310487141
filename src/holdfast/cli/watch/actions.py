"""What keys do to a session: the keeper's verbs, run in a thread so that keys are handled meanwhile."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.cli.watch.scene import KeyAction
from holdfast.core.errors import Unreachable
from holdfast.core.wording import count
from holdfast.sessions.work_trees import workspace_of_session
from holdfast.workspace.unit import explain_outage

if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper
    from holdfast.keeper.session import SessionHandle


def act(keeper: Keeper, action: KeyAction, prepare: Callable[[Keeper], None]) -> str:
    """Run the action and return sentences to show. `prepare` sets what only the surface knows."""
    keeper = workspace_of_session(keeper, action.session)
    prepare(keeper)
    sentences = _run_verb(keeper.session(action.session), action)
    return " ".join([*sentences, *keeper.take_notices()])


def syncs_first(keeper: Keeper, action: KeyAction) -> bool:
    """Whether the action takes a while, because it syncs with other devices first."""
    return action.verb == "resume" and os.path.lexists(keeper.home.remotes)


def _run_verb(session: SessionHandle, action: KeyAction) -> list[str]:
    name = session.id[:8]
    if action.verb == "note":
        session.note(action.text)
        return [f"Noted in {name}."]
    if action.verb == "pause":
        session.pause(action.text.strip() or None)
        return [f"Paused {name}."]
    return _resume(session, name)


def _resume(session: SessionHandle, name: str) -> list[str]:
    sync_notes = session.keeper.sync_first()
    resumed = session.resume()
    lost = len(resumed.interrupted)
    sentences = [f"Resumed {name}" + (f"; {count(lost, 'agent was', 'agents were')} interrupted." if lost else ".")]
    sentences += [f"This work tree differs: {difference.detail}." for difference in resumed.differences]
    return [*sentences, *sync_notes]


class BackgroundCall:
    """An action that runs in a thread; calls `wake` when it ends."""

    def __init__(
        self,
        open_keeper: Callable[[], Keeper],
        action: KeyAction,
        prepare: Callable[[Keeper], None],
        wake: Callable[[], None],
    ) -> None:
        self.action = action
        self._open, self._prepare, self._wake = open_keeper, prepare, wake
        self._result = ""
        self._error: BaseException | None = None
        self._ended = threading.Event()
        # A daemon thread, so that the person can leave: the store records an action as a whole or not at all.
        threading.Thread(target=self._run, name="action", daemon=True).start()

    def ended(self, seconds: float = 0.0) -> bool:
        """Whether it has ended; waits at most this long."""
        return self._ended.wait(seconds)

    def result(self) -> str:
        """The sentences to show; raises the error of an action that failed."""
        if self._error is not None:
            raise self._error
        return self._result

    def _run(self) -> None:
        try:
            with self._open() as keeper:
                try:
                    self._result = act(keeper, self.action, self._prepare)
                except Unreachable as error:
                    raise explain_outage(keeper, error) from None
        except BaseException as error:  # noqa: BLE001 (raised by `result`, where it can be shown)
            self._error = error
        self._ended.set()
        self._wake()
