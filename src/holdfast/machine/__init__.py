"""This machine: files, processes, clocks, git. What differs between systems lives here, each with a fallback."""
