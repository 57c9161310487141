"""Mirrors: live files in a project, in a format, kept equal to its sessions in both directions.

Other programs and people change these files too: each write is atomic or only appends, each happens under a lock, and
what cannot be read is set aside, never thrown away.
"""
