"""Backfill: past conversations in agents' transcripts become sessions."""
