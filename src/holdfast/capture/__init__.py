"""Where agent programs' adapters were; kept for `capture.conformance` until the next major version."""
