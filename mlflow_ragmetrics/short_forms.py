"""Short forms: ``score`` for one metric on one sample, ``evaluate`` for metrics on data."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Union

from typing_extensions import Unpack

from mlflow_ragmetrics.core.composite import Composite
from mlflow_ragmetrics.core.metric import Metric
from mlflow_ragmetrics.core.options import kind_of
from mlflow_ragmetrics.core.score import Sample, Score, score_of
from mlflow_ragmetrics.embeddings import EmbeddingLike
from mlflow_ragmetrics.engine.program import score_without_judge
from mlflow_ragmetrics.errors import InvalidFieldError, InvalidOptionError, MissingFieldError
from mlflow_ragmetrics.judges.resolve import JudgeLike
from mlflow_ragmetrics.registry import MetricLike, metric_of
from mlflow_ragmetrics.report import Report
from mlflow_ragmetrics.rows import Data, read_samples
from mlflow_ragmetrics.rows.aliases import FIELD_OF, accepted_name, folded
from mlflow_ragmetrics.rows.record import to_sample
from mlflow_ragmetrics.selection import default_metrics
from mlflow_ragmetrics.suite import Suite, SuiteLike, SuiteOverrides, mapped_field
from mlflow_ragmetrics.text.messages import check_language, render

_DEFAULTS = ("lexical", "char-ngram")
_SCALES = {"0-1": (0.0, 1.0), "1-5": (1.0, 5.0)}


def score(
    metric: MetricLike,
    sample: Any,
    *,
    judge: JudgeLike | Sequence[JudgeLike] = "lexical",
    embeddings: EmbeddingLike | Sequence[EmbeddingLike] = "char-ngram",
    on_missing: Literal["raise", "skip"] = "raise",
    language: str = "en",
    **options: Any,
) -> Score:
    """Score one sample with one metric.

    ``sample``: any record that ``to_sample`` reads. ``options``: the metric's own. Missing contexts count as an empty
    retrieval here; in a data set they count as unknown. With ``on_missing="raise"``, a missing field raises
    ``MissingFieldError`` and a judge's failure its ``JudgeError``; with ``"skip"``, the score's ``status`` reports
    both. For a composite, the sample may contain the component scores, as ``{"scores": {key: value}, "scale": "0-1" |
    "1-5"}``. ``InvalidOptionError`` names an option that cannot be used.

    >>> import mlflow_ragmetrics as rm
    >>> rm.score("rouge", {"answer": "the cat sat", "reference": "the cat"}, measure="recall").value
    1.0
    """
    measure = metric_of(metric)
    if not isinstance(on_missing, str) or on_missing not in ("raise", "skip"):
        raise InvalidOptionError("on_missing must be one of raise, skip", param="on_missing")
    measure = measure(**options) if options else measure
    if isinstance(measure, Composite) and isinstance(sample, Mapping) and "scores" in sample:
        return _composed(measure, sample, language)
    samples = [to_sample(sample)] if isinstance(sample, (Mapping, Sample)) else read_samples([sample])
    (checked,) = [_checked(sample, measure) for sample in samples]
    strict = on_missing == "raise" and isinstance(measure, Metric)
    if isinstance(measure, Metric) and not measure.definition.asks and (judge, embeddings) == _DEFAULTS:
        alone = score_without_judge(measure, checked, language=check_language(language), strict=strict)
        if alone is not None:
            return alone
    suite = Suite([measure], judge=judge, embeddings=embeddings, language=language)
    if any("no_context" in metric.definition.options.model_fields for metric in suite.metrics):
        checked = replace(checked, contexts=checked.contexts or ())
    (row,) = suite.score_samples([checked], strict=strict)
    return row.scores[measure.key]


def _checked(sample: Sample, measure: Metric | Composite) -> Sample:
    """``sample``; raises ``InvalidFieldError`` for an entry that is a misspelt name of a field without a value."""
    for entry in sample.metadata:
        (near,) = difflib.get_close_matches(folded(entry), map(folded, FIELD_OF), n=1, cutoff=0.8) or ("",)
        field = FIELD_OF.get(accepted_name(near) or "", "id")
        if field != "id" and getattr(sample, field) is None and field not in sample.invalid:
            message = f"{measure.name}: {entry!r} is not a field of a sample; did you mean {accepted_name(near)!r}?"
            raise InvalidFieldError(message, field=entry, metric=measure.name)
    return sample


def evaluate(
    data: Data,
    metrics: SuiteLike | None = None,
    /,
    *,
    columns: Mapping[str, str | None] | None = None,
    progress: Union[bool, None] = None,
    **options: Unpack[SuiteOverrides],
) -> Report:
    """Evaluate ``data`` with ``metrics``: the short form of ``Suite.of(metrics, **options).evaluate(data)``.

    ``metrics``: a list of metrics, a preset's name, a suite's YAML file, or a ``Suite``. Default: the preset
    ``white_paper``, or ``rag`` if no row has a reference; a warning of the report says so. ``columns``: maps sample
    fields to column names. ``progress``: show a bar (``None``: on a terminal). ``options``: those of ``Suite``, such as
    ``judge``. Nothing is logged; ``report.log()`` logs the report to MLflow, once, and ``report.run_id`` is its run.

    >>> import mlflow_ragmetrics as rm
    >>> rm.evaluate([{"answer": "the cat sat", "reference": "the cat"}], ["rouge"]).metrics["rouge1_f1/mean"]
    0.8
    """
    if metrics is not None or "metrics" in options:
        return Suite.of(metrics or (), **options).evaluate(data, columns=columns, progress=progress)
    samples = list(read_samples(data, columns))
    chosen, sentence = default_metrics(samples)
    suite = Suite.of(chosen, **options)
    report = suite.evaluate_samples(
        samples,
        progress=progress,
        groups=mapped_field(suite.groups, columns),
        source=data if isinstance(data, (str, Path)) else None,
    )
    notes = () if sentence is None else (render(sentence, suite.language),)
    return replace(report, warnings=(*notes, *report.warnings))


def _composed(measure: Composite, record: Mapping[str, Any], language: str) -> Score:
    scale = record.get("scale", "0-1")
    if not isinstance(scale, str) or scale not in _SCALES:
        raise InvalidOptionError(f"scale must be one of {', '.join(_SCALES)}", param="scale")
    low, high = _SCALES[scale]
    if not isinstance(record["scores"], Mapping):
        message = f"{measure.name}: `scores` is {kind_of(record['scores'])}, but must map metric keys to numbers"
        raise InvalidFieldError(message, field="scores", metric=measure.name)
    by_key = {key: score_of(value, key) for key, value in record["scores"].items()}
    if not by_key:
        raise MissingFieldError(f"{measure.name} needs at least one entry in 'scores'", field="scores")
    raw = {k: Score(value=None if s.value is None else (s.value - low) / (high - low)) for k, s in by_key.items()}
    return measure.score(raw, {}, language)
