"""One call of the program: its words, its environment, and the keeper it acts through.

The only place of the command line that reads the environment.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

import msgspec

from holdfast.cli.grammar import Parsed
from holdfast.cli.paint import Paint, Painted, terminal
from holdfast.core.model import Session
from holdfast.keeper.keeper import Keeper

VERSION = 1


class Call:
    def __init__(self, parsed: Parsed, environ: Mapping[str, str]) -> None:
        self.parsed = parsed
        self.environ = environ
        self.json = parsed.globals.json
        self.quiet = parsed.globals.quiet
        self._keeper: Keeper | None = None
        self._paint: Paint | None = None

    @property
    def keeper(self) -> Keeper:
        if self._keeper is None:
            words = self.parsed.globals
            self._keeper = Keeper.open(
                words.project or ".",
                home=self.environ.get("HOLDFAST_HOME") or None,
                store=words.store or self.environ.get("HOLDFAST_STORE") or None,
                actor=self.environ.get("HOLDFAST_ACTOR") or None,
            )
        return self._keeper

    def close(self) -> None:
        if self._keeper is not None:
            self._keeper.close()

    @property
    def at(self) -> int | None:
        """The moment given by `--at`."""
        return self.moment(self.parsed.globals.at)

    def moment(self, written: str | None) -> int | None:
        """A time as a person typed it: RFC 3339, a date, or HH:MM of today."""
        if written is None:
            return None
        from holdfast.core.times import asked
        from holdfast.machine.wall import local_offset

        now = self.keeper.now()
        return asked(written, now=now, local=local_offset(now))

    # ── answering ────────────────────────────────────────────────────────────────────────────────────────

    @property
    def paint(self) -> Paint:
        if self._paint is None:
            self._paint = terminal(sys.stdout, no_color=self.parsed.globals.no_color, environ=self.environ)
        return self._paint

    def answer(self, document: Mapping[str, object], human: Callable[[Paint], Painted | str]) -> None:
        """Print a result: one JSON document, or what a person reads."""
        if self.json:
            sys.stdout.write(encode({"holdfast": VERSION, **document}))
            return
        shown = human(self.paint)
        if shown:
            sys.stdout.write(str(shown) + "\n")

    def done(self, session: Session, human: Callable[[Paint], Painted | str], **more: object) -> None:
        """The answer of a verb that changed something; `--quiet` needs no confirmation."""
        self.answer({"session": session, **more}, lambda paint: "" if self.quiet else human(paint))

    def note(self, text: str) -> None:
        """Something worth knowing that is not the result."""
        if not self.quiet and not self.json:
            sys.stderr.write(str(self.paint.plain(text, lines=True)) + "\n")

    def tell_redactions(self, session: Session) -> None:
        """Say so when the last thing recorded held a secret."""
        counts = session.extra.get("redacted")
        if isinstance(counts, dict) and counts:
            kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
            self.note(f"Secrets were cut out before anything was stored (in this session so far: {kinds}).")

    def tell_reminders(self, session: Session) -> None:
        """A due break is worth a line, once: when the line was crossed just now."""
        reached = session.time.reminders
        if reached.timeout_90 and session.status == "paused":
            self.note("90 minutes of work: the session is paused. Take a break; holdfast resume goes on.")
        elif reached.warning_60 and not reached.timeout_90:
            self.note("An hour of work: a break is due.")

    def ask(self, question: str) -> str | None:
        """Ask the person, if there is one: nothing is asked unless stdin is a terminal."""
        if self.json or not sys.stdin.isatty():
            return None
        sys.stderr.write(str(self.paint.plain(question)) + " ")
        sys.stderr.flush()
        return sys.stdin.readline().strip() or None


def encode(document: object) -> str:
    return msgspec.json.encode(document).decode() + "\n"
