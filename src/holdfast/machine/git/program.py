"""Run git: no shell, no questions, limits of time, output and memory, and its own words when it says no."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, NamedTuple

from holdfast.core.errors import Failed, NotFound

_Stream = int | IO[bytes]

WRITE_PATIENCE = 600.0  # hooks of the person run whole test suites, and filters fetch large files
_MAX_OUTPUT = 64 << 20
_MAX_ERROR_SIZE = 1 << 16
_MAX_MEMORY = 512 << 20  # for what is computed from a repository, not for files that git maps

# Set while git runs a hook. A call of Holdfast from a hook still means the directory that it names.
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
    "GIT_ATTR_SOURCE",
    "GIT_CONFIG",
    "GIT_EXTERNAL_DIFF",
    "GIT_GRAFT_FILE",
    "GIT_QUARANTINE_PATH",
    "GIT_REFERENCE_BACKEND",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
)
_ALWAYS = {"GIT_TERMINAL_PROMPT": "0", "GIT_EDITOR": ":", "GIT_PAGER": "cat"}


class GitMissing(Failed):
    """There is no git program to ask."""


class GitFailed(Failed):
    """Git said no; its own words are the hint."""


class GitSlow(Failed):
    """Git, or a hook or program it called, took longer than anyone waits."""

    retry_helps = True


class GitAnswer(NamedTuple):
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

    def _failed(self, verb: str, answer: GitAnswer) -> GitFailed:
        return GitFailed(
            f"git {verb} did not work",
            hint=answer.words or f"git left with exit code {answer.code} and said nothing.",
            operation=f"git {verb}",
            file=self.root,
        )

    def _run(
        self, args: Sequence[str], *, env: Mapping[str, str], timeout: float, most: int = _MAX_OUTPUT
    ) -> GitAnswer:
        """Run git for its output. It is stopped when that takes too long, or is more than `most` bytes."""
        import tempfile
        from threading import Event, Timer

        expired = Event()

        def expire() -> None:
            expired.set()
            _end(process)

        with (
            tempfile.TemporaryFile() as err,
            self._started(args, env, timeout, subprocess.DEVNULL, subprocess.PIPE, err) as process,
        ):
            assert process.stdout is not None
            _limit_memory(process.pid)
            timer = Timer(timeout, expire)
            timer.start()
            try:
                out = process.stdout.read(most + 1)
                if len(out) > most:
                    _end(process)
                process.wait()
            finally:
                timer.cancel()
            process.stdout.close()
            if expired.is_set():
                raise GitSlow(
                    f"git {verb_of(args)} was stopped after {timeout:g} s",
                    hint="The repository may be very large, or lie on a disk that does not answer.",
                    operation=f"git {verb_of(args)}",
                    file=self.root,
                )
            if len(out) > most:
                raise GitFailed(f"git {verb_of(args)} gave more than {most} bytes", operation="git", file=self.root)
            err.seek(0)
            return GitAnswer(process.returncode, out, words_of(err.read(_MAX_ERROR_SIZE)))

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
            # A new session, so that nothing git calls can wait for an answer at the terminal.
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
            verb = verb_of(args)
            raise GitSlow(
                f"git {verb} was stopped after {timeout:g} s",
                hint="Something it called may be waiting for an answer: a hook, a signing program, a filter.",
                operation=f"git {verb}",
                file=self.root,
            ) from None
        except OverflowError:  # Python's own waiting, where every clock of the system is absurd
            raise GitFailed("git cannot be waited for under this clock", operation="git", file=self.root) from None
        finally:
            if process.returncode is None:
                _stop(process)


def verb_of(args: Sequence[str]) -> str:
    return next(arg for arg in args if not arg.startswith("-") and "=" not in arg)


def words_of(err: bytes) -> str:
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
    """End git and what it called, and collect what it left in its pipes."""
    _end(process)
    with suppress(subprocess.TimeoutExpired, ValueError):
        process.communicate(timeout=5)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Signal git and what it called; first kindly, because then it takes its lock files away."""
    import signal

    for name in ("SIGTERM", "SIGKILL"):
        if hasattr(os, "killpg"):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, getattr(signal, name))
        else:
            process.kill()
        with suppress(subprocess.TimeoutExpired, OverflowError):
            process.wait(timeout=2)
            return


def _limit_memory(pid: int) -> None:
    """Objects of a few bytes can stand for trees without end: git gets no more memory than a large project needs."""
    with suppress(ImportError, AttributeError, OSError, ValueError):
        import resource

        resource.prlimit(pid, resource.RLIMIT_DATA, (_MAX_MEMORY, _MAX_MEMORY))
