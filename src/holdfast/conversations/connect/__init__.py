"""Connecting agent programs: finding them, and changing their settings all or nothing, with a way back."""
