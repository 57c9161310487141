"""Files that have a session file's name and are none of the four formats."""
