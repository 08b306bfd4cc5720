"""Intervals, tests and agreement, on plain numbers: what SciPy does not have, on NumPy and SciPy."""
