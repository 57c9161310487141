"""`holdfast report`: the session as a document to hand on."""

from __future__ import annotations

from holdfast.cli.call import Call, put


def run(call: Call) -> None:
    call.keeper.compare()
    form = call.parsed.text("format") or "md"
    text = call.session_to_read().report(form, at=call.at)
    if call.json:
        call.answer({"format": form, "report": text}, lambda _: "")
    else:
        put(text)
