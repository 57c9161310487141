"""Recover what is left of a damaged document."""
