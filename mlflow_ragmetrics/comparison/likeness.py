"""Whether two evaluations measured alike: a difference in the judge is none in the system."""

from __future__ import annotations

from typing import Any

from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.runs import Results

__all__ = ["check_alike", "differences_in_measure"]

_MEASURE = {
    "judge": "judge",
    "judge_versions": "judge or prompt version",
    "metrics": "suite",
    "weights": "weights",
    "thresholds": "thresholds",
    "embeddings": "embeddings",
}
_LONGEST = 80


def differences_in_measure(a: Results, b: Results) -> list[str]:
    """One phrase for each thing that was measured otherwise; what only one side tells is not compared."""
    return [
        f"{name} ({_brief(a.description[entry])} / {_brief(b.description[entry])})"
        for entry, name in _MEASURE.items()
        if entry in a.description and entry in b.description and _same(a, entry) != _same(b, entry)
    ]


def check_alike(a: Results, b: Results, allow_different: bool) -> list[str]:
    """Warnings where ``allow_different``, else an ``InvalidOptionError``, when judge, prompts or suite differ."""
    phrases = differences_in_measure(a, b)
    unknown = [each.name for each in (a, b) if not any(entry in each.description for entry in _MEASURE)]
    warnings = [f"{name} does not say which judge and suite scored it" for name in unknown]
    if not phrases:
        return warnings
    found = f"{a.name} and {b.name} were not measured alike: {'; '.join(phrases)}"
    if not allow_different:
        message = f"{found}; score both with one suite, or pass allow_different=True (--allow-different)"
        raise InvalidOptionError(message, param="allow_different")
    return [*warnings, found]


def _same(results: Results, entry: str) -> Any:
    """The entry in a form in which order does not count."""
    value = results.description[entry]
    return sorted(map(str, value)) if isinstance(value, (list, tuple)) else value


def _brief(value: Any) -> str:
    if isinstance(value, dict):
        text = ", ".join(f"{key} {each}" for key, each in value.items())
    else:
        text = ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
    text = text or "none"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
