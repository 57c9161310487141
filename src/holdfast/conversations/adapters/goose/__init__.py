"""Goose: hooks of an "Open Plugins" plugin, conversations in a SQLite database."""
