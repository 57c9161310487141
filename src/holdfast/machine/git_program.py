"""Running git: no shell, no questions, a time limit, and its own words when it says no."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, NamedTuple

from holdfast.core.errors import Failed, NotFound

_Stream = int | IO[bytes]

READ_PATIENCE = 30.0
WRITE_PATIENCE = 600.0  # hooks run whole test suites, and filters fetch large files

# Set while git runs a hook. Whoever calls Holdfast from one still means the directory they named.
_STEERING = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_PREFIX",
    "GIT_NAMESPACE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_LITERAL_PATHSPECS",
    "GIT_GLOB_PATHSPECS",
    "GIT_NOGLOB_PATHSPECS",
    "GIT_ICASE_PATHSPECS",
)
_ALWAYS = {"GIT_TERMINAL_PROMPT": "0", "GIT_EDITOR": ":", "GIT_PAGER": "cat"}
# Writing keeps the person's locale: hooks read UTF-8 by it, and nothing written is parsed.
READING = {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1"}


class GitMissing(Failed):
    """There is no git program to ask."""


class GitFailed(Failed):
    """Git said no; its own words are the hint."""


class GitSlow(Failed):
    """Git, or a hook or program it called, took longer than anyone waits."""

    retry_helps = True


class Answer(NamedTuple):
    code: int
    out: bytes
    words: str

    @property
    def text(self) -> str:
        return os.fsdecode(self.out).strip("\n")


class GitProgram:
    """The git program, speaking for one directory."""

    def __init__(self, root: str, *, env: Mapping[str, str] | None = None, patience: float = WRITE_PATIENCE) -> None:
        self.root = root
        self._env = os.environ if env is None else env
        self._patience = patience
        self._program: str | None = None

    def _try(self, *args: str) -> Answer:
        return self._run(("-c", "core.fsmonitor=false", *args), env=READING, timeout=READ_PATIENCE)

    def _ask(self, *args: str) -> Answer:
        answer = self._try(*args)
        if answer.code:
            raise self._failed(_verb(args), answer)
        return answer

    def _maybe(self, *args: str) -> str | None:
        """The answer, None for git's "no"; but a repository git will not read is an error, not a "no"."""
        answer = self._try(*args)
        if answer.code > 1 or answer.code < 0:
            raise self._failed(_verb(args), answer)
        return answer.text if answer.code == 0 else None

    def _done(self, *args: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Answer:
        answer = self._write(*args, stdin=stdin, env=env)
        if answer.code:
            raise self._failed(_verb(args), answer)
        return answer

    def _failed(self, verb: str, answer: Answer) -> GitFailed:
        return GitFailed(
            f"git {verb} did not work",
            hint=answer.words or f"git left with exit code {answer.code} and said nothing.",
            operation=f"git {verb}",
            file=self.root,
        )

    def _run(self, args: Sequence[str], *, env: Mapping[str, str], timeout: float) -> Answer:
        with self._started(args, env, timeout, subprocess.DEVNULL, subprocess.PIPE, subprocess.PIPE) as process:
            out, err = process.communicate(timeout=timeout)
        return Answer(process.returncode, out, _words(err))

    def _write(self, *args: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Answer:
        # Files, not pipes: a pipe would end only with the last program that a hook left running behind it.
        import tempfile

        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            given.write(stdin)
            given.seek(0)
            with self._started(args, env or {}, self._patience, given, out, err) as process:
                process.wait(self._patience)
            out.seek(0)
            err.seek(0)
            return Answer(process.returncode, out.read(), _words(err.read()))

    @contextmanager
    def _started(
        self,
        args: Sequence[str],
        env: Mapping[str, str],
        timeout: float,
        stdin: _Stream,
        stdout: _Stream,
        stderr: _Stream,
        umask: int = -1,
    ) -> Iterator[subprocess.Popen[bytes]]:
        if self._program is None:
            self._program = _find(self._env.get("PATH", ""))
        inherited = {key: value for key, value in self._env.items() if key not in _STEERING}
        try:
            # No shell: the program is a full path, and names from outside are checked or stand after `--`.
            # A session of its own: nothing git calls can wait at the person's terminal for an answer.
            process = subprocess.Popen(  # noqa: S603
                [self._program, *args],
                cwd=self.root,
                env={**inherited, **_ALWAYS, **env},
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
                umask=umask,
            )
        except (FileNotFoundError, NotADirectoryError):
            raise NotFound(f"There is no directory {self.root}", operation="git", file=self.root) from None
        except (OSError, ValueError) as problem:
            raise GitFailed(f"git could not be started: {problem}", operation="git", file=self.root) from problem
        try:
            yield process
        except subprocess.TimeoutExpired:
            verb = _verb(args)
            raise GitSlow(
                f"git {verb} was stopped after {timeout:g} s",
                hint="Something it called may be waiting for an answer: a hook, a signing program, a filter.",
                operation=f"git {verb}",
                file=self.root,
            ) from None
        finally:
            if process.returncode is None:
                _stop(process)


def _verb(args: Sequence[str]) -> str:
    return next(a for a in args if not a.startswith("-") and "=" not in a)


def _words(err: bytes) -> str:
    text = err.decode("utf-8", "replace").strip()
    return text if len(text) <= 2000 else f"{text[:1000]}\n…\n{text[-1000:]}"


def _find(search: str) -> str:
    # Only absolute entries: a `git` lying in an unpacked archive must not become the git we run.
    name = "git.exe" if os.name == "nt" else "git"
    for entry in search.split(os.pathsep):
        candidate = Path(entry) / name
        if candidate.is_absolute() and candidate.is_file() and os.access(candidate, os.X_OK):
            return str(candidate)
    raise GitMissing(
        "The program git was not found",
        hint="Install git, or add its directory to PATH.",
        operation="git",
    )


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End git and what it called; first kindly, because then it takes its lock files away."""
    import signal

    for name in ("SIGTERM", "SIGKILL"):
        if hasattr(os, "killpg"):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, getattr(signal, name))
        else:
            process.kill()
        try:
            process.communicate(timeout=5)
        except (subprocess.TimeoutExpired, ValueError):
            continue
        return
