"""The evidence that finds a project again: where it is, where it is pushed to, how its history began."""

from __future__ import annotations

from holdfast.core.vocabulary import Project
from holdfast.store.interface import Known


def known(project: Project) -> Known:
    """A project and the pieces of evidence that it brings. A part of a repository is not found by the whole."""
    pieces = [("path", project.path), ("remote", project.remote), *(("root", root) for root in project.roots)]
    return Known(
        project.id,
        project.name,
        tuple(
            (kind, f"{value}\n{project.inside}" if kind != "path" and project.inside else value)
            for kind, value in pieces
            if value
        ),
    )
