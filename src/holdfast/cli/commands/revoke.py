"""`holdfast revoke ID --from EMAIL`: a shared session is no longer theirs to read."""

from __future__ import annotations

from holdfast.cli.call import Call


def run(call: Call) -> None:
    from holdfast.sync import shares

    session, email = call.keeper.session(call.parsed.need("id")), call.parsed.need("from_").strip()
    done = shares.revoke(call.keeper, session.id, email)
    call.answer(
        {"revoked": {"session": session.id, "from": email, "remotes": done}},
        lambda paint: "" if call.quiet else paint.join(
            "Taken back from ", paint.bold(email), paint.dim(f" at {', '.join(done)}")
        ),
    )  # fmt: skip
    call.note("What they have read, they have read; what is written from now on they cannot open.")
