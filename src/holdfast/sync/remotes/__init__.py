"""Remotes: where sealed objects are exchanged. One file each, one interface, one suite that all pass."""
