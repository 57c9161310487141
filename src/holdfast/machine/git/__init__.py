"""Git repositories: read without running anything of theirs, and changed with git when a person asks for it."""
