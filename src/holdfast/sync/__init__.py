"""Devices, people and remotes: sessions are exchanged sealed, through a remote that need not be trusted.

`protocol` is the wire format, `vault` one vault at one remote, `pull` and `push` what is exchanged, `remotes` where.
"""
