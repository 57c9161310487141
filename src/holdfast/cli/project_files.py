"""Session files of the project that no mirror keeps, as commands name them."""

from __future__ import annotations

from holdfast.keeper import project_files

TYPE_CHECKING = False
if TYPE_CHECKING:  # `status` loads this module
    from holdfast.cli.call import Call


_MOST = 3


def file_notes(call: Call, *, at_work: bool, foreign: bool = False) -> list[str]:
    """A sentence for each of the latest; of files that are of none of the formats only if `foreign`."""
    files = [file for file in project_files.files(call.keeper, at_work=at_work) if foreign or not file.foreign]
    notes = [project_files.sentence(call.keeper, file) for file in files[:_MOST]]
    if len(files) > _MOST:
        notes.append(f"There are {len(files) - _MOST} more session files here that are not in the log.")
    return notes
