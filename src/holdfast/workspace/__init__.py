"""One open home, project and store: what every use case is given, and what happens around everything it records."""
