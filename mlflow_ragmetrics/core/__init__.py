"""Metrics, questions and scores, on the standard library, NumPy, pydantic, tenacity and snowballstemmer."""
