"""`holdfast doctor [--repair]`: check everything, and put right what can be."""

from __future__ import annotations

from holdfast.cli.agent_dirs import places
from holdfast.cli.call import Call
from holdfast.cli.paint import Paint, Painted, width_of, wrap
from holdfast.core.wording import count
from holdfast.workspace.followers import Check, CheckStatus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.paint import Style

DAMAGED = 6
_STYLES: dict[CheckStatus, Style] = {"ok": "green", "warning": "yellow", "failed": "red"}
_INDENT = 20


def run(call: Call) -> int:
    asked = call.parsed.flag("repair")
    call.keeper.agent_dirs = places(call)
    checks, done = call.keeper.doctor(repair=asked)
    repaired = done if asked else None
    document: dict[str, object] = {"checks": checks}
    if repaired is not None:
        document["repaired"] = repaired
    call.answer(document, lambda paint: _show(paint, checks, repaired, quiet=call.quiet))
    return DAMAGED if any(check.status == "failed" for check in checks) else 0


def _show(paint: Paint, checks: list[Check], repaired: list[str] | None, *, quiet: bool) -> Painted:
    lines: list[Painted] = []
    if repaired is not None and not quiet:
        for sentence in repaired or ["There was nothing to repair."]:
            lines += [paint.plain(line) for line in wrap(paint.plain(sentence), paint.width)]
        lines.append(paint.plain(""))
    for check in checks:
        if not quiet or check.status != "ok":
            lines += _lines(paint, check)
    if not quiet:
        lines.append(_verdict(paint, checks))
    return Painted("\n".join(lines))


def _lines(paint: Paint, check: Check) -> list[Painted]:
    # Whole: fingerprints and commands are there to be copied.
    first, *rest = wrap(paint.plain(check.detail, lines=True), paint.width - _INDENT, whole=True) or [""]
    status = paint.style(check.status, _STYLES[check.status])
    gap = " " * (8 - len(check.status))
    if width_of(paint.plain(check.name)) >= _INDENT - 8:
        lines = [paint.join(status, gap, check.name)]
        rest = [first, *rest]
    else:
        lines = [paint.join(status, gap, f"{check.name:<{_INDENT - 8}}", first)]
    lines += [paint.plain(" " * _INDENT + line) for line in rest]
    if check.status != "ok" and check.fix:
        lines += [
            paint.dim(" " * _INDENT + line)
            for line in wrap(paint.plain(check.fix, lines=True), paint.width - _INDENT, whole=True)
        ]
    return lines


def _verdict(paint: Paint, checks: list[Check]) -> Painted:
    failed = sum(check.status == "failed" for check in checks)
    warned = sum(check.status == "warning" for check in checks)
    if failed:
        return paint.red(f"{count(failed, 'check')} failed.")
    return paint.yellow(f"Sound, with {count(warned, 'warning')}.") if warned else paint.green("All is well.")
