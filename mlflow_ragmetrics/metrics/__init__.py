"""The metrics, one module each; every ``Metric`` found in a module here is known to the registry by its name."""
