"""The metrics, one module each. The registry finds every ``Metric`` in these modules by its name."""
