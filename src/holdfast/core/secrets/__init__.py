"""Secrets: found in texts and documents, and taken out before anything is stored."""
