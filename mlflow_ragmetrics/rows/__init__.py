"""Data as people have it (files, frames, lists, streams) -> rows and samples."""

from mlflow_ragmetrics.rows.data import Data, digest, read_rows, read_samples
from mlflow_ragmetrics.rows.joining import Joined, join

__all__ = ["Data", "Joined", "digest", "join", "read_rows", "read_samples"]
