"""Backfill: conversations that agents wrote down before Holdfast was connected become sessions."""
