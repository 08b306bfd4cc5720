"""Intervals, tests and agreement on plain numbers, built on NumPy and SciPy."""
