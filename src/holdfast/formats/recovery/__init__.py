"""What can still be had from a damaged document."""
