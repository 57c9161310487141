"""What `holdfast watch` shows at one moment: a key changes it to another scene, and may start an action. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, get_args

from holdfast.cli.watch.keys import EditedLine, KeyPress, edit
from holdfast.core.lifecycle import refusal, session_allows
from holdfast.core.text import MAX_TEXT_LENGTH
from holdfast.core.wording import open_pause

if TYPE_CHECKING:
    from holdfast.sessions.overview import SessionCard

Verb = Literal["pause", "resume", "note"]


class EventLine(NamedTuple):
    """An event, in a line."""

    at: int
    type: str
    summary: str


class TextPrompt(NamedTuple):
    """Something is being written, for this session whatever is chosen meanwhile."""

    verb: Verb
    session: str
    line: EditedLine = EditedLine()


class ActionResult(NamedTuple):
    """The result of a key, as a message."""

    text: str
    hint: str = ""
    is_error: bool = False


class Scene(NamedTuple):
    cards: Sequence[SessionCard] = ()
    chosen: str | None = None
    # Of the chosen session, oldest first.
    events: Sequence[EventLine] = ()
    now: int = 0
    # One session was asked for: there is no list.
    only: bool = False
    page: Literal["list", "detail", "help"] = "list"
    # Lines of the detail that are above the window.
    scroll: int = 0
    prompt: TextPrompt | None = None
    message: ActionResult | None = None

    @property
    def place(self) -> int:
        """The index of the chosen session in the list."""
        return next((index for index, card in enumerate(self.cards) if card.session.id == self.chosen), 0)

    @property
    def card(self) -> SessionCard | None:
        return self.cards[self.place] if self.cards else None

    def settled(self) -> Scene:
        """With a session chosen if there is one: if the old one is missing, the one in its place."""
        card = self.card
        return self._replace(chosen=None if card is None else card.session.id)


def is_clock_running(card: SessionCard) -> bool:
    """Whether its time is seen to pass: someone works, a person or an agent."""
    session = card.session
    if session.ended_at is not None:
        return False
    pause = open_pause(session)
    working = session.status == "in_progress" and pause is None
    return working or any(agent.status == "running" and agent.id not in card.lost for agent in session.agents)


_MAX_TYPED_AT_ONCE: Final = 8  # characters: more of them at once were not typed but pasted, and are no keys
_TOO_LONG: Final = ActionResult(
    "The pasted text is too long and was not inserted.",
    f"The limit is {MAX_TEXT_LENGTH:,} characters.",
    is_error=True,
)
_LETTERS: Final = {
    "j": "down", "k": "up", "l": "right", "h": "left", "g": "home", "G": "end", " ": "page down", "b": "page up",
}  # fmt: skip


class KeyAction(NamedTuple):
    """Something to do that drawing alone does not."""

    verb: Literal["pause", "resume", "note", "quit"]
    session: str = ""
    text: str = ""


def handle_key(scene: Scene, key: KeyPress, page: int = 10) -> tuple[Scene, KeyAction | None]:
    """`page` is how many lines of the detail are seen at once."""
    if scene.prompt is not None:
        return _edit_prompt(scene, scene.prompt, key)
    if key.name != "text":
        return _command(scene._replace(message=None), key.name, page)
    if len(key.text) > _MAX_TYPED_AT_ONCE:
        return scene, None
    for place, char in enumerate(key.text):
        scene, action = _command(scene._replace(message=None), _LETTERS.get(char, char), page)
        if action is not None:
            return scene, action
        if scene.prompt is not None:
            rest = key.text[place + 1 :]
            return _edit_prompt(scene, scene.prompt, KeyPress("text", rest)) if rest else (scene, None)
    return scene, None


def _edit_prompt(scene: Scene, prompt: TextPrompt, key: KeyPress) -> tuple[Scene, KeyAction | None]:
    if key.name == "escape":
        return scene._replace(prompt=None, message=None), None
    if key.name == "enter":
        return scene, KeyAction(prompt.verb, prompt.session, prompt.line.text)
    line = edit(prompt.line, key)
    if key.name == "flood" or line.length > MAX_TEXT_LENGTH:
        return scene._replace(message=_TOO_LONG), None
    message = None if scene.message is _TOO_LONG else scene.message
    return scene._replace(prompt=prompt._replace(line=line), message=message), None


def _command(scene: Scene, name: str, page: int) -> tuple[Scene, KeyAction | None]:
    if name == "q":
        return scene, KeyAction("quit")
    if name == "?":
        return scene._replace(page="list" if scene.page == "help" else "help"), None
    if scene.page == "help":
        return (scene._replace(page="list") if name in ("escape", "enter", "left") else scene), None
    verb: Verb | None = next((verb for verb in get_args(Verb) if verb[0] == name), None)
    if verb is not None:
        return _start_verb(scene, verb)
    return (_in_detail(scene, name, page) if scene.page == "detail" else _in_list(scene, name)), None


def _start_verb(scene: Scene, verb: Verb) -> tuple[Scene, KeyAction | None]:
    card = scene.card
    if card is None:
        return scene._replace(
            message=ActionResult("There is no session here yet.", "Start one: holdfast start GOAL")
        ), None
    session = card.session
    if verb == "resume":
        return scene, KeyAction("resume", session.id)
    if verb == "pause" and not session_allows(session.status, "session.paused"):
        # Do not ask for the reason of a pause that is refused anyway.
        error = refusal("the session", session.status, "session.paused", session.id)
        return scene._replace(message=ActionResult(error.message, error.hint or "", is_error=True)), None
    return scene._replace(prompt=TextPrompt(verb, session.id)), None


def _in_list(scene: Scene, name: str) -> Scene:
    if name in ("enter", "right"):
        return scene._replace(page="detail", scroll=0) if scene.cards else scene
    steps = {
        "down": 1,
        "up": -1,
        "page down": 5,
        "page up": -5,
        "home": -len(scene.cards),
        "end": len(scene.cards),
    }
    step = steps.get(name, 0)
    if not step or not scene.cards:
        return scene
    place = min(max(scene.place + step, 0), len(scene.cards) - 1)
    chosen = scene.cards[place].session.id
    return scene if chosen == scene.chosen else scene._replace(chosen=chosen, events=())


def _in_detail(scene: Scene, name: str, page: int) -> Scene:
    if name in ("escape", "left"):
        return scene._replace(page="list", scroll=0)
    end = 1 << 30
    step = {"down": 1, "up": -1, "page down": page, "page up": -page, "home": -end, "end": end}.get(name, 0)
    # Drawing limits it to the last line.
    return scene._replace(scroll=max(scene.scroll + step, 0))
