"""Sessions in and out of files: validating, importing, exporting, converting, migrating, recovering."""
