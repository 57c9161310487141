"""Commands, grouped by subject; each module is imported when one of its commands runs."""
