"""Limits on reading what others wrote: files that come with a repository, and files of other programs.

A file within these limits costs its reader less than 300 MiB of memory, whatever it contains. A larger one is refused
with an error, never truncated silently.
"""

from __future__ import annotations

from typing import Final

KIB: Final = 1 << 10
MIB: Final = 1 << 20

# Bytes of a file.
MAX_SETTINGS_SIZE: Final = 64 * KIB  # Holdfast's own: `config.toml`, and `.holdfast.toml` of a project
MAX_AGENT_SETTINGS_SIZE: Final = (
    32 * MIB
)  # of an agent, in its person's home, where some keep much more than settings
MAX_PROJECT_AGENT_SETTINGS_SIZE: Final = 256 * KIB  # of an agent, in a project
MAX_DOCUMENT_SIZE: Final = 4 * MIB  # a session or a plan, in any format
MAX_HISTORY_SIZE: Final = 64 * MIB  # the contract's `history.jsonl`, read line by line
MAX_HISTORY_LINE_SIZE: Final = 1 * MIB
MAX_HISTORY_LINES: Final = 500_000  # how many

# What is compared at the end of a turn: a work tree with what it was at the end of the turn before.
TREE_SECONDS: Final = 5.0  # that git may take; beyond, this turn is not compared
TREE_REST: Final = 10 * 60_000  # ms until a tree that takes too much is compared again
MAX_TREE_PATHS: Final = 2_000  # not as committed; with more, none is compared
MAX_TREE_CHANGES: Final = 500  # files that one comparison records
MAX_TREE_HASHED_SIZE: Final = 64 * MIB  # bytes of files that one comparison hashes
MAX_TREE_FILE_SIZE: Final = 16 * MIB  # of one file; a larger one has no hash
MAX_TREE_COMMITS: Final = 200  # entries of HEAD's log that one comparison looks at
MAX_TURNS: Final = 200  # turns of a work tree that are remembered until it is compared
MAX_TURN_COMMANDS: Final = 100  # commands of one turn, the latest
SMALL_TRANSCRIPT_SIZE: Final = 8 * MIB  # a transcript that is read at the end of every turn; a larger one as it grows
MAX_TRANSCRIPT_SIZE: Final = 256 * MIB  # a larger one is left to backfill
MAX_TRANSCRIPT_READ: Final = (
    1024 * MIB
)  # of all files that are read for one transcript; beyond, it is left to backfill
MAX_TRANSCRIPT_FILES: Final = 20_000  # how many of them are opened

# Parts of a document, all together, and within one another.
MAX_PARTS: Final = 100_000
MAX_LEVELS: Final = 100
MAX_KEY_PARTS: Final = 50  # of one dotted key in TOML
