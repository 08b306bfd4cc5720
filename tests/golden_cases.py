"""Golden cases from ``tests/golden``: their encodings, and the models that their stubs describe."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mlflow_ragmetrics import ScriptedJudge

FOLDER = Path(__file__).parent / "golden"
_MISSING = {"$nan": math.nan, "$pdna": pd.NA}


class ScriptedEmbedding:
    """An embedding model for two texts."""

    local = True

    def __init__(self, name: str, vectors: Mapping[str, Sequence[float]], error: str | None = None) -> None:
        self.name = name
        self.vectors = vectors
        self.error = error
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str]) -> list[Sequence[float]]:
        self.asked.extend(texts)
        if self.error is not None:
            raise RuntimeError(self.error)
        return [self.vectors[text] for text in texts]


def cases() -> list[dict[str, Any]]:
    """All cases, in file order."""
    files = sorted(FOLDER.glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]


def decoded(value: Any) -> Any:
    """A value with its encodings (missing values, arrays, repeated text) resolved."""
    if isinstance(value, list):
        return [decoded(each) for each in value]
    if not isinstance(value, dict):
        return value
    for mark, missing in _MISSING.items():
        if mark in value:
            return missing
    if "$repeat" in value:
        return value["$repeat"] * value["times"]
    kinds = {"$ndarray": np.array, "$series": pd.Series, "$bytes": str.encode}
    for mark, kind in kinds.items():
        if mark in value:
            return kind(decoded(value[mark]))
    return {key: decoded(each) for key, each in value.items()}


def judges_of(stub: Mapping[str, Any]) -> Any:
    """The judge (or list of judges) that a stub describes."""
    if "models" in stub:
        return [ScriptedJudge(name=name, **script) for name, script in stub["models"].items()]
    if "factual" in stub:
        return _judge_of_share(stub["factual"])
    return ScriptedJudge(**{key: value for key, value in stub.items() if key not in ("embeddings", "semantic")})


def _judge_of_share(share: float | None) -> ScriptedJudge:
    """A judge that supports this share of the claims of both texts, so that F1 is the share."""
    if share is None:
        return ScriptedJudge(error="failed")
    exact = Fraction(share).limit_denominator(1000)
    verdicts = ["SUPPORTED"] * exact.numerator + ["NEUTRAL"] * (exact.denominator - exact.numerator)
    claims = [f"claim {i}" for i in range(exact.denominator)]
    return ScriptedJudge(
        response_claims=claims, reference_claims=claims, response_verdicts=verdicts, reference_verdicts=verdicts
    )


def embeddings_of(stub: Mapping[str, Any], sample: Mapping[str, Any]) -> list[ScriptedEmbedding]:
    """The embedding models that a stub describes, for the texts of ``sample``."""
    answer, reference = str(sample.get("answer")), str(sample.get("reference"))
    if "semantic" in stub:
        cosine = stub["semantic"]
        error = "failed" if cosine is None else None
        turned = (0.0, 1.0) if cosine is None else (cosine, math.sqrt(1 - cosine**2))
        return [ScriptedEmbedding("m1", {answer: (1.0, 0.0), reference: turned}, error)]
    return [
        ScriptedEmbedding(name, {answer: spec.get("response"), reference: spec.get("reference")}, spec.get("error"))
        for name, spec in stub.get("embeddings", {"none": {"error": "no call may happen"}}).items()
    ]
