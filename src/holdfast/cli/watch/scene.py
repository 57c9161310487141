"""What is shown at one moment: the sessions, the selected one, and what the person is doing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from holdfast.cli.watch.line_edit import EditedLine
from holdfast.core.wording import open_pause

if TYPE_CHECKING:
    from holdfast.sessions.overview import SessionCard

Verb = Literal["pause", "resume", "note"]


class Happening(NamedTuple):
    """An event, in a line."""

    at: int
    type: str
    told: str


class Asking(NamedTuple):
    """Something is being written, for this session whatever is chosen meanwhile."""

    verb: Verb
    session: str
    line: EditedLine = EditedLine()


class ActionResult(NamedTuple):
    """What came of a key."""

    text: str
    hint: str = ""
    wrong: bool = False


class Scene(NamedTuple):
    glances: Sequence[SessionCard] = ()
    chosen: str | None = None
    # Of the chosen session, oldest first.
    events: Sequence[Happening] = ()
    now: int = 0
    # One session was asked for: there is no list.
    only: bool = False
    page: Literal["list", "detail", "help"] = "list"
    # Lines of the detail that are above the window.
    scroll: int = 0
    asking: Asking | None = None
    said: ActionResult | None = None

    @property
    def place(self) -> int:
        """Where the chosen session stands in the list."""
        return next((n for n, card in enumerate(self.glances) if card.session.id == self.chosen), 0)

    @property
    def glance(self) -> SessionCard | None:
        return self.glances[self.place] if self.glances else None

    def settled(self) -> Scene:
        """With a session chosen if there is one: where the old one has gone, the one in its place."""
        found = self.glance
        return self._replace(chosen=None if found is None else found.session.id)


def ticks(glance: SessionCard) -> bool:
    """Whether its time is seen to pass: someone works, a person or an agent."""
    session = glance.session
    if session.ended_at is not None:
        return False
    rest = open_pause(session)
    working = session.status == "in_progress" and rest is None
    return working or any(agent.status == "running" and agent.id not in glance.gone for agent in session.agents)
