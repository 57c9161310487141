"""Run git without a shell or prompts, with limits on time, output and memory."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, NamedTuple

from holdfast.core.errors import Failed, NotFound

_Stream = int | IO[bytes]

WRITE_PATIENCE = 600.0  # a person's hooks may run whole test suites, and their filters fetch large files
_MAX_OUTPUT = 64 << 20
_MAX_ERROR_SIZE = 1 << 16
_MAX_MEMORY = 512 << 20  # for what is computed from a repository, not for files that git maps

# Git sets these while it runs a hook. Holdfast called from a hook still means the directory that it was given.
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
    """The git program is not installed."""


class GitFailed(Failed):
    """Git failed; its own message is the hint."""


class GitSlow(Failed):
    """Git, or a hook or program that it called, exceeded its time limit."""

    retry_helps = True


class GitResult(NamedTuple):
    code: int
    out: bytes
    message: str

    @property
    def text(self) -> str:
        return os.fsdecode(self.out).strip("\n")


class GitProgram:
    """Runs git in one directory."""

    def __init__(self, root: str, *, env: Mapping[str, str] | None = None, patience: float = WRITE_PATIENCE) -> None:
        self.root = root
        self._env = os.environ if env is None else env
        self._patience = patience
        self._program: str | None = None

    def _failed(self, verb: str, result: GitResult) -> GitFailed:
        return GitFailed(
            f"git {verb} failed",
            hint=result.message or f"It exited with code {result.code} and printed no message.",
            operation=f"git {verb}",
            file=self.root,
        )

    def _run(
        self, args: Sequence[str], *, env: Mapping[str, str], timeout: float, max_size: int = _MAX_OUTPUT
    ) -> GitResult:
        """Run git for its output. It is stopped when it takes too long or prints more than `max_size` bytes."""
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
                out = process.stdout.read(max_size + 1)
                if len(out) > max_size:
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
            if len(out) > max_size:
                raise GitFailed(
                    f"git {verb_of(args)} printed more than {max_size} bytes", operation="git", file=self.root
                )
            err.seek(0)
            return GitResult(process.returncode, out, message_from(err.read(_MAX_ERROR_SIZE)))

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
        except OverflowError:  # from Python's own wait, if every clock of the system is absurd
            raise GitFailed(
                "cannot wait for git: the system clock is wrong", operation="git", file=self.root
            ) from None
        finally:
            if process.returncode is None:
                _stop(process)


def verb_of(args: Sequence[str]) -> str:
    return next(arg for arg in args if not arg.startswith("-") and "=" not in arg)


def message_from(err: bytes) -> str:
    text = err.decode("utf-8", "replace").strip()
    return text if len(text) <= 2000 else f"{text[:1000]}\n…\n{text[-1000:]}"


def _find(search: str) -> str:
    # Only absolute entries: a `git` in an unpacked archive must not be run.
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
    """End git and the processes it started, and read what is left in its pipes."""
    _end(process)
    with suppress(subprocess.TimeoutExpired, ValueError):
        process.communicate(timeout=5)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Signal git and the processes it started; SIGTERM first, because then git removes its lock files."""
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
    """Limit git's memory to what a large project needs: a few bytes of objects can expand into endless trees."""
    with suppress(ImportError, AttributeError, OSError, ValueError):
        import resource

        resource.prlimit(pid, resource.RLIMIT_DATA, (_MAX_MEMORY, _MAX_MEMORY))
