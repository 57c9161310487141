"""Live files in a project, in the published formats, kept equal to what Holdfast knows.

Everything here touches files that people and other programs touch too: each write is atomic or only appends, each
happens under a lock, and what cannot be read is set aside, never thrown away.
"""
