"""Drives metrics' programs against judges: each question once, concurrently, failures kept apart."""
