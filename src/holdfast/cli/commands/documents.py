"""Commands for documents of other programs: import, export, convert, validate, recover, migrate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.cli.call import Call, public_path, write_output
from holdfast.cli.paint import Paint, Painted, wrap
from holdfast.core.errors import Failed, HoldfastError, Invalid, Usage
from holdfast.core.wording import count, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.formats.base import FormatNote
    from holdfast.formats.import_ import Imported
    from holdfast.formats.migrate import Migrated
    from holdfast.formats.recover_files import RecoveredFile
    from holdfast.formats.validate import FileProblem, FileVerdict

# ── import ─────────────────────────────────────────────────────────────────────────────────────────────


def import_(call: Call) -> int:

    paths, name = call.parsed.texts("paths"), call.parsed.text("format")
    results = call.keeper.documents.import_files(paths, name, salvage=call.parsed.flag("salvage"))
    notes = [note for imported in results for note in imported.notes]
    failure = _combined_error(imported.error for imported in results)
    call.answer(
        {"files": [_import_document(imported) for imported in results], "notes": _notes_document(notes),
         "sessions": list(dict.fromkeys(imported.session for imported in results if imported.session is not None))},
        lambda paint: _paint_imports(paint, results, quiet=call.quiet),
        error=failure,
    )  # fmt: skip
    code = call.failed([failure] if failure is not None else [])
    for imported in results:
        _print_notes(call, imported.notes, about=f"{_path_name(imported.path)} " if len(results) > 1 else "")
    # The notes have reported them, file by file.
    call.keeper.recorder.tally.redacted.clear()
    call.print_notes()
    return code


def _import_document(file: Imported) -> dict[str, object]:
    return {
        "path": public_path(file.path), "format": file.format, "session": file.session, "result": file.result,
        "events": file.events, "error": None if file.error is None else file.error.message,
        "hint": None if file.error is None else file.error.hint, "notes": _notes_document(file.notes),
    }  # fmt: skip


def _paint_imports(paint: Paint, results: list[Imported], *, quiet: bool) -> Painted:
    """A line for each file; those that went well need no confirmation with `--quiet`."""
    lines = []
    for imported in results:
        if imported.error is not None:
            lines.append(paint.join(paint.red("not read"), f"  {_failure(imported.error, imported.path)}"))
        elif not quiet:
            assert imported.session is not None
            origin = paint.dim(f"{imported.format or 'hand-made'} → {imported.session[:8]}")
            lines.append(paint.join(imported.result, f"  {_path_name(imported.path)} ", origin))
    return Painted("\n".join(lines))


# ── export ─────────────────────────────────────────────────────────────────────────────────────────────


def export(call: Call) -> None:
    from holdfast.formats import registry
    from holdfast.formats.export import export_document, write_document
    from holdfast.formats.import_context import configured, models

    rules = configured(registry.format_named(call.parsed.need("format")), models(call.keeper))
    session = call.session_to_read()
    state = session.state(at=call.at)
    document, notes = export_document(call.keeper, state, rules)
    out = call.parsed.text("out")
    paths = [] if out is None or out == "-" else write_document(out, document, rules)
    if call.json:
        call.answer(
            {"id": session.id, "format": rules.name, "document": document, "paths": paths,
             "notes": _notes_document(notes)}, lambda _: "",
        )  # fmt: skip
    elif paths:
        call.note(f"Written: {', '.join(paths)}")
    else:
        write_output(rules.write(document).decode())
    _print_notes(call, notes)
    call.print_notices()


# ── convert ────────────────────────────────────────────────────────────────────────────────────────────


def convert(call: Call) -> None:
    from holdfast.formats import registry
    from holdfast.formats.convert import convert
    from holdfast.formats.discover import single_source
    from holdfast.formats.export import is_layout, write_document

    target = registry.format_named(call.parsed.need("to"))
    source = single_source(call.parsed.need("path"), call.parsed.text("from_"))
    out = call.parsed.text("out")
    single_file = not is_layout(out, target)
    document, notes = convert(call.keeper, source, target, carry=call.parsed.flag("carry"), one_file=single_file)
    paths = [] if out is None or out == "-" else write_document(out, document, target)
    if call.json:
        call.answer(
            {"from": source.rules.name, "to": target.name, "document": document, "paths": paths,
             "notes": _notes_document(notes)}, lambda _: "",
        )  # fmt: skip
    elif not paths:
        write_output(target.write(document).decode())
    _print_notes(call, notes)
    if paths:
        call.note(f"Written: {', '.join(paths)}")


# ── validate ───────────────────────────────────────────────────────────────────────────────────────────


_INVALID = 4
# Stands for a blank at which a line is not broken.
_NO_BREAK = "\ue000"


def validate(call: Call) -> int:
    paths, schema = call.parsed.texts("paths"), call.parsed.text("schema")
    if schema is not None:
        if paths:
            raise Usage("--schema prints a schema and takes no PATH", hint="See holdfast validate --help.")
        _print_schema(call, schema)
        return 0
    if call.parsed.text("draft") is not None:
        raise Usage("--draft goes with --schema", hint="See holdfast validate --help.")
    if not paths:
        raise Usage("PATH is missing", hint="Name session files or directories, or - for standard input.")
    from holdfast.formats.validate import Validator
    from holdfast.machine.wall import Wall, local_offset

    validator = Validator(
        format_name=call.parsed.text("format"), lenient=call.parsed.flag("lenient"), now=Wall().now(),
        offset=local_offset,
    )  # fmt: skip
    verdicts = validator.check(paths)
    for verdict in verdicts:
        verdict.path = public_path(verdict.path)
        for problem in verdict.problems:
            problem.file = verdict.path
    call.answer({"files": verdicts}, lambda paint: _paint_verdicts(paint, verdicts, quiet=call.quiet))
    return 0 if all(verdict.valid for verdict in verdicts) else _INVALID


def _print_schema(call: Call, name: str) -> None:
    from holdfast.formats.published_schemas import schema_of

    text = schema_of(name, call.parsed.text("draft") or "2020-12")
    if call.json:
        import json

        call.answer({"format": name, "schema": json.loads(text)}, lambda _: "")
    else:
        write_output(text.decode())


def _paint_verdicts(paint: Paint, verdicts: list[FileVerdict], *, quiet: bool) -> Painted:
    lines: list[Painted] = []
    for verdict in verdicts:
        if verdict.problems:
            lines.append(
                paint.join(
                    paint.bold(_path_name(verdict.path)),
                    paint.dim(f"  {verdict.format or 'no format'}"),
                )
            )
            for problem in verdict.problems:
                lines += _paint_problem(paint, problem)
    invalid = sum(not verdict.valid for verdict in verdicts)
    if invalid:
        lines.append(
            paint.red(f"{invalid} of {count(len(verdicts), 'file')} {'is' if invalid == 1 else 'are'} invalid.")
        )
    elif not quiet:
        lines.append(paint.green(f"{count(len(verdicts), 'file')} checked: valid."))
    return Painted("\n".join(lines))


def _paint_problem(paint: Paint, problem: FileProblem) -> list[Painted]:
    mark = paint.red("error  ") if problem.severity == "error" else paint.yellow("warning")
    location = problem.path
    if problem.line is not None and not problem.message.startswith(f"line {problem.line}:"):
        location += f" (line {problem.line})"
    location, message, cells = paint.plain(location), paint.plain(problem.message), paint.width - 11
    unbroken = f"{location}  ".replace(" ", _NO_BREAK)
    if paint.width_of(unbroken + message.partition(" ")[0]) > cells:
        lines = [*wrap(location, cells), *wrap(message, cells)]
    else:
        lines = wrap(unbroken + message, cells)
    first, *rest = (Painted(line.replace(_NO_BREAK, " ")) for line in lines)
    return [paint.join("  ", mark, "  ", first), *(Painted(" " * 11 + line) for line in rest)]


# ── recover ────────────────────────────────────────────────────────────────────────────────────────────


def recover(call: Call) -> int:

    path = call.parsed.need("path")
    recovered_files = call.keeper.documents.recover(path)
    if not any(recovered.has_content for recovered in recovered_files):
        raise _nothing_recovered(path, recovered_files)
    sessions, extra_notes, failed = (
        _start_sessions(call, recovered_files) if call.parsed.flag("start") else ({}, {}, {})
    )
    if failed and not sessions and len(recovered_files) == 1:
        raise failed[0]
    files = [
        _recovered_document(recovered, extra_notes.get(number, []))
        for number, recovered in enumerate(recovered_files)
    ]
    call.answer(
        {"files": files, "sessions": list(dict.fromkeys(sessions.values()))},
        lambda paint: _paint_recovered_files(paint, path, recovered_files, sessions, quiet=call.quiet),
    )
    for number, recovered in enumerate(recovered_files):
        about = f"{_path_name(recovered.path)} " if len(recovered_files) > 1 else ""
        _print_notes(call, [*recovered.notes, *extra_notes.get(number, [])], about=about)
        if number in failed:
            call.note(f"{about}could not start a session from it: {failed[number].message}")
    if call.parsed.flag("start"):
        call.print_notes()
    return 0


def _start_sessions(
    call: Call, recovered_files: list[RecoveredFile]
) -> tuple[dict[int, str], dict[int, list[FormatNote]], dict[int, HoldfastError]]:
    """Start a session from every damaged file that has content; sound files only if they were named themselves."""
    sessions: dict[int, str] = {}
    extra_notes: dict[int, list[FormatNote]] = {}
    failed: dict[int, HoldfastError] = {}
    for number, recovered in enumerate(recovered_files):
        if not recovered.has_content or (recovered.whole and len(recovered_files) > 1):
            continue
        try:
            sessions[number], notes = call.keeper.documents.start_recovered(recovered)
        except HoldfastError as error:
            failed[number] = error
        else:
            extra_notes[number] = [note for note in notes if note not in recovered.notes]
    return sessions, extra_notes, failed


def _nothing_recovered(path: str, recovered_files: list[RecoveredFile]) -> HoldfastError:
    error = next((recovered.error for recovered in recovered_files if recovered.error is not None), None)
    if error is not None and len(recovered_files) == 1:
        return error
    return Invalid(
        f"nothing could be recovered from {path}",
        hint="holdfast history shows what the log knows; holdfast start GOAL --replace starts afresh.",
        file=path,
    )


def _recovered_document(recovered: RecoveredFile, extra_notes: list[FormatNote]) -> dict[str, object]:
    return {
        "path": public_path(recovered.path), "format": None if recovered.rules is None else recovered.rules.name,
        "whole": recovered.whole, "document": recovered.document,
        "notes": _notes_document([*recovered.notes, *extra_notes]), "lost_from": recovered.lost_from,
        "known": recovered.known, "error": None if recovered.error is None else recovered.error.message,
        "hint": None if recovered.error is None else recovered.error.hint,
    }  # fmt: skip


def _paint_recovered_files(
    paint: Paint, path: str, recovered_files: list[RecoveredFile], sessions: dict[int, str], *, quiet: bool
) -> Painted:
    lines = [
        _paint_recovered(paint, recovered, sessions.get(number), quiet=quiet)
        for number, recovered in enumerate(recovered_files)
    ]
    if all(recovered.whole for recovered in recovered_files) and not quiet:
        verdict = (
            "It is intact"
            if len(recovered_files) == 1
            else f"{count(len(recovered_files), 'file')} checked, all intact"
        )
        new = not sessions and any(
            recovered.rules is not None and recovered.known is None and recovered.error is None
            for recovered in recovered_files
        )
        them = "it" if len(recovered_files) == 1 else "them"
        advice = f" To import {them}: holdfast import {path}" if new and path != "-" else ""
        lines.append(paint.plain(f"{verdict}: nothing needs to be recovered.{advice}"))
    return Painted("\n".join(lines))


def _paint_recovered(paint: Paint, recovered: RecoveredFile, session: str | None, *, quiet: bool) -> Painted:
    format_name = "no known format" if recovered.rules is None else recovered.rules.name
    if not recovered.has_content:
        if recovered.error is not None:
            # What could not be opened may well be sound.
            verdict = "not read" if isinstance(recovered.error, Failed) else "lost"
            return paint.join(paint.red(verdict), f"  {_failure(recovered.error, recovered.path)}")
        return paint.join(paint.red("lost"), f"  {_path_name(recovered.path)}: no field in it is complete")
    verdict = paint.green("intact") if recovered.whole else paint.yellow("recovered")
    lines = [paint.join(verdict, f"  {_path_name(recovered.path)} ", paint.dim(f"({format_name})"))]
    if not quiet:
        lines += [paint.plain(f"  {line}") for line in _recovered_details(recovered)]
    if recovered.known is not None:
        lines += [paint.plain(f"  {line}") for line in _known_session_lines(recovered, started=session is not None)]
        if recovered.rules is not None and not recovered.whole:
            lines.append(paint.dim(f"  holdfast mirror on {recovered.rules.name} writes its file again"))
    elif session is not None:
        lines.append(paint.plain(f"  session {session}: holdfast show {session[:8]}, holdfast resume {session[:8]}"))
    return Painted("\n".join(lines))


def _known_session_lines(recovered: RecoveredFile, *, started: bool) -> list[str]:
    """What the log knows of the session, and whether the file knows more."""
    show = f"holdfast show {recovered.known}"
    if recovered.more is None:
        return [f"the log has this session{'' if recovered.whole else ', and nothing is lost'}: {show}"]
    if started:
        return [f"the log has this session, and now also what only this file had: {show}"]
    name = _path_name(recovered.path)
    merge = f"holdfast import {name}" if recovered.whole else f"holdfast recover {name} --start"
    return [f"the log has this session ({show}), but this file has more", f"{merge} merges them"]


def _recovered_details(recovered: RecoveredFile) -> list[str]:
    lines = []
    if recovered.contents is not None:
        contents = recovered.contents
        if contents.goal:
            lines.append(f"goal: {one_line(contents.goal)}")
        agents, tasks = count(contents.agents, "agent"), count(contents.tasks, "task")
        lines.append(f"{agents}, {tasks}, {count(contents.decisions, 'decision')}")
    elif isinstance(recovered.document, (dict, list)) and not recovered.whole:
        lines.append(
            count(
                len(recovered.document),
                "field" if isinstance(recovered.document, dict) else "entry",
                "entries" if isinstance(recovered.document, list) else "",
            )
        )
    if recovered.error is not None:
        from holdfast.formats.discover import error_reason

        lines.append(error_reason(recovered.error, recovered.path))
    if recovered.lost_from is not None:
        lines.append(f"lost from byte {recovered.lost_from:,} (line {recovered.lost_line or 1:,}) on")
    elif not recovered.whole:
        lines.append("nothing is lost")
    return lines


# ── migrate ────────────────────────────────────────────────────────────────────────────────────────────


def migrate(call: Call) -> int:

    path = call.parsed.need("path")
    results = call.keeper.documents.migrate(path, back=call.parsed.flag("back"))
    failure = _combined_error(migrated.error for migrated in results)
    call.answer(
        {"files": [_migration_document(migrated) for migrated in results]},
        lambda paint: _paint_migrations(paint, results, quiet=call.quiet),
        error=failure,
    )
    code = call.failed([failure] if failure is not None else [])
    for migrated in results:
        _print_notes(call, migrated.notes, about=f"{migrated.path} " if len(results) > 1 else "")
    return code


def _migration_document(file: Migrated) -> dict[str, object]:
    return {
        "path": public_path(file.path), "format": file.format, "from": file.version, "result": file.result,
        "kept": None if file.kept is None else public_path(file.kept),
        "notes": _notes_document(file.notes), "error": None if file.error is None else file.error.message,
        "hint": None if file.error is None else file.error.hint,
    }  # fmt: skip


def _paint_migrations(paint: Paint, results: list[Migrated], *, quiet: bool) -> Painted:
    """A line for each file; those that went well need no confirmation with `--quiet`."""
    lines = []
    for migrated in results:
        if migrated.error is not None:
            lines.append(paint.join(paint.red(migrated.result), f"  {_failure(migrated.error, migrated.path)}"))
        elif not quiet:
            kept = "" if migrated.kept is None else f"  (kept: {migrated.kept})"
            lines.append(paint.join(migrated.result, f"  {migrated.path}", paint.dim(kept)))
    return Painted("\n".join(lines))


# ── notes about documents ───────────────────────────────────────────────────────────────────────────────


_MAX_NOTES = 50


def _path_name(path: str) -> str:
    return "standard input" if path == "-" else path


def _failure(error: HoldfastError, path: str) -> str:
    """Why a file was not read, and what to do, for a line that has named it."""
    from holdfast.formats.discover import error_reason

    message = f"{_path_name(path)}: {error_reason(error, path)}"
    return message if error.hint is None else f"{message}. {error.hint}"


def _combined_error(errors: Iterable[HoldfastError | None]) -> HoldfastError | None:
    """The first error of files that have a line each, or invalid input where their exit codes differ."""
    failures = [error for error in errors if error is not None]
    if len({error.exit_code for error in failures}) > 1:
        first = failures[0]
        return Invalid(f"{len(failures)} files failed, the first: {first.message}", file=first.file)
    return next(iter(failures), None)


def _notes_document(notes: Sequence[FormatNote]) -> list[dict[str, str]]:
    from holdfast.formats import document_paths

    return [{"path": document_paths.format_place(note.place), "message": note.message} for note in notes]


def _print_notes(call: Call, notes: Sequence[FormatNote], *, about: str = "") -> None:
    """On stderr, one line each; a very long list is cut, and says so."""
    from holdfast.formats import document_paths

    for note in notes[:_MAX_NOTES]:
        call.note(f"{about}{document_paths.format_place(note.place)}: {note.message}")
    if len(notes) > _MAX_NOTES:
        call.note(f"{about}and {len(notes) - _MAX_NOTES} more (all of them with --json)")
