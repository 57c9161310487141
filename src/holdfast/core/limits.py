"""How much is read of what others wrote: files that come with a repository, and files of other programs.

A file within these bounds costs its reader less than 300 MiB of memory, whatever stands in it. One beyond them is
refused in words, never cut short in silence.
"""

from __future__ import annotations

from typing import Final

KIB: Final = 1 << 10
MIB: Final = 1 << 20

# Bytes of a file.
SETTINGS: Final = 64 * KIB  # Holdfast's own: `config.toml`, and `.holdfast.toml` of a project
AGENT_SETTINGS: Final = 32 * MIB  # of an agent, in its person's home, where some keep much more than settings
PROJECT_AGENT_SETTINGS: Final = 256 * KIB  # of an agent, in a project
DOCUMENT: Final = 4 * MIB  # a session or a plan, in any format
HISTORY: Final = 64 * MIB  # the contract's `history.jsonl`, read line by line
HISTORY_LINE: Final = 1 * MIB
HISTORY_LINES: Final = 500_000  # how many

# What is compared at the end of a turn: a work tree with what it was at the end of the turn before.
TREE_SECONDS: Final = 5.0  # that git may take; beyond, this turn is not compared
TREE_REST: Final = 10 * 60_000  # ms until a tree that takes too much is compared again
TREE_PATHS: Final = 2_000  # not as committed; with more, none is compared
TREE_CHANGES: Final = 500  # files that one comparison records
TREE_HASHED: Final = 64 * MIB  # bytes of files that one comparison hashes
TREE_FILE: Final = 16 * MIB  # of one file; a larger one has no hash
TREE_COMMITS: Final = 200  # entries of HEAD's log that one comparison looks at
TURNS: Final = 200  # turns of a work tree that are remembered until it is compared
TURN_COMMANDS: Final = 100  # commands of one turn, the latest
TRANSCRIPT_SMALL: Final = 8 * MIB  # a transcript that is read at the end of every turn; a larger one as it grows
TRANSCRIPT_LARGEST: Final = 256 * MIB  # a larger one is left to backfill
TRANSCRIPT_READ: Final = 1024 * MIB  # of all files that are read for one transcript; beyond, it is left to backfill
TRANSCRIPT_FILES: Final = 20_000  # how many of them are opened

# Parts of a document, all together, and within one another.
PARTS: Final = 100_000
LEVELS: Final = 100
KEY_PARTS: Final = 50  # of one dotted key in TOML
