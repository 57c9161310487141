"""Record what a transcript says of a conversation as a whole: title, model, tokens, cost.

Backfill records it with the rest of a transcript. For conversations that hooks report, draining notes the end of each
turn, and the process that drains in the background reads the transcript afterwards, never a hook; with the readers of
backfill, so that both agree. A transcript is read as a whole, because its counts cannot be updated in parts: messages
are rewritten, copied by forks, and continued in the files of subagents. A large one is read again only after it has
grown by a fraction, so that all readings together cost a few times its size.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.conversations.adapters.clean_text import goal_of, plain
from holdfast.conversations.adapters.files import ReadLimitExceeded, collect_read_errors, limit_reading
from holdfast.conversations.adapters.transcript import Transcript, find_sources, is_transcript, load_reader
from holdfast.conversations.ingest.routing import continue_parent, name_after_title
from holdfast.conversations.signals import AnySignal, Closed, Erred, Limited, Measured, Prompted, Replied
from holdfast.core import limits, view
from holdfast.core.canonical import MAX_SAFE_INTEGER, digest
from holdfast.core.decode import decodable
from holdfast.core.errors import Busy, HoldfastError, Unreachable
from holdfast.core.event_data import read_data
from holdfast.core.events import ContextMeasured, ConversationUpdated, EventData, SessionEdited
from holdfast.core.lifecycle import FINISHED
from holdfast.core.state import ConversationState, State
from holdfast.core.times import DAY
from holdfast.machine import error_log
from holdfast.sessions import ownership
from holdfast.sessions.ownership import own_test

if TYPE_CHECKING:
    from holdfast.conversations.ingest.payload import Payload
    from holdfast.store.interface import Transaction
    from holdfast.workspace.agent_dirs import AgentDirs
    from holdfast.workspace.workspace import Workspace

PREFIX: Final = "transcript:"
_COUNTED: Final = ("prompts", "input", "output", "cache_read", "cache_write")
_FORGET_AFTER: Final = 7 * DAY


class FollowedTranscript(msgspec.Struct, gc=False):
    """A conversation that hooks report, and how much of its transcript was read."""

    agent: str
    conversation: str
    session: str
    path: str | None = None
    # When the latest turn that was not read yet ended.
    due: int | None = None
    noted: int = 0
    closed: bool = False
    # Bytes of the transcript at its last reading.
    size: int = -1


# ── what a transcript says ───────────────────────────────────────────────────────────────────────────────


def describe(transcript: Transcript) -> ConversationUpdated:
    """The details of the whole conversation."""
    prompts = [timed.signal for timed in transcript.signals if isinstance(timed.signal, Prompted)]
    goal = next((goal for prompt in prompts if (goal := goal_of(prompt.text))), None)
    cost = transcript.cost_usd
    return ConversationUpdated(
        agent=transcript.agent, id=plain(transcript.conversation, 200),
        name=plain(transcript.title or "", 200).strip() or goal,
        model=plain(transcript.model or "", 200) or None, began=_count(transcript.began) or None,
        ended=_count(transcript.ended) or None, prompts=len(prompts), input=_count(transcript.input_tokens),
        output=_count(transcript.output_tokens), cache_read=_count(transcript.cache_read_tokens),
        cache_write=_count(transcript.cache_write_tokens),
        cost_usd=cost if cost is not None and 0 <= cost < MAX_SAFE_INTEGER else None,  # nor is NaN
    )  # fmt: skip


def own_share(whole: ConversationUpdated, others: Iterable[State]) -> ConversationUpdated:
    """The details without what other sessions have of the conversation: a cost must not be counted twice."""
    remaining = {name: getattr(whole, name) for name in _COUNTED}
    cost = whole.cost_usd
    for state in others:
        known = state.conversations.get(f"{whole.agent}\n{whole.id}")
        for name in _COUNTED:
            remaining[name] = max(0, remaining[name] - _known(state, known, name))
        if cost is not None and known is not None and known.cost_usd is not None:
            cost = max(0.0, round(cost - known.cost_usd, 6))
    return msgspec.structs.replace(whole, cost_usd=cost, **remaining)


def with_our_counts(ws: Workspace, states: Iterable[State], agent: str, conversation: str) -> Iterator[State]:
    """The sessions that our devices linked the conversation to, with the counts that our devices recorded.

    Other writers could claim all of any conversation's counts, and nothing would be left for our sessions.
    """
    for state in states:
        if not state.deleted and ownership.was_linked(ws, state, view.native_name(agent, conversation)):
            is_own = own_test(ws, state.session)
            others = {writer for writer in state.heads if not is_own(writer)}
            yield _without(ws, state, others, agent, conversation) if others else state


def _without(ws: Workspace, state: State, others: Collection[str], agent: str, conversation: str) -> State:
    """The state without the counts of a conversation that these writers recorded."""
    conversations: dict[str, ConversationState] = {}
    for event in ws.store().events(state.session):
        if event.type == "conversation.updated" and event.writer not in others:
            data = read_data(event)
            if isinstance(data, ConversationUpdated) and (data.agent, data.id) == (agent, conversation):
                fields = {name: getattr(data, name) for name in ConversationState.__struct_fields__}
                conversations[f"{agent}\n{conversation}"] = ConversationState(**fields)
    return msgspec.structs.replace(state, conversations=conversations, extra={})


def _known(state: State, known: ConversationState | None, name: str) -> int:
    if known is not None:
        return int(getattr(known, name) or 0)
    # Earlier versions recorded only these, with all cached tokens in one number.
    tokens = state.extra.get("tokens")
    count = tokens.get("cached" if name == "cache_read" else name) if isinstance(tokens, dict) else None
    return count if isinstance(count, int) else 0


def differs_from_state(state: State, updated: ConversationUpdated) -> bool:
    """Whether it differs from what the session has."""
    known = state.conversations.get(f"{updated.agent}\n{updated.id}")
    return known is None or any(getattr(known, field) != getattr(updated, field) for field in known.__struct_fields__)


def _count(number: int) -> int:
    return min(max(number, 0), MAX_SAFE_INTEGER)


def key_suffix(updated: ConversationUpdated) -> str:
    """The end of the event's key, which changes with its content."""
    return f"conversation:{digest(msgspec.json.encode(updated))[:16]}"


# ── as hooks report it ───────────────────────────────────────────────────────────────────────────────────


def note_ended_turns(transaction: Transaction, reported: Iterable[tuple[Payload, str]]) -> bool:
    """Note where transcripts are and which turns ended, from payloads with their sessions; says whether one ended."""
    ended = False
    for payload, session in reported:
        signals = payload.event.signals
        if not any(_ends_turn(signal, is_last_word=len(signals) == 1) for signal in signals):
            continue
        name = _name(payload.event.agent, payload.event.conversation)
        known = _decoded(transaction.remembered(name))
        known = known or FollowedTranscript(payload.event.agent, payload.event.conversation, session)
        known.session = session
        if payload.transcript is not None and is_transcript(payload.transcript):  # else it may be anything
            known.path = payload.transcript
        known.due = known.noted = payload.at
        known.closed = any(isinstance(signal, Closed) for signal in signals)
        transaction.remember(name, msgspec.msgpack.encode(known))
        ended = True
    return ended


def _ends_turn(signal: AnySignal, *, is_last_word: bool) -> bool:
    if signal.agent is not None:
        return False
    return isinstance(signal, Replied | Limited | Closed) or (isinstance(signal, Erred) and is_last_word)


def update_due(ws: Workspace, places: AgentDirs, *, patience: float = 5.0) -> None:
    """Read the transcripts of all conversations in which a turn has ended since.

    Never raises for a broken transcript or a busy store: the next call tries again.
    """
    store = ws.existing_store()
    if store is None:
        return
    try:
        followed_transcripts = [
            followed for followed in map(_decoded, store.remembered_under(PREFIX).values()) if followed is not None
        ]
    except HoldfastError:
        return
    for followed in sorted(followed_transcripts, key=lambda item: item.due or 0):
        # Some programs write a last line after they reported that the conversation is closed.
        grew = followed.closed and followed.path is not None and _size(followed.path) not in (None, followed.size)
        try:
            if followed.due is not None or grew:
                _update(ws, places, followed, patience)
            elif ws.now() - followed.noted > _FORGET_AFTER:
                _save(ws, followed, patience)
        except (Busy, Unreachable):
            return
        except Exception as error:  # noqa: BLE001 (whatever one transcript holds, the others are read)
            message = error.message if isinstance(error, HoldfastError) else f"{type(error).__name__}: {error}"
            error_log.note(ws.home.path, "transcript", f"{followed.agent}: {message}")
            _save(ws, followed, patience)


def _update(ws: Workspace, places: AgentDirs, followed: FollowedTranscript, patience: float) -> None:
    transcript = None
    for source in find_sources(followed.agent, followed.conversation, followed.path, places):
        size = _size(source.path)
        if size is None or not _worth_reading(followed, size, whole=source.conversation is None):
            continue
        followed.size = size
        if size <= limits.MAX_TRANSCRIPT_SIZE or source.conversation is not None:  # backfill reads what is larger
            within = limit_reading(limits.MAX_TRANSCRIPT_READ, limits.MAX_TRANSCRIPT_FILES)
            with collect_read_errors(), suppress(ReadLimitExceeded), within:
                transcripts = load_reader(followed.agent).read(source)
                matching = (
                    transcript for transcript in transcripts if transcript.conversation == followed.conversation
                )
                transcript = next(matching, None)
        if transcript is not None:
            break
    _save(ws, followed, patience, transcript)


def _worth_reading(followed: FollowedTranscript, size: int, *, whole: bool) -> bool:
    if not whole:
        return True  # one conversation of a database
    grown = size - followed.size
    return (
        followed.closed
        or followed.size < 0
        or size < limits.SMALL_TRANSCRIPT_SIZE
        or grown < 0
        or grown * 8 > followed.size
    )


def _save(ws: Workspace, followed: FollowedTranscript, patience: float, transcript: Transcript | None = None) -> None:
    """Record the details and that they were read; forget conversations without activity for days."""
    name = _name(followed.agent, followed.conversation)
    with ws.transaction(patience=patience) as transaction:
        known = _decoded(transaction.remembered(name))
        if known is None:
            return  # the session was deleted meanwhile
        if transcript is not None:
            _record(ws, transaction, known.session, transcript, known.due or known.noted)
        if known.due == followed.due:
            known.due = None
        known.size = followed.size
        keep = known.due is not None or ws.now() - known.noted <= _FORGET_AFTER
        transaction.remember(name, msgspec.msgpack.encode(known) if keep else None)


def _record(ws: Workspace, transaction: Transaction, session: str, transcript: Transcript, at: int) -> None:
    state = transaction.state(session)
    name = f"{transcript.agent}\n{transcript.conversation}"
    if not state.count or state.deleted or name not in state.native or ws.is_read_only(session):
        return
    sessions = ws.store().find(view.native_name(transcript.agent, transcript.conversation))
    others = (transaction.state(other) for other in sessions if other != session)
    updated = own_share(describe(transcript), with_our_counts(ws, others, transcript.agent, transcript.conversation))
    prepared = ws.recorder.prepare(updated)
    assert isinstance(prepared, ConversationUpdated)
    news = [
        *_new_events(state, prepared, transcript),
        *continue_parent(ws, state, transcript.agent, transcript.conversation, transcript.parent),
    ]
    key = f"live:{digest(name.encode(errors='surrogatepass'))[:16]}:{key_suffix(prepared)}"
    keys = (f"{key}:{number}" for number in range(len(news)))
    ws.recorder.append_reported(
        transaction, session, ((at, data) for data in news), keys=keys, actor=transcript.agent
    )


def _new_events(state: State, updated: ConversationUpdated, transcript: Transcript) -> Iterator[EventData]:
    """The event, if its content is new, and what follows from it for an unfinished session."""
    if differs_from_state(state, updated):
        yield updated
    if view.status_of(state) in FINISHED:
        return
    yield from name_after_title(state, updated.agent, updated.id, transcript.title)
    if updated.model is not None and view.text_value(state, "model") is None:
        yield SessionEdited(model=updated.model)
    measured = [
        timed.signal
        for timed in transcript.signals
        if isinstance(timed.signal, Measured) and timed.signal.agent is None
    ]
    if measured and measured[-1].tokens is not None and not state.outdated:
        context = ContextMeasured(tokens=_count(measured[-1].tokens), window=measured[-1].window)
        if (context.tokens, context.window or state.window) != (state.tokens, state.window):
            yield context


def forget(ws: Workspace, state: State) -> None:
    """Forget where the transcripts of a session are."""
    names = {_name(native.agent, native.id) for native in state.native.values()}
    known = names & set(ws.store().remembered_under(PREFIX))
    if known:
        with ws.transaction() as transaction:
            for name in sorted(known):
                transaction.remember(name, None)


def _name(agent: str, conversation: str) -> str:
    return PREFIX + digest(view.native_name(agent, conversation).encode(errors="surrogatepass"))[:32]


def _decoded(raw: bytes | None) -> FollowedTranscript | None:
    try:
        return None if raw is None else msgspec.msgpack.decode(raw, type=decodable(FollowedTranscript))
    except msgspec.MsgspecError:  # of another version
        return None


def _size(path: str) -> int | None:
    """Bytes of a transcript, which may be a directory of files; None where there is none."""
    try:
        with os.scandir(path) as listing:
            return sum(entry.stat(follow_symlinks=False).st_size for entry in listing)
    except NotADirectoryError:
        pass
    except (OSError, ValueError):
        return None
    try:
        return os.stat(path, follow_symlinks=False).st_size
    except OSError:
        return None
