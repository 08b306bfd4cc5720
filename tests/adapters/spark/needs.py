"""Requirements of test modules that start Spark."""

from __future__ import annotations

import importlib.util
import os
import shutil

import pytest

HAS_SPARK = importlib.util.find_spec("pyspark") is not None
HAS_JAVA = shutil.which("java") is not None or "JAVA_HOME" in os.environ
needs_spark = [pytest.mark.slow, pytest.mark.skipif(not (HAS_SPARK and HAS_JAVA), reason="needs PySpark and Java")]
