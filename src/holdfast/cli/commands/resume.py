"""`holdfast resume`, `holdfast continue`: go on with a session, here."""

from __future__ import annotations

import os

from holdfast.cli.agent_dirs import places
from holdfast.cli.call import Call
from holdfast.core import view
from holdfast.core.errors import HoldfastError, NotFound, Refused
from holdfast.core.text import shorten
from holdfast.formats import project_files
from holdfast.keeper.session import SessionHandle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.formats.project_files import ProjectFile


def run(call: Call) -> None:
    if not call.parsed.flag("no_sync"):
        _sync_first(call)
    reference, device = call.parsed.text("id"), call.parsed.text("device")
    force = call.parsed.flag("force")
    if reference is not None:
        _go_on(call, call.keeper.session(reference), device=device, force=force)
    elif device is not None:
        _go_on(call, _left_by(call, device), device=device, force=force)
    elif (current := call.keeper.current()) is not None:
        _resume_others(call, current)
        _go_on(call, current, force=force)
    else:
        _go_on_with_latest(call, force=force)


def _resume_others(call: Call, current: SessionHandle) -> None:
    """A person who comes back to a terminal comes back to everything that they paused in this work tree."""
    for other in call.keeper.open_sessions() if call.keeper.conversation is None else ():
        if other.id == current.id or call.keeper.is_read_only(other.id):
            continue
        if view.status_of(other.state()) == "paused":
            other.go_on(at=call.at)
            call.note(f"Resumed {other.id[:8]}  {shorten(other.document().goal, 60)}")


def latest(call: Call) -> None:
    _sync_first(call)
    _go_on_with_latest(call)


def _go_on_with_latest(call: Call, *, force: bool = False) -> None:
    """The unfinished session that was worked on last, whether the log has it or a file of the project."""
    stored = call.keeper.latest_unfinished()
    file = _file_to_go_on_with(call, stored)
    if file is None and stored is None:
        raise NotFound("there is no unfinished session here", hint=_nothing_hint(call))
    if file is None:
        assert stored is not None
        _go_on(call, stored, force=force)
        return
    session = call.keeper.session(project_files.take_in(call.keeper, file))
    _go_on(call, session, force=force, file=file)


def _file_to_go_on_with(call: Call, stored: SessionHandle | None) -> ProjectFile | None:
    """The file that was worked on later; raises where it cannot be gone on with, and where nobody said yes to it.

    What git tracks and what is older than the latest session here may have been put there by anybody.
    """
    since = None if stored is None else stored.state().updated_at
    at_work = call.keeper.current() is not None
    for file in project_files.files(call.keeper, at_work=at_work, thorough=True):
        if not file.unfinished and file.error is None:
            continue
        if since is not None and file.changed < since:
            return None
        if file.error is not None and at_work:
            continue  # named beside the answer
        if file.error is not None:
            raise project_files.answer(call.keeper, file)
        why = project_files.doubt(call.keeper, file)
        if why is None or _says_yes(call, file, why):
            return file
        if stored is None:
            raise Refused(
                f"{file.typed} holds a session ({shorten(file.goal or '', 60)!r}), but {why}",
                hint="If it is to be gone on with: holdfast continue --yes",
                file=file.typed,
            )
    return None


def _says_yes(call: Call, file: ProjectFile, why: str) -> bool:
    if call.parsed.globals.yes:
        return True
    asked = f"{file.typed} holds a session ({shorten(file.goal or '', 60)!r}), but {why}. Go on with it? [y/N]"
    return (call.ask(asked) or "").lower() in ("y", "yes")


def _nothing_hint(call: Call) -> str:
    notes = project_files.notes(call.keeper, at_work=False, foreign=True)
    return "\n".join(["Start one: holdfast start GOAL", *notes])


def _sync_first(call: Call) -> None:
    """Hear what other devices did, where there is a remote to ask; without one, nothing of it is loaded."""
    if os.path.lexists(call.keeper.home.remotes):
        from holdfast.sync.background import catch_up

        for sentence in catch_up(call.keeper):
            call.note(sentence)


def _left_by(call: Call, device: str) -> SessionHandle:
    from holdfast.sessions.history import unfinished_by

    found = unfinished_by(call.keeper, device)
    if found is None:
        raise NotFound(
            f"no device called {device[:60]!a} has worked on an unfinished session of this project",
            hint="holdfast history shows the sessions; --all-projects those of other projects.",
        )
    return call.keeper.session(found)


def _go_on(
    call: Call,
    session: SessionHandle,
    *,
    device: str | None = None,
    force: bool = False,
    file: ProjectFile | None = None,
) -> None:
    call.keeper.agent_dirs = places(call)
    before = call.keeper.current() if file is not None else None
    session, resumed, continued = session.take_up(device=device, force=force, at=call.at)
    notes = project_files.notes(call.keeper, at_work=True) if file is None else _mirrored(call, file, session, before)
    notes = notes if continued is None else [continued, *notes]
    document = session.document(at=call.at)
    text = session.briefing(reader="person", at=call.at)
    more = {
        "interrupted": [lost.id for lost in resumed.interrupted],
        "unknown": [lost.id for lost in resumed.unknown],
        "files": [{"path": file.path, "action": file.action, "agent": file.agent, "state": file.what}
                  for file in resumed.files],
        "ground": [difference._asdict() for difference in resumed.ground],
    }  # fmt: skip
    if notes:
        more["notes"] = notes
    call.done(document, lambda paint: paint.plain(text, lines=True), **more)
    for sentence in notes:
        call.note(sentence)
    for difference in resumed.ground:
        call.note(f"This place differs: {difference.detail}." + (f"\n  {difference.fix}" if difference.fix else ""))


def _mirrored(call: Call, file: ProjectFile, session: SessionHandle, before: SessionHandle | None) -> list[str]:
    """Keep the file from now on; what was done, in sentences."""
    notes = [f"{file.typed} was imported as session {session.id[:8]}."]
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
