"""Claude Code: its hooks, its settings, its status line and its transcripts."""
