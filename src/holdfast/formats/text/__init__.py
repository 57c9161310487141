"""Documents as text: read with care, and written the way their readers expect."""
