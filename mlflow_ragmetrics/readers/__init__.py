"""Data as people have it (files, frames, lists, streams) -> rows and samples."""

from mlflow_ragmetrics.readers.joining import Joined, join
from mlflow_ragmetrics.readers.rows import Data, digest, read_rows, read_samples

__all__ = ["Data", "Joined", "digest", "join", "read_rows", "read_samples"]
