"""Ingest: the payloads that hooks left become events of the session they belong to."""
