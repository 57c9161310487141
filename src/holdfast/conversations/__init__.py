"""Hooks and transcripts of agent programs become events of sessions.

`adapters` understands each agent program and speaks in `signals`; `ingest` records what hooks report, `backfill` what
transcripts hold; `hooks` is what agents call, `connect` writes their settings.
"""
