"""Where log and states live. One interface, one conformance suite, one folder per kind of store."""
