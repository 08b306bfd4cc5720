"""Writes reports and scored rows to MLflow runs. No other package writes to MLflow."""
