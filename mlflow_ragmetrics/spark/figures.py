"""Summarises and logs the figures of scored rows from the driver."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from typing_extensions import Unpack

from mlflow_ragmetrics import __version__
from mlflow_ragmetrics.core.safe_text import as_json, redact
from mlflow_ragmetrics.core.score import Sample
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.results.evaluation import Evaluation
from mlflow_ragmetrics.results.figures import Totals
from mlflow_ragmetrics.results.marks import DIAGNOSIS, cause_figures, count_causes
from mlflow_ragmetrics.results.tables import score_of_columns
from mlflow_ragmetrics.spark.score_frame import NON_ANSWER, RANGE, Recipe
from mlflow_ragmetrics.suite import SuiteLike, SuiteOverrides
from mlflow_ragmetrics.tracking.log import figures_of, log_findings, run_metrics_of
from mlflow_ragmetrics.tracking.run import status_of
from mlflow_ragmetrics.tracking.writer import FIGURES, SUITE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NEEDED = ("_status", "_reason", "_measured")
_READ = (
    *("", "_status", "_measured", "_1to5", "_passed", "_coverage", "_no_context", "_warnings", "_fewer_judges"),
    *("_judge", "_gold_docs", "_correct_docs", "_better"),
)
_ROWS_AT_ONCE = 1000


def summarize_spark(scored: DataFrame, *, groups: str | None = None, language: str = "en") -> Evaluation:
    """The figures of a frame from ``score_spark``, with warnings and gates, as an evaluation without rows.

    ``metrics`` has the names and values of ``Report.metrics``. ``banner`` lists failures and unmeasured rows in
    ``language``. ``check(faithfulness=0.8)`` raises ``GateError``, like a report. ``groups`` is a column with a shared
    value for related rows, such as the turns of a conversation; intervals are then computed over groups.

    The score columns are collected to the driver, without texts except errors. A score takes about 30 bytes, so a
    ``spark.driver.maxResultSize`` of 1 GB is enough for ten metrics on 3,000,000 rows. Only a report has the agreement
    of judges. Raises ``InvalidOptionError`` for a frame without scores or without the column ``groups``.
    """
    from pyspark.sql import functions as f

    columns = scored.columns
    keys = [name for name in columns if {f"{name}{suffix}" for suffix in _NEEDED} <= {*columns}]
    if not keys:
        raise InvalidOptionError("the frame has no scores; pass the result of score_spark", param="scored")
    if groups is not None and groups not in columns:
        message = f"groups: the frame has no column {groups!r}; its columns are {', '.join(columns)}"
        raise InvalidOptionError(message, param="groups")
    diagnosis = next((each for each in columns if each.endswith(DIAGNOSIS) and f"{each}_reason" in columns), None)
    silent = next((column for column in columns if column.endswith(NON_ANSWER)), None)
    names = [f"{key}{suffix}" for key in keys for suffix in _READ] + ["id", groups, diagnosis, silent]
    errors = [f.when(f.col(f"`{key}_status`") == "error", f.col(f"`{key}_reason`")) for key in keys]
    table = scored.select(
        *(f.col(f"`{name}`") for name in dict.fromkeys(names) if name in columns),
        *(error.alias(f"{key}_reason") for key, error in zip(keys, errors, strict=True)),
    ).toArrow()
    read = {key: [name for name in (*_READ, "_reason") if f"{key}{name}" in table.column_names] for key in keys}
    totals, causes, group_names = Totals(keys=keys), Counter[str](), list[str]()
    for batch in table.to_batches(max_chunksize=_ROWS_AT_ONCE):
        for record in batch.to_pylist():
            name = str(record.get(groups) or "").strip()
            group_names.append(name or f"\0row {totals.rows}")
            causes.update([record[diagnosis]] if diagnosis is not None else [])
            scores = {key: score_of_columns(_values(record, key, read[key])) for key in keys}
            answer = "" if record.get(silent) else None
            totals.add(Row(Sample(id=str(record.get("id") or ""), answer=answer), scores))
    counted = count_causes(causes.elements()) if causes else {}
    known = {field.name: field.metadata.get(RANGE) for field in scored.schema.fields}
    ranges = {name: (float(ends[0]), float(ends[1])) for name, ends in known.items() if ends}
    figures = totals.figures(None if groups is None else group_names, ranges) | cause_figures(counted)
    totals.kept_all = False
    summary = Evaluation((), {"language": language}, ranges=ranges, counted=totals)
    vars(summary).update(metrics=figures, _causes=counted)
    return summary


def _values(record: Mapping[str, Any], key: str, suffixes: Sequence[str]) -> dict[str, Any]:
    values = {suffix: record[f"{key}{suffix}"] for suffix in suffixes}
    return {suffix: value for suffix, value in values.items() if value is not None}


def log_spark(
    scored: DataFrame,
    suite: SuiteLike,
    *,
    run_id: str | None = None,
    run_name: str | None = None,
    **options: Unpack[SuiteOverrides],
) -> str:
    """Log the figures of ``scored`` and the suite's description to an MLflow run; returns the run's id.

    Pass the same ``suite`` and ``options``, including ``groups``, as to ``score_spark``. The run is ``run_id``, else
    the active run, else a new run. The run metrics are those of ``Report.log``. All figures are in the artifact
    ``rag_figures.json``, and the warnings in ``ragmetrics_suite.json``. If no judge answered, the tag
    ``ragmetrics.status`` has the reason, and a run created here ends FAILED.
    """
    built = Recipe.of(suite, options).build()
    summary = summarize_spark(scored, groups=built.groups, language=built.language)
    grouped = {} if built.groups is None else {"groups": built.groups}
    described = {**built.describe(), **grouped, "n_rows": len(summary), "ragmetrics_version": __version__}
    about = {"suite": described, "warnings": summary.banner, "usage": {}}
    return log_findings(
        run_id,
        run_name,
        texts={FIGURES: as_json(figures_of(summary), indent=2), SUITE: redact(as_json(about, indent=2))},
        metrics=run_metrics_of(summary),
        params={name: described[name] for name in ("suite", "judge")},
        status=status_of(summary.incomplete, summary.partial),
    )
