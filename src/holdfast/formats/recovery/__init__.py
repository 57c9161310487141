"""Recovers what is left of a damaged document."""
