"""The use cases: the one API through which programs and every surface act on sessions."""
