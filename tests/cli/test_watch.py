"""`holdfast watch` in a real terminal (tmux), and once without one."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command_line import Calling, git_environment, lawful

PATIENCE = 20.0  # seconds, enough for a busy machine
WATCH = shlex.join([sys.executable, "-m", "holdfast", "watch"])
in_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux, the terminal of these tests, is missing")


@pytest.fixture
def holdfast(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Calling:
    return Calling(tmp_path, monkeypatch, capsys)


class Terminal:
    """A shell in tmux, in a project; its screen is what a person would see."""

    def __init__(self, root: Path, holdfast: Calling, sockets: str, **environ: str) -> None:
        self.root = root
        self._socket = os.path.join(sockets, "s")
        self._environ = {
            "PATH": os.environ["PATH"], "HOME": str(root), "HOLDFAST_HOME": str(holdfast.home), "TZ": "UTC",
            "LC_ALL": "C.UTF-8", "HOLDFAST_ACTOR": "ada", **git_environment(root), **environ,
        }  # fmt: skip
        prompt = root / "prompt"
        prompt.write_text("PS1='$ '\n")
        self.tmux(
            "-f", os.devnull, "-u", "new-session", "-d", "-x", "80", "-y", "24", "-c", str(holdfast.project),
            shlex.join(["bash", "--noprofile", "--rcfile", str(prompt), "-i"]),
        )  # fmt: skip

    def tmux(self, *words: str, given: str | None = None) -> str:
        done = subprocess.run(
            ["tmux", "-S", self._socket, *words], env=self._environ, input=given, capture_output=True, text=True,
            check=True,
        )  # fmt: skip
        return done.stdout

    def press(self, *keys: str) -> None:
        for key in keys:
            self.tmux("send-keys", key)

    def write(self, text: str) -> None:
        self.tmux("send-keys", "-l", text)

    def type(self, line: str) -> None:
        self.write(line)
        self.press("Enter")

    def paste(self, text: str) -> None:
        self.tmux("load-buffer", "-", given=text)
        self.tmux("paste-buffer", "-p")

    def resize(self, columns: int, rows: int) -> None:
        self.tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def lines(self, *, coloured: bool = False) -> list[str]:
        return self.tmux("capture-pane", "-p", *(["-e"] if coloured else [])).split("\n")

    def until(self, *texts: str, without: str | None = None) -> str:
        """The screen once it shows all of these texts, and not the other."""
        end = time.monotonic() + PATIENCE
        while True:
            shown = "\n".join(self.lines())
            if all(text in shown for text in texts) and (without is None or without not in shown):
                return shown
            if time.monotonic() > end:
                pytest.fail(f"{texts} did not come, or {without!r} did not go:\n{shown}", pytrace=False)
            time.sleep(0.03)

    def flags(self) -> dict[str, str]:
        """Whether the cursor, the alternate screen and line wrapping are on."""
        result = self.tmux("display-message", "-p", "#{cursor_flag} #{alternate_on} #{wrap_flag}").split()
        return dict(zip(("cursor", "alternate", "wrap"), result, strict=True))

    def mode(self, name: str) -> str:
        """The terminal's mode, as stty prints it."""
        path = self.root / name
        self.type(f"stty -a > {shlex.quote(str(path))}; echo {name} is known")
        self.until(f"\n{name} is known")
        return path.read_text()

    def watch(self, *words: str) -> None:
        self.type(f"clear; echo the shell above; {shlex.join([sys.executable, '-m', 'holdfast', 'watch', *words])}")
        self.until("q quit")

    def ended(self, code: int) -> str:
        """Back in the shell, with its former content; returns the screen."""
        self.until("the shell above", without="q quit")
        self.type("echo code=$?")
        return self.until(f"code={code}\n", "the shell above\n")


@contextlib.contextmanager
def a_terminal(root: Path, holdfast: Calling, **environ: str) -> Iterator[Terminal]:
    with tempfile.TemporaryDirectory(prefix="hfw") as sockets:  # the path of a socket must be short
        opened = Terminal(root, holdfast, sockets, **environ)
        try:
            opened.until("$")
            yield opened
        finally:
            opened.tmux("kill-server")


@pytest.fixture
def terminal(tmp_path: Path, holdfast: Calling) -> Iterator[Terminal]:
    with a_terminal(tmp_path, holdfast) as opened:
        yield opened


def fits(terminal: Terminal, columns: int, rows: int) -> None:
    lines = terminal.lines()
    assert len(lines) == rows + 1
    assert max(map(len, lines)) <= columns
    assert "q quit" in lines[rows - 1]


@in_tmux
def test_keys_record_notes_pauses_and_resumes(terminal: Terminal, holdfast: Calling) -> None:
    """On the screen and in the log; also switching and the detail view."""
    first = holdfast.session("start", "Add a search box", "--scope", "search")
    other = terminal.root / "other"
    other.mkdir()
    second = holdfast.session("--project", str(other), "start", "Fix the login")
    before = terminal.mode("before")
    terminal.watch()
    terminal.until("1 of 2 unfinished", "\n>   Fix the login", without="scope search")
    fits(terminal, 80, 24)
    terminal.press("Down")
    terminal.until("2 of 2 unfinished", "\n>   Add a search box", "scope search")
    terminal.press("k")
    terminal.until("1 of 2 unfinished")
    terminal.press("j")
    terminal.until("2 of 2 unfinished")

    terminal.press("n")
    terminal.until("Note:", "Enter sends")
    terminal.write("Grüße, qpr")
    terminal.press("Left", "BSpace")
    terminal.write("x")
    terminal.until("Note: Grüße, qxr")
    terminal.paste("\none\ntwo")
    terminal.until(r"qx\none\ntwor")
    terminal.press("Enter")
    terminal.until(f"Noted in {first['id'][:8]}.", "note.added", without="Note:")
    assert holdfast.session("show", first["id"])["notes"][0]["text"] == "Grüße, qx\none\ntwor"

    terminal.press("p")
    terminal.until("Reason")
    terminal.write("never mind")
    terminal.press("Escape")
    terminal.until("q quit", without="Reason")
    terminal.press("p")
    terminal.until("Reason")
    terminal.write("lunch")
    terminal.press("Enter")
    terminal.until("Paused", "paused since", "(lunch)")
    terminal.press("p")
    terminal.until("is paused already", "holdfast resume")
    terminal.press("r")
    terminal.until("Resumed", without="(lunch)")
    assert holdfast.session("show", first["id"])["status"] == "in_progress"

    terminal.press("Enter")
    terminal.until(first["id"], "esc back", "lines 1-")
    terminal.press("NPage", "NPage")
    terminal.until("Go on", without="lines 1-")
    terminal.press("Escape")
    terminal.until("of 2 unfinished")
    terminal.press("?")
    terminal.until("write a note")
    terminal.press("?")
    terminal.until("of 2 unfinished")
    terminal.press("G")
    terminal.until("\n>   Fix the login")
    terminal.press("p")
    terminal.until("Reason")
    terminal.press("Enter")
    terminal.until(f"Paused {second['id'][:8]}.")
    assert holdfast.session("--project", str(other), "status")["status"] == "paused"
    terminal.press("q")
    terminal.ended(0)
    assert terminal.flags() == {"cursor": "1", "alternate": "0", "wrap": "1"}
    assert terminal.mode("after") == before


@in_tmux
def test_watch_shows_events_of_other_processes(terminal: Terminal, holdfast: Calling) -> None:
    """From no store at all to the end of the first session."""
    terminal.watch()
    terminal.until("No unfinished sessions.", "holdfast start GOAL")
    with a_terminal(terminal.root, holdfast) as other:
        other.type(f'hf() {{ {shlex.quote(sys.executable)} -m holdfast "$@"; }}')
        other.type("hf start 'Add a search box'")
        terminal.until("\n> ", "Add a search box", "1 unfinished")
        other.type("hf agent start arch-1 --type architect --pid $$; hf agent progress arch-1 0.5")
        terminal.until("1 running", "arch-1", "50%")
        other.type("hf context --tokens 190000 --window 200000")
        terminal.until("190,000 of 200,000", "1 waits for you", "\n>! ")
        other.type("hf stop")
        terminal.until("is completed.", "No unfinished sessions.")
    terminal.press("q")
    terminal.ended(0)


@in_tmux
def test_watch_clock_ticks_every_second(terminal: Terminal, holdfast: Calling) -> None:
    """While somebody works."""
    holdfast("start", "Add a search box")
    terminal.watch()
    seen = re.search(r"Time +(\d+:\d\d:\d\d)", terminal.until("worked"))
    assert seen is not None
    terminal.until("worked", without=seen[1])


@in_tmux
def test_watch_follows_the_size_of_the_terminal(terminal: Terminal, holdfast: Calling) -> None:
    """Two columns, one, or a message when the terminal is too small."""
    holdfast("start", "Add a search box " * 20)
    holdfast("task", "add", "Think it over, " * 20)
    terminal.watch()
    for columns, rows in ((200, 50), (80, 24), (40, 10), (120, 15)):
        terminal.resize(columns, rows)
        if columns >= 120:
            terminal.until("q quit", " │ ")
        else:
            terminal.until("q quit", "─" * columns, without=" │ ")
        fits(terminal, columns, rows)
    terminal.resize(30, 6)
    terminal.until("Too small: 30x6")
    terminal.resize(80, 24)
    terminal.until("q quit", "Plan")
    fits(terminal, 80, 24)


@in_tmux
def test_watch_works_without_colour_and_in_ascii(tmp_path: Path, holdfast: Calling) -> None:
    """With NO_COLOR, in an old locale; on a dumb terminal it prints once."""
    holdfast("start", "Grüße")
    ascii_only = {"NO_COLOR": "1", "PYTHONIOENCODING": "ascii"}
    with a_terminal(tmp_path, holdfast) as coloured, a_terminal(tmp_path, holdfast, **ascii_only) as plain:
        for item in (coloured, plain):
            item.watch()
            item.until("\n> ")
        assert "\x1b[32m" in "\n".join(coloured.lines(coloured=True))
        assert "\x1b[" not in "\n".join(plain.lines(coloured=True))
        assert plain.until(r"Gr\xfc\xdfe", "enter detail").isascii()
        plain.press("q")
        plain.ended(0)
        plain.type(f"clear; TERM=dumb {WATCH}; echo code=$?")
        plain.until("Session", r"Gr\xfc\xdfe", "code=0\n", without="q quit")


@in_tmux
def test_watch_uses_the_same_characters_as_status(tmp_path: Path, holdfast: Calling) -> None:
    """Also in the locale C, where Python uses UTF-8."""
    holdfast("start", "Grüße")
    status = shlex.join([sys.executable, "-m", "holdfast", "status"])
    for environ in ({"LC_ALL": "C"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}):
        with a_terminal(tmp_path, holdfast, **environ) as terminal:
            terminal.type(f"clear; {status}")
            printed = "Grüße" in terminal.until("in progress")
            assert printed == (len(environ) == 1)
            terminal.watch()
            assert ("Grüße" in terminal.until("in progress", "q quit")) == printed
            assert terminal.until("q quit").isascii() != printed


@in_tmux
def test_large_paste_froze_watch(terminal: Terminal, holdfast: Calling) -> None:
    """150 kB can be edited, sent and read, and Ctrl-C works during the paste."""
    started = holdfast.session("start", "Add a search box")
    terminal.watch()
    terminal.press("n")
    terminal.until("Note:")
    terminal.paste("one line of text\n" * 9_000)
    terminal.until("Note: …", r"of text\none line of text\n")
    terminal.write("the end")
    terminal.until(r"\nthe end")
    terminal.press("Enter")
    terminal.until("Noted in", without="Note:")
    assert len(holdfast.session("show", started["id"])["notes"][0]["text"]) > 150_000
    terminal.press("n")
    terminal.until("Note:")
    terminal.paste("x" * 400_000)
    terminal.press("C-c")
    terminal.ended(130)


@in_tmux
@pytest.mark.parametrize(("how", "printed"), [("key", "interrupted"), ("TERM", "SIGTERM"), ("HUP", "SIGHUP")])
def test_terminal_is_restored_after_watch(terminal: Terminal, holdfast: Calling, how: str, printed: str) -> None:
    """Mode, cursor and earlier lines, after Ctrl-C and after a signal."""
    holdfast("start", "Add a search box")
    before = terminal.mode("before")
    pid, script = terminal.root / "pid", terminal.root / "script"
    script.write_text(f"echo $$ > {shlex.quote(str(pid))}\nexec {WATCH}\n")
    terminal.type(f"clear; echo the shell above; sh {shlex.quote(str(script))}")
    terminal.until("q quit")
    terminal.press("n")
    terminal.until("Note:")
    if how == "key":
        terminal.press("C-c")
    else:
        os.kill(int(pid.read_text()), getattr(signal, f"SIG{how}"))
    terminal.until("the shell above", printed, without="Note:")
    assert printed in terminal.ended(130)
    assert terminal.flags() == {"cursor": "1", "alternate": "0", "wrap": "1"}
    assert terminal.mode("after") == before


@in_tmux
def test_crash_of_watch_shows_its_error_in_the_shell(terminal: Terminal, holdfast: Calling) -> None:
    """The terminal is restored first."""
    holdfast("start", "Add a search box")
    script = terminal.root / "crash.py"
    script.write_text(
        "import sys\n"
        "from holdfast.cli.watch import loop\n"
        "from holdfast.cli.main import main\n"
        "real = loop.handle_key\n"
        "def handle_key(scene, key, page):\n"
        "    return real(scene, key, page) if key.text != 'x' else 1 / 0\n"
        "loop.handle_key = handle_key\n"
        "sys.exit(main(['watch']))\n"
    )
    before = terminal.mode("before")
    terminal.type(f"clear; echo the shell above; {shlex.join([sys.executable, str(script)])}")
    terminal.until("q quit")
    terminal.press("x")
    assert "something unexpected happened (ZeroDivisionError)" in terminal.ended(1)
    assert terminal.flags() == {"cursor": "1", "alternate": "0", "wrap": "1"}
    assert terminal.mode("after") == before


@in_tmux
def test_watch_can_be_suspended_and_continued(terminal: Terminal, holdfast: Calling) -> None:
    """Ctrl-Z and `fg`; the line being written is kept."""
    holdfast("start", "Add a search box")
    before = terminal.mode("before")
    terminal.watch()
    terminal.press("n")
    terminal.until("Note:")
    terminal.write("half a thought")
    terminal.until("Note: half a thought")
    terminal.press("C-z")
    terminal.until("Stopped", "the shell above", without="Note:")
    assert terminal.flags() == {"cursor": "1", "alternate": "0", "wrap": "1"}
    assert terminal.mode("aside") == before
    terminal.type("fg")
    terminal.until("Note: half a thought", "Add a search box")
    terminal.press("Escape")
    terminal.until("q quit")
    terminal.press("C-z")
    terminal.until("Stopped", without="q quit")
    terminal.type("kill %1; wait; echo it has ended")
    terminal.until("\nit has ended")
    assert terminal.mode("after") == before


@in_tmux
def test_watch_keeps_a_note_that_cannot_be_recorded(terminal: Terminal, holdfast: Calling) -> None:
    """In its line, with the reason above it."""
    started = holdfast.session("start", "Add a search box")
    terminal.watch(started["id"][:8])
    terminal.until("Add a search box", without="unfinished")
    terminal.press("n")
    terminal.until("Note:")
    terminal.press("Enter")
    terminal.until("Note:", "empty")
    terminal.write("too late")
    holdfast("stop")
    terminal.until("completed")
    terminal.press("Enter")
    terminal.until("Note: too late", "The session is completed", "--continues")


def test_watch_without_a_terminal_prints_once(holdfast: Calling) -> None:
    """A table of unfinished sessions, one session as `status` shows it, or one document."""
    assert "holdfast start GOAL" in holdfast("watch").out
    assert holdfast.document("watch") == {"holdfast": 1, "sessions": []}
    assert not holdfast.home.exists()
    started = holdfast.session("start", "Add a search box")
    holdfast("context", "--tokens", "190000", "--window", "200000")
    shown = holdfast("watch").out
    assert started["id"][:8] in shown
    assert "The context is" in shown
    assert holdfast("watch", started["id"][:8]).out.split("\n")[:2] == holdfast("status").out.split("\n")[:2]
    (document,) = holdfast.document("watch")["sessions"]
    lawful(document["time"])
    assert document.keys() == started.keys()
    assert holdfast.document("watch", "@")["sessions"][0]["id"] == started["id"]
    holdfast("stop")
    assert holdfast.document("watch")["sessions"] == []


def test_watch_refuses_a_past_time(holdfast: Calling) -> None:
    """With the command that shows it; an unknown session is not found."""
    error = holdfast.refused(2, "watch", "--at", "10:00")
    assert "status --at" in error["hint"]
    holdfast.refused(3, "watch", "nosuch")
