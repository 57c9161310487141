"""One file per thing measured."""
