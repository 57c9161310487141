"""The keys of a device: made, stored, and shown as words that people can compare."""
