"""Hours worked: tables by scope, day, project or agent, and their CSV."""
