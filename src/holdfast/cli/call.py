"""One call of the program: its arguments, its environment and its keeper.

The only place of the command line that reads the environment. Help and completion need no keeper, so none is
imported until one is opened.
"""

from __future__ import annotations

import os
import sys

from holdfast.cli.grammar import Parsed
from holdfast.cli.paint import Paint, Painted, paint_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TextIO

    from holdfast.core.errors import HoldfastError
    from holdfast.core.model import Session
    from holdfast.keeper.keeper import Keeper
    from holdfast.keeper.session import SessionHandle
    from holdfast.workspace.agent_dirs import AgentDirs

VERSION = 1


class Call:
    def __init__(self, parsed: Parsed, environ: Mapping[str, str]) -> None:
        self.parsed = parsed
        self.environ = environ
        self.json = parsed.globals.json
        self.quiet = parsed.globals.quiet
        self._keeper: Keeper | None = None
        self._at: int | None = None
        self._paint: Paint | None = None

    @property
    def keeper(self) -> Keeper:
        if self._keeper is None:
            self._keeper = self.open_keeper()
            self._keeper.runs_commands = True
        return self._keeper

    def open_keeper(self) -> Keeper:
        """A keeper for this call's options and environment; a surface with several threads has several."""
        from holdfast.cli.home_location import home
        from holdfast.keeper.keeper import Keeper

        options = self.parsed.globals
        return Keeper.open(
            options.project or ".",
            home=home(self.environ),
            store=self.store,
            actor=self.environ.get("HOLDFAST_ACTOR") or None,
            environ=self.environ,
            collect_mode="once",
        )

    @property
    def store(self) -> str | None:
        """The URL of the store, by option or environment; None for the home's own."""
        option = self.parsed.globals.store
        return self.url(option) if option else self.environ.get("HOLDFAST_STORE") or None

    def url(self, url: str) -> str:
        """The full address: a password in the arguments was removed from sight (see `passwords`)."""
        from holdfast.cli.passwords import full_url

        return full_url(url)

    def close(self) -> None:
        if self._keeper is not None:
            self._keeper.close()

    @property
    def at(self) -> int | None:
        """The moment given by `--at`."""
        if self._at is None and self.parsed.globals.at is not None:
            self._at = self.moment(self.parsed.globals.at)
        return self._at

    def moment(self, text: str | None) -> int | None:
        """A time as a person typed it: RFC 3339, or in local time without an offset, or HH:MM of today."""
        if text is None:
            return None
        from holdfast.core.times import parse_typed_time
        from holdfast.machine.wall import local_offset

        return parse_typed_time(text, now=self.keeper.now(), local=local_offset)

    @property
    def since(self) -> int | None:
        """The moment given by `--since`; a date alone means its local midnight."""
        text = self.parsed.text("since")
        if text is None or len(text) != 10:
            return self.moment(text)
        from holdfast.machine.wall import midnight

        return midnight(text)

    def agent_dirs(self, keeper: Keeper | None = None) -> AgentDirs:
        """Where agent programs keep their files, according to the environment of this call."""
        from holdfast.workspace.agent_dirs import AgentDirs

        return AgentDirs(os.path.expanduser("~"), (keeper or self.keeper).place.root, self.environ, sys.platform)

    def session_to_read(self) -> SessionHandle:
        """The named session; else the current one, else the latest of the project, with a note that names it."""
        reference = self.parsed.values.get("id")
        if isinstance(reference, str):
            return self.keeper.session(reference, at=self.at)
        current = self.keeper.current(at=self.at)
        if current is not None:
            return current
        latest = self.keeper.latest(at=self.at)
        if latest is None:
            from holdfast.core.errors import NotFound

            raise NotFound("there is no session here yet", hint="Start one: holdfast start GOAL")
        goal = latest.document(at=self.at).goal
        self.note(f"No session is in progress here; the latest is {latest.id[:8]}, {goal}.")
        return latest

    def explain_outage(self, error: HoldfastError) -> HoldfastError:
        """Explain that the server stopped answering: what was recorded, and whether to run the command again."""
        if self._keeper is None:
            return error
        from holdfast.store.interface import AWAY
        from holdfast.workspace.unit import explain_outage

        command = self.parsed.command
        explained = explain_outage(self._keeper, error, writes=command is not None and command.writes)
        if explained.hint == AWAY:
            explained.hint = "Hooks keep storing payloads meanwhile; run the command again when the server is back."
        return explained

    # ── answering ────────────────────────────────────────────────────────────────────────────────────────

    @property
    def paint(self) -> Paint:
        if self._paint is None:
            self._paint = paint_for(sys.stdout, no_color=self.parsed.globals.no_color, environ=self.environ)
        return self._paint

    def answer(
        self,
        document: Mapping[str, object],
        render: Callable[[Paint], Painted | str],
        *,
        error: HoldfastError | None = None,
    ) -> None:
        """Print a result: one JSON document, or text for a person. `error`: what else failed, for programs."""
        if self.json and error is not None:
            from holdfast.cli.errors import encode_lossy, error_json

            write_output(encode_lossy({"holdfast": VERSION, **document, "error": error_json(error, self)}))
            return
        if self.json:
            write_output(encode({"holdfast": VERSION, **document}))
            return
        text = render(self.paint)
        if text:
            write_output(str(text) + "\n")

    def done(self, session: Session, render: Callable[[Paint], Painted | str], **more: object) -> None:
        """The answer of a verb that changed something; `--quiet` needs no confirmation."""
        self.answer({"session": session, **more}, lambda paint: "" if self.quiet else render(paint))
        self.print_notes()
        if "others" not in more:
            self._name_session(session)

    def _name_session(self, session: Session) -> None:
        """Name the session, if several are open in the work tree and the command named none."""
        command = self.parsed.command
        begins = command is not None and command.name in ("start", "fork")  # these print it themselves
        if begins or self.quiet or self.json or self.keeper.conversation is not None:
            return
        open_here = self.keeper.open_sessions()
        others = [other for other in open_here if other.id != session.id]
        if others and open_here[0].id == session.id:
            from holdfast.core.text import shorten

            count = f"{len(others)} more {'is' if len(others) == 1 else 'are'} open here"
            self.note(f"In session {session.id[:8]}, {shorten(session.goal, 60)!r}; {count}: holdfast status")

    def failed(self, errors: Sequence[HoldfastError]) -> int:
        """Print the errors of a command that did the rest of its work; returns the exit code.

        In JSON they are part of the document: `answer` takes the first as its `error`.
        """
        if not self.json:
            from holdfast.cli.errors import report_error

            for error in errors:
                report_error(error, self, json=False)
        return errors[0].exit_code if errors else 0

    def note(self, text: str) -> None:
        """Print a note that is not the result; failing to print it does not fail the command."""
        if not self.quiet and not self.json:
            try:
                sys.stderr.write(str(self.paint.plain(text, lines=True)) + "\n")
            except OSError:
                return

    def print_notes(self) -> None:
        """Print the notices, and a warning where the command's time is in the future."""
        self.print_notices()
        if self.at is not None and self.at > self.keeper.now() + 600_000:
            self.note("That time is in the future: until then, everything in this session is recorded at that time.")

    def print_notices(self) -> None:
        """Print notices: mirrored files that were not written, removed secrets, a break that is due."""
        if self._keeper is not None:
            for sentence in self._keeper.take_notices():
                self.note(sentence)

    def can_ask(self) -> bool:
        """Whether a person can be asked."""
        return not self.json and sys.stdin.isatty()

    def print_settings_problems(self) -> None:
        """Print which settings files cannot be read, if this call needed them."""
        problems = () if self._keeper is None else self._keeper.settings_problems()
        for problem in problems:
            from holdfast.workspace.settings import describe_problem

            self.note(f"{describe_problem(problem)}. {problem.hint}")

    def ask(self, question: str) -> str | None:
        """Ask the person, if there is one: nothing is asked unless stdin is a terminal."""
        if not self.can_ask():
            return None
        sys.stderr.write(str(self.paint.plain(question)) + " ")
        sys.stderr.flush()
        return sys.stdin.readline().strip() or None


def write_output(text: str = "") -> None:
    """Write a result and flush, so that a failure is known while it can still be reported."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        from holdfast.core.errors import Failed

        raise Failed(
            f"cannot write the output: {(error.strerror or 'standard output failed').lower()}",
            hint="The command itself succeeded; check where its output goes.",
        ) from None


def discard_rest(stream: TextIO) -> None:
    """Discard what a stream still buffers, so that Python does not fail again, with its own exit code, at exit."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
    except (OSError, ValueError):
        return


def public_path(path: str) -> str:
    """A path as JSON can hold it: a name that is not UTF-8 is escaped, as on the screen."""
    from holdfast.machine.os_errors import display_path

    try:
        path.encode()
    except UnicodeEncodeError:
        return display_path(path)
    return path


def encode(document: object) -> str:
    import msgspec

    from holdfast.core.text import escaped_json

    return escaped_json(msgspec.json.encode(document)).decode() + "\n"
