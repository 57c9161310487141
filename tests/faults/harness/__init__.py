"""What the fault tests stand on: rooms to break, a warm process to kill, strace, and a disk that forgets."""
