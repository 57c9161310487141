"""Secrets in texts and documents, removed before anything is stored."""
