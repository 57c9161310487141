"""Documents as text: strict readers, and writers in the spelling that other programs expect."""
