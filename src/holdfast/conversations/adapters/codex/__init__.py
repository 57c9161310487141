"""Codex, OpenAI's agent: hooks in `hooks.json`, conversations in rollouts."""
