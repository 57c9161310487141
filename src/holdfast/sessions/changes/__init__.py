"""Which files and commits were made in a work tree, found by comparing it with what it was."""
