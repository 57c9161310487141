"""Commands that begin, interrupt, resume and end a session."""

from __future__ import annotations

from holdfast.cli.call import Call
from holdfast.cli.paint import Paint, Painted
from holdfast.core import view
from holdfast.core.display_names import agent_names
from holdfast.core.errors import HoldfastError, Invalid, NotFound, Refused
from holdfast.core.text import shorten
from holdfast.core.times import format_duration
from holdfast.keeper.session import SessionHandle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.formats.project_files import ProjectFile

# ── start ──────────────────────────────────────────────────────────────────────────────────────────────


def start(call: Call) -> None:
    from holdfast.formats import project_files

    words = call.parsed
    session = call.keeper.start(
        words.need("goal"),
        scope=words.text("scope"),
        task=words.text("task"),
        mode=words.text("mode") or "default",
        feature=words.text("feature"),
        branch=words.flag("branch"),
        tags=words.texts("tags"),
        model=words.text("model"),
        replace=words.flag("replace"),
        continues=words.text("continues"),
        at=call.at,
    )
    document = session.document(at=call.at)
    notes = project_files.notes(call.keeper, at_work=True)
    call.done(
        document,
        lambda paint: paint.join(
            paint.green("Started "), paint.bold(session.id[:8]), "  ", document.goal,
            paint.dim(f"  on {document.branch}") if document.branch else "",
        ),
        **({"notes": notes} if notes else {}),
    )  # fmt: skip
    for sentence in notes:
        call.note(sentence)


# ── pause ──────────────────────────────────────────────────────────────────────────────────────────────


def pause(call: Call) -> None:
    session, reason = call.keeper.session(), call.parsed.text("reason")
    others = [
        other
        for other in (call.keeper.open_sessions() if call.keeper.conversation is None else ())
        if other.id != session.id
        and view.status_of(other.state()) == "in_progress"
        and not call.keeper.is_read_only(other.id)
    ]
    if not others or view.status_of(session.state()) == "in_progress":
        session.pause(reason, at=call.at)
    for other in others:
        other.pause(reason, at=call.at)
    document = session.document(at=call.at)
    paused = [document, *(other.document(at=call.at) for other in others)]

    def paint_paused(paint: Paint) -> Painted:
        lines = [
            paint.join(paint.yellow("Paused "), paint.bold(session.id[:8]), "  ", session.goal) for session in paused
        ]
        return Painted("\n".join(lines))

    call.done(document, paint_paused, **({"others": paused[1:]} if others else {}))


# ── resume ─────────────────────────────────────────────────────────────────────────────────────────────


def resume(call: Call) -> None:
    if not call.parsed.flag("no_sync"):
        _sync_first(call)
    reference, device = call.parsed.text("id"), call.parsed.text("device")
    force = call.parsed.flag("force")
    if reference is not None:
        _resume_session(call, call.keeper.session(reference), device=device, force=force)
    elif device is not None:
        _resume_session(call, _unfinished_on_device(call, device), device=device, force=force)
    elif (current := call.keeper.current()) is not None:
        _resume_others(call, current)
        _resume_session(call, current, force=force)
    else:
        _resume_latest(call, force=force)


def _resume_others(call: Call, current: SessionHandle) -> None:
    """Resume the other sessions that the person paused in this work tree."""
    for other in call.keeper.open_sessions() if call.keeper.conversation is None else ():
        if other.id == current.id or call.keeper.is_read_only(other.id):
            continue
        if view.status_of(other.state()) == "paused":
            other.go_on(at=call.at)
            call.note(f"Resumed {other.id[:8]}  {shorten(other.document().goal, 60)}")


def continue_(call: Call) -> None:
    _sync_first(call)
    _resume_latest(call)


def _resume_latest(call: Call, *, force: bool = False) -> None:
    """The unfinished session that was worked on last, whether the log has it or a file of the project."""
    from holdfast.formats import project_files

    stored = call.keeper.latest_unfinished()
    file = _newer_file(call, stored)
    if file is None and stored is None:
        raise NotFound("there is no unfinished session here", hint=_no_session_hint(call))
    if file is None:
        assert stored is not None
        _resume_session(call, stored, force=force)
        return
    session = call.keeper.session(project_files.import_file(call.keeper, file))
    _resume_session(call, session, force=force, file=file)


def _newer_file(call: Call, stored: SessionHandle | None) -> ProjectFile | None:
    """The file that was worked on later; raises if it cannot be continued, or if it was not confirmed.

    What git tracks and what is older than the latest session here may have been put there by anybody.
    """
    from holdfast.formats import project_files

    since = None if stored is None else stored.state().updated_at
    at_work = call.keeper.current() is not None
    for file in project_files.find_files(call.keeper, at_work=at_work, thorough=True):
        if not file.unfinished and file.error is None:
            continue
        if since is not None and file.changed < since:
            return None
        if file.error is not None and at_work:
            continue  # a note names it
        if file.error is not None:
            raise project_files.cannot_continue(call.keeper, file)
        reason = project_files.confirmation_reason(call.keeper, file)
        if reason is None or _confirms_file(call, file, reason):
            return file
        if stored is None:
            raise Refused(
                f"{file.shell_path} holds a session ({shorten(file.goal or '', 60)!r}), but {reason}",
                hint="To continue it: holdfast continue --yes",
                file=file.shell_path,
            )
    return None


def _confirms_file(call: Call, file: ProjectFile, reason: str) -> bool:
    if call.parsed.globals.yes:
        return True
    question = (
        f"{file.shell_path} holds a session ({shorten(file.goal or '', 60)!r}), but {reason}. Continue it? [y/N]"
    )
    return (call.ask(question) or "").lower() in ("y", "yes")


def _no_session_hint(call: Call) -> str:
    from holdfast.formats import project_files

    notes = project_files.notes(call.keeper, at_work=False, foreign=True)
    return "\n".join(["Start one: holdfast start GOAL", *notes])


def _sync_first(call: Call) -> None:
    for sentence in call.keeper.sync_first():
        call.note(sentence)


def _unfinished_on_device(call: Call, device: str) -> SessionHandle:
    from holdfast.sessions.history import unfinished_by

    session = unfinished_by(call.keeper, device)
    if session is None:
        raise NotFound(
            f"no device called {device[:60]!a} has worked on an unfinished session of this project",
            hint="holdfast history shows the sessions; --all-projects those of other projects.",
        )
    return call.keeper.session(session)


def _resume_session(
    call: Call,
    session: SessionHandle,
    *,
    device: str | None = None,
    force: bool = False,
    file: ProjectFile | None = None,
) -> None:
    from holdfast.formats import project_files

    call.keeper.agent_dirs = call.agent_dirs()
    before = call.keeper.current() if file is not None else None
    session, resumed, continued = session.take_up(device=device, force=force, at=call.at)
    notes = (
        project_files.notes(call.keeper, at_work=True) if file is None else _mirror_file(call, file, session, before)
    )
    notes = notes if continued is None else [continued, *notes]
    document = session.document(at=call.at)
    text = session.briefing(reader="person", at=call.at)
    extra = {
        "interrupted": [lost.id for lost in resumed.interrupted],
        "unknown": [lost.id for lost in resumed.unknown],
        "files": [{"path": file.path, "action": file.action, "agent": file.agent, "state": file.landing}
                  for file in resumed.files],
        "ground": [difference._asdict() for difference in resumed.differences],
    }  # fmt: skip
    if notes:
        extra["notes"] = notes
    call.done(document, lambda paint: paint.plain(text, lines=True), **extra)
    for sentence in notes:
        call.note(sentence)
    for difference in resumed.differences:
        call.note(
            f"This work tree differs: {difference.detail}." + (f"\n  {difference.fix}" if difference.fix else "")
        )


def _mirror_file(call: Call, file: ProjectFile, session: SessionHandle, before: SessionHandle | None) -> list[str]:
    """Keep the file from now on; what was done, in sentences."""
    notes = [f"{file.shell_path} was imported as session {session.id[:8]}."]
    if before is not None and before.id != session.id:
        notes.append(f"Session {before.id[:8]} is no longer the current one: holdfast resume {before.id[:8]}")
    try:
        call.keeper.mirrors.switch_on(file.format)
    except HoldfastError as error:
        return [*notes, f"The mirror {file.format} could not be switched on: {error.message}."]
    return [
        *notes,
        f"The mirror {file.format} is on: the file shows the session from now on (holdfast mirror off {file.format})",
    ]


# ── save ───────────────────────────────────────────────────────────────────────────────────────────────


def save(call: Call) -> None:
    session = call.keeper.session()
    session.save(at=call.at)
    document = session.document(at=call.at)
    call.done(
        document, lambda paint: paint.join(paint.green("Saved "), paint.bold(session.id[:8]), "  ", document.goal)
    )


# ── stop ───────────────────────────────────────────────────────────────────────────────────────────────


def stop(call: Call) -> None:
    from holdfast.core.wording import time_words

    words = call.parsed
    session = call.keeper.session()
    reason = words.text("reason")
    if words.flag("discard") and reason is None:
        reason = call.ask("Why is it discarded?")
    stopped = session.stop(keep=words.flag("keep"), discard=words.flag("discard"), reason=reason, at=call.at)
    document = session.document(at=call.at)
    call.done(
        document,
        lambda paint: paint.join(
            paint.green("Completed "), paint.bold(session.id[:8]), "  ", document.goal, "  ",
            paint.dim(time_words(document.time)),
        ),
        branch={"branch": stopped.branch, "commit": stopped.commit, "tip": stopped.tip},
        at_work=list(stopped.at_work),
    )  # fmt: skip
    if stopped.at_work:
        names = agent_names(document.agents)
        running = ", ".join(names.get(id_, id_) for id_ in stopped.at_work)
        call.note(f"Still running, and not stopped by this: {running}.")
    if stopped.commit is not None:
        call.note(f"Merged as {stopped.commit[:12]}; {stopped.branch} is deleted.")
    elif stopped.tip is not None:
        call.note(f"{stopped.branch} is deleted; git branch {stopped.branch} {stopped.tip[:12]} brings it back.")


# ── abort ──────────────────────────────────────────────────────────────────────────────────────────────


def abort(call: Call) -> None:
    session = call.keeper.session()
    session.abort(call.parsed.text("reason"), at=call.at)
    document = session.document(at=call.at)
    call.done(
        document, lambda paint: paint.join(paint.red("Aborted "), paint.bold(session.id[:8]), "  ", document.goal)
    )


# ── fail ───────────────────────────────────────────────────────────────────────────────────────────────


def fail(call: Call) -> None:
    session = call.keeper.session()
    session.fail(call.parsed.need("message"), at=call.at)
    document = session.document(at=call.at)
    call.done(
        document, lambda paint: paint.join(paint.red("Failed "), paint.bold(session.id[:8]), "  ", document.goal)
    )


# ── edit ───────────────────────────────────────────────────────────────────────────────────────────────


def edit(call: Call) -> None:
    words = call.parsed
    session = call.keeper.session()
    session.edit(
        goal=words.text("goal"),
        mode=words.text("mode"),
        progress=words.number("progress"),
        scope=words.text("scope"),
        summary=words.text("summary"),
        tags=words.texts("tags"),
        at=call.at,
    )
    document = session.document(at=call.at)
    call.done(document, lambda paint: paint.join(paint.green("Changed "), paint.bold(session.id[:8])))


# ── away ───────────────────────────────────────────────────────────────────────────────────────────────


def away(call: Call) -> None:
    _correct_time(call, "away", "Away ")


def worked(call: Call) -> None:
    _correct_time(call, "worked", "Worked ")


def _correct_time(call: Call, kind: str, verb: str) -> None:
    words = call.parsed
    since, until = call.moment(words.need("since")), call.moment(words.need("until"))
    assert since is not None
    assert until is not None
    session = _named_or_current(call)
    correct = session.worked if kind == "worked" else session.away
    correct(since, until, words.text("reason"), at=call.at)
    document = session.document(at=call.at)
    call.done(document, lambda paint: paint.join(paint.yellow(verb), f"for {format_duration(until - since)}"))


def _named_or_current(call: Call) -> SessionHandle:
    """The session that is named, else the current one; never a guess."""
    named = call.parsed.text("session")
    if named is not None:
        return call.keeper.session(named)
    current = call.keeper.current()
    if current is None:
        latest = call.keeper.latest()
        hint = "Name one with --session; holdfast history lists them."
        if latest is not None:
            hint = f"For the latest one, {shorten(latest.document().goal, 60)}: --session {latest.id[:8]}"
        raise NotFound("there is no current session here", hint=hint)
    return current


# ── fork ───────────────────────────────────────────────────────────────────────────────────────────────


def fork(call: Call) -> None:
    origin = call.keeper.session(call.parsed.text("id") or "@")
    session = origin.fork(at=call.at)
    document = session.document(at=call.at)
    call.done(
        document,
        lambda paint: paint.join(
            paint.green("Forked "), paint.bold(session.id[:8]), "  ", document.goal,
            paint.dim(f"  from {origin.id[:8]}"),
        ),
    )  # fmt: skip


# ── briefing ───────────────────────────────────────────────────────────────────────────────────────────


def briefing(call: Call) -> None:
    words = call.parsed
    session = call.session_to_read()
    max_chars = words.integer("max_chars")
    if max_chars is not None and max_chars < 200:
        raise Invalid("--max-chars must be at least 200")
    reader = words.text("reader") or "person"
    text = session.briefing(reader=reader, max_chars=max_chars or 10_000, at=call.at)
    call.answer({"briefing": text, "for": reader, "id": session.id}, lambda paint: paint.plain(text, lines=True))
