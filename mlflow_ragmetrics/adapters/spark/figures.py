"""The figures of scored rows, computed on the cluster and logged from the driver: no row is collected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from typing_extensions import Unpack

from mlflow_ragmetrics.adapters.spark.recipe import Recipe
from mlflow_ragmetrics.core.json_text import as_json
from mlflow_ragmetrics.core.score import DOUBTS
from mlflow_ragmetrics.core.secrets import redact
from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.metrics.documents import RetrievalCounts
from mlflow_ragmetrics.report.diagnosis import CAUSES, cause_figures
from mlflow_ragmetrics.report.marks import SILENT, Cause
from mlflow_ragmetrics.report.totals import Summary, figures_of_totals
from mlflow_ragmetrics.statistics.intervals import MANY_ROWS
from mlflow_ragmetrics.statistics.resampling import Vector
from mlflow_ragmetrics.suite import SuiteLike, SuiteOverrides
from mlflow_ragmetrics.text.messages import say
from mlflow_ragmetrics.tracking.describe import DIAGNOSIS, figures_of, package_version, run_metrics_of
from mlflow_ragmetrics.tracking.report import Findings, log_findings
from mlflow_ragmetrics.tracking.run import status_of
from mlflow_ragmetrics.tracking.writer import FIGURES, SUITE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["log_spark", "summarize_spark"]

_GROUP = "__ragmetrics_group"
_NEEDED = ("_status", "_reason", "_measured")
_READ = (
    *_NEEDED,
    *("_1to5", "_passed", "_coverage", "_no_context", "_warnings", "_fewer_judges", "_judge"),
    *("_gold_docs", "_correct_docs"),
)
_AVERAGES = {"passed": "pass_rate", "coverage": "coverage", "1to5": "1to5"}
_COUNTED = {"n_no_context": "no_context", "n_fewer_judges": "fewer_judges", "n_measured": "measured"}
_SILENT = rf"^({'|'.join(SILENT)}):"
Totals = Mapping[tuple[str, str], float]


def summarize_spark(scored: DataFrame, *, groups: str | None = None, language: str = "en") -> Summary:
    """The figures of a frame that ``score_spark`` gave, what must be read with them, and gates.

    ``metrics`` have the names and values of ``Report.metrics``; ``banner`` says, in ``language``, what failed and which
    rows were not measured; ``check(faithfulness=0.8)`` raises ``GateError`` as a report does. ``groups``: a column that
    rows which belong together share, such as the turns of a conversation; the intervals are then those over groups.

    Counts and sums come from the cluster; of each group its own, and of at most 20,000 scores of a metric, which a
    report resamples too, the scores alone are collected. The columns that are read are persisted meanwhile, so that
    rows are scored once. What several judges agree on, and which conversations
    have a failing turn, is a report's alone. ``InvalidOptionError``: a frame without
    scores, or without the column ``groups``.
    """
    keys = [name for name in scored.columns if {f"{name}{suffix}" for suffix in _NEEDED} <= {*scored.columns}]
    if not keys:
        raise InvalidOptionError("the frame has no scores; give what score_spark returned", param="scored")
    if groups is not None and groups not in scored.columns:
        message = f"groups: the frame has no column {groups!r}; there are {', '.join(scored.columns)}"
        raise InvalidOptionError(message, param="groups")
    read = [name for key in keys for name in (key, *(key + suffix for suffix in _READ)) if name in scored.columns]
    diagnoses = [name for name in scored.columns if name.endswith(DIAGNOSIS) and f"{name}_reason" in scored.columns]
    read += diagnoses
    narrow = scored.select(*(f"`{name}`" for name in dict.fromkeys([*read, *([] if groups is None else [groups])])))
    narrow.persist()
    try:
        return _summary(narrow, keys, groups, language, diagnoses)
    finally:
        narrow.unpersist()


def _summary(
    frame: DataFrame, keys: Sequence[str], groups: str | None, language: str, diagnoses: Sequence[str]
) -> Summary:
    from pyspark.sql import functions as f

    wanted: dict[tuple[str, str], Column] = {("", "n_rows"): f.count(f.lit(1))}
    for key in keys:
        wanted |= {(key, name): column for name, column in _aggregates(key, frame.columns)}
    wanted |= {("", name): column for name, column in _documents(keys, frame.columns)}
    wanted |= {(name, cause): f.count_if(f.col(f"`{name}`") == cause) for name in diagnoses for cause in CAUSES}
    (found,) = frame.agg(*wanted.values()).collect()
    totals = {place: value for place, value in zip(wanted, found, strict=True) if value is not None}
    rows = int(totals["", "n_rows"])
    sums = {} if groups is None else _group_sums(frame, keys, groups)
    values = _values(frame, [key for key in keys if key not in sums and 1 < totals[key, "n_scored"] <= MANY_ROWS])
    figures: dict[str, float] = {"n_rows": rows}
    for key in keys:
        own = {name: float(value) for (owner, name), value in totals.items() if owner == key and name[0] != "_"}
        made = figures_of_totals(own, values=values.get(key), groups=sums.get(key))
        figures |= {f"{key}/{name}": value for name, value in made.items()}
        figures |= {f"{key}_1to5/mean": own["1to5"]} if "1to5" in own else {}
    for name in diagnoses:
        counted = cause_figures({cause: int(totals[name, cause]) for cause in CAUSES})
        figures |= {each.replace(DIAGNOSIS, name) if diagnoses[1:] else each: n for each, n in counted.items()}
    figures |= _retrieval(keys, frame.columns, totals, figures)
    silent = next((str(totals[key, "_silent"]) for key in keys if (key, "_silent") in totals), None)
    is_answered = any(totals.get((key, "_answered")) for key in keys)
    return Summary(
        metrics={name: value for name, value in figures.items() if name != "n_rows"},
        keys=tuple(keys),
        rows=rows,
        causes=_causes(keys, totals),
        incomplete=None if silent is None or is_answered else say("marks.silent", error=silent),
        language=language,
    )


def log_spark(
    scored: DataFrame,
    suite: SuiteLike,
    *,
    run_id: str | None = None,
    run_name: str | None = None,
    **options: Unpack[SuiteOverrides],
) -> str:
    """Log the figures of ``scored`` and what the suite is into an MLflow run; returns the run's id.

    ``suite`` and ``options`` are those that ``score_spark`` was given, ``groups`` among them; the run is ``run_id``,
    else the active one, else a new one. Run metrics are those of ``Report.log``; all figures are in the artifact
    ``rag_figures.json``, the marks in ``ragmetrics_suite.json``. Where no judge answered, the tag ``ragmetrics.status``
    says so, and a run made here ends FAILED.
    """
    built = Recipe.of(suite, options).build()
    summary = summarize_spark(scored, groups=built.groups, language=built.language)
    grouped = {} if built.groups is None else {"groups": built.groups}
    params = {**built.describe(), **grouped, "n_rows": summary.rows, "ragmetrics_version": package_version()}
    about = {"suite": params, "warnings": summary.banner, "usage": {}}
    findings = Findings(
        texts={FIGURES: as_json(figures_of(summary), indent=2), SUITE: redact(as_json(about, indent=2))},
        metrics=run_metrics_of(summary),
        params=params,
        status=status_of(summary.incomplete),
    )
    return log_findings(findings, run_id, run_name)


def _aggregates(key: str, columns: Sequence[str]) -> Iterator[tuple[str, Column]]:
    """What is computed of one metric's columns; names with ``_`` are no figures."""
    from pyspark.sql import functions as f

    value, status, reason = f.col(f"`{key}`"), f.col(f"`{key}_status`"), f.col(f"`{key}_reason`")
    yield from {"n_scored": f.count(value), "mean": f.avg(value)}.items()
    yield from {"deviation": f.stddev_pop(value), "skewness": f.skewness(value)}.items()
    yield from {"least": f.min(value), "most": f.max(value), "n_between": f.count_if(~value.isin(0.0, 1.0))}.items()
    yield from {"n_skipped": f.count_if(status == "skipped"), "n_error": f.count_if(status == "error")}.items()
    for suffix, name in _AVERAGES.items():
        if f"{key}_{suffix}" in columns:
            yield name, f.avg(f.col(f"`{key}_{suffix}`").cast("double"))
    for name, suffix in _COUNTED.items():
        if f"{key}_{suffix}" in columns:
            yield name, f.count_if(f.col(f"`{key}_{suffix}`"))
    if f"{key}_warnings" in columns:
        for code, name in DOUBTS.items():
            yield name, f.count_if(f.array_contains(f.col(f"`{key}_warnings`"), code))
    failed = f.when(status == "error", reason)
    yield from {"_first": f.min(failed), "_last": f.max(failed)}.items()
    if f"{key}_judge" in columns:
        yield "_silent", f.min(f.when(reason.rlike(_SILENT), failed))
        yield "_answered", f.count_if((status == "ok") & f.col(f"`{key}_judge`").isNotNull())


def _documents(keys: Sequence[str], columns: Sequence[str]) -> Iterator[tuple[str, Column]]:
    """Rows that any metric of retrieval scored, and how their relevant documents were found."""
    from pyspark.sql import functions as f

    named = [key for key in keys if f"{key}_gold_docs" in columns]
    if not named:
        return
    counted = [f.when(f.col(f"`{key}_status`") == "ok", f.col(f"`{key}_gold_docs`")) for key in named]
    gold = f.coalesce(*counted)
    correct = f.coalesce(*(f.when(f.col(f"`{key}_status`") == "ok", f.col(f"`{key}_correct_docs`")) for key in named))
    yield from {"_counted": f.count(gold), "_with_gold": f.count_if(gold > 0)}.items()
    yield "_some", f.count_if((gold > 0) & (correct > 0))
    yield "_every", f.count_if((gold > 0) & (correct == gold))


def _retrieval(
    keys: Sequence[str], columns: Sequence[str], totals: Totals, figures: Mapping[str, float]
) -> dict[str, float]:
    named = [key for key in keys if f"{key}_gold_docs" in columns and totals[key, "n_scored"]]
    if not named:
        return {}
    numbers = [int(totals["", name]) for name in ("_counted", "_with_gold", "_some", "_every")]
    return RetrievalCounts(dict.fromkeys(named), *numbers).figures(figures)


def _values(frame: DataFrame, keys: Sequence[str]) -> dict[str, list[float]]:
    """The scores of these metrics."""
    from pyspark.sql import functions as f

    if not keys:
        return {}
    columns = [f.col(f"`{key}`") for key in keys]
    found = frame.select(*columns).where(f.coalesce(*columns).isNotNull()).collect()
    table = np.array([[np.nan if value is None else value for value in row] for row in found], dtype=float)
    return {key: column[~np.isnan(column)].tolist() for key, column in zip(keys, table.T, strict=True)}


def _group_sums(frame: DataFrame, keys: Sequence[str], groups: str) -> dict[str, tuple[Vector, Vector]]:
    """Count and sum of the scores of each group, by key; a row without a group is one of its own."""
    from pyspark.sql import functions as f

    name = f.col(f"`{groups}`").cast("string")
    missing = name.isNull() | (f.trim(name) == "")
    named = f.when(missing, f.concat(f.lit("\0row "), f.monotonically_increasing_id().cast("string"))).otherwise(name)
    wanted = [each for key in keys for each in (f.count(f"`{key}`"), f.sum(f"`{key}`"))]
    found = frame.withColumn(_GROUP, named).groupBy(_GROUP).agg(*wanted).drop(_GROUP).collect()
    table = np.array([[value or 0.0 for value in row] for row in found], dtype=float).reshape(len(found), -1)
    return {key: (table[:, 2 * place], table[:, 2 * place + 1]) for place, key in enumerate(keys)}


def _causes(keys: Sequence[str], totals: Totals) -> tuple[Cause, ...]:
    """What failed: one of the causes of each metric's errors, said once for metrics that share it."""
    found: dict[tuple[str, int], list[str]] = {}
    for key in keys:
        if totals[key, "n_error"]:
            first, last = (str(totals[key, name]).replace(f": {key}: ", ": ", 1) for name in ("_first", "_last"))
            text = first if first == last else say("marks.among", cause=first)
            found.setdefault((text, int(totals[key, "n_error"])), []).append(key)
    causes = [Cause(text, rows, tuple(named)) for (text, rows), named in found.items()]
    return tuple(sorted(causes, key=lambda cause: -cause.rows))
