"""Tools of the fault tests: sandboxes, a warm process to kill, strace, and a model of a disk that loses power."""
