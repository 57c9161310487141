"""What is true of a session: model, events, fold, lifecycle, work time. Pure: no I/O, no clock of its own."""
