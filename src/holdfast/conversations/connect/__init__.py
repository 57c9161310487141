"""Detect agent programs and connect them: change their settings all or nothing, reversibly."""
