"""Backfill: read what agents recorded before Holdfast was connected, and record it as sessions.

What was read is noted per store, so that a second run reads only transcripts that changed. The readers of agents that
were never used here are not loaded: eight readers take longer to load than most machines have agents to read.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.conversations.adapters.files import collect_read_errors, note_read_error
from holdfast.conversations.adapters.transcript import Transcript, TranscriptReader, TranscriptSource, load_reader
from holdfast.core.agent_programs import AGENT_PROGRAMS
from holdfast.core.canonical import digest
from holdfast.core.decode import decodable
from holdfast.core.errors import Failed, HoldfastError, Invalid
from holdfast.core.times import DAY
from holdfast.machine import files
from holdfast.machine.os_errors import display_path
from holdfast.workspace.agent_dirs import AgentDirs
from holdfast.workspace.recorder import note_secret_rules

if TYPE_CHECKING:
    from holdfast.conversations.backfill.placement import TranscriptRecorder
    from holdfast.workspace.workspace import Workspace


def used(name: str, places: AgentDirs) -> bool:
    """Whether the agent may have conversations here: its directory is there, or could be elsewhere."""
    directory = AGENT_PROGRAMS[name].directory
    is_elsewhere = any(variable.startswith(f"{name.upper()}_") for variable in places.environ)
    if directory is None or is_elsewhere or places.system == "win32":
        return True
    return os.path.lexists(places.in_home(directory) if directory.startswith(".") else places.data(directory))


# Bytes read, bytes in all, and the path being read.
Progress = Callable[[int, int, str], None]

_MAX_TRANSCRIPTS: Final = 48  # in one transaction
_MAX_SIGNALS: Final = 20_000
_MAX_PROBLEMS: Final = 50


class BackfillResult(msgspec.Struct):
    """The result for one agent."""

    agent: str
    sources: int = 0
    # How many of them had to be read: the others have not changed.
    read: int = 0
    conversations: int = 0
    sessions: int = 0
    grown: int = 0
    events: int = 0
    worked: int = 0
    problems: list[str] = []
    # Files and directories that could not be read, each with the reason.
    unread: list[str] = []


class _AgentSources(msgspec.Struct):
    agent: str
    reader: TranscriptReader | None
    sources: list[tuple[TranscriptSource, int]]
    # What could not be listed, with the reason.
    refused: dict[str, str]


def backfill(
    ws: Workspace,
    places: AgentDirs,
    names: Sequence[str] = (),
    *,
    since: int | None = None,
    progress: Progress | None = None,
) -> list[BackfillResult]:
    """Read the transcripts of these agents (or all), and record what is new.

    Conversations that ended before `since` are skipped. What cannot be read is listed in `problems`.
    """
    agents = [_AgentSources(name, item, *_sources(item, places)) for name, item in _readers(names, places)]
    total = sum(size for item in agents for _, size in item.sources)
    ws.collect()
    meter = _Meter(progress, total)
    results = [_AgentBackfill(ws, item, since, meter).record_all() for item in agents]
    ws.recorded(())
    ws.follow()
    return results


def _readers(names: Sequence[str], places: AgentDirs) -> Iterator[tuple[str, TranscriptReader | None]]:
    """The readers of these agents, or all; None where there is certainly nothing to read."""
    for name in dict.fromkeys(names or AGENT_PROGRAMS):
        yield name, load_reader(name) if used(name, places) else None


def unread_errors(results: Sequence[BackfillResult]) -> list[HoldfastError]:
    """The errors to report if not everything could be read."""
    sentences = [sentence for backfilled in results for sentence in backfilled.unread]
    if not sentences:
        return []
    more = f"; and {len(sentences) - 1} more" if len(sentences) > 1 else ""
    return [
        Failed(
            f"not all conversations could be read: {sentences[0]}{more}",
            hint="Fix that and run it again; what could be read is recorded.",
            operation="backfill",
        )
    ]


def _sources(
    agent_reader: TranscriptReader | None, places: AgentDirs
) -> tuple[list[tuple[TranscriptSource, int]], dict[str, str]]:
    sources = []
    with collect_read_errors() as refused:
        for source in agent_reader.sources(places) if agent_reader is not None else ():
            try:
                status = os.stat(source.path)
                size = status.st_size if stat.S_ISREG(status.st_mode) else 0
            except (OSError, ValueError):
                size = 0
            sources.append((source, size))
    return sources, refused


class _Meter:
    """Reports progress."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress = progress
        self._total = total
        self._done = 0

    def add(self, size: int, name: str) -> None:
        self._done += size
        if self._progress is not None:
            self._progress(self._done, self._total, name)


class _AgentBackfill:
    """Reads and records the transcripts of one agent."""

    def __init__(self, ws: Workspace, agent: _AgentSources, since: int | None, meter: _Meter) -> None:
        self._ws = ws
        self._agent = agent
        self._since = since
        self._meter = meter
        self._result = BackfillResult(agent.agent, sources=len(agent.sources))
        self._note_refused(agent.refused)
        self._waiting: list[tuple[Transcript, TranscriptSource]] = []
        self._complete: dict[TranscriptSource, bool] = {}
        self._signals = 0
        # Continuations are recorded after everything else, by their times.
        self._later: list[tuple[int, TranscriptSource]] = []
        self._transcript_recorder: TranscriptRecorder | None = None

    @property
    def _recorder(self) -> TranscriptRecorder:
        """Loaded when there is something to record, which is rare."""
        if self._transcript_recorder is None:
            from holdfast.conversations.backfill.placement import TranscriptRecorder

            self._transcript_recorder = TranscriptRecorder(self._ws)
        return self._transcript_recorder

    def record_all(self) -> BackfillResult:
        if not self._agent.sources:
            return self._result
        self._progress = BackfillProgress(self._ws.home.path, self._agent.agent, lambda: store_mark(self._ws))
        try:
            for source, size in self._agent.sources:
                if not self._progress.knows(source.path, source.stamp) and not self._too_old(source):
                    self._result.read += 1
                    self._read(source)
                self._meter.add(size, source.path)
            for _, source in sorted(self._later):
                self._read(source, with_forks=True)
            self._flush()
        finally:
            self._progress.keep({source.path for source, _ in self._agent.sources})
        return self._result

    def _too_old(self, source: TranscriptSource) -> bool:
        """Whether a file was last written before `since`; a day is allowed for wrong clocks."""
        if self._since is None:
            return False
        try:
            status = os.stat(source.path)
        except (OSError, ValueError):
            return False
        return stat.S_ISREG(status.st_mode) and status.st_mtime * 1000 < self._since - DAY

    def _read(self, source: TranscriptSource, *, with_forks: bool = False) -> None:
        complete = True
        with collect_read_errors() as refused:
            for place, transcript in enumerate(self._transcripts(source)):
                if transcript.parent is not None and place == 0 and not with_forks:
                    self._later.append((transcript.began, source))
                    return
                self._note(source, transcript.problems)
                if not transcript.signs and not transcript.signals:
                    complete &= not transcript.problems  # unreadable is not empty: the next run tries again
                    continue
                if self._since is not None and transcript.ended < self._since:
                    complete = False
                    continue
                self._result.conversations += 1
                # A conversation that may go on is read again by the next run.
                complete &= self._recorder.is_closed(transcript)
                self._recorder.prepare(transcript)
                self._waiting.append((transcript, source))
                self._signals += len(transcript.signals)
        self._note_refused(refused)
        self._complete[source] = complete and not refused
        if len(self._waiting) >= _MAX_TRANSCRIPTS or self._signals >= _MAX_SIGNALS:
            self._flush()

    def _transcripts(self, source: TranscriptSource) -> Iterator[Transcript]:
        """Read a source. An exception of the reader becomes a problem, and does not stop the others."""
        assert self._agent.reader is not None
        transcripts: Iterator[Transcript] | None = None
        while True:
            try:
                transcripts = self._agent.reader.read(source) if transcripts is None else transcripts
                transcript = next(transcripts, None)
            except Exception as error:  # noqa: BLE001 (see above)
                if isinstance(error, OSError):
                    note_read_error(source.path, error)
                reason = getattr(error, "message", None) or getattr(error, "strerror", None) or type(error).__name__
                transcript = Transcript(agent=self._agent.agent, conversation="", began=0, ended=0)
                transcript.problems = [f"cannot be read ({reason})"]
                transcripts = iter(())
            if transcript is None:
                return
            yield transcript

    def _note(self, source: TranscriptSource, problems: list[str]) -> None:
        for sentence in problems:
            if len(self._result.problems) < _MAX_PROBLEMS:
                self._result.problems.append(f"{display_path(source.path)}: {sentence}")

    def _note_refused(self, refused: dict[str, str]) -> None:
        known = self._result.unread
        names = (f"{display_path(path)} ({why})" for path, why in refused.items())
        known += [name for name in names if name not in known]

    def _flush(self) -> None:
        if self._waiting:
            # Not a unit of work: followers would run each time, and no mirror shows past sessions.
            with self._ws.store().transaction() as transaction:
                note_secret_rules(self._ws.store(), transaction)
                for transcript, source in self._waiting:
                    try:
                        outcome = self._recorder.record(transaction, transcript)
                    except Invalid as error:  # something in it cannot be stored; the next one may be fine
                        self._note(source, [f"cannot be recorded ({error.message})"])
                        continue
                    self._result.sessions += outcome.new
                    self._result.grown += outcome.grown
                    self._result.events += outcome.events
                    self._result.worked += outcome.worked
        for source, complete in self._complete.items():
            if complete:
                self._progress.note(source.path, source.stamp)
        self._waiting.clear()
        self._complete.clear()
        self._signals = 0


# ── what was read before ───────────────────────────────────────────────────────────────────────────────


DIRECTORY: Final = "backfilled"
# Raised when readers get better: then everything is read again.
READING_VERSION: Final = 2
_MAX_PROGRESS: Final = 256 << 20


class _SavedProgress(msgspec.Struct, rename={"reading": "telling"}):
    reading: int = 0
    # The store that has these transcripts, and its size then. A smaller one is a new store.
    store: str = ""
    size: int = 0
    sources: dict[str, str] = {}


class BackfillProgress:
    """The sources of one agent that were read into one store. `store` gives its mark and present size."""

    def __init__(self, home: str, agent: str, store: Callable[[], tuple[str, int]]) -> None:
        self._home = home
        self._path = os.path.join(home, DIRECTORY, f"{agent}.json")
        self._store = store
        self._sources = self._load()
        self._changed = False

    def knows(self, path: str, stamp: str) -> bool:
        return self._sources.get(_path_digest(path)) == _stamp_digest(stamp)

    def note(self, path: str, stamp: str) -> None:
        self._sources[_path_digest(path)] = _stamp_digest(stamp)
        self._changed = True

    def keep(self, present: set[str] | None = None) -> None:
        """Save it, and forget sources that no longer exist."""
        if present is not None:
            names = {_path_digest(path) for path in present}
            deleted = [name for name in self._sources if name not in names]
            for name in deleted:
                del self._sources[name]
            self._changed |= bool(deleted)
        if not self._changed:
            return
        saved = _SavedProgress(READING_VERSION, *self._store(), self._sources)
        files.make_private_dir(os.path.join(self._home, DIRECTORY))
        files.write_atomic(self._path, msgspec.json.encode(saved) + b"\n", durable=False)
        self._changed = False

    def _load(self) -> dict[str, str]:
        if not os.path.lexists(self._path):
            return {}
        try:
            saved = msgspec.json.decode(
                files.read_limited(self._path, _MAX_PROGRESS, subject="what was read"), type=decodable(_SavedProgress)
            )
        except (msgspec.MsgspecError, HoldfastError, ValueError):
            return {}
        store, size = self._store()
        return (
            saved.sources if (saved.reading, saved.store) == (READING_VERSION, store) and saved.size <= size else {}
        )


def store_mark(ws: Workspace) -> tuple[str, int]:
    """The store's identity and size: bytes of a file, events of a server."""
    name, path = digest(ws.address.key.encode(errors="surrogatepass"))[:16], ws.address.path
    if path is None:
        return f"{name}.server", ws.store().latest_place()
    try:
        status = os.stat(path)
    except OSError:
        return "", -1
    return f"{name}.{status.st_ino}", status.st_size


def _path_digest(path: str) -> str:
    """A digest: paths may be undecodable, and are private."""
    return digest(path.encode(errors="surrogatepass"))[:24]


def _stamp_digest(stamp: str) -> str:
    return digest(stamp.encode(errors="surrogatepass"))[:24]
