"""Read a waiting payload: the event its agent reported, and the mark that identifies it if it comes twice."""

from __future__ import annotations

import errno
import os
from typing import NamedTuple

import msgspec

from holdfast.conversations.adapters import index
from holdfast.conversations.adapters.base import HookEvent
from holdfast.conversations.adapters.fields import get_text
from holdfast.core.canonical import Json, digest
from holdfast.machine.process import identify
from holdfast.workspace import spool

# Errors that may pass and are not the payload's fault: it waits.
_TEMPORARY_ERRORS = frozenset(
    {errno.EIO, errno.ENOSPC, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EINTR,
     errno.EBUSY, getattr(errno, "EDQUOT", errno.ENOSPC), getattr(errno, "ESTALE", errno.EIO)}
)  # fmt: skip


class Payload(NamedTuple):
    """A payload that was understood."""

    entry: spool.SpoolEntry
    event: HookEvent
    # What identifies the event, and whether that is certain or only holds for a short time.
    same: str
    certain: bool
    # Where the conversation's transcript is, according to the agent.
    transcript: str | None = None

    @property
    def at(self) -> int:
        return self.entry.at // 1_000_000


class PayloadRead(NamedTuple):
    """The payload in a file, or why there is none (yet). No reason: the agent sent nothing, and the file only names
    its store.
    """

    payload: Payload | None
    why: str = ""
    unfinished: bool = False


def read(entry: spool.SpoolEntry, now: int) -> PayloadRead:
    """Read and parse a waiting payload."""
    if entry.agent not in index.NAMES:
        return PayloadRead(None, f"{entry.agent[:40]!a} is not an agent")
    most = spool.MAX_PAYLOAD_SIZE + (spool.MAX_URL_LENGTH if entry.names_store else 0)
    if entry.size > most:
        return PayloadRead(None, f"a payload of {entry.size:,} bytes is larger than any that can be read")
    try:
        with open(entry.path, "rb") as file:
            raw = file.read(most + 1)
            if not entry.is_in(os.fstat(file.fileno())):
                return PayloadRead(None, unfinished=True)  # it was written to since it was listed, or replaced
    except FileNotFoundError:
        return PayloadRead(None, unfinished=True)
    except OSError as error:
        return PayloadRead(None, f"a payload cannot be read: {error.strerror}", unfinished=is_temporary(error))
    payload = decoded(entry.payload(raw))
    if payload is None:
        # Also if the clock was set back meanwhile, but not forever if it was far ahead.
        young = abs(now * 1_000_000 - entry.at) < spool.YOUNG_NS
        written = young and (_may_be_written(entry) or not entry.is_there())
        empty = entry.names_store and not entry.payload(raw)
        return PayloadRead(None, "" if empty else "a payload is not a JSON object", unfinished=written)
    try:
        by_status = entry.source == spool.STATUS
        event = (
            index.load_status_parser(entry.agent)(payload)
            if by_status
            else index.load_adapter(entry.agent).parse(payload)
        )
    except Exception as error:  # noqa: BLE001 (an agent's payload must not stop anything)
        return PayloadRead(
            None, f"a payload of {entry.agent} could not be understood: {type(error).__name__}: {error}"
        )
    if event is None:
        return PayloadRead(None, f"a payload of {entry.agent} names no conversation")
    identity = (
        f"{event.agent}\n{event.conversation}\n{event.event}\n{event.mark}" if event.mark else _canonical(payload)
    )
    same = digest(identity.encode(errors="surrogatepass"))[:24]
    return PayloadRead(
        Payload(entry, event, same, bool(event.mark), get_text(payload, "transcript_path", "transcriptPath"))
    )


def decoded(raw: bytes) -> dict[str, Json] | None:
    """The object in a payload; invalid bytes and lone surrogates are replaced, not refused."""
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        import json

        try:
            value = json.loads(raw.decode("utf-8-sig", "replace").strip("\0 \t\r\n"), strict=False)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


def _canonical(payload: dict[str, Json]) -> str:
    try:
        return msgspec.json.encode(payload, order="sorted").decode()
    except (msgspec.MsgspecError, UnicodeEncodeError):  # a lone surrogate
        import json

        return json.dumps(payload, sort_keys=True)


def _may_be_written(entry: spool.SpoolEntry) -> bool:
    return entry.own == 0 or identify(entry.own) is not None


def is_temporary(error: BaseException | None) -> bool:
    """Whether an error is not the payload's fault and may pass."""
    return isinstance(error, OSError) and error.errno in _TEMPORARY_ERRORS
