"""Ingest: payloads of hooks become events of the session they belong to."""
