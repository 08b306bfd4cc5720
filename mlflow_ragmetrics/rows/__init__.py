"""Reads files, frames, lists and streams as rows and samples."""

from mlflow_ragmetrics.rows.data import Data, Joined, digest, join, read_rows, read_samples

__all__ = ["Data", "Joined", "digest", "join", "read_rows", "read_samples"]
