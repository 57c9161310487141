"""Files and commits that were made in a work tree, detected by comparing it with a snapshot."""
