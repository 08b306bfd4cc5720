"""Entrances from other frameworks, each its own module; they do not know each other."""
