"""Commands for files that other programs read in the project: mirrored files, the cycle file, the contract."""

from __future__ import annotations

from collections.abc import Container

from holdfast.cli.call import Call, write_output
from holdfast.cli.paint import Paint, Painted
from holdfast.core.times import format_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.formats.mirror.mirrors import MirrorStatus

# ── mirror ─────────────────────────────────────────────────────────────────────────────────────────────


def mirror_on(call: Call) -> None:
    name = call.parsed.need("format")
    call.keeper.mirrors.switch_on(
        name, current_stays=_keep_current(call, name), gitignore=call.parsed.flag("gitignore")
    )
    _report_mirrors(call, f"{name} is mirrored from now on")


def _keep_current(call: Call, name: str) -> bool | None:
    """Ask whether the current session stays current if a mirrored file holds another; None if nothing was asked."""
    if call.parsed.globals.yes or not call.can_ask():
        return None
    stays = call.keeper.mirrors.current_stays(name)
    if stays is None:
        return None
    difference = (
        "was worked on before the current one. Keep the current one" if stays else "is newer. Continue that one"
    )
    answer = call.ask(f"The {name} file holds another session, which {difference}? [Y/n]")
    return stays if (answer or "y").lower() in ("y", "yes") else not stays


def mirror_off(call: Call) -> None:
    name = call.parsed.need("format")
    call.keeper.mirrors.switch_off(name)
    _report_mirrors(call, f"{name} is no longer mirrored; its files stay as they are")


def mirror_status(call: Call) -> None:
    changed = call.keeper.mirrors.changed_outside()
    call.keeper.collect()
    _report_mirrors(call, None, changed)


def _report_mirrors(call: Call, line: str | None, changed: Container[str] = ()) -> None:
    mirrors = call.keeper.mirrors.status(changed)
    call.answer(
        {"mirrors": [_mirror_document(mirrored) for mirrored in mirrors]},
        lambda paint: _paint_mirrors(paint, mirrors, line, quiet=call.quiet and line is not None),
    )
    call.print_notices()


def _mirror_document(mirrored: MirrorStatus) -> dict[str, object]:
    return {
        "format": mirrored.format,
        "paths": mirrored.paths,
        "last_written": None if mirrored.last_written is None else format_time(mirrored.last_written),
        "changed_outside": mirrored.changed_outside,
        "rejected": [
            {
                "path": rejection.path,
                "aside": rejection.aside,
                "reason": rejection.reason,
                "at": format_time(rejection.at),
            }
            for rejection in mirrored.rejected
        ],
        "held": [{"path": path, "reason": reason} for path, reason in mirrored.left_alone.items()],
        "trouble": mirrored.failure,
    }


def _paint_mirrors(paint: Paint, mirrors: list[MirrorStatus], line: str | None, *, quiet: bool) -> Painted:
    if quiet:
        return Painted("")
    lines = [] if line is None else [paint.plain(line)]
    if not mirrors:
        if line is None:
            lines.append(paint.dim("Nothing is mirrored here: holdfast mirror on FORMAT"))
        return Painted("\n".join(lines))
    for mirrored in mirrors:
        when = (
            "nothing written yet"
            if mirrored.last_written is None
            else f"written {format_time(mirrored.last_written)}"
        )
        lines.append(paint.heading(mirrored.format, when))
        shown = mirrored.paths[:8]
        lines += [paint.join("  ", path) for path in shown]
        if len(mirrored.paths) > len(shown):
            lines.append(paint.dim(f"  and {len(mirrored.paths) - len(shown)} more"))
        if mirrored.changed_outside:
            lines.append(paint.yellow("  changed outside Holdfast"))
        lines += [paint.yellow(f"  {path} is left alone: {reason}") for path, reason in mirrored.left_alone.items()]
        lines += [paint.red(f"  {rejection.aside}: {rejection.reason}") for rejection in mirrored.rejected]
        if mirrored.failure is not None:
            lines.append(paint.red(f"  could not be written: {mirrored.failure}"))
    return Painted("\n".join(lines))


# ── cycle ──────────────────────────────────────────────────────────────────────────────────────────────


def cycle(call: Call) -> None:
    from holdfast.formats import cycle

    out, start, weeks = call.parsed.text("out"), call.parsed.text("start"), call.parsed.integer("weeks")
    path = None if out in (None, "-") else out
    # A file is of one cycle, however late it is updated.
    existing = None if path is None or start is not None or weeks is not None else cycle.read_section(path)
    if existing is not None:
        start, weeks = existing
    current = cycle.cycle(call.keeper, start=start, weeks=weeks, start_is_first_day=existing is not None, at=call.at)
    if path is not None:
        cycle.write_section(path, current)
    if call.json:
        call.answer({"cycle": current, "paths": [] if path is None else [path]}, lambda _: "")
    elif path is not None:
        call.note(f"Written: {path}")
    else:
        write_output(cycle.render_markdown(current))


# ── contract ───────────────────────────────────────────────────────────────────────────────────────────


def contract_acknowledge(call: Call) -> None:

    spec, agent = call.parsed.need("spec"), call.parsed.text("agent")
    acknowledgment = call.keeper.documents.acknowledge_contract(spec, agent, at=call.at)
    call.answer(
        {"acknowledgment": acknowledgment},
        lambda paint: (
            "" if call.quiet else paint.plain(f"{acknowledgment.agent} acknowledged version {acknowledgment.version}")
        ),
    )


def contract_verify(call: Call) -> None:

    acknowledgments = call.keeper.documents.verify_contract(call.parsed.need("spec"), call.parsed.text("agent"))
    lines = "\n".join(
        f"{acknowledgment.agent}: version {acknowledgment.version} holds, acknowledged {acknowledgment.date}"
        for acknowledgment in acknowledgments
    )
    call.answer(
        {"valid": True, "acknowledgments": acknowledgments},
        lambda paint: "" if call.quiet else paint.plain(lines, lines=True),
    )


def contract_summary(call: Call) -> None:
    from holdfast.formats.contract import commands

    text = call.keeper.documents.contract_summary(call.parsed.need("spec"), call.parsed.text("agent"))
    if call.json:
        call.answer({"summary": text}, lambda _: "")
    else:
        write_output(commands.as_markdown(text))
