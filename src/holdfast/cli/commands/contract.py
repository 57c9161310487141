"""`holdfast contract acknowledge|verify|summary`: the binding contract of the project's agents."""

from __future__ import annotations

from holdfast.cli.call import Call, put


def acknowledge(call: Call) -> None:
    from holdfast.formats.contract import commands

    told = commands.acknowledge(call.keeper, call.parsed.need("spec"), call.parsed.text("agent"), at=call.at)
    call.answer(
        {"acknowledgment": told},
        lambda paint: "" if call.quiet else paint.plain(f"{told.agent} acknowledged version {told.version}"),
    )


def verify(call: Call) -> None:
    from holdfast.formats.contract import commands

    found = commands.verify(call.keeper, call.parsed.need("spec"), call.parsed.text("agent"))
    lines = "\n".join(
        f"{acknowledgment.agent}: version {acknowledgment.version} holds, acknowledged {acknowledgment.date}"
        for acknowledgment in found
    )
    call.answer(
        {"valid": True, "acknowledgments": found},
        lambda paint: "" if call.quiet else paint.plain(lines, lines=True),
    )


def summary(call: Call) -> None:
    from holdfast.formats.contract import commands

    found = commands.summary(call.keeper, call.parsed.need("spec"), call.parsed.text("agent"))
    if call.json:
        call.answer({"summary": found}, lambda _: "")
    else:
        put(commands.as_markdown(found))
