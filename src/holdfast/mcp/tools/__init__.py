"""The tools an agent may call, a few, each for one task."""
