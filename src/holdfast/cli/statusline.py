"""The status line of an agent: one line about the session, drawn from a cached file within a few milliseconds.

The agent runs it after every message and shows its output, so it loads little: the keeper is opened only for a
conversation without a cached status. It also spools the payload, with the agent's context, cost and limits, and
starts a process that drains the spool.
"""

from __future__ import annotations

import os
import sys

from holdfast.cli.home_location import without_password
from holdfast.cli.paint import Paint
from holdfast.conversations import status_cache
from holdfast.core.agent_programs import with_status_line
from holdfast.machine.wall import Wall
from holdfast.workspace import server_outage, spool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

    from holdfast.cli.paint import Painted
    from holdfast.conversations.status_cache import Fields

_MAX_ID_LENGTH: Final = 200  # characters: what is longer is not a conversation's
_MAX_PAYLOAD: Final = 4 * 1024 * 1024
_MAX_AGE: Final = 10 * 60_000  # ms: if an update of the cache was missed, the line is wrong no longer than this
_MAX_AGE_SERVER: Final = 60_000  # ms: on a server, other machines continue sessions too
_MIN_INTERVAL: Final = 2.0  # seconds between two spooled payloads, and between two drains
_BAR_CELLS: Final = 10
_LEVELS: Final = ((85, "compress"), (70, "warning"), (50, "shown"), (0, "normal"))


def show(home: str, agent: str) -> int:
    """Print the line for the payload on standard input. Always 0: an agent could not act on an error."""
    raw = _input()
    payload = _object(raw)
    if payload is None or agent not in with_status_line():
        return 0
    now = Wall().now()
    name = _conversation(agent, payload)
    store = os.environ.get("HOLDFAST_STORE") or ""
    cached = _find_cached(home, name, _directory(payload), now, store)
    line = render_line(cached, payload, _paint(os.environ), now=now)
    if line:
        os.write(1, line.encode("utf-8", "replace") + b"\n")
    _spool_and_drain(home, agent, name, payload, raw, now, store)
    return 0


def document(home: str, agent: str, store: str = "") -> dict[str, object]:
    """The same for scripts: the line without colours, and what it is drawn from."""
    raw = _input()
    payload = _object(raw) or {}
    now = Wall().now()
    name = _conversation(agent, payload)
    cached = _find_cached(home, name, _directory(payload), now, store)
    worked, pause, _ = (None, "", 0) if cached is None else status_cache.work_at(cached, now)
    columns = _paint(os.environ).width
    line = render_line(cached, payload, Paint(columns, tty=True), now=now)
    try:
        _spool_and_drain(home, agent, name, payload, raw, now, store)
    except OSError as error:
        _note(home, error)
    return {
        "line": line.encode("utf-8", "replace").decode(),
        "agent": agent,
        "goal": None if cached is None else str(cached.get("goal") or "").encode("utf-8", "replace").decode(),
        "working_ms": worked,
        "pause": pause or None,
        "context_percent": context_percent(payload),
        "cost_usd": _number(_object_field(payload, "cost").get("total_cost_usd")),
    }


def _input() -> bytes:
    return b"" if sys.stdin is None else sys.stdin.buffer.read(_MAX_PAYLOAD)


def _spool_and_drain(home: str, agent: str, name: str, payload: Fields, raw: bytes, now: int, store: str) -> None:
    if os.path.isdir(home):
        _spool_payload(home, agent, name, payload, raw, now, store)
        _start_drain(home, now, store)


# ── payload and cache ────────────────────────────────────────────────────────────────────────────────────────


def _object(raw: bytes) -> Fields | None:
    import json

    try:
        value = json.loads(raw.decode("utf-8", "replace").strip("\ufeff\0 \t\r\n"), strict=False)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _conversation(agent: str, payload: Fields) -> str:
    conversation = payload.get("session_id")
    if (
        isinstance(conversation, str)
        and conversation.strip()
        and conversation.isprintable()
        and len(conversation) <= _MAX_ID_LENGTH
    ):
        return f"{agent}:{conversation}"
    return f"{status_cache.DIRECTORY_PREFIX}{_directory(payload)}"


def _directory(payload: Fields) -> str:
    """The project directory of the conversation; its working directory changes with every `cd`."""
    space = _object_field(payload, "workspace")
    for path in (space.get("project_dir"), space.get("current_dir"), payload.get("cwd")):
        if isinstance(path, str) and path.isprintable() and len(path) <= 4096 and os.path.isabs(path):
            return path
    return ""


def _find_cached(home: str, name: str, directory: str, now: int, store: str) -> Fields | None:
    if not directory or not os.path.isdir(home):
        return None
    cached = status_cache.find(home, name, directory, store)
    max_age = _MAX_AGE if not server_outage.is_on_a_server(store) else _MAX_AGE_SERVER
    if cached is not None and (cached.fields is None or now - status_cache.written_at(cached.fields) < max_age):
        return cached.fields
    try:
        import holdfast.cli.fast_msgspec_import  # noqa: F401
        from holdfast.keeper.hook_process import status_of_conversation

        return status_of_conversation(home, name, directory, store=store)
    except Exception as error:  # noqa: BLE001 (a line without the session is better than none)
        from holdfast.core.errors import Unreachable

        if not isinstance(error, Unreachable):  # else it was noted, once
            _note(home, error)
        return None if cached is None else cached.fields


def _note(home: str, error: Exception) -> None:
    from holdfast.machine import error_log

    error_log.note(home, "statusline", f"{type(error).__name__}: {error}")


# ── the line ─────────────────────────────────────────────────────────────────────────────────────────────


def render_line(cached: Fields | None, payload: Fields, paint: Paint, *, now: int) -> Painted:
    """The line: the goal is cut to leave room for the status."""
    parts: list[Painted] = []
    if cached is None:
        title = paint.plain(_project(payload))
    else:
        title = paint.plain(str(cached.get("goal") or "")) or paint.plain("session")
        parts += _session_parts(cached, paint, now)
    parts += [part for part in (_context(payload, paint), _cost(payload, paint)) if part]
    if cached is not None:
        parts += _reminder(cached, paint, now)
    gap = paint.dim(" · ")
    rest = paint.join(*parts, sep=gap)
    room = paint.width - (paint.width_of(rest) + 3 if rest else 0)
    if room >= 8:
        parts.insert(0, paint.bold(paint.cut(title, room)))
    return paint.cut(paint.join(*[part for part in parts if part], sep=gap), paint.width)


def _session_parts(cached: Fields, paint: Paint, now: int) -> list[Painted]:
    worked, pause, paused = status_cache.work_at(cached, now)
    parts = [paint.plain(short_duration(worked))]
    if pause:
        parts = [
            paint.join(paint.yellow(f"⏸ {short_duration(paused)} {pause}"), f", {short_duration(worked)} worked")
        ]
    if cached.get("waits") is True:
        parts.append(paint.yellow("waits for you"))
    agents = cached.get("agents")
    if isinstance(agents, int) and agents > 0:
        parts.append(paint.cyan(f"{agents} agent{'' if agents == 1 else 's'}"))
    return parts


def _context(payload: Fields, paint: Paint) -> Painted | None:
    """How full the context is, as the agent reports it."""
    share = context_percent(payload)
    if share is None:
        return None
    level = next(level for threshold, level in _LEVELS if share >= threshold)
    return paint.join(paint.bar(share / 100, _BAR_CELLS, level), f" {min(share, 999):.0f}%")


def context_percent(payload: Fields) -> float | None:
    """Percent of the context window that is used; None before the agent knows."""
    window = _object_field(payload, "context_window")
    percentage = _number(window.get("used_percentage"))
    if percentage is not None:
        return percentage
    size, usage = _number(window.get("context_window_size")), _object_field(window, "current_usage")
    counts = [_number(value) for key, value in usage.items() if "input" in key]
    measured = [count for count in counts if count is not None]
    return 100 * sum(measured) / size if measured and size else None


def _cost(payload: Fields, paint: Paint) -> Painted | None:
    cost = _number(_object_field(payload, "cost").get("total_cost_usd"))
    return None if not cost else paint.dim(f"${cost:,.2f}")


def _reminder(cached: Fields, paint: Paint, now: int) -> list[Painted]:
    """The longest limit of working time that is reached, whether or not that was recorded yet."""
    crossed = status_cache.crossed_limits(cached, now)
    if not crossed:
        return []
    return [paint.style(f"☕ {crossed[-1]}", "yellow" if len(crossed) == 1 else "red")]


def short_duration(ms: int) -> str:
    """A duration in a few characters: `0m`, `12m`, `1h05`, `3d4h`."""
    minutes = max(ms, 0) // 60_000
    if minutes < 60:
        return f"{minutes}m"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}" if hours < 48 else f"{hours // 24}d{hours % 24}h"


def _project(payload: Fields) -> str:
    path = _directory(payload)
    return os.path.basename(path.rstrip("/\\")) or path


def _object_field(payload: Fields, name: str) -> Fields:
    value = payload.get(name)
    return value if isinstance(value, dict) else {}


def _number(value: object) -> float | None:
    usable = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1e12
    return float(value) if usable else None  # type: ignore[arg-type]


def _paint(environ: Mapping[str, str]) -> Paint:
    """For an agent, which shows our output: not a terminal, but it understands colours and UTF-8."""
    text = environ.get("COLUMNS", "")
    columns = int(text) if text.isascii() and text.isdigit() and 0 < len(text) < 6 else 0
    return Paint(min(columns or 80, 300), not environ.get("NO_COLOR"), tty=True)


# ── spool ────────────────────────────────────────────────────────────────────────────────────


def _spool_payload(home: str, agent: str, name: str, payload: Fields, raw: bytes, now: int, store: str) -> None:
    """Spool the payload if it differs from the last: drawing the line once more is no sign of work."""
    if name.startswith(status_cache.DIRECTORY_PREFIX) or not os.path.isdir(status_cache.directory(home)):
        return
    path = status_cache.input_path(home, name)
    checksum = _checksum(payload)
    if checksum is None or _recent(path, now):
        return
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    handle = os.open(path, flags, 0o600)
    try:
        if os.read(handle, len(checksum) + 1) == checksum:
            return
        # Without a process id: it would be that of the shell that the agent started, not the agent's.
        spool.add_payload(home, agent, spool.STATUS, 0, raw, store=without_password(store))
        os.ftruncate(handle, 0)
        os.lseek(handle, 0, os.SEEK_SET)
        os.write(handle, checksum)
    finally:
        os.close(handle)


def _checksum(payload: Fields) -> bytes | None:
    """A checksum of what is recorded of a payload: enough to compare, without its text."""
    import json
    from binascii import crc32

    window, model = _object_field(payload, "context_window"), _object_field(payload, "model").get("id")
    usage = window.get("current_usage") or window.get("total_input_tokens")
    cost, limits = _object_field(payload, "cost").get("total_cost_usd"), payload.get("rate_limits")
    if not usage and not cost and not limits:
        return None
    recorded = [usage, window.get("context_window_size"), cost, model, limits]
    text = json.dumps(recorded, sort_keys=True).encode()
    return b"%08x %d" % (crc32(text), len(text))


def _start_drain(home: str, now: int, store: str) -> None:
    """Start a process that drains the spool, if payloads wait."""
    if not spool.has_entries(home, None if store else spool.HOME) or not os.path.isdir(status_cache.directory(home)):
        return
    marker = os.path.join(status_cache.directory(home), "drain")
    if _recent(marker, now):
        return
    os.close(os.open(marker, os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600))
    os.utime(marker)
    from holdfast.machine import background_process

    background_process.start(
        "holdfast.cli.hooking", "drain", home, around={"HOLDFAST_STORE": store} if store else None
    )


def _recent(path: str, now: int) -> bool:
    try:
        return abs(now / 1000 - os.lstat(path).st_mtime) < _MIN_INTERVAL
    except OSError:
        return False
