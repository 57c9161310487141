"""`holdfast validate PATH…`: what is wrong with session files; `--schema F` prints the schema they are held to."""

from __future__ import annotations

from holdfast.cli.call import Call, put
from holdfast.cli.notes import named, public_path
from holdfast.cli.paint import Paint, Painted, wrap
from holdfast.core.errors import Usage
from holdfast.core.wording import count
from holdfast.formats.validate import FileProblem, FileVerdict, Validator

INVALID = 4
# A blank at which no line is broken, while lines are broken.
_GLUE = "\ue000"


def run(call: Call) -> int:
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
    from holdfast.machine.wall import Wall, local_offset

    validator = Validator(
        format_name=call.parsed.text("format"), lenient=call.parsed.flag("lenient"), now=Wall().now(),
        offset=local_offset,
    )  # fmt: skip
    verdicts = validator.check(paths)
    for verdict in verdicts:
        verdict.path = public_path(verdict.path)
        for found in verdict.problems:
            found.file = verdict.path
    call.answer({"files": verdicts}, lambda paint: _show(paint, verdicts, quiet=call.quiet))
    return 0 if all(verdict.valid for verdict in verdicts) else INVALID


def _print_schema(call: Call, name: str) -> None:
    from holdfast.formats.published_schemas import schema_of

    text = schema_of(name, call.parsed.text("draft") or "2020-12")
    if call.json:
        import json

        call.answer({"format": name, "schema": json.loads(text)}, lambda _: "")
    else:
        put(text.decode())


def _show(paint: Paint, verdicts: list[FileVerdict], *, quiet: bool) -> Painted:
    lines: list[Painted] = []
    for verdict in verdicts:
        if verdict.problems:
            lines.append(
                paint.join(
                    paint.bold(named(verdict.path)),
                    paint.dim(f"  {verdict.format or 'no format'}"),
                )
            )
            for found in verdict.problems:
                lines += _lines(paint, found)
    wrong = sum(not verdict.valid for verdict in verdicts)
    if wrong:
        lines.append(paint.red(f"{wrong} of {count(len(verdicts), 'file')} {'is' if wrong == 1 else 'are'} invalid."))
    elif not quiet:
        lines.append(paint.green(f"{count(len(verdicts), 'file')} checked: valid."))
    return Painted("\n".join(lines))


def _lines(paint: Paint, found: FileProblem) -> list[Painted]:
    mark = paint.red("error  ") if found.severity == "error" else paint.yellow("warning")
    where = found.path
    if found.line is not None and not found.message.startswith(f"line {found.line}:"):
        where += f" (line {found.line})"
    where, message, cells = paint.plain(where), paint.plain(found.message), paint.width - 11
    glued = f"{where}  ".replace(" ", _GLUE)
    if paint.width_of(glued + message.partition(" ")[0]) > cells:
        broken = [*wrap(where, cells), *wrap(message, cells)]
    else:
        broken = wrap(glued + message, cells)
    first, *rest = (Painted(line.replace(_GLUE, " ")) for line in broken)
    return [paint.join("  ", mark, "  ", first), *(Painted(" " * 11 + line) for line in rest)]
