"""`holdfast report`: the session as a document to hand on."""

from __future__ import annotations

from holdfast.cli.call import Call, put
from holdfast.keeper import report


def run(call: Call) -> None:
    form = call.parsed.text("format") or "md"
    document = call.keeper.session(call.parsed.text("id") or "@", at=call.at).document(at=call.at)
    text = report.html(document) if form == "html" else report.markdown(document)
    if call.json:
        call.answer({"format": form, "report": text}, lambda _: "")
    else:
        put(text)
