"""The command line: parse, call the keeper, print. No rules of its own."""
