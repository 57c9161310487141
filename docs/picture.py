"""Draws the pictures of the documentation from what the commands really print.

`python docs/picture.py` plays each scene in a scratch home and project, with every moment given by `--at`, and
writes `docs/images/NAME.svg`. The session's id is random, and replaced by a fixed name in the picture; all else is
as a terminal of 100 columns shows it.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

from holdfast.cli.cells import width_of

COLUMNS = 100
IMAGES = Path(__file__).parent / "images"
STANDS_FOR_ID = "7f3a9c21"

# One morning's work. Pairs of the time of day and what is typed.
MORNING = (
    ("09:00", 'start "Add OAuth with PKCE to the login" --scope auth --mode optimize --tag security'),
    ("09:01", 'task add "Design the flow"'),
    ("09:01", 'task add "Token endpoint with rotation"'),
    ("09:01", 'task add "Login page"'),
    ("09:02", 'task add "Migrate the old sessions"'),
    ("09:02", "task start t1"),
    ("09:02", 'agent start arch-1 --type architect --task "Design the flow"'),
    ("09:06", "agent progress arch-1 0.6"),
    ("09:11", 'agent done arch-1 --summary "Hybrid tokens" --tokens 18400'),
    ("09:11", 'task done t1 --outcome "docs/auth.md"'),
    ("09:12", 'decide Hybrid --context "Token kind" --option JWT --option Cookie --why "Scales, and can be revoked"'),
    ("09:13", "task start t2"),
    ("09:13", 'agent start api-1 --type backend --task "Token endpoint with rotation" --background'),
    ("09:14", 'agent start ui-1 --type frontend --task "Login page" --background'),
    ("09:17", "agent progress ui-1 0.35"),
    ("09:20", "agent progress api-1 0.5"),
    ("09:23", 'agent start review-1 --type reviewer --task "Review the design" --blocking-on api-1 --background'),
    ("09:25", "agent fail review-1 --category transient --message 'No answer'"),
    ("09:26", 'pause "Stand-up"'),
    ("09:41", "resume"),
    ("09:43", "agent progress api-1 0.8"),
    ("09:44", "context --tokens 71400"),
)


class Scene(NamedTuple):
    """A picture: its name, what it shows in words, and what is typed at the end of the morning."""

    name: str
    about: str
    typed: str


AFTERWARDS = "09:45"
SCENES = (
    Scene("status", "holdfast status: goal, progress, working time, context, agents and plan of a session", "status"),
    Scene("timeline", "holdfast timeline: agents and pauses of a session over time", "timeline"),
)


def run_scenes() -> dict[str, str]:
    """Run the scenes' commands; returns what each prints, with colours. A command that fails ends the program."""
    with tempfile.TemporaryDirectory() as scratch:
        project = Path(scratch, "webshop")
        project.mkdir()
        home = {"HOLDFAST_HOME": str(Path(scratch, "home")), "HOLDFAST_ACTOR": "ada"}
        environ = {"PATH": os.environ["PATH"], "TZ": "UTC", "LC_ALL": "C.UTF-8", "FORCE_COLOR": "1", **home}
        for at, words in MORNING:
            _run(f"{words} --at {_moment(at)}", project, environ)
        own = _run("log --limit 1 --json", project, environ).partition('"session":"')[2][:8]
        return {
            scene.name: _run(f"{scene.typed} --at {_moment(AFTERWARDS)}", project, environ).replace(
                own, STANDS_FOR_ID
            )
            for scene in SCENES
        }


def _moment(at: str) -> str:
    return f"2026-10-06T{at}:00Z"


def _run(words: str, project: Path, environ: dict[str, str]) -> str:
    """What the command prints to a terminal."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
    child = subprocess.Popen(  # noqa: S603 (words of this file)
        [sys.executable, "-m", "holdfast", *shlex.split(words)],
        cwd=project, env=environ, stdin=subprocess.DEVNULL, stdout=its, stderr=its,
    )  # fmt: skip
    os.close(its)
    parts = list(_read_all(ours))
    os.close(ours)
    printed = b"".join(parts).decode().replace("\r\n", "\n")
    if child.wait() != 0:
        raise SystemExit(f"holdfast {words}\n{printed}")
    return printed


def _read_all(ours: int) -> Iterator[bytes]:
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # how Linux says that the other side has closed
            return
        if not part:
            return
        yield part


# ── drawing ──────────────────────────────────────────────────────────────────────────────────────────────

CELL, LINE, SIZE, MARGIN, BAR = 8.4, 20, 14, 22, 38
BACKGROUND, EDGE, INK, FAINT = "#171b22", "#5b6472", "#d7dce3", "#8b94a3"
COLOURS = {
    31: "#ff7b72", 32: "#6cc98a", 33: "#e3b341", 34: "#79b8ff", 35: "#d2a8ff", 36: "#5ccfe6",
}  # fmt: skip
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', 'Liberation Mono', monospace"
_CODE = re.compile("\x1b\\[([0-9;]*)m")


class Piece(NamedTuple):
    """Words of one style, and the column they begin at."""

    column: int
    words: str
    colour: str
    bold: bool


def pieces(line: str) -> Iterator[Piece]:
    colour, bold, dim, column = INK, False, False, 0
    parts = _CODE.split(line)
    for index, part in enumerate(parts):
        if index % 2:
            for code in (int(each or 0) for each in part.split(";")):
                match code:
                    case 0:
                        colour, bold, dim = INK, False, False
                    case 1:
                        bold = True
                    case 2:
                        dim = True
                    case 22:
                        bold = dim = False
                    case 39:
                        colour = INK
                    case _:
                        colour = COLOURS.get(code, INK)
            continue
        # Split where there is room: a font of another width must not push what follows out of its column.
        for found in re.finditer(r"\S+(?: \S+)*", part):
            before = column + width_of(part[: found.start()])
            yield Piece(before, found.group(), FAINT if dim and colour == INK else colour, bold)
        column += width_of(part)


def draw(scene: Scene, printed: str) -> str:
    typed = f"\x1b[32m$\x1b[39m \x1b[1mholdfast {scene.typed}\x1b[22m"
    lines = [typed, *printed.rstrip("\n").split("\n")]
    width = round(COLUMNS * CELL + 2 * MARGIN)
    height = BAR + len(lines) * LINE + MARGIN
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="t">',
        f'<title id="t">{escape(scene.about)}</title>',
        f'<rect x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="9" fill="{BACKGROUND}" stroke="{EDGE}"/>',
        *(f'<circle cx="{x}" cy="19" r="5.5" fill="#3a414d"/>' for x in (24, 43, 62)),
        f'<g font-family="{FONT}" font-size="{SIZE}" xml:space="preserve">',
    ]
    for number, line in enumerate(lines):
        y = BAR + number * LINE + 15
        for piece in pieces(line):
            weight = ' font-weight="bold"' if piece.bold else ""
            out.append(
                f'<text x="{MARGIN + piece.column * CELL:g}" y="{y}" textLength="{width_of(piece.words) * CELL:g}"'
                f' lengthAdjust="spacingAndGlyphs" fill="{piece.colour}"{weight}>{escape(piece.words)}</text>'
            )
    return "\n".join([*out, "</g>", "</svg>", ""])


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    printed = run_scenes()
    for scene in SCENES:
        path = IMAGES / f"{scene.name}.svg"
        path.write_text(draw(scene, printed[scene.name]), encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main()
