"""Description, figures and dataset of a report, for its run."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from mlflow_ragmetrics import __version__
from mlflow_ragmetrics.core.safe_text import as_json, plain
from mlflow_ragmetrics.core.score import DOUBTS, Sample
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.results.evaluation import Evaluation
from mlflow_ragmetrics.results.marks import DIAGNOSIS
from mlflow_ragmetrics.rows import digest
from mlflow_ragmetrics.text.messages import counted
from mlflow_ragmetrics.tracking.writer import mlflow_name, reason_of

if TYPE_CHECKING:
    from mlflow.entities import Dataset, DatasetInput


_MARKS = {"n_error", "n_no_context", "n_partial", "n_fewer_judges", "few_groups", *DOUBTS.values()}
_DIGITS = 6
_STATES = ("n_scored", "n_skipped", "n_error")


def criteria_tag(limits: Iterable[tuple[str, float, bool]]) -> dict[str, str]:
    """The run tag in which MLflow (3.18) stores ``quality_criteria``.

    ``limits``: names of figures, their limits, and whether these are maxima.
    """
    rules = [
        {"metricKey": mlflow_name(name), "comparator": "LTE" if is_most else "GTE", "threshold": limit}
        for name, limit, is_most in limits
    ]
    content = {"schemaVersion": 1, "revision": str(uuid4()), "rules": rules}
    return {"mlflow.genaiEvaluate.qualityCriteria": json.dumps(content)} if rules else {}


def thresholds_of(rows: Iterable[Row]) -> list[tuple[str, float, bool]]:
    """The thresholds of the rows' scores as limits of the means, for ``criteria_tag``."""
    found = {
        key: (f"{key}/mean", score.threshold, score.higher_is_better is False)
        for row in rows
        for key, score in row.scores.items()
        if score.threshold is not None and score.higher_is_better is not None
    }
    return list(found.values())


def figures_of(report: Evaluation) -> dict[str, float]:
    """All finite figures: the report's own and ``usage/*``."""
    figures = {**report.metrics, **{f"usage/{name}": value for name, value in report.usage.items()}}
    return {name: float(value) for name, value in figures.items() if value is not None and math.isfinite(value)}


def run_metrics_of(report: Evaluation) -> dict[str, float]:
    """The figures that are logged as MLflow metrics, with six decimals, by their names in MLflow; composites first.

    Logged are, for each key, ``mean`` and, with a threshold, ``pass_rate``; ``<composite>_1to5/mean``; retrieval
    figures; ``n_measured`` if not all rows were measured; nonzero counts (``n_error``, ``n_no_context``,
    ``n_non_answers``, ``n_unclaimed``, ``n_fewer_judges``, ``few_groups``, ``diagnosis/*``); and a
    composite's ``n_partial`` and its ``coverage`` if below 1. The artifact ``rag_figures.json`` has all figures.
    """
    figures = figures_of(report)
    logged = [name for name, value in figures.items() if _is_logged(name, value, figures)]
    logged.sort(key=lambda name: f"{name.partition('/')[0].removesuffix('_1to5')}/coverage" not in figures)
    return {mlflow_name(name): round(figures[name], _DIGITS) for name in logged}


def _is_logged(name: str, value: float, figures: Mapping[str, float]) -> bool:
    key, _, figure = name.partition("/")
    own = key.removesuffix("_1to5")
    if own != key and f"{key}/n_scored" not in figures:
        return f"{own}/coverage" in figures
    if figure == "n_measured":
        return value < sum(figures.get(f"{key}/{name}", 0.0) for name in _STATES)
    if figure in _MARKS or key == DIAGNOSIS:
        return value != 0
    return figure in ("", "mean", "pass_rate") or (figure == "coverage" and value < 1)


def description_of(report: Evaluation, data_digest: str, questions_digest: str) -> dict[str, Any]:
    """The run's suite, judges, weights, versions and data, without machine paths."""
    import mlflow

    source = {"source": Path(report.source).name} if report.source is not None else {}
    return {
        **report.description,
        "n_rows": len(report.rows),
        "data_digest": data_digest,
        "questions_digest": questions_digest,
        **source,
        "ragmetrics_version": __version__,
        "mlflow_version": mlflow.__version__,
    }


_TAG = "ragmetrics.questions_digest"
_FIELDS = ("question", "history", "references", "gold_doc_ids")
_PER_REQUEST = 1000
_MOST_RECORDS = 20_000


def questions_digest(rows: Sequence[Row]) -> str:
    """16 hex digits over questions, history, references and gold ids, independent of the order of rows.

    Answers, contexts and row ids have no effect.
    """
    return digest(sorted(digest([_asked(row.sample)]) for row in rows))


def dataset_input(rows: Sequence[Row], known: str, experiment_id: str, name: str) -> DatasetInput:
    """The dataset of these questions as a run's input; runs with the same questions share it.

    ``known`` is the questions' digest. If the store supports evaluation datasets (a database), the dataset is created
    in the experiment when it is first used. In other stores, above 20,000 rows and for rows without questions, only
    its name is logged. ``name`` is by default the number of questions.
    """
    from mlflow.entities import Dataset, DatasetInput, InputTag

    name = name or counted(len(rows), "question")
    is_kept = len(rows) <= _MOST_RECORDS and any(row.sample.question is not None for row in rows)
    dataset = _evaluation_dataset(rows, experiment_id, name, known) if is_kept else None
    if dataset is None:
        profile = as_json({"num_rows": len(rows)})
        dataset = Dataset(name, known, source_type="code", source=as_json({"tags": {}}), profile=profile)
    return DatasetInput(dataset, [InputTag("mlflow.data.context", "evaluation")])


def _evaluation_dataset(rows: Sequence[Row], experiment_id: str, name: str, known: str) -> Dataset | None:
    """MLflow's evaluation dataset of these questions; ``None`` if MLflow or the store does not support it."""
    import mlflow
    from mlflow.entities import Dataset
    from mlflow.exceptions import MlflowException
    from mlflow.genai.datasets import create_dataset, search_datasets

    if mlflow.get_tracking_uri().startswith("databricks"):  # there, datasets are Unity Catalog tables
        return None
    try:
        found = search_datasets(experiment_ids=[experiment_id], filter_string=f"tags.{_TAG} = '{known}'")
    except (NotImplementedError, MlflowException):
        return None
    records = {as_json(record["inputs"]): record for record in map(_record, (row.sample for row in rows))}
    try:
        made = min(found, key=lambda each: (each.created_time, each.dataset_id), default=None)
        if made is None:
            made = create_dataset(name=name, experiment_id=experiment_id, tags={_TAG: known})
        if json.loads(made.profile or "{}").get("num_records", 0) < len(records):
            missing = iter(records.values())
            while batch := list(islice(missing, _PER_REQUEST)):
                made.merge_records(batch)
    except MlflowException as error:
        warnings.warn(f"no evaluation dataset was created: {reason_of(error)}", stacklevel=4)
        return None
    return Dataset(
        name=name,  # of this run's file; the data set has the name of the first run's
        digest=known,  # MLflow's digest changes with each merge
        source_type="mlflow_evaluation_dataset",
        source=as_json({"dataset_id": made.dataset_id}),
        profile=as_json({"num_records": len(records)}),
    )


def _asked(sample: Sample) -> dict[str, Any]:
    history = None if sample.history is None else [asdict(message) for message in sample.history]
    return {**{name: getattr(sample, name) for name in _FIELDS}, "history": history}


def _record(sample: Sample) -> dict[str, Any]:
    asked = plain(_asked(sample))
    references, gold = asked["references"] or [], asked["gold_doc_ids"]
    expectations = {"expected_response": references[0] if len(references) == 1 else references} if references else {}
    if gold is not None:
        expectations["expected_retrieved_context"] = [{"doc_uri": each} for each in gold]
    history = {"messages": asked["history"]} if asked["history"] else {}
    return {"inputs": {"question": asked["question"], **history}, "expectations": expectations}
