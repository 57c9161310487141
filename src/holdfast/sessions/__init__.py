"""What can be done with a session: each module is one use case, a function of a workspace."""
