"""Cline: its terminal program and, as far as they speak alike, its extensions of editors."""
