"""The documentation is true: examples run and print what it says, links lead somewhere, pictures are current.

In README.md and docs/, a `console` block is typed line by line into one shell per page, and a `python` block is run
in place; a `text` block right after it is its output. Each page has its own home and a git repository `webshop` with
one commit. A line of output matches loosely: `…` stands for anything (alone on its line, for any lines), a date for
any date, a time to the second for any such time, and a session's id, the words of a device or a vault, and an age key
for those of this run. `# exit 3` at the end of a command is its exit code. Blocks in other languages are not run. A
page with several devices has a home for each, HOLDFAST_HOME with a dash and the device's name; nothing syncs there in
the background, so that the output of a sync is known.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from html import unescape
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

from tests.docs.page_server import NAMED, in_answer, in_command, made_once, page_server

__all__ = ["made_once"]
ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINKED = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
PATIENCE = 60.0  # seconds for a page

_ID = re.compile(r"\b(?=[0-9a-f]{0,7}[a-f])[0-9a-f]{8}\b")
_WORDS = re.compile(r"\b[a-z]{3,7}(?:-[a-z]{3,7}){12}\b")
_AGE = re.compile(r"\bage1[0-9a-z]{58}\b")
# Values that a later command may repeat, and their patterns.
_NAMES = {"id": "[0-9a-f]{8}", "words": "[a-z]+(?:-[a-z]+){12}", "age": "age1[0-9a-z]{58}"}
_NAMED = re.compile(f"{_WORDS.pattern}|{_AGE.pattern}|{_ID.pattern}")
_VARIES = re.compile(
    r"(?P<any>…)"
    r"|(?P<uuid>\b[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b)"
    r"|(?P<hash>\b[0-9a-f]{64}\b)"
    r"|(?P<date>\b20\d\d-?\d\d-?\d\d(?: \d\d:\d\d:\d\d)?)"
    rf"|(?P<words>{_WORDS.pattern})"
    rf"|(?P<age>{_AGE.pattern})"
    rf"|(?P<id>{_ID.pattern})"
)


class Step(NamedTuple):
    """One thing to do: its place, its exit code and its output (None: not documented)."""

    line: int
    source: str
    python: bool
    code: int
    expected: list[str] | None


class Block(NamedTuple):
    line: int
    language: str
    lines: list[str]


def blocks(page: Path) -> list[Block]:
    page_blocks: list[Block] = []
    current: Block | None = None
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if not line.lstrip().startswith("```"):
            if current is not None:
                current.lines.append(line)
        elif current is None:
            current = Block(number, line.strip().removeprefix("```").split(" ")[0], [])
        else:
            page_blocks.append(current)
            current = None
    assert current is None, f"{page}: the block at line {current.line} has no end"
    return page_blocks


def steps(page: Path) -> list[Step]:
    page_steps: list[Step] = []
    for block in blocks(page):
        if block.language == "console":
            page_steps += _typed(page, block)
        elif block.language == "python":
            page_steps.append(Step(block.line, "\n".join(block.lines) + "\n", python=True, code=0, expected=None))
        elif block.language == "text" and page_steps and page_steps[-1].python and page_steps[-1].expected is None:
            page_steps[-1] = page_steps[-1]._replace(expected=block.lines)
    return page_steps


def _typed(page: Path, block: Block) -> Iterator[Step]:
    assert block.lines[0].startswith("$ "), f"{page}:{block.line}: a console block begins with `$ `"
    for number, line in enumerate(block.lines):
        if not line.startswith("$ "):
            continue
        source = line.removeprefix("$ ")
        end = number + 1
        while source.endswith("\\"):
            source += "\n" + block.lines[end]
            end += 1
        last = next((n for n in range(end, len(block.lines)) if block.lines[n].startswith("$ ")), len(block.lines))
        stated = re.search(r"# exit (\d+)$", source)
        expected = block.lines[end:last]
        while expected and not expected[-1].strip():
            expected.pop()
        yield Step(
            block.line + number + 1, source, python=False, code=int(stated[1]) if stated else 0, expected=expected
        )


def _evening() -> str:
    """A time zone in which it is about nine in the evening: examples name times of today, which must be past."""
    ahead = 21 - dt.datetime.now(dt.UTC).hour  # of UTC; POSIX writes it the other way round
    return f"DOC{-ahead:+d}"


class PageShell:
    """A shell in a scratch project with a scratch home, in which one page is run."""

    def __init__(
        self, scratch: Path, devices: Iterable[str] = (), zone: str = "UTC", around: Mapping[str, str] | None = None
    ) -> None:
        self._files = scratch
        project = scratch / "webshop"
        project.mkdir()
        data = scratch / "data"
        kept = ("PATH", "LANG", "SYSTEMROOT", "TMPDIR")
        self.environ = {name: os.environ[name] for name in kept if name in os.environ} | {
            # The library reads no environment variable: by this one, the platform's default is the same home.
            "XDG_DATA_HOME": str(data), "HOLDFAST_HOME": str(data / "holdfast"), "HOME": str(scratch),
            "HOLDFAST_ACTOR": "ada", "TZ": zone, "LC_ALL": "C.UTF-8", "COLUMNS": "90", "PYTHONWARNINGS": "error",
            "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull,
            "GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.org",
            "GIT_COMMITTER_NAME": "Ada", "GIT_COMMITTER_EMAIL": "ada@example.org", **(around or {}),
        }  # fmt: skip
        self.environ["PATH"] = str(Path(sys.executable).parent) + os.pathsep + self.environ["PATH"]
        (project / "README.md").write_text("# webshop\n", encoding="utf-8")
        for words in ("init -q -b main", "add .", "commit -q -m First"):
            subprocess.run(["git", *words.split()], cwd=project, env=self.environ, check=True)
        self._shell = subprocess.Popen(
            ["sh"], cwd=project, env=self.environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        self._watchdog = threading.Timer(PATIENCE, os.killpg, (self._shell.pid, signal.SIGKILL))
        self._watchdog.daemon = True
        self._watchdog.start()
        self._do("holdfast config set device.name laptop")
        for device in ("", *(f"-{name}" for name in devices)):
            self._do(f'HOLDFAST_HOME="$HOLDFAST_HOME{device}" holdfast config set sync.background no')

    def close(self) -> None:
        """End the shell and everything an example left in the background."""
        self._watchdog.cancel()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._shell.pid, signal.SIGKILL)
        self._shell.communicate()

    def run_page(self, step: Step) -> tuple[int, str]:
        if not step.python:
            return self._do(step.source)
        file = self._files / f"example-{step.line}.py"
        file.write_text(step.source, encoding="utf-8")
        return self._do(f"python {file}")

    def _do(self, source: str) -> tuple[int, str]:
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._shell.stdin.write(f"{{ {source}\n}} </dev/null\nprintf '\\036%d\\n' $?\n".encode())
        self._shell.stdin.flush()
        printed = ""
        while "\x1e" not in printed:
            line = self._shell.stdout.readline()
            assert line, f"the shell ended after: {source}"
            printed += line.decode()
        shown, _, code = printed.partition("\x1e")
        return int(code), shown


class RunNames:
    """The ids of this run that correspond to the documented ones."""

    def __init__(self) -> None:
        self._real: dict[str, str] = {}

    def in_command(self, source: str) -> str:
        return _NAMED.sub(lambda varying: self._real.get(varying[0], varying[0]), source)

    def matches(self, expected: list[str], printed: list[str]) -> bool:
        """Whether every documented line is there, in order, with only what `…` allows in between."""
        if not expected:
            return not printed
        if expected[0].strip() == "…":
            return any(self.matches(expected[1:], printed[skip:]) for skip in range(len(printed) + 1))
        return bool(printed) and self._is_line(expected[0], printed[0]) and self.matches(expected[1:], printed[1:])

    def _is_line(self, expected: str, printed: str) -> bool:
        fresh: dict[str, str] = {}
        pattern, at = "", 0
        for varying in _VARIES.finditer(expected.rstrip()):
            pattern += re.escape(expected[at : varying.start()])
            at = varying.end()
            match varying.lastgroup:
                case "any":
                    pattern += ".*"
                case "date":
                    pattern += re.sub(r"\d", r"\\d", re.escape(varying[0]))
                case "id" | "words" | "age" if varying[0] in self._real:
                    pattern += self._real[varying[0]]
                case "id" | "words" | "age" if varying[0] in fresh.values():
                    group = next(name for name, id_ in fresh.items() if id_ == varying[0])
                    pattern += f"(?P={group})"
                case "id" | "words" | "age" as kind:
                    group = f"g{len(fresh)}"
                    fresh[group] = varying[0]
                    pattern += f"(?P<{group}>{_NAMES[kind]})"
                case _:
                    pattern += r"[0-9a-f\-]" + f"{{{len(varying[0])}}}"
        match = re.fullmatch(pattern + re.escape(expected.rstrip()[at:]), printed.rstrip())
        if match is not None:
            self._real.update({documented: match[group] for group, documented in fresh.items()})
        return match is not None


def _run(page: Path) -> None:
    # A short path, like a person's: lines with it are not wrapped.
    with tempfile.TemporaryDirectory(prefix="hf", ignore_cleanup_errors=True) as scratch:
        written = page.read_text(encoding="utf-8")
        devices = sorted(set(re.findall(r"\$HOLDFAST_HOME-(\w+)", written)))
        zone = _evening() if re.search(r"--(at|from|to) \d\d:\d\d", written) else "UTC"
        served = any(NAMED in step.source for step in steps(page))
        with page_server(wanted=served) as around:
            _run_in(PageShell(Path(scratch), devices, zone, around), page, served=served)


def _run_in(page_shell: PageShell, page: Path, *, served: bool) -> None:
    names = RunNames()
    try:
        for step in steps(page):
            source = step.source if step.python else in_command(names.in_command(step.source))
            code, output = page_shell.run_page(step._replace(source=source))
            printed = in_answer(output) if served else output
            where = f"{page.relative_to(ROOT)}:{step.line}: {step.source.splitlines()[0]}"
            assert code == step.code, f"{where}\nended with {code}, not {step.code}, and printed:\n{printed}"
            lines = printed.rstrip("\n").split("\n") if printed.strip() else []
            if step.expected is not None and not names.matches(step.expected, lines):
                wanted = "\n".join(step.expected)
                pytest.fail(f"{where}\nshould print:\n{wanted}\n\nand printed:\n{printed}", pytrace=False)
    finally:
        page_shell.close()


@pytest.mark.parametrize(
    "page", [page for page in PAGES if steps(page)], ids=lambda page: str(page.relative_to(ROOT))
)
def test_examples_of_a_page_run_as_documented(page: Path, made_once: None) -> None:
    """In the page's order."""
    before = dt.datetime.now(tz=dt.UTC).date()
    try:
        _run(page)
    except (AssertionError, pytest.fail.Exception):
        if dt.datetime.now(tz=dt.UTC).date() == before:
            raise
        _run(page)  # `--at 09:00` is of today, and today has just changed


def test_important_pages_have_examples() -> None:
    """The pages a newcomer reads first."""
    with_examples = {str(page.relative_to(ROOT)) for page in PAGES if steps(page)}
    assert with_examples >= {"README.md", "docs/start.md", "docs/guides/library.md", "docs/guides/crashes.md"}


def test_stale_example_fails(tmp_path: Path) -> None:
    """Other output, another exit code or a missing line; loose documentation passes."""
    names = RunNames()
    assert names.matches(["Started 7f3a9c21  Goal", "…"], ["Started 01ab23cd  Goal", "more", "and more"])
    assert names.in_command("holdfast show 7f3a9c21") == "holdfast show 01ab23cd"
    assert not names.matches(["Started 7f3a9c21  Goal"], ["Started 99ab23cd  Goal"])
    assert not names.matches(["one", "two"], ["one"])
    assert not names.matches(["one"], ["one", "two"])
    assert not names.matches(["5 min worked, …"], ["6 min worked, 2 min paused"])
    known, met = "-".join(["apple"] * 13), "-".join(["heron"] * 12 + ["oak"])
    assert names.matches([f"  this device  {known}"], [f"  this device  {met}"])
    assert names.in_command(f"holdfast device approve {known}") == f"holdfast device approve {met}"
    assert not names.matches([known], [known])
    page = tmp_path / "page.md"
    page.write_text("```console\n$ true\n$ echo one\ntwo\n```\n", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(globals(), "ROOT", tmp_path)
        with pytest.raises(pytest.fail.Exception, match=r"page\.md:3: echo one"):
            _run(page)


# ── links ────────────────────────────────────────────────────────────────────────────────────────────────


def _prose(page: Path) -> str:
    """The page without code."""
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`", "", text)


def _anchors(page: Path) -> set[str]:
    """Anchors of a page's headings, derived as GitHub derives them."""
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    anchors: set[str] = set()
    for heading in re.findall(r"^#{1,6} +(.*)$", text, re.MULTILINE):
        plain = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower())
        anchors.add(plain.strip().replace(" ", "-"))
    return anchors


@pytest.mark.parametrize("page", LINKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_existing_files_and_headings(page: Path) -> None:
    """Within this repository."""
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", _prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        if not there.exists() or (anchor and there.suffix == ".md" and anchor not in _anchors(there)):
            broken.append(target)
    assert broken == []


def test_every_page_is_linked() -> None:
    """From docs/README.md, directly or indirectly."""
    index = ROOT / "docs" / "README.md"
    reached, ahead = {index.resolve()}, [index]
    while ahead:
        page = ahead.pop()
        for target in re.findall(r"\]\(([^)\s#]+\.md)(?:#[^)\s]*)?\)", _prose(page)):
            there = (page.parent / target).resolve()
            if not re.match(r"[a-z]+:", target) and there not in reached and there.exists():
                reached.add(there)
                ahead.append(there)
    assert sorted(str(page) for page in PAGES[1:] if page.resolve() not in reached) == []


# ── the log, computed again ──────────────────────────────────────────────────────────────────────────────


def test_worked_example_has_the_computed_digests() -> None:
    """The event in docs/internals/log.md."""
    from holdfast.core.envelope import make_event
    from holdfast.core.times import parse_time

    page = ROOT / "docs" / "internals" / "log.md"
    example = next(block for block in blocks(page) if block.language == "json")
    shown = json.loads("\n".join(example.lines))
    data = json.dumps(shown["data"], sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    sealed = make_event(
        session=shown["session"], writer=shown["writer"], seq=shown["seq"], prev=shown["prev"], clock=shown["clock"],
        at=parse_time(shown["at"]), actor=shown["actor"], type=shown["type"], version=shown["v"], data=data,
        salt=bytes.fromhex(shown["salt"]), key=shown["key"],
    )  # fmt: skip
    assert (sealed.body, sealed.hash) == (shown["body"], shown["hash"])
    assert hashlib.sha256(bytes.fromhex(shown["salt"]) + data).hexdigest() == shown["body"]


# ── the pictures ─────────────────────────────────────────────────────────────────────────────────────────


def _picture() -> ModuleType:
    spec = importlib.util.spec_from_file_location("picture", ROOT / "docs" / "picture.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["picture"] = module
    spec.loader.exec_module(module)
    return module


def _texts(svg: str) -> list[str]:
    """The text in a picture, without numbers and lengths of bars."""
    texts = [unescape(text) for text in re.findall(r"<text[^>]*>([^<]*)</text>", svg)]
    return [re.sub(r"(.)\1{2,}", r"\1", re.sub(r"[0-9▏▎▍▌▋▊▉█]+", "0", text)) for text in texts]


@pytest.mark.skipif(sys.platform == "win32", reason="pictures are drawn from a Unix terminal")
def test_pictures_are_current() -> None:
    """Their commands work and print what they show; otherwise run docs/picture.py."""
    picture = _picture()
    printed = picture.run_scenes()
    for scene in picture.SCENES:
        drawn = (ROOT / "docs" / "images" / f"{scene.name}.svg").read_text(encoding="utf-8")
        assert _texts(drawn) == _texts(picture.draw(scene, printed[scene.name])), scene.name
