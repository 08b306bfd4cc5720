"""Short forms: ``score`` for one sample, ``evaluate`` for data, and ``assert_score`` for tests.

A failed assertion shows the claim, the passage and the reason.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Union, cast

from typing_extensions import Unpack

from mlflow_ragmetrics.core.composite import Composite
from mlflow_ragmetrics.core.metric import Metric
from mlflow_ragmetrics.core.options import kind_of
from mlflow_ragmetrics.core.safe_text import redact
from mlflow_ragmetrics.core.score import Item, Sample, Score, score_of
from mlflow_ragmetrics.display.document import Line, shorten, to_text
from mlflow_ragmetrics.display.marked import FAULTS, fault_lines
from mlflow_ragmetrics.embeddings import EmbeddingLike
from mlflow_ragmetrics.engine.program import Row, score_without_judge
from mlflow_ragmetrics.errors import InvalidFieldError, InvalidOptionError, MissingFieldError
from mlflow_ragmetrics.judges.resolve import JudgeLike
from mlflow_ragmetrics.registry import Measure, MetricLike, metric_of
from mlflow_ragmetrics.report import Report
from mlflow_ragmetrics.results.gates import Check, Condition, check_limit, condition_of, deciding, raise_failures
from mlflow_ragmetrics.rows import Data, read_samples
from mlflow_ragmetrics.rows.aliases import FIELD_OF, accepted_name, folded
from mlflow_ragmetrics.rows.record import content_id, to_sample
from mlflow_ragmetrics.selection import default_metrics
from mlflow_ragmetrics.suite import Suite, SuiteKeywords, SuiteLike, SuiteOverrides, mapped_field
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


Limit = Union[str, MetricLike]
"""A condition such as ``"faithfulness >= 0.8"``, or a metric with a threshold."""

_MOST_ITEMS = 5
_LONGEST = 400


def assert_score(
    limits: Union[Limit, Sequence[Limit]],
    sample: Union[Row, Sample, Mapping[str, Any]],
    **options: Unpack[SuiteKeywords],
) -> dict[str, Score]:
    """Score ``sample`` and fail with an explanation unless all ``limits`` hold; return the scores by key.

    ``limits``: one limit or a list. A limit is a condition, such as ``"faithfulness >= 0.8"`` or ``"ndcg(k=5) > 0.5"``
    (``>=``, ``>``, ``<=``, ``<``; on the raw score, not 1–5), or a metric that must reach its threshold. ``sample``: as
    in ``rm.score``, or a scored row (one of ``report.rows``, the fixture ``rag_row``). ``options``: those of ``Suite``,
    such as ``judge``, ``embeddings`` and ``cache``. Questions shared by several limits are asked once.

    Raises ``GateError``, an ``AssertionError``, if a limit does not hold or its score was not measured: skipped,
    failed, or set by the rule for rows without contexts or claims (unless you give the metric ``no_context=``).
    Raises ``InvalidOptionError`` for an invalid limit.

    >>> import mlflow_ragmetrics as rm
    >>> tower = {"answer": "It was built in 1925.", "contexts": ["It was built in 1889."]}
    >>> rm.assert_score("faithfulness >= 0.8", tower)
    Traceback (most recent call last):
        ...
    mlflow_ragmetrics.errors.GateError: faithfulness is 0.000 and must be >= 0.8 (judge lexical)
      answer: It was built in 1925.
      ? not in the passages: “It was built in 1925.”
        why: Lexical: only 1 of 2 content words is in the passages (built); not there: 1925.
        nearest: passage 1: “It was built in 1889.”
    """
    __tracebackhide__ = True  # pytest then shows the line of the test
    listed = limits if isinstance(limits, (list, tuple)) else [cast(Limit, limits)]
    if not listed:
        raise InvalidOptionError('give a limit, as in assert_score("faithfulness >= 0.8", sample)', param="limits")
    measures_or_conditions = [_condition(entry) or metric_of(entry) for entry in listed]
    if isinstance(sample, Row):
        if options:
            message = f"{next(iter(options))}: this row is already scored; give its sample to score it again"
            raise InvalidOptionError(message, param=next(iter(options)))
        row, prefix = sample, ""
    else:
        measures = [metric_of(each.name) if isinstance(each, Condition) else each for each in measures_or_conditions]
        suite = Suite({measure.key: measure for measure in measures}.values(), **options)
        (row,) = suite.score_samples(read_samples([sample]))
        prefix = suite.name_prefix
    checks = [_check(row, entry, prefix) for entry in measures_or_conditions]
    raise_failures(checks)
    return row.scores


def _condition(limit: Limit) -> Condition | None:
    """Return the limit as a condition if it is written as one; signs inside a metric's options do not count."""
    outside = limit.partition("(")[0] + limit.rpartition(")")[2] if isinstance(limit, str) else ""
    return condition_of(str(limit), "limits") if {"<", ">"} & {*outside} else None


def _check(row: Row, limit: Condition | Measure, prefix: str) -> Check:
    if isinstance(limit, Condition):
        try:
            measure = metric_of(limit.name)
        except InvalidOptionError:
            if limit.name not in row.scores:
                raise
            measure = None
        key = limit.name if measure is None or limit.name in row.scores else prefix + measure.key
        bounds = measure.definition.range if isinstance(measure, Metric) else (0.0, 1.0) if measure else None
        check_limit(limit.name, limit.limit, bounds, "limits")
    else:
        key = prefix + limit.key
    if key not in row.scores:
        message = f"{key} was not scored in this row; use one of {', '.join(row.scores) or 'none'}"
        raise InvalidOptionError(message, param="limits")
    score = row.scores[key]
    if not isinstance(limit, Condition):
        threshold = score.threshold if score.threshold is not None else limit.threshold
        if threshold is None:
            message = f'{key} has no threshold; write a limit such as "{key} >= 0.8"'
            raise InvalidOptionError(message, param="limits", metric=key)
        limit = Condition(key, ">=", threshold)
    if score.measurement is not None and limit.holds(score.measurement):
        return Check(key, True, f"{key} is {score.value:.3f}")
    texts = {"question": row.sample.question, "answer": row.sample.answer}
    lines = [Line(f"{name}: {shorten(text, _LONGEST)}", indent=1) for name, text in texts.items() if text is not None]
    details = to_text([*lines, *_explained(row, score)])
    return Check(key, False, redact(f"{_headline(key, score, limit, row.sample)}\n{details}".rstrip()))


def _headline(key: str, score: Score, limit: Condition, sample: Sample) -> str:
    derived = content_id(sample.question, sample.references)
    about = [] if sample.id.startswith(derived) else [f"sample {sample.id}"]  # skip ids that are only a digest
    about += [f"judge {score.judge}"] if score.judge else []
    named = f" ({', '.join(about)})" if about else ""
    must = f"must be {limit.sign} {limit.limit:.12g}"
    value = score.measurement
    if value is None:
        reason = "" if score.reason in score.cause else f": {score.reason}"
        return f"{key} was not measured and {must}{named}: {score.cause}{reason}"
    text = deciding(value, limit.limit, limit.sign.startswith(">") == ("=" in limit.sign), digits=3)
    return f"{key} is {text} and {must}{named}"


def _explained(row: Row, score: Score) -> list[Line]:
    """Return the items that lower the score, or those of a composite's components; without any, the reason."""
    bad = [item for item in _items(row, score) if item.verdict in FAULTS]
    bad.sort(key=lambda item: FAULTS.index(str(item.verdict)))
    if not bad:
        return [Line(shorten(score.reason, _LONGEST), indent=1)] if score.reason and score.measured else []
    lines = [line for item in bad[:_MOST_ITEMS] for line in fault_lines(item, row.sample.contexts or ())]
    more = len(bad) - _MOST_ITEMS
    return [*lines, Line(f"… and {more} more", indent=1)] if more > 0 else lines


def _items(row: Row, score: Score) -> Iterable[Item]:
    if score.items or "weights" not in score.details:
        return score.items
    parts = [row.scores[key] for key in score.details["weights"] if key in row.scores]
    return {item.text: item for part in parts for item in part.items}.values()
