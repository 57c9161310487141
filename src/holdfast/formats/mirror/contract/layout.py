"""The paths of an `.ai-session/` directory, and what is allowed at them.

Only feature directories and the contract's files are visible in it: locks and temporary files begin with a dot. A
link or a file in the place of a directory is refused, because writing through it would write elsewhere.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from holdfast.core.errors import HoldfastError, Invalid, NotFound, Refused
from holdfast.formats.contract.fields import is_feature_id
from holdfast.machine.files import write_atomic
from holdfast.machine.os_errors import display_path, explain
from holdfast.machine.private_paths import is_foreign, make_private_dir, refuse_foreign_links
from holdfast.machine.wall import Wall

NAME: Final = ".ai-session"
_MAX_NAME_LENGTH: Final = 200  # file systems allow 255 bytes, and temporary names are longer

_IGNORED: Final = b"# Locks and temporary files belong to this machine alone.\n.*\n!.gitignore\n"

# The contract's words for what was being done when an error occurred.
Operation = Literal["create", "read", "update", "delete"]


class Feature(NamedTuple):
    """The paths of one feature."""

    id: str
    path: str

    @property
    def state(self) -> str:
        return os.path.join(self.path, "state.yaml")

    @property
    def plan(self) -> str:
        return os.path.join(self.path, "implementation-plan.yaml")

    @property
    def history(self) -> str:
        return os.path.join(self.path, "history.jsonl")

    @property
    def artifacts(self) -> str:
        return os.path.join(self.path, "artifacts")

    @property
    def lock(self) -> str:
        """The lock of state and plan: exclusive for writing, shared for reading."""
        return os.path.join(self.path, ".state.lock")

    @property
    def unregistered(self) -> str:
        """Exists from before the directory gets its name until its entry is in the registry; contains that entry."""
        return os.path.join(self.path, ".unregistered")

    @property
    def deleted(self) -> str:
        """Exists if the feature was deleted and only others' lines or artifacts are left."""
        return os.path.join(self.path, ".deleted")


def registry(root: str) -> str:
    return os.path.join(root, "active-features.yaml")


def registry_lock(root: str) -> str:
    return os.path.join(root, ".active-features.lock")


def creating_lock(root: str) -> str:
    return os.path.join(root, ".creating.lock")


def acknowledgment(root: str) -> str:
    return os.path.join(root, "contract-acknowledgment.md")


def acknowledgment_lock(root: str) -> str:
    return os.path.join(root, ".contract-acknowledgment.lock")


def readme(root: str) -> str:
    return os.path.join(root, "README.md")


def root_of(project: str) -> str:
    return os.path.join(project, NAME)


def feature(root: str, feature_id: str) -> Feature:
    """The paths of a feature, after checking its id: no id can lead out of the directory."""
    return Feature(checked_id(feature_id), os.path.join(root, feature_id))


def is_id(name: str) -> bool:
    """Whether a name is `slug-YYYY-MM-DD` with a valid date."""
    return len(name) <= _MAX_NAME_LENGTH and is_feature_id(name)


def checked_id(name: str) -> str:
    if not is_id(name):
        raise Invalid(
            f"{name[:80]!a} is not a feature id",
            hint="A feature id is words in small letters joined by dashes, and a day: add-login-2026-11-15.",
        )
    return name


def features(root: str) -> list[Feature]:
    """Every feature directory, by name; links do not count."""
    try:
        with os.scandir(root) as entries:
            names = sorted(
                entry.name for entry in entries if is_id(entry.name) and entry.is_dir(follow_symlinks=False)
            )
    except OSError as error:
        raise explain(error, "list", root) from error
    return [feature(root, name) for name in names]


def undeleted_features(root: str) -> list[Feature]:
    """The features that were not deleted. Of a deleted one, only others' files are left."""
    return [item for item in features(root) if not was_deleted(item)]


def was_deleted(feature: Feature) -> bool:
    return os.path.lexists(feature.deleted) and not (os.path.lexists(feature.state) or os.path.lexists(feature.plan))


def make_artifacts(feature: Feature) -> None:
    """Create the artifacts directory: a clone lacks it, because git keeps no empty directories."""
    if not os.path.lexists(feature.artifacts):
        make_private_dir(feature.artifacts, within=os.path.dirname(os.path.dirname(feature.path)))


def root_exists(root: str) -> bool:
    """Whether the directory exists; raises if something else is in its place."""
    try:
        refuse_foreign_links(os.path.dirname(os.path.abspath(root)))
        info = os.lstat(root)
        above = os.stat(os.path.dirname(os.path.abspath(root)))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError) as error:
        raise explain(error, "look at", root) from error
    if stat.S_ISLNK(info.st_mode):
        raise Refused(
            f"{display_path(root)} is a link, and Holdfast does not write through it",
            hint="Replace it with a directory of its own.",
            file=root,
        )
    if not stat.S_ISDIR(info.st_mode):
        raise Invalid(
            f"{display_path(root)} is in the way: it is not a directory",
            hint="Move it away and try again.",
            file=root,
        )
    if is_foreign(info, above):
        raise Refused(f"{display_path(root)} belongs to another user", hint="Choose another place.", file=root)
    return True


def require_root(root: str) -> None:
    if not root_exists(root):
        raise NotFound(
            f"there is no {display_path(root)}",
            hint="The first feature creates it: holdfast mirror on contract.",
            operation="read",
            file=root,
        )


def create_root(root: str) -> None:
    """Create the directory if needed, and let git ignore its locks."""
    if not root_exists(root):
        make_private_dir(root)
        root_exists(root)
    ignoring = os.path.join(root, ".gitignore")
    if not os.path.lexists(ignoring):
        write_atomic(ignoring, _IGNORED)


def count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


@contextlib.contextmanager
def error_context(operation: Operation, *, feature_id: str | None = None, file: str | None = None) -> Iterator[None]:
    """Errors inside say what was being done, to which file and feature, as the contract asks."""
    try:
        yield
    except HoldfastError as error:
        error.operation = operation
        error.file = error.file or file
        error.feature_id = error.feature_id or feature_id
        error.timestamp = error.timestamp or Wall().now()
        raise
