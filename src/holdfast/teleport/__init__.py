"""Where sync was; kept for `teleport.remotes.conformance` until the next major version."""
