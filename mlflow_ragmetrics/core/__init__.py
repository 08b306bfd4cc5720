"""What a metric is and how it is driven: standard library, NumPy, pydantic, tenacity, snowballstemmer only."""
