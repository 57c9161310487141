"""Hand-made session files, which are in none of the four formats."""
