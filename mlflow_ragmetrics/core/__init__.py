"""Metrics, questions and scores, on the standard library, NumPy, pydantic and tenacity."""
