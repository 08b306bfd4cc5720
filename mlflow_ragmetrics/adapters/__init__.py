"""Adapters for other frameworks, one independent module each."""
