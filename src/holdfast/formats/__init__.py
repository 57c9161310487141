"""The four published formats of a session: their rules, import, export and recovery, and mirrors of their files."""
