"""Commands that list sessions and their events, add up hours, and put sessions away."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from holdfast.cli.call import Call, write_output
from holdfast.cli.clock import Clock, stamp
from holdfast.cli.paint import Column, Paint, Painted
from holdfast.core.envelope import Event, event_document
from holdfast.core.errors import Invalid, Refused
from holdfast.core.model import Row
from holdfast.core.times import format_duration
from holdfast.core.view import other_names
from holdfast.core.wording import count, percent
from holdfast.machine import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.formats.archives import Archives
    from holdfast.sessions.hours.table import AgentLine, Line, Table
    from holdfast.sessions.why import ChangeOrigin, WhyAnswer

# ── history ────────────────────────────────────────────────────────────────────────────────────────────


def history(call: Call) -> None:
    from holdfast.formats.archives import FOLDER, Archives, find_archives

    words, keeper, at = call.parsed, call.keeper, call.at
    limit_option = words.integer("limit")
    limit = round(keeper.settings.number("history.limit")) if limit_option is None else limit_option
    since, everywhere = call.since, words.flag("all_projects")
    search, status = words.text("search"), words.text("status")
    rows = keeper.history(limit=limit, search=search, status=status, since=since, all_projects=everywhere, at=at)
    archived = find_archives(keeper) if (search, status, since, at) == (None, None, None, None) else Archives([], 0)
    unreadable = [{"path": path, "reason": reason} for path, reason in archived.unreadable]
    call.answer(
        {"sessions": rows, **({"unreadable": unreadable} if unreadable else {})},
        lambda paint: _paint_history(call, paint, rows, archived, everywhere=everywhere),
    )
    if unreadable:
        call.note(f"What is left of it: holdfast recover {unreadable[0]['path']}")
    if archived.unknown:
        folder = "/".join(FOLDER)
        call.note(f"{count(archived.unknown, 'more archive')} in {folder}: holdfast import {folder}")
    if limit_option is None and len(rows) == limit:
        call.note(f"Showing the latest {limit:,}; --limit N shows more.")


def _paint_history(call: Call, paint: Paint, rows: Sequence[Row], archived: Archives, *, everywhere: bool) -> Painted:
    clock = Clock(call.keeper.now() if call.at is None else call.at)
    aliases = [_alias_of(call, row) for row in rows]
    listed = _history_table(paint, rows, aliases, clock, everywhere=everywhere) if rows else _no_history(call, paint)
    unread = [paint.plain(f"unreadable  {path}: {reason}") for path, reason in archived.unreadable]
    return Painted("\n".join([listed, *unread]))


def _history_table(
    paint: Paint, rows: Sequence[Row], aliases: Sequence[str], clock: Clock, *, everywhere: bool
) -> Painted:
    from holdfast.cli.session_parts import status_word

    columns = [
        Column("Session"), Column("Alias", weight=1, min_width=17, max_width=32),
        Column("Goal", weight=4, min_width=16), Column("Status"), Column("Done", "right"), Column("Worked", "right"),
        Column("Project", weight=1, min_width=8, max_width=24), Column("Age", "right"),
    ]  # fmt: skip
    cells: list[list[str]] = [
        [paint.bold(row.id[:8]), paint.dim(alias), row.goal,
         paint.join(status_word(paint, row), paint.dim(" (archived)") if row.archived else ""),
         percent(row.progress), format_duration(row.working_ms), row.project, clock.age(row.updated_at)]
        for row, alias in zip(rows, aliases, strict=True)
    ]  # fmt: skip
    left_out = {1} if not any(aliases) else set()
    left_out |= set() if everywhere else {6}
    cells = [[cell for index, cell in enumerate(line) if index not in left_out] for line in cells]
    columns = [column for index, column in enumerate(columns) if index not in left_out]
    return paint.table(cells, columns)


def _alias_of(call: Call, row: Row) -> str:
    """The first id that a format has for it, else the name that a hand-made file gave it."""
    names = (row.aliases.orchestrator, row.aliases.timer, row.aliases.contract, row.aliases.craft)
    alias = next((name for name in names if name and name != row.id), None)
    store = call.keeper.existing_store()
    state = None if alias or store is None else store.state(row.id)
    return alias or ("" if state is None else next(iter(other_names(state)), ""))


def _no_history(call: Call, paint: Paint) -> Painted:
    words = call.parsed
    search = words.text("search")
    scope = "" if words.flag("all_projects") else " in this project"
    hint = "" if words.flag("all_projects") else " (--all-projects looks further)"
    if search is not None:
        return paint.plain(f"Nothing found for {search!r}{scope}{hint}.")
    if words.text("status") or words.text("since") or words.globals.at:
        return paint.plain(f"No such session{scope}{hint}.")
    return paint.join(f"No sessions{scope} yet. Start one: ", paint.bold("holdfast start GOAL"))


# ── log ────────────────────────────────────────────────────────────────────────────────────────────────


_MAX_LINE = 2_000


def log(call: Call) -> None:
    words = call.parsed
    limit = words.integer("limit")
    if limit is not None and limit < 1:
        raise Invalid("the limit must be at least 1")
    session = call.session_to_read()
    at, kind = call.at, words.text("type")
    session.state(at=at)  # raises for a session that is deleted, or had not started
    events = [
        event
        for event in call.keeper.events(session.id)
        if (kind is None or event.type == kind) and (at is None or event.at <= at)
    ]
    if limit is not None:
        events = events[-limit:]
    document = {"events": [event_document(event) for event in events]} if call.json else {}
    call.answer(document, lambda paint: _log_table(paint, events) if events else paint.plain("No such events."))


def _log_table(paint: Paint, events: Sequence[Event]) -> Painted:
    from holdfast.core.wording import describe_event

    titles = ("When", "Event", "By", "What") if paint.tty else ("", "", "", "")
    if not paint.tty:  # programs that filter lines need them whole, and nothing else
        paint = Paint(_MAX_LINE, paint.colour, ascii_only=paint.ascii_only)
    columns = [
        Column(titles[0], style="dim"), Column(titles[1]), Column(titles[2], weight=1, max_width=16),
        Column(titles[3], weight=6),
    ]  # fmt: skip
    rows: list[list[str]] = [[stamp(event.at), event.type, event.actor, describe_event(event)] for event in events]
    if len({event.actor for event in events}) == 1:
        del columns[2]
        for row in rows:
            del row[2]
    return paint.table(rows, columns)


# ── stats ──────────────────────────────────────────────────────────────────────────────────────────────


_NONE = "(none)"


def stats(call: Call) -> None:
    by = call.parsed.text("by") or "scope"
    hours = call.keeper.hours(by, at=call.at)
    if call.parsed.flag("csv") and not call.json:
        from holdfast.sessions.hours.table import csv_of

        write_output(csv_of(hours.by, hours.lines, type(hours.total)))
        return
    call.answer(
        {"by": by, "lines": hours.lines, "total": hours.total},
        lambda paint: _paint_hours(paint, hours) if hours.lines else _no_hours(paint, by),
    )


def _no_hours(paint: Paint, by: str) -> Painted:
    return paint.plain("No agents were recorded here yet." if by == "agent" else "No sessions here yet.")


def _paint_hours(paint: Paint, hours: Table) -> Painted:
    from holdfast.sessions.hours.table import AgentLine, Line, worked_days

    total = hours.total
    if isinstance(total, AgentLine):
        return _agent_hours(paint, [line for line in hours.lines if isinstance(line, AgentLine)], total, hours.names)
    lines = [line for line in hours.lines if isinstance(line, Line)]
    shown = worked_days(lines) if hours.by == "day" else lines
    left_out = len(lines) - len(shown)
    remark = "\n" + paint.dim(count(left_out, "day") + " without worked time not shown") if left_out else ""
    return Painted(_session_hours(paint, hours.by, shown, total) + remark)


def _session_hours(paint: Paint, by: str, lines: Sequence[Line], total: Line) -> Painted:
    longest = max((line.working_ms for line in lines), default=0) or 1
    columns = [
        Column(by.capitalize(), weight=2, min_width=10), Column("Sessions", "right"), Column("Worked", "right"),
        Column("", min_width=12), Column("Kept", "right"), Column("Discarded", "right"), Column("Hill"),
    ]  # fmt: skip
    rows: list[list[str]] = [
        [line.key or _NONE, f"{line.sessions:,}", format_duration(line.working_ms),
         paint.bar(line.working_ms / longest, 12) if paint.tty else "",
         f"{line.kept:,}" if line.kept else "", f"{line.discarded:,}" if line.discarded else "",
         "" if line.hill is None else _hill(paint, line.hill)]
        for line in lines
    ]  # fmt: skip
    rows.append([
        paint.bold("Total"), f"{total.sessions:,}", paint.bold(format_duration(total.working_ms)), "",
        f"{total.kept:,}" if total.kept else "", f"{total.discarded:,}" if total.discarded else "", "",
    ])  # fmt: skip
    return _without_empty(paint, rows, columns)


def _agent_hours(paint: Paint, lines: Sequence[AgentLine], total: AgentLine, names: Mapping[str, str]) -> Painted:
    columns = [
        Column("Type", weight=2, min_width=8), Column("Agents", weight=2, min_width=6), Column("Sessions", "right"),
        Column("Runs", "right"), Column("Time", "right"), Column("Tokens", "right"), Column("Failures", "right"),
    ]  # fmt: skip
    rows: list[list[str]] = [
        [line.key or _NONE, ", ".join(names.get(id_, id_) for id_ in line.agents), f"{line.sessions:,}",
         f"{line.runs:,}", format_duration(line.running_ms), f"{line.tokens:,}", f"{line.failures:,}"]
        for line in lines
    ]  # fmt: skip
    rows.append([
        paint.bold("Total"), "", f"{total.sessions:,}", f"{total.runs:,}",
        paint.bold(format_duration(total.running_ms)), f"{total.tokens:,}", f"{total.failures:,}",
    ])  # fmt: skip
    return _without_empty(paint, rows, columns)


def _without_empty(paint: Paint, rows: list[list[str]], columns: list[Column]) -> Painted:
    keep = [index for index in range(len(columns)) if any(row[index] for row in rows)]
    return paint.table([[row[index] for index in keep] for row in rows], [columns[index] for index in keep])


def _hill(paint: Paint, position: int) -> str:
    """Where on its hill a scope is: up to 5 finding out, then making it happen."""
    words = "not started" if position == 0 else "done" if position >= 10 else "crest" if position == 5 else (
        "uphill" if position < 5 else "downhill"
    )  # fmt: skip
    return paint.join(f"{position:>2} ", paint.dim(words))


# ── report ─────────────────────────────────────────────────────────────────────────────────────────────


def report(call: Call) -> None:
    call.keeper.compare()
    form = call.parsed.text("format") or "md"
    text = call.session_to_read().report(form, at=call.at)
    if call.json:
        call.answer({"format": form, "report": text}, lambda _: "")
    else:
        write_output(text)


# ── project ────────────────────────────────────────────────────────────────────────────────────────────


def project_list(call: Call) -> None:

    known_projects = call.keeper.projects()
    rows = [
        (
            project.name,
            str(project.sessions),
            ", ".join(map(files.display_path, project.paths)) or "on another device",
        )
        for project in known_projects
    ]
    columns = [Column("Project", min_width=12), Column("Sessions", "right"), Column("Where", weight=1)]
    call.answer(
        {"projects": [project._asdict() for project in known_projects]},
        lambda paint: paint.table(rows, columns) if rows else paint.dim("There are no sessions yet."),
    )


def project_reconnect(call: Call) -> None:

    reconnected = call.keeper.reconnect_project(call.parsed.need("old_path"))
    number = count(sum(project.sessions for project in reconnected), "session")
    path = files.display_path(call.keeper.place.main)
    call.answer(
        {"projects": [project._asdict() for project in reconnected], "path": call.keeper.place.main},
        lambda paint: "" if call.quiet else paint.plain(f"Reconnected: {number} of this project, now at {path}"),
    )


# ── archive ────────────────────────────────────────────────────────────────────────────────────────────


def archive(call: Call) -> None:
    session = call.keeper.archive(call.parsed.need("id"), at=call.at)
    call.done(session.document(), lambda paint: paint.join("Archived ", paint.bold(session.id[:8])))


def unarchive(call: Call) -> None:
    session = call.keeper.unarchive(call.parsed.need("id"), at=call.at)
    call.done(session.document(), lambda paint: paint.join("Unarchived ", paint.bold(session.id[:8])))


# ── delete ─────────────────────────────────────────────────────────────────────────────────────────────


def delete(call: Call) -> None:
    from holdfast.sessions.stop import needs_force

    session = call.keeper.session(call.parsed.need("id"))
    force = call.parsed.flag("force")
    if not (call.parsed.flag("confirm") or call.parsed.globals.yes):
        unfinished = needs_force(call.keeper, session.state())
        goal = session.document().goal
        answer = call.ask(
            f"{goal!r} is unfinished ({session.document().status}). Delete it permanently anyway? Type yes:"
            if unfinished
            else f"Delete {goal!r} permanently? Type yes:"
        )
        if answer != "yes":
            flags = "--confirm --force" if unfinished else "--confirm"
            raise Refused(
                "nothing was deleted", hint=f"Run: holdfast delete {session.id[:8]} {flags}", session=session.id
            )
        force = True  # the question mentioned that it is unfinished
    deleted = call.keeper.delete(session.id, force=force, at=call.at)
    call.answer({"deleted": deleted}, lambda paint: "" if call.quiet else paint.join("Erased ", deleted[:8]))
    call.print_notices()


# ── why ────────────────────────────────────────────────────────────────────────────────────────────────


def why(call: Call) -> None:
    answer = call.keeper.why(_project_path(call.parsed.need("what"), call.keeper.place.root))
    document = {
        "commit": answer.commit, "file": answer.file, "line": answer.line,
        "sessions": [session._asdict() for session in answer.sessions],
    }  # fmt: skip
    call.answer(document, lambda paint: _paint_why(paint, answer))


def _project_path(text: str, root: str) -> str:
    """A path as the project has it; the name of a commit stays as it is."""
    from holdfast.cli.commands.work import relative_path

    path, colon, number = text.rpartition(":")
    if colon and number.isdecimal() and os.path.lexists(path):
        return f"{relative_path(path, root)}:{number}"
    return relative_path(text, root) if os.path.lexists(text) else text


def _paint_why(paint: Paint, answer: WhyAnswer) -> Painted:
    lines: list[str] = [paint.cut(paint.bold(answer.about), paint.width)]
    for session in answer.sessions:
        lines += ["", *_paint_origin(paint, session)]
    if not answer.sessions:
        lines.append(paint.plain("No record of who made it."))
    return Painted("\n".join(lines))


def _paint_origin(paint: Paint, origin: ChangeOrigin) -> list[str]:
    word = {"certain": paint.green, "likely": paint.plain}.get(origin.certainty, paint.yellow)(origin.certainty)
    head = paint.join("  ", word, "  ", paint.bold(origin.goal), "  ", paint.dim(origin.id[:8]))
    conversation = f"conversation {origin.conversation}" if origin.conversation else "no conversation"
    return [
        paint.cut(head, paint.width),
        *(f"    {line}" for line in _wrap_indented(paint, f"{conversation}; {origin.because}")),
    ]


def _wrap_indented(paint: Paint, words: str) -> list[str]:
    from holdfast.cli.cells import wrap

    return list(wrap(paint.plain(words), paint.width - 4))
