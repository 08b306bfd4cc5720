"""Runs metric programs against judges: each question once, concurrently, with failures isolated."""
