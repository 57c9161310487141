"""Remotes: places where sealed objects are exchanged, with one interface and one conformance suite."""
