"""Claude Code: its hooks, the settings they stand in, its status line and its transcripts."""
