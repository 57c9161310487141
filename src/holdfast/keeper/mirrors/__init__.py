"""Mirrors: live files in a project, kept equal to its sessions in both directions."""
